# One chain of the filter table, holding exactly the rules given: a rule that
# is no longer wanted is purged.
#
# @param rules
#   Open ports, as in class my_firewall.
# @param blocked
#   Banned addresses, as in class my_firewall.
define my_firewall::chain (
  Hash[String, Hash] $rules,
  Hash[String, Hash] $blocked,
) {
  # A service's port is the destination of a packet on its way in and the
  # source of one on its way out; a banned address is the other end.
  [$port, $address] = $title ? {
    'INPUT' => ['dport', 'source'],
    default => ['sport', 'destination'],
  }

  if $my_firewall::backend == 'iptables' {
    firewallchain { "${title}:filter:IPv4":
      ensure => present,
      purge  => true,
    }
    # puppetlabs-firewall sorts rules by the number that starts their name: bans
    # come first.
    $blocked.each |$name, $ban| {
      firewall { "100 ${title} ban ${name}":
        chain  => $title,
        proto  => 'all',
        action => 'drop',
        *      => { $address => $ban['address'] },
      }
    }
    $rules.each |$name, $rule| {
      $action = $rule['action'] ? { 'allow' => 'accept', default => 'drop' }
      firewall { "200 ${title} rule ${name}":
        chain  => $title,
        proto  => $rule['protocol'],
        action => $action,
        *      => { $port => $rule['port'] },
      }
    }
  } else {
    $bans  = $blocked.map |$name, $ban| { "${title} ${address} ${ban['address']} drop (${name})" }
    $opens = $rules.map |$name, $rule| {
      "${title} ${rule['protocol']} ${port} ${rule['port']} ${rule['action']} (${name})"
    }
    file { "${my_firewall::directory}/${title}.rules":
      content => ($bans + $opens + ['']).join("\n"),
    }
  }
}
