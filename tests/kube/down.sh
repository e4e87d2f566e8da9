#!/usr/bin/env bash
# Ends the cluster of KUBE_STATE, whatever is left of it, and removes all that it wrote.
. "$(dirname "$0")/cluster.sh"
[ -d "$state" ] || exit 0
need_root
if alive; then
    # Its namespaces end with their first process: every process in them, then every mount, bridge and route.
    read -r pid _ <"$state/run/init"
    kill -KILL "$pid"
    until_ok 60 test ! -e "/proc/$pid" || fail "The cluster's processes do not end; see those under process $pid."
fi
link=$(cat "$state/run/link" 2>/dev/null) || link=
[ -z "$link" ] || until_ok 60 test ! -e "/sys/class/net/$link" || fail "The network link $link does not go."
if cgroup=$(cat "$state/run/cgroup" 2>/dev/null); then
    awk '$3 == "cgroup" || $3 == "cgroup2" { print $2 }' /proc/mounts | while read -r place; do
        [ -d "$place/$cgroup" ] || continue
        until_ok 60 find "$place/$cgroup" -depth -type d -exec rmdir {} + || fail "$place/$cgroup is in use."
    done
fi
rm -rf --one-file-system "$state"
