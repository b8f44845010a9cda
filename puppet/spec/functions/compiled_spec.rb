# frozen_string_literal: true

describe 'bellpull::compiled' do
  let(:hiera_config) { write_hiera(uris, lower: { 'bellpull::compiled' => {} }) }
  let(:uris) { ['node/a', 'group/web', 'group/', 'common'] }

  before do
    write_synced
    write_heartbeat
  end

  it 'names every scope of the hierarchy with what the compile used of it' do
    write_scope('common', { 'x' => { 'value' => 1 } }, revision: 4)
    write_scope('group/web', { 'x' => { 'value' => 1, 'expires' => '2999-01-01T00:00:00Z' } }, revision: 812)
    is_expected.to run.and_return(
      'node/a'    => { 'bucket' => 'b1', 'revision' => 0 },
      'group/web' => { 'bucket' => 'b1', 'revision' => 812, 'until' => '2999-01-01T00:00:00Z' },
      'common'    => { 'bucket' => 'b1', 'revision' => 4 },
    )
  end

  it 'stays what the compile has used, whatever the files say since' do
    write_scope('common', { 'x' => { 'value' => 1 } }, revision: 4)
    expect(subject.execute['common']['revision']).to eq(4)
    write_scope('common', { 'x' => { 'value' => 2 } }, revision: 5)
    expect(subject.execute['common']['revision']).to eq(4)
  end

  it 'fails when one scope is unknown' do
    File.delete(File.join(dir, 'synced.json'))
    is_expected.to run.and_raise_error(Puppet::Error, %r{scope node/a is unknown})
  end

  context 'without a level of bellpull' do
    let(:hiera_config) { nil }

    it { is_expected.to run.and_return({}) }
  end
end
