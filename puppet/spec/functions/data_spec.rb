# frozen_string_literal: true

describe 'bellpull::data' do
  before do
    write_synced
    write_heartbeat
  end

  let(:invocation) { Puppet::Pops::Lookup::Invocation.new(scope, {}, {}, true) }
  let(:environment_context) { Puppet::Pops::Lookup::EnvironmentContext.adapt(scope.compiler.environment) }

  # A real context, as Hiera makes one for each level and compile.
  def context
    function_context = Puppet::Pops::Lookup::FunctionContext.new(environment_context, nil, nil)
    Puppet::Pops::Lookup::Context.new(function_context, invocation)
  end

  def call(uri, options = {})
    subject.execute({ 'uri' => uri, 'dir' => dir }.merge(options), context)
  end

  # The level without what the function adds.
  def level(uri, options = {})
    call(uri, options).reject { |key, _| key == 'bellpull::compiled' }
  end

  def error_of(uri, options = {})
    call(uri, options)
    raise 'there was no error'
  rescue Puppet::DataBinding::LookupError => e
    e.message
  end

  # The data files that Puppet reads from here on, as a list that fills up.
  def reads
    names = []
    allow(Puppet::FileSystem).to receive(:read).and_wrap_original do |original, path, *args|
      names << File.basename(path) if path.to_s.start_with?(dir)
      original.call(path, *args)
    end
    names
  end

  def explanation
    invocation.explainer.explain
  end

  describe 'values' do
    it 'gives back every type as it is stored' do
      values = { 'null' => nil, 'true' => true, 'false' => false, 'empty' => '', 'zero' => 0, 'int' => -42,
                 'big' => 123_456_789_012_345_678_901_234_567_890, 'float' => 1.25, 'text' => "ä\n\"\u{1F514}\u0000", 'list' => [],
                 'hash' => {}, 'deep' => { 'a' => [{ 'b' => [nil, false, 0] }], '' => 'x' } }
      write_scope('common', values.transform_values { |value| { 'value' => value } })
      expect(level('common')).to eq(values)
    end

    it 'gathers members into the hash of their key' do
      write_scope('common', { 'fw::rules[tcp-1]' => { 'value' => 1 }, 'fw::rules[a[b]]' => { 'value' => 2 },
                              '[odd]' => { 'value' => 3 }, 'x[' => { 'value' => 4 } })
      expect(level('common')).to eq('fw::rules' => { 'tcp-1' => 1, 'a[b]' => 2 }, '[odd]' => 3, 'x[' => 4)
    end

    it 'keeps %{...} literal in values, hash keys and member names' do
      write_scope('common', { 'v' => { 'value' => ['p%{w}%%{z', { '%{k}' => '%{lookup("x")}' }] }, 'm[%{n}]' => { 'value' => 1 } })
      expect(level('common')).to eq(
        'v' => ["p%{literal('%')}{w}%%{literal('%')}{z", { "%{literal('%')}{k}" => "%{literal('%')}{lookup(\"x\")}" }],
        'm' => { "%{literal('%')}{n}" => 1 },
      )
    end

    it 'leaves %{...} to Hiera with interpolate' do
      write_scope('common', { 'v' => { 'value' => { '%{k}' => '%{x}' } }, 'm[%{n}]' => { 'value' => 1 } })
      expect(level('common', 'interpolate' => true)).to eq('v' => { '%{k}' => '%{x}' }, 'm' => { '%{n}' => 1 })
    end

    it 'does not let one level\'s options change what another gets from the same file' do
      write_scope('common', { 'v' => { 'value' => '%{x}' } })
      level('common', 'interpolate' => true)
      expect(level('common')).to eq('v' => "%{literal('%')}{x}")
      expect(level('common', 'interpolate' => true)).to eq('v' => '%{x}')
    end

    it 'gives sensitive entries as Sensitive, never escaped' do
      write_scope('common', { 's' => { 'value' => { 'k' => '%{x}' }, 'sensitive' => true }, 'm[s]' => { 'value' => nil, 'sensitive' => true },
                              'm[p]' => { 'value' => 1 } })
      answer = level('common')
      expect(answer['s']).to be_a(Puppet::Pops::Types::PSensitiveType::Sensitive)
      expect(answer['s'].unwrap).to eq('k' => '%{x}')
      expect(answer['m']['s']).to be_a(Puppet::Pops::Types::PSensitiveType::Sensitive)
      expect(answer['m']['s'].unwrap).to be_nil
      expect(answer['m']['p']).to eq(1)
    end

    it 'drops expired entries at every call, though the file is cached' do
      write_scope('common', { 'stays' => { 'value' => 1 }, 'goes' => { 'value' => 2, 'expires' => '2026-12-01T10:00:00.5Z' } })
      write_file('heartbeat', '{"bellpull":1,"time":"2026-12-01T10:00:00Z","sequence":1}')
      allow(Time).to receive(:now).and_return(Time.utc(2026, 12, 1, 10, 0, 0))
      expect(call('common')).to include('goes' => 2, 'bellpull::compiled' => {
        'common' => { 'bucket' => 'b1', 'revision' => 7, 'until' => '2026-12-01T10:00:00.5Z' }
      })
      allow(Time).to receive(:now).and_return(Time.utc(2026, 12, 1, 10, 0, 0.5r))
      expect(call('common')).to eq('stays' => 1, 'bellpull::compiled' => { 'common' => { 'bucket' => 'b1', 'revision' => 7 } })
    end

    it 'names the earliest expiry among the entries it kept' do
      write_scope('common', { 'a' => { 'value' => 1, 'expires' => '2999-01-01T00:00:00Z' }, 'b' => { 'value' => 1, 'expires' => '2998-12-31T23:30:00-01:00' },
                              'c' => { 'value' => 1, 'expires' => '2001-01-01T00:00:00Z' } })
      expect(call('common')['bellpull::compiled']['common']['until']).to eq('2999-01-01T00:00:00Z')
      write_scope('common', { 'b' => { 'value' => 1, 'expires' => '2998-12-31T23:30:00Z' }, 'a' => { 'value' => 1, 'expires' => '2999-01-01T00:00:00+01:00' } })
      expect(call('common')['bellpull::compiled']['common']['until']).to eq('2999-01-01T00:00:00+01:00')
    end

    it 'never takes its own key from the bucket' do
      write_scope('common', { 'bellpull::compiled' => { 'value' => { 'group/x' => { 'bucket' => 'b', 'revision' => 9 } } } })
      expect(call('common')).to eq('bellpull::compiled' => { 'common' => { 'bucket' => 'b1', 'revision' => 7 } })
    end
  end

  describe 'the files' do
    it 'parses a file once and again when it was replaced' do
      write_scope('common', { 'v' => { 'value' => 1 } })
      parsed = 0
      allow(JSON).to receive(:parse).and_wrap_original do |parse, *args|
        parsed += 1 if args[0].include?('"entries"')
        parse.call(*args)
      end
      3.times { expect(level('common')).to eq('v' => 1) }
      expect(parsed).to eq(1)
      write_scope('common', { 'v' => { 'value' => 2 } }, revision: 8)
      expect(call('common')).to eq('v' => 2, 'bellpull::compiled' => { 'common' => { 'bucket' => 'b1', 'revision' => 8 } })
      expect(parsed).to eq(2)
    end

    it 'reads no file but the scope\'s own and the heartbeat when the scope has a document' do
      write_scope('group/web', {})
      read = reads
      level('group/web')
      expect(read).to contain_exactly('group=2Fweb.json', 'heartbeat.json')
    end

    it 'opens no socket and starts no child' do
      write_scope('common', { 'v' => { 'value' => 1 } })
      [[Socket, :new], [TCPSocket, :open], [UNIXSocket, :open], [Process, :spawn], [Process, :fork], [IO, :popen]].each do |owner, name|
        expect(owner).not_to receive(name)
      end
      level('common')
      level('group/none')
    end

    it 'maps colons and slashes as the sync does' do
      write_scope('os/Debian:12', { 'v' => { 'value' => 1 } })
      expect(File.exist?(File.join(dir, 'os=2FDebian=3A12.json'))).to be(true)
      expect(level('os/Debian:12')).to eq('v' => 1)
    end
  end

  describe 'an empty level' do
    ['group/', '', '/', 'a//b', '//x/y'].each do |uri|
      it("is what #{uri.inspect} means") { expect(call(uri)).to eq({}) }
    end

    it 'is what a covered scope without a document means, and it is proven too' do
      expect(call('node/web1.example.com')).to eq('bellpull::compiled' => { 'node/web1.example.com' => { 'bucket' => 'b1', 'revision' => 0 } })
    end

    it 'is covered by whole segments only' do
      write_synced(prefixes: ['group'])
      expect(level('group/x')).to eq({})
      expect(level('group')).to eq({})
      expect(error_of('groups')).to match(%r{scope groups is unknown: bellpull-hiera sync does not cover it.*synced\.json})
    end
  end

  describe 'errors' do
    it 'says that a scope is unknown when there was no first sync' do
      File.delete(File.join(dir, 'synced.json'))
      expect(error_of('node/a')).to match(%r{\[bellpull\] scope node/a is unknown: .*node=2Fa\.json.*synced\.json.*first sync})
    end

    it 'does not take a lost file for an empty scope' do
      write_synced(scopes: ['node/a'])
      expect(error_of('node/a')).to match(%r{scope node/a: .*/node=2Fa\.json is missing, though})
      expect(level('node/b')).to eq({})
    end

    good = '{"bellpull":1,"scope":"common","bucket":"b1","revision":1,"checksum":"sha256:%s"}'
    body = '{"entries":{"v":{"value":1}}}'
    head = format(good, Digest::SHA256.hexdigest(body))
    {
      'empty'             => ['', /not two whole lines/],
      'half a file'       => ["#{head}\n#{body[0, 9]}", /not two whole lines/],
      'no last newline'   => ["#{head}\n#{body}", /not two whole lines/],
      'three lines'       => ["#{head}\n#{body}\n{}\n", /not two whole lines/],
      'another body'      => ["#{head}\n#{body.sub('1', '2')}\n", /checksum is wrong/],
      'zeroed'            => ["\0" * 200, /cannot use/],
      'no JSON'           => ["no\n#{body}\n", /cannot use/],
      'an array'          => ["[1]\n#{body}\n", /not a JSON object/],
      'another format'    => ["#{head.sub(':1', ':2')}\n#{body}\n", /not of format 1/],
      'no bucket'         => ["#{head.sub('bucket', 'x')}\n#{body}\n", /bucket/],
      'another scope'     => ["#{head.sub('common', 'node/b')}\n#{body}\n", %r{holds scope node/b}],
      'no entries'        => ["#{format(good, Digest::SHA256.hexdigest('{}'))}\n{}\n", /entries/],
      'invalid UTF-8'     => ["#{head}\n#{body.sub('v', "\xff")}\n", /cannot use|checksum/],
    }.each do |name, (text, message)|
      it "names scope and file when the file is bad: #{name}" do
        write_file('common', text)
        expect(error_of('common')).to match(message)
        expect(error_of('common')).to start_with('[bellpull] scope common: ').and include(File.join(dir, 'common.json'))
      end
    end

    it 'names scope and file when the file cannot be read' do
      Dir.mkdir(File.join(dir, 'common.json'))
      expect(error_of('common')).to match(%r{scope common: cannot use .*/common\.json: .*[Ii]s a directory})
    end

    ['{', '[]', '{"bellpull":2}', '{"bellpull":1,"bucket":"b"}'].each do |text|
      it "names scope and file when synced.json is bad: #{text}" do
        write_file('synced', text)
        expect(error_of('node/a')).to match(%r{scope node/a: cannot use .*/synced\.json: })
      end

      it "names scope and file when the list of scopes is bad: #{text}" do
        write_list(list_of('node/a'), [], text: text)
        expect(error_of('node/a')).to match(%r{scope node/a: cannot use .*/scopes/#{list_of('node/a')}\.json: })
      end
    end

    it 'names scope and file when the list of scopes is lost' do
      File.delete(write_list(list_of('node/a'), []))
      expect(error_of('node/a')).to match(%r{scope node/a: cannot use .*/scopes/#{list_of('node/a')}\.json: No such file})
    end

    it 'takes a file that is written and listed while it looks' do
      allow(Digest::SHA256).to receive(:hexdigest).and_wrap_original do |original, text|
        if text == 'node/a' && !@written
          @written = true
          write_scope('node/a', { 'v' => { 'value' => 1 } })
          write_list(original.call('node/a')[0, 2], ['node/a'])
        end
        original.call(text)
      end
      expect(level('node/a')).to eq('v' => 1)
    end

    # SEC-01: an odd name is refused; it is never a wildcard, another file or another level.
    ['..', '../common', 'node/..', 'node/../common', 'node/.', 'node/*', 'node/>', 'node/a b', "node/a\n", "common\n", 'node/a\\b',
     'node/a%2Fb', 'node/a=2Fb', 'node=2Fa', 'node/ä', 'common.json/..', 'node/a?b', 'synced', 'heartbeat', 'a:b/c', (['a'] * 17).join('/'),
     "node/#{'a' * 196}"].each do |uri|
      it "refuses the scope #{uri.inspect} (SEC-01)" do
        read = reads
        expect(error_of(uri)).to start_with("[bellpull] #{uri.inspect} cannot be used as a scope: ")
        expect(read).to be_empty
      end
    end

    { { 'dirr' => 'x' } => /unrecognized key 'dirr'/, { 'max_age' => '300' } => /'max_age' expects an Integer/, { 'max_age' => 0 } => /'max_age'/,
      { 'on_stale' => 'ignore' } => /'on_stale' expects .*Enum\['fail', 'warn'\]/, { 'interpolate' => 'yes' } => /'interpolate' expects a Boolean/,
      { 'dir' => 'relative' } => /'dir'/ }.each do |options, message|
      it("refuses the options #{options}") { expect { call('common', options) }.to raise_error(ArgumentError, message) }
    end
  end

  describe 'the age of the data' do
    before { write_scope('common', { 'v' => { 'value' => 1 } }) }

    it 'is no matter up to max_age' do
      write_heartbeat(age: 290)
      expect(Puppet).not_to receive(:warning)
      expect(level('common')).to eq('v' => 1)
    end

    it 'is warned of once a compile, and the last good data are used' do
      write_heartbeat(age: 310)
      expect(Puppet).to receive(:warning).once.with(/\[bellpull\] the data of scope common are 31\ds? ?s? old, more than max_age \(300 s\).*last good/)
      expect(level('common')).to eq('v' => 1)
      expect(level('group/none')).to eq({})
    end

    it 'fails the lookup with on_stale: fail' do
      write_heartbeat(age: 70)
      expect(error_of('common', 'max_age' => 60, 'on_stale' => 'fail')).to match(/the data of scope common are 7\d s old, more than max_age \(60 s\)/)
      expect(error_of('node/none', 'max_age' => 60, 'on_stale' => 'fail')).to match(%r{scope node/none})
      expect(level('common', 'max_age' => 100, 'on_stale' => 'fail')).to eq('v' => 1)
    end

    [nil, '', '{}', '{"bellpull":1}', '{"bellpull":1,"time":"soon"}', '{"bellpull":1,"time":3}'].each do |text|
      it "is unknown, and so too old, when the heartbeat is #{text.inspect}" do
        text ? write_file('heartbeat', text) : File.delete(File.join(dir, 'heartbeat.json'))
        expect(error_of('common', 'on_stale' => 'fail')).to include('are of unknown age')
      end
    end

    it 'is 0 when the sync\'s clock is ahead' do
      write_heartbeat(age: -30)
      expect(level('common', 'on_stale' => 'fail')).to eq('v' => 1)
    end
  end

  describe '--explain' do
    it 'names scope, revision, bucket and age' do
      write_heartbeat(age: 12)
      write_scope('group/web', { 'm[a]' => { 'value' => 1 }, 's[a]' => { 'value' => 1, 'sensitive' => true }, 'gone' => { 'value' => 1, 'expires' => '2001-01-01T00:00:00Z' } }, revision: 812)
      call('group/web')
      expect(explanation).to match(%r{^\s*\[bellpull\] scope group/web: revision 812 of bucket b1, 1\d s old$})
      expect(explanation).to match(/^\s*\[bellpull\] gone expired at 2001-01-01T00:00:00Z$/)
      expect(explanation).to match(/^\s*\[bellpull\] m has members: it wants lookup_options {"m": {merge: hash}}/)
      expect(explanation).to match(/^\s*\[bellpull\] s has members: it wants lookup_options {"s": {merge: deep}}/)
    end

    it 'tells an empty scope from an empty segment' do
      call('node/a')
      call('group/')
      expect(explanation).to match(%r{^\s*\[bellpull\] scope node/a: no document in bucket b1, \d s old$})
      expect(explanation).to match(%r{^\s*\[bellpull\] "group/" has an empty segment, so this level is empty$})
    end

    it 'shows no values' do
      write_scope('common', { 's' => { 'value' => 'hunter2', 'sensitive' => true }, 'p' => { 'value' => 'hunter2' } })
      call('common')
      expect(explanation).not_to include('hunter2')
    end
  end
end
