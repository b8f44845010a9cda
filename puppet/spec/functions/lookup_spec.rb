# frozen_string_literal: true

# Hiera's own lookup over levels of bellpull::data, down to Puppet's last step.
describe 'lookup' do
  let(:hiera_config) { write_hiera(['node/a', 'group/web', 'common'], options: options, lower: lower) }
  let(:options) { {} }
  let(:lower) { { 'k' => 'lower' } }

  before do
    write_synced
    write_heartbeat
  end

  # HIERA-01
  [nil, false, '', [], {}, 0].each do |value|
    it "finds #{value.inspect} and does not fall through (HIERA-01)" do
      write_scope('common', { 'k' => { 'value' => value } })
      is_expected.to run.with_params('k').and_return(value)
    end
  end

  it 'falls through for a key that is not there or has expired' do
    write_scope('common', { 'k' => { 'value' => 'x', 'expires' => '2001-01-01T00:00:00Z' } })
    is_expected.to run.with_params('k').and_return('lower')
  end

  # HIERA-06
  it 'gives %{...} back as it is stored (HIERA-06)' do
    stored = { 'p%{w}x%{facts.os.family}y%%z' => ["%{lookup('secret')}", "%{alias('secret')}", '%{', '%{}', "%{literal('%')}{x}"] }
    write_scope('common', { 'k' => { 'value' => stored }, 'm[%{facts.x}]' => { 'value' => 1 }, 'secret' => { 'value' => 's' } })
    is_expected.to run.with_params('k').and_return(stored)
    is_expected.to run.with_params('m').and_return('%{facts.x}' => 1)
  end

  context 'with interpolate' do
    let(:options) { { 'interpolate' => true } }

    it 'lets Hiera resolve it (HIERA-06)' do
      write_scope('common', { 'k' => { 'value' => "amqps://u:%{lookup('secret')}@h" }, 'secret' => { 'value' => 's' } })
      is_expected.to run.with_params('k').and_return('amqps://u:s@h')
    end
  end

  it 'merges members over the scopes, most specific first' do
    write_scope('node/a', { 'm[x]' => { 'value' => { 'only' => 'node' } } })
    write_scope('group/web', { 'm' => { 'value' => { 'x' => { 'not' => 'this' }, 'y' => 2 } } })
    write_scope('common', { 'm[z]' => { 'value' => 3 }, 'lookup_options' => { 'value' => { 'm' => { 'merge' => 'hash' } } } })
    is_expected.to run.with_params('m').and_return('x' => { 'only' => 'node' }, 'y' => 2, 'z' => 3)
  end

  it 'refuses to merge a plain value into members' do
    write_scope('node/a', { 'm[x]' => { 'value' => 1 } })
    write_scope('common', { 'm' => { 'value' => 'plain' } })
    is_expected.to run.with_params('m', 'Hash', 'hash').and_raise_error(/Hash/)
  end

  # Never a lower level's value for one that is only out of reach.
  it 'fails rather than use the lower level when a scope is unknown' do
    File.delete(File.join(dir, 'synced.json'))
    is_expected.to run.with_params('k').and_raise_error(Puppet::Error, %r{scope node/a is unknown})
    is_expected.to run.with_params('k', nil, 'first', 'default').and_raise_error(Puppet::Error)
  end

  it 'fails when one file is bad, even with the key in another' do
    write_scope('node/a', { 'k' => { 'value' => 1 } })
    write_file('group=2Fweb', 'torn')
    is_expected.to run.with_params('k').and_raise_error(Puppet::Error, %r{scope group/web: cannot use})
  end
end
