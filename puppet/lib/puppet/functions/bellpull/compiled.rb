# frozen_string_literal: true

# @summary Which revision of which scope this compile used, from all Hiera levels that use `bellpull::data`.
#
# Puppet keeps the answer of a Hiera level for the length of a compile, so this is what the compile really used,
# whatever the data files have become since. It is the server's half of the proof that a change has been applied.
#
# @example Its value
#   {'group/web' => {'bucket' => '3f9c', 'revision' => 812, 'until' => '2026-12-01T11:00:00Z'}}
Puppet::Functions.create_function(:'bellpull::compiled') do
  # @return By scope: the bucket's id, the revision (0: no document) and, where entries will expire, when the first
  #   of them does. Empty without such a level.
  dispatch :compiled do
    return_type 'Hash[String, Struct[{bucket => String, revision => Integer[0], Optional[until] => String}]]'
  end

  def compiled
    call_function('lookup', 'bellpull::compiled', { 'merge' => 'hash', 'default_value' => {} })
  end
end
