# The ports that may be used and the addresses that may not.
#
# The same desired state arrives here by both of bellpull's ways, so that the
# demo shows both: chain INPUT follows what Hiera says (the parameters, by
# Puppet's automatic parameter lookup), chain OUTPUT what the fact says.
#
# @param rules
#   Open ports: `{name => {port, protocol, action}}`, kind `firewall_rule`.
# @param blocked
#   Banned addresses: `{name => {address, reason}}`, kind `blocked_address`.
# @param backend
#   `iptables` manages real rules; `file` writes the same rules to a file,
#   for machines where the demo may not make a network namespace.
# @param directory
#   Where the files of backend `file` go.
class my_firewall (
  Hash[String, Hash]                         $rules     = {},
  Hash[String, Hash]                         $blocked   = {},
  Enum['iptables', 'file']                   $backend   = 'iptables',
  Optional[Pattern[/\A\//]]                  $directory = undef,
) {
  # Unknown is not empty: on a node that has never heard from NATS, an empty
  # hash here would close every port.
  if $facts['bellpull']['source'] == 'none' {
    fail("my_firewall: desired state unknown: ${facts['bellpull']['reason']}")
  }

  my_firewall::chain { 'INPUT':
    rules   => $rules,
    blocked => $blocked,
  }
  my_firewall::chain { 'OUTPUT':
    rules   => $facts.get("bellpull.state.'my_firewall::rules'", {}),
    blocked => $facts.get("bellpull.state.'my_firewall::blocked'", {}),
  }
}
