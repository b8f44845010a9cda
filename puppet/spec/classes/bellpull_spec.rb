# frozen_string_literal: true

describe 'bellpull' do
  let(:hiera_config) { write_hiera(['node/a', 'common']) }

  before do
    write_synced
    write_heartbeat
    write_scope('common', { 'x' => { 'value' => 1 } }, revision: 4)
  end

  it { is_expected.to compile.with_all_deps }
  it { is_expected.to contain_file('/var/lib/bellpull').with(ensure: 'directory', mode: '0755') }
  it { is_expected.to contain_file('/var/lib/bellpull/node').with(ensure: 'directory', mode: '0700') }

  it 'keeps what the compile used, in noop runs and runs with tags too' do
    is_expected.to contain_file('/var/lib/bellpull/node/compiled.json').with(
      ensure: 'file', mode: '0600', noop: false, tag: 'bellpull_compiled', backup: false,
      content: %({"common":{"bucket":"b1","revision":4},"node/a":{"bucket":"b1","revision":0}}\n)
    )
    ['/var/lib/bellpull', '/var/lib/bellpull/node'].each do |path|
      is_expected.to contain_file(path).with(noop: false, tag: 'bellpull_compiled')
    end
  end

  context 'without a level of bellpull' do
    let(:hiera_config) { nil }

    it { is_expected.to contain_file('/var/lib/bellpull/node/compiled.json').with_content("{}\n") }
  end

  context 'with another state' do
    let(:params) { { state: '/srv/bellpull' } }

    it { is_expected.to contain_file('/srv/bellpull/node/compiled.json') }
  end

  ['relative', '', 3].each do |state|
    context "with the state #{state.inspect}" do
      let(:params) { { state: state } }

      it { is_expected.to compile.and_raise_error(/parameter 'state'/) }
    end
  end

  context 'when a scope is unknown' do
    before { File.delete(File.join(dir, 'synced.json')) }

    it { is_expected.to compile.and_raise_error(%r{scope node/a is unknown}) }
  end
end
