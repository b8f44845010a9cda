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

# The firewall module saves the rules that it sets as the machine's own. In the
# namespace's private view of the file system /etc is read-only, so it can't.
inside() { # COMMAND...
  ip netns exec "$namespace" sh -c 'mount --bind /etc /etc && mount -o remount,bind,ro /etc && exec "$@"' sh "$@"
}

make_namespace() {
  [ "$(id -u)" = 0 ] || { echo "not root"; return 1; }
  ip netns add "bellpull-demo-$$" || return 1
  namespace=bellpull-demo-$$
  ip -n "$namespace" link set lo up && inside iptables -S >/dev/null
}

export DEMO_WORK=$work DEMO_NAMESPACE DEMO_BACKEND
if make_namespace >"$work/no-namespace" 2>&1; then
  DEMO_NAMESPACE=$namespace DEMO_BACKEND=iptables
  inside bash "$here/story.sh"
else
  DEMO_NAMESPACE="" DEMO_BACKEND=file
  echo "No network namespace here ($(head -n 1 "$work/no-namespace")): the story manages files instead of firewall rules."
  bash "$here/story.sh"
fi
