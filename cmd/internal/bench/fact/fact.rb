# The same fact in Ruby, over a raw socket: connect, ask for three documents and
# the bucket's id in one write, merge, print. It keeps no last good state and
# checks nothing.
require 'socket'
require 'json'

host, port, *keys = ARGV
socket = TCPSocket.new(host, port.to_i)
socket.gets # INFO
inbox = "_INBOX.#{Process.pid}"
asked = keys + ['=bucket']
request = +"CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true,\"no_responders\":true}\r\nSUB #{inbox}.* 1\r\n"
asked.each_with_index do |key, i|
  request << "PUB $JS.API.DIRECT.GET.KV_desired.$KV.desired.#{key} #{inbox}.#{i} 0\r\n\r\n"
end
socket.write(request)

bodies = {}
revisions = {}
while bodies.size < asked.size
  line = socket.gets
  next unless line.start_with?('HMSG')

  *, subject_or_sid, header_size, size = line.split
  i = line.split[1].split('.').last.to_i
  payload = socket.read(size.to_i + 2)
  revisions[i] = payload[0, header_size.to_i][/^Nats-Sequence: (\d+)/, 1].to_i
  bodies[i] = payload[header_size.to_i...size.to_i]
  subject_or_sid
end

state = {}
(keys.size - 1).downto(0) do |i|
  JSON.parse(bodies[i])['entries'].each { |name, entry| state[name] = entry['value'] }
end
bucket = JSON.parse(bodies[keys.size])['bucket']['id']
puts JSON.generate('bellpull' => { 'bucket' => bucket, 'revision' => revisions.values.max, 'state' => state, 'source' => 'live' })
