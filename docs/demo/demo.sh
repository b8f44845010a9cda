#!/usr/bin/env bash
# demo.sh: bellpull's founding story, played with real parts (`make demo`).
#
# This script says where: as root inside a network namespace that it makes and
# removes, so that the firewall rules are real and the machine's own firewall
# is not touched; elsewhere right here, managing files instead of rules. What
# happens is in story.sh. Everything lives in a temporary directory.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
export PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin:/opt/puppetlabs/bin

work=$(mktemp -d "${TMPDIR:-/tmp}/bellpull-demo.XXXXXX")
namespace=""

clean_up() {
  local pid
  if [ -n "$namespace" ]; then
    # Whatever is still in there is ours.
    for pid in $(ip netns pids "$namespace"); do kill -KILL "$pid" 2>/dev/null || true; done
    ip netns delete "$namespace"
  fi
  rm -rf --one-file-system "$work"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

if [ "$(id -u)" = 0 ] && ip netns add "bellpull-demo-$$" 2>"$work/netns.err"; then
  namespace=bellpull-demo-$$
  ip -n "$namespace" link set lo up
  # The firewall module saves the rules it has set as the machine's own. In the
  # namespace's private view of the file system /etc is read-only, so it can't.
  ip netns exec "$namespace" sh -c '
    mount --bind /etc /etc && mount -o remount,bind,ro /etc && exec "$@"
  ' sh env DEMO_WORK="$work" DEMO_BACKEND=iptables DEMO_NAMESPACE="$namespace" bash "$here/story.sh"
else
  [ "$(id -u)" = 0 ] && reason="no network namespace: $(cat "$work/netns.err")" || reason="not root"
  echo "demo: $reason: the story manages a file instead of firewall rules"
  DEMO_WORK="$work" DEMO_BACKEND=file bash "$here/story.sh"
fi
