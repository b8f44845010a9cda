# @summary Keeps on a node which revisions its catalog was compiled from.
#
# The answer of `bellpull::compiled()` goes into `<state>/node/compiled.json`. bellpull-watch takes it, together with
# the run's report, as the proof that a change has reached the catalog; without this class it can only tell what the
# fact showed. The resources are never in noop and carry the tag bellpull_compiled, so that runs with `--noop` or
# `--tags` keep the file too.
#
# @example
#   include bellpull
#
# @param state
#   bellpull's directory on the node, `state` in bellpull.yaml.
class bellpull (
  Pattern[/\A(\/|[A-Za-z]:[\/\\])/] $state,
) {
  $node = "${state}/node"

  file {
    default:
      noop   => false,
      backup => false,
      tag    => 'bellpull_compiled';
    $state:
      ensure => directory,
      mode   => '0755';
    $node:
      ensure => directory,
      mode   => '0700';
    "${node}/compiled.json":
      ensure  => file,
      mode    => '0600',
      content => bellpull::to_json(bellpull::compiled());
  }
}
