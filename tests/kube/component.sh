#!/usr/bin/env bash
# Usage: component.sh stop|start|kill etcd|apiserver|controller-manager|scheduler|containerd|kubelet
# Returns when the component of the cluster of KUBE_STATE has ended, or answers again.
. "$(dirname "$0")/cluster.sh"
action=${1:-} name=${2:-}
[[ " stop start kill " == *" $action "* && " ${components[*]} " == *" $name "* ]] ||
    fail "Usage: $0 stop|start|kill $(IFS='|' && echo "${components[*]}")"
need_root
alive || fail "No cluster is up in $state: make kube-up"

# When the node last said that it lives.
beat() { kubectl --namespace kube-node-lease get lease node1 --output jsonpath='{.spec.renewTime}'; }
beats_again() { [ "$(beat)" != "$1" ]; }

case $action in
stop) kill_component "$name" TERM ;;
kill) kill_component "$name" KILL ;;
start)
    if [ "$name" = kubelet ] && gone kubelet; then
        last=$(beat) || last=
        start kubelet
        # The node may still be told as ready from before.
        until_ok 60 beats_again "$last" || true
    fi
    start "$name"
    wait_for "$name"
    [ "$name" != kubelet ] || advertise_gpus
    ;;
esac
