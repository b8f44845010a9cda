# frozen_string_literal: true

require 'digest'
require 'json'
require 'time'

# @summary One scope's document as a level of a Hiera hierarchy (a `data_hash` function, used with `uri` or `uris`).
#
# It reads the data files that `bellpull-hiera sync` keeps equal to the NATS bucket: no network, no socket and no
# child process in a compile, and the last good data survive any outage. Expired entries are left out at every call.
#
# A uri names the scope. An empty segment (`group/` where a fact is not set) is an empty level. A scope without a
# document is an empty level too, but one that was never synced, or whose file is bad or lost, fails the lookup:
# the value of a lower level never stands in for one that is merely out of reach.
#
# Values are data: `%{...}` in them stays as it is stored, unless the level says `interpolate: true`. Entries marked
# sensitive come back as Sensitive, and are never interpolated.
#
# Options of the level:
# - `dir`: where the sync keeps its files; default `/var/lib/bellpull/hiera`.
# - `max_age`: seconds since the sync last heard from NATS that its files are current; default 300.
# - `on_stale`: what to do with older data: `warn` (once a compile, and use them) or `fail`; default `warn`.
# - `interpolate`: let Hiera resolve `%{...}` in values; only for buckets whose writers may read all your data.
#
# @example A level of hiera.yaml
#   - name: bellpull
#     data_hash: bellpull::data
#     uris: ["node/%{trusted.certname}", "group/%{trusted.extensions.pp_role}", "common"]
#     options: {max_age: 300, on_stale: warn}
Puppet::Functions.create_function(:'bellpull::data') do
  # No return_type: with one, Puppet would walk every value of the document in each compile; without one it checks
  # only the values that are looked up.
  # @param options The level's options; Puppet adds `uri`.
  # @param context Puppet's access to caches and to `--explain`.
  # @return [Hash] the document's entries by key, and `bellpull::compiled`: which revision this compile used.
  dispatch :data do
    param <<~TYPE, :options
      Struct[{
        uri                   => String,
        Optional[dir]         => Pattern[/\\A(\\/|[A-Za-z]:[\\/\\\\])/],
        Optional[max_age]     => Integer[1],
        Optional[on_stale]    => Enum['warn', 'fail'],
        Optional[interpolate] => Boolean,
      }]
    TYPE
    param 'Puppet::LookupContext', :context
  end

  def data(options, context)
    scope = options['uri']
    dir = options.fetch('dir', '/var/lib/bellpull/hiera')
    check_scope(scope)
    if scope.split('/', -1).any?(&:empty?) || scope.empty?
      context.explain { "[bellpull] \"#{scope}\" has an empty segment, so this level is empty" }
      return {}
    end

    now = Time.now
    document = read_document(scope, dir, context)
    confirmed = confirmed_at(dir, context)
    check_age(scope, confirmed && now - confirmed, options)
    live, expired = document['entries'].partition { |entry| entry['expires'].nil? || entry['expires'] > now }
    explain(context, scope, document, confirmed && now - confirmed, expired)
    gather(live, options.fetch('interpolate', false))
      .merge('bellpull::compiled' => { scope => compiled(document, live) })
  end

  # Refuses whatever is no scope, so that no uri can ever name another scope's file.
  def check_scope(scope)
    segments = scope.split('/', -1)
    problem =
      if segments.any? { |segment| segment !~ %r{\A[A-Za-z0-9._:-]*\z} || ['.', '..'].include?(segment) }
        'a segment may hold only letters, digits and . _ : -, and may not be . or ..'
      elsif segments.size > 16
        'it has more than 16 segments'
      elsif scope.gsub(':', '=3A').bytesize > 200
        'it is longer than 200 bytes'
      elsif segments.first.to_s.include?(':')
        'Hiera reads its first segment as the scheme of a URI, and lower-cases it, because of the colon'
      elsif ['synced', 'heartbeat'].include?(scope)
        'the sync has a file of this name for itself'
      end
    lookup_error("#{scope.inspect} cannot be used as a scope: #{problem}") if problem
  end

  # The parsed data file of a scope, or an empty document for a scope that is known to have none.
  def read_document(scope, dir, context)
    path = File.join(dir, "#{file_name(scope)}.json")
    read_file(scope, path, context) || empty_document(scope, path, dir, context) ||
      # Since it was missing it may have been written and listed.
      read_file(scope, path, context) ||
      lookup_error("scope #{scope}: #{path} is missing, though the scope has a document (see #{list_path(scope, dir)})")
  end

  def file_name(scope)
    scope.gsub('/', '=2F').gsub(':', '=3A')
  end

  # nil if there is no such file.
  def read_file(scope, path, context)
    document = context.cached_file_data(path) { |text| parse_document(text) }
    lookup_error("scope #{scope}: #{path} holds scope #{document['scope']}") if document['scope'] != scope
    document
  rescue Errno::ENOENT
    nil
  rescue SystemCallError, JSON::JSONError, KeyError, TypeError, ArgumentError => e
    lookup_error("scope #{scope}: cannot use #{path}: #{e.message}")
  end

  # The answer is kept by Puppet for all compiles, by path: it must depend on the text alone, never on options.
  def parse_document(text)
    head, body, *rest = text.split("\n", -1)
    raise ArgumentError, 'it is not two whole lines' unless rest == ['']

    header = parse_object(head)
    raise ArgumentError, 'its checksum is wrong' unless header.fetch('checksum') == "sha256:#{Digest::SHA256.hexdigest(body)}"

    entries = JSON.parse(body).fetch('entries').map { |name, entry| parse_entry(name, entry) }
    { 'scope' => header.fetch('scope'), 'bucket' => header.fetch('bucket'), 'revision' => header.fetch('revision'),
      'entries' => entries, 'merges' => merges(entries) }
  end

  # The merge that each key with members needs. Puppet's hash merge takes no Sensitive, its deep merge does.
  def merges(entries)
    entries.select { |entry| entry['member'] }.group_by { |entry| entry['key'] }.transform_values do |members|
      members.any? { |entry| entry['value'].is_a?(Puppet::Pops::Types::PSensitiveType::Sensitive) } ? 'deep' : 'hash'
    end
  end

  # A JSON object of the sync's, of the one format there is.
  def parse_object(text)
    object = JSON.parse(text)
    raise TypeError, 'it is not a JSON object' unless object.is_a?(Hash)
    raise ArgumentError, 'it is not of format 1' unless object['bellpull'] == 1

    object
  end

  def parse_entry(name, entry)
    key, member = split_name(name)
    value = entry.fetch('value')
    sensitive = Puppet::Pops::Types::PSensitiveType::Sensitive.new(value) if entry['sensitive']
    { 'name' => name, 'key' => key, 'member' => member,
      'expires' => entry['expires'] && Time.iso8601(entry['expires']), 'expires_text' => entry['expires'],
      'value' => sensitive || value, 'literal' => sensitive || literal(value) }
  end

  # `rules[tcp-8443]` is the member tcp-8443 of the hash rules.
  def split_name(name)
    key, member = name.match(%r{\A([^\[]+)\[(.*)\]\z}m)&.captures
    key ? [key, member] : [name, nil]
  end

  # Hiera resolves %{...} in what a data_hash returns, hash keys included; so a stored %{ is written to come out as %{.
  def literal(value)
    case value
    when String then value.gsub('%{', "%{literal('%')}{")
    when Array  then value.map { |element| literal(element) }
    when Hash   then value.map { |key, element| [literal(key), literal(element)] }.to_h
    else value
    end
  end

  # The document of a scope that has none; nil if it does have one.
  def empty_document(scope, path, dir, context)
    synced_path = File.join(dir, 'synced.json')
    prefixes = read_synced(scope, synced_path, context) ||
               lookup_error("scope #{scope} is unknown: there is neither #{path} nor #{synced_path}, " \
                            'so bellpull-hiera sync has not finished a first sync')
    unless prefixes.any? { |prefix| prefix.empty? || scope == prefix || scope.start_with?("#{prefix}/") }
      lookup_error("scope #{scope} is unknown: bellpull-hiera sync does not cover it (see #{synced_path})")
    end
    list = read_list(scope, list_path(scope, dir), context)
    return nil if list['scopes'].key?(scope)

    { 'scope' => scope, 'bucket' => list['bucket'], 'revision' => 0, 'entries' => [], 'merges' => {} }
  end

  # Which prefixes are covered; nil if there never was a full sync.
  def read_synced(scope, path, context)
    context.cached_file_data(path) { |text| parse_object(text).fetch('prefixes') }
  rescue Errno::ENOENT
    nil
  rescue SystemCallError, JSON::JSONError, KeyError, TypeError, ArgumentError => e
    lookup_error("scope #{scope}: cannot use #{path}: #{e.message}")
  end

  # The lists say which scopes have a document: one list for each value of the first byte of a scope's SHA-256.
  def list_path(scope, dir)
    File.join(dir, 'scopes', "#{Digest::SHA256.hexdigest(scope)[0, 2]}.json")
  end

  def read_list(scope, path, context)
    context.cached_file_data(path) do |text|
      list = parse_object(text)
      { 'bucket' => list.fetch('bucket'), 'scopes' => list.fetch('scopes').map { |name| [name, true] }.to_h }
    end
  rescue SystemCallError, JSON::JSONError, KeyError, TypeError, ArgumentError => e
    lookup_error("scope #{scope}: cannot use #{path}: #{e.message}")
  end

  # When the sync last heard from NATS that its files are current; nil if that cannot be told.
  def confirmed_at(dir, context)
    context.cached_file_data(File.join(dir, 'heartbeat.json')) { |text| Time.iso8601(parse_object(text).fetch('time')) }
  rescue SystemCallError, JSON::JSONError, KeyError, TypeError, ArgumentError
    nil
  end

  def check_age(scope, age, options)
    max_age = options.fetch('max_age', 300)
    return if age && age <= max_age

    message = "the data of scope #{scope} are #{age_text(age)}, more than max_age (#{max_age} s): " \
              'is bellpull-hiera sync running, and does it reach NATS?'
    lookup_error(message) if options['on_stale'] == 'fail'

    # One warning a compile: the compiler is the one object that lives exactly as long as a compile does.
    compiler = closure_scope.compiler
    return if compiler.instance_variable_defined?(:@bellpull_warned)

    compiler.instance_variable_set(:@bellpull_warned, true)
    Puppet.warning("[bellpull] #{message} Going on with the last good data.")
  end

  def explain(context, scope, document, age, expired)
    say = ->(line) { context.explain { "[bellpull] #{line}" } }
    if document['revision'].zero?
      say.call("scope #{scope}: no document in bucket #{document['bucket']}, #{age_text(age)}")
    else
      say.call("scope #{scope}: revision #{document['revision']} of bucket #{document['bucket']}, #{age_text(age)}")
    end
    expired.each { |entry| say.call("#{entry['name']} expired at #{entry['expires_text']}") }
    document['merges'].each do |key, merge|
      say.call("#{key} has members: it wants lookup_options {\"#{key}\": {merge: #{merge}}} in your own data, if not there yet")
    end
  end

  def age_text(age)
    age ? "#{[age.round, 0].max} s old" : 'of unknown age'
  end

  # The live entries by key, the members of a key in one hash.
  def gather(live, interpolate)
    live.each_with_object({}) do |entry, hash|
      value = entry[interpolate ? 'value' : 'literal']
      if entry['member'].nil?
        hash[entry['key']] = value
      else
        member = interpolate ? entry['member'] : literal(entry['member'])
        (hash[entry['key']] ||= {})[member] = value
      end
    end
  end

  # What this compile used of a scope; without a clock, so that it changes only when the data do.
  def compiled(document, live)
    soonest = live.select { |entry| entry['expires'] }.min_by { |entry| entry['expires'] }
    used = { 'bucket' => document['bucket'], 'revision' => document['revision'] }
    soonest ? used.merge('until' => soonest['expires_text']) : used
  end

  def lookup_error(message)
    raise Puppet::DataBinding::LookupError, "[bellpull] #{message}"
  end
end
