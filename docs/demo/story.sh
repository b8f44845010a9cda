#!/usr/bin/env bash
# story.sh: what the demo does; demo.sh says where. A step that does not happen
# in time ends it with exit status 1 and the watcher's log.
#
# DEMO_WORK       directory for all state
# DEMO_BACKEND    iptables or file
# DEMO_NAMESPACE  the network namespace that this runs in, with iptables
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
work=$DEMO_WORK
backend=$DEMO_BACKEND
node=web1.example.com
group=group/webservers-prod
unset "${!BELLPULL_@}" # the machine's own bellpull is not part of the story
export PATH=$root/bin:$PATH LC_ALL=C.UTF-8 BELLPULL_CONFIG=$work/bellpull.yaml

# ---- telling -----------------------------------------------------------------

bold="" plain=""
if [ -t 1 ]; then bold=$'\e[1m' plain=$'\e[0m'; fi
timings=()

chapter() { printf '\n%s%s%s\n' "$bold" "$1" "$plain"; }
say() { printf '  %s\n' "$@"; }
indent() { sed 's/^/    /'; }
seconds_since() { awk -v a="$1" -v b="$(date +%s.%N)" 'BEGIN { printf "%.1f", b - a }'; }

typed() { # COMMAND...: show it as one would type it, then run it
  printf '  $'
  local word
  for word; do
    case $word in *[!A-Za-z0-9_./:=,-]*) printf " '%s'" "$word" ;; *) printf ' %s' "$word" ;; esac
  done
  printf '\n'
  "$@" 2>&1 | indent
}

failed() {
  {
    printf '\nThis did not happen: %s\n' "$1"
    for log in server.log sync.log gateway.log watch.log state/node/run.out state/node/run.err; do
      [ -s "$work/$log" ] && printf -- '--- end of %s\n' "$log" && tail -n 40 "$work/$log"
    done
  } >&2
  exit 1
}

within() { # SECONDS WHAT COMMAND...: wait until the command succeeds
  local limit=$1 what=$2 start=$SECONDS
  shift 2
  until "$@" >/dev/null 2>&1; do
    [ $((SECONDS - start)) -lt "$limit" ] || failed "$what (waited $limit s)"
    sleep 0.2
  done
}

# ---- the node's firewall -------------------------------------------------------

firewall() { # its rules, one a line
  if [ "$backend" = iptables ]; then
    iptables -w -S | sed -n '/^-A/p'
  else
    find "$work/rules" -name '*.rules' -exec cat {} +
  fi
}
count() { # PATTERN: how many of its rules match; nothing if they cannot be read
  local rules
  rules=$(firewall) || return
  grep -c -e "$1" <<<"$rules"
}
both_chains_have() { [ "$(count "$1")" = 2 ]; }
no_chain_has() { [ "$(count "$1")" = 0 ]; }

# ---- the daemons ---------------------------------------------------------------

pids=()
start() { # NAME COMMAND...: what it says goes to NAME.out and NAME.log
  local name=$1
  shift
  set -m # in a process group of its own: Ctrl-C is for this script, which ends them in order
  "$@" >"$work/$name.out" 2>"$work/$name.log" </dev/null &
  set +m
  pids+=($!)
}
last_run_is_applied() { [ "$(grep -o -E 'bellpull-watch: (run|applied):' "$work/watch.log" | tail -n 1)" = "bellpull-watch: applied:" ]; }
no_run_under_way() { [ -z "$(cat /proc/"$watcher"/task/*/children 2>/dev/null)" ]; }
stop() {
  local pid
  # A Puppet run that is still at work ends first: it belongs to the watcher.
  for _ in $(seq 1 150); do no_run_under_way && break; sleep 0.2; done
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  for pid in "${pids[@]}"; do
    for _ in $(seq 1 50); do kill -0 "$pid" 2>/dev/null || break; sleep 0.2; done
    kill -KILL "$pid" 2>/dev/null || true
  done
}
watcher=0
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# ---- the node: an isolated Puppet, and bellpull's configuration ---------------

mkdir -p "$work"/{puppet,rules,var/facts.d,environments}
cp -R "$root/docs/demo/environment" "$work/environments/production"
ln -s "$root/puppet" "$work/environments/production/modules/bellpull"
sed -i "s#@WORK@#$work#; s#@BACKEND@#$backend#" "$work"/environments/production/{hiera.yaml,data/common.yaml}
cat >"$work/puppet/puppet.conf" <<END
[main]
certname = $node
environmentpath = $work/environments
vardir = $work/var
statedir = $work/var/state
ssldir = $work/ssl
rundir = $work/run
logdir = $work/log
publicdir = $work/public
END
puppet_apply=(puppet apply --confdir "$work/puppet" --detailed-exitcodes --color=false
  "$work/environments/production/manifests/site.pp")

# Puppet finds external facts in its own vardir: nothing under /etc/facter.
ln -s "$root/bin/bellpull-fact" "$work/var/facts.d/bellpull"

command_list=$(printf '"%s", ' "${puppet_apply[@]}")
cat >"$BELLPULL_CONFIG" <<END
node:
  certname: $node
  hierarchy: ["node/{certname}", "$group", "common"]
watch: {command: [${command_list%, }], timeout: 2m}
puppet:
  lock: $work/var/state/agent_catalog_run.lock
  disabled_lock: $work/var/state/agent_disabled.lock
  report: $work/var/state/last_run_report.yaml
state: $work/state
gateway:
  listen: 127.0.0.1:0
  kinds: $root/docs/demo/kinds
  senders:
    - name: shop
      auth: {bearer: ["file:$work/shop.hash"]}
      kinds: [firewall_rule]
      scopes: ["group/*"]
  routes:
    - path: /api/trigger-firewall-update
      kind: firewall_rule
      scope: "group/{targetGroup}"
      entry: "my_firewall::rules[{protocol}-{port}]"
      value: {port: "{port}", protocol: "{protocol}", action: "{action}"}
      id: "{metadata.correlationId}"
      source: "{metadata.source}"
      body: firewall-update.schema.json
      remove_when: {action: deny}
      answer: {correlationId: "{metadata.correlationId}"}
END
{ read -r token; read -r hash; } < <(bellpull-gateway token)
printf '%s\n' "$hash" >"$work/shop.hash"
printf 'Authorization: Bearer %s\nContent-Type: application/json\n' "$token" >"$work/headers"

# ---- the story -----------------------------------------------------------------

chapter "A node, $node, and the five programs"
if [ "$backend" = iptables ]; then
  say "The node lives in the network namespace $DEMO_NAMESPACE, with a firewall of its own that is empty."
else
  say "The node's firewall is a directory of rule files, and empty."
fi
start server bellpull server --listen 127.0.0.1:0
within 30 "bellpull server is ready" test -s "$work/server.out"
echo "nats: {servers: [\"$(cat "$work/server.out")\"]}" >>"$BELLPULL_CONFIG"
say "bellpull server    NATS with JetStream, the bucket of desired state"
start sync bellpull-hiera sync
within 20 "the Hiera data are in step with the bucket" test -s "$work/state/hiera/synced.json"
say "bellpull-hiera     keeps Hiera data files equal to the bucket"
start watch bellpull-watch
watcher=${pids[-1]}
within 20 "the node reports its status" bellpull status
say "bellpull-watch     starts Puppet on the node when its state changes"
say "bellpull-fact      is run by Facter, in every Puppet run"
start gateway bellpull-gateway
within 20 "the gateway listens" test -s "$work/gateway.out"
gateway=$(cat "$work/gateway.out")
say "bellpull-gateway   takes webhooks; one sender, shop, may post firewall rules for groups"
cd "$work" # the headers, with the sender's token, are in a file there

firewall_update() { # ACTION ID: the webhook that began it all
  typed curl -sS --fail-with-body -H @headers "$gateway/api/trigger-firewall-update" -d \
    '{"targetGroup":"'"${group#group/}"'","port":8443,"action":"'"$1"'","metadata":{"source":"shop/deploy","correlationId":"'"$2"'"}}'
}

chapter "1. A webhook opens tcp port 8443 for $group"
begin=$(date +%s.%N)
firewall_update allow 6f9619ff-8b86-4011-b42d-00c04fc964ff || failed "the gateway takes the webhook"
say "Nobody logs in and nobody runs Puppet. The watcher has noticed; waiting until every node of the group has applied it:"
typed bellpull status --scope "$group" --wait --timeout 90s || failed "bellpull status --wait ends with 0"
within 10 "a rule for port 8443 in both chains" both_chains_have 8443
took=$(seconds_since "$begin")
timings+=("port opened|$took")
say "After $took s the node's firewall says:"
firewall | indent
say "The rule in INPUT was read through Hiera, the one in OUTPUT through the fact."

chapter "2. The same state, as Puppet people look at it"
say "\$ facter bellpull.state"
facter --external-dir "$work/var/facts.d" bellpull.state 2>/dev/null | tee "$work/facter.out" | indent
grep -q 8443 "$work/facter.out" || failed "facter shows port 8443"
say "\$ puppet lookup my_firewall::rules --explain | grep bellpull"
puppet lookup --confdir "$work/puppet" --explain my_firewall::rules >"$work/lookup.out" 2>"$work/lookup.err" || true
grep -o -e '\[bellpull\] scope .*' "$work/lookup.out" | indent || true
grep -q "scope $group: revision" "$work/lookup.out" || {
  cat "$work/lookup.out" "$work/lookup.err" >&2
  failed "puppet lookup names scope and revision"
}

chapter "3. What makes no sense is refused before it is written, and so is what nobody may write"
code=0
typed bellpull put "$group" 'my_firewall::rules[tcp-99999]' \
  '{"port":99999,"protocol":"tcp","action":"allow"}' --kind firewall_rule || code=$?
[ "$code" = 4 ] || failed "port 99999 is refused as invalid (exit code 4, not $code)"
refused() { # STATUS BODY
  typed curl -sS -o answer -w 'HTTP %{http_code}\n' -H @headers "$gateway/api/trigger-firewall-update" -d "$2" | tee status
  indent <answer
  grep -q "HTTP $1" status || failed "the gateway answers $1"
}
refused 400 '{"targetGroup":"webservers-prod","port":80,"metadata":{"source":"shop/deploy","correlationId":"x"}}'
printf 'Authorization: Bearer %s\nContent-Type: application/json\n' "$token-guessed" >headers
refused 401 '{"targetGroup":"webservers-prod","port":8443,"action":"allow","metadata":{}}'
printf 'Authorization: Bearer %s\nContent-Type: application/json\n' "$token" >headers

# A ban has to outlast the run that sets it, also on a machine that is slow today.
ttl=$(awk -v t="$took" 'BEGIN { print (t > 12) ? 60 : 20 }')
chapter "4. An alert bans 203.0.113.7, for $ttl seconds"
begin=$(date +%s.%N)
typed bellpull put "$group" 'my_firewall::blocked[203.0.113.7]' \
  '{"address":"203.0.113.7","reason":"port scan"}' --kind blocked_address --ttl "${ttl}s"
within 90 "a rule against 203.0.113.7 in both chains" both_chains_have 203.0.113.7
took=$(seconds_since "$begin")
timings+=("address banned|$took")
say "After $took s:"
firewall | grep -e 203.0.113.7 | indent
say "Nobody lifts the ban. Waiting for it to end by itself ..."
within 150 "the ban ends by itself" no_chain_has 203.0.113.7
took=$(seconds_since "$begin")
timings+=("ban gone by itself ($ttl s ttl, 5 s for clocks, one run)|$took")
awk -v t="$took" -v ttl="$ttl" 'BEGIN { exit !(t >= ttl) }' || failed "the ban stands for its $ttl s (it was gone after $took s)"
say "After $took s it is gone; port 8443 is still open:"
firewall | indent
both_chains_have 8443 || failed "port 8443 stays open"

chapter "5. Another webhook closes the port again"
begin=$(date +%s.%N)
firewall_update deny 7f9619ff-8b86-4011-b42d-00c04fc964ff || failed "the gateway takes the second webhook"
within 90 "no rule for port 8443 is left" no_chain_has 8443
took=$(seconds_since "$begin")
timings+=("port closed|$took")
say "After $took s the firewall is as empty as it was."

chapter "6. The fleet, as its nodes report it"
within 60 "the node reports that it has converged" bellpull status --wait --timeout 1s
typed bellpull status -o table

chapter "All of it happened"
within 60 "the watcher has proof that the last run used the last state" last_run_is_applied
say "The watcher's account: why it started each Puppet run, and what it has proof of:"
sed -n 's/^[^ ]* *\[INFO\] *bellpull-watch: \(run\|applied\): .*\(why="[^"]*"\|scopes="[^"]*"\).*/\1: \2/p' "$work/watch.log" | indent
for line in "${timings[@]}"; do printf '  %6.1f s  %s\n' "${line#*|}" "${line%|*}"; done
