# Read by the other scripts: where a cluster is, and how to reach into it.
# shellcheck shell=bash disable=SC2034
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# Everything that a cluster writes.
state=$(realpath -m "${KUBE_STATE:-/tmp/nemo-kube}")
components=(etcd apiserver controller-manager scheduler containerd kubelet)
export KUBECONFIG=$state/admin.kubeconfig
# A proxy, which the build may need, does not know the node.
export NO_PROXY=${NO_PROXY:+$NO_PROXY,}10.219.0.0/16,10.96.0.0/16,127.0.0.1
export no_proxy=$NO_PROXY

fail() {
    echo "$*" >&2
    exit 1
}

need_root() { [ "$(id -u)" = 0 ] || fail "Namespaces, mounts and cgroups of a cluster need root: run this as root."; }

# The first process of the cluster's namespaces lives; its number alone may be another's by now.
alive() {
    local pid namespace
    read -r pid namespace 2>/dev/null <"$state/run/init" &&
        [ "$(readlink "/proc/$pid/ns/pid")" = "$namespace" ]
}

# Run a command in the cluster's namespaces.
inside() {
    local pid
    read -r pid _ <"$state/run/init"
    nsenter --target "$pid" --mount --pid --net -- "$@"
}

kubectl() { "$(<"$state/run/bin")/kubectl" "$@"; }
containers() { ctr --address "$state/containerd.sock" --namespace k8s.io "$@"; }

# until_ok SECONDS COMMAND...
until_ok() {
    local deadline=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt $deadline ] || return 1
        sleep 0.1
    done
}

# A component's number within the cluster; nothing when it does not run.
process_of() {
    local pid
    pid=$(cat "$state/run/$1.pid" 2>/dev/null) && inside kill -0 "$pid" 2>/dev/null && echo "$pid"
}

gone() { ! process_of "$1" >/dev/null; }

start() {
    gone "$1" || return 0
    rm -f "$state/run/$1.pid"
    # Every descriptor of the caller would live as long as the component, a lock's too.
    # shellcheck disable=SC2016
    inside setsid --fork bash -c 'for fd in /proc/self/fd/*; do fd=${fd##*/}; [ "$fd" -le 2 ] || eval "exec $fd>&-"; done
        exec bash "$0"' "$state/run/$1.sh" </dev/null >>"$state/logs/$1.log" 2>&1
    until_ok 20 test -s "$state/run/$1.pid" || fail "$1 could not be started: $(tail -n 5 "$state/logs/$1.log")"
}

# kill_component NAME SIGNAL: returns when it has ended.
kill_component() {
    local pid
    pid=$(process_of "$1") || return 0
    inside kill "-$2" "$pid"
    until_ok 60 gone "$1" || fail "$1 has not ended 60 s after SIG$2; its log is $state/logs/$1.log."
    rm -f "$state/run/$1.pid"
}

answers() {
    case $1 in
    etcd) get 2379 /health | grep -q '"true"' ;;
    apiserver) kubectl get --raw /readyz --request-timeout=5s ;;
    controller-manager) get_tls 10257 /healthz | grep -q '^ok' ;;
    scheduler) get_tls 10259 /healthz | grep -q '^ok' ;;
    containerd) containers plugins ls | grep -q ' cri .* ok' ;;
    kubelet) get 10248 /healthz | grep -q '^ok' && kubectl get node node1 | grep -q ' Ready' ;;
    esac
}

# get PORT PATH: what a component answers; nobody else can ask it.
# shellcheck disable=SC2016
get() { inside timeout 5 bash -c 'exec 3<>"/dev/tcp/127.0.0.1/$0"; printf "GET %s HTTP/1.0\r\n\r\n" "$1" >&3; cat <&3' "$@"; }

get_tls() {
    printf 'GET %s HTTP/1.0\r\n\r\n' "$2" | inside timeout 5 openssl s_client -quiet -connect "127.0.0.1:$1"
}

wait_for() {
    local deadline=$((SECONDS + 60))
    until answers "$1" >/dev/null 2>&1; do
        if gone "$1" || [ $SECONDS -ge $deadline ]; then
            tail -n 20 "$state/logs/$1.log" >&2
            fail "$1 does not answer; above are the last lines of $state/logs/$1.log."
        fi
        sleep 0.1
    done
}

# An extended resource of the node's status is scheduled and counted as a device plugin's would be.
advertise_gpus() {
    kubectl patch node node1 --subresource=status --type=json --patch \
        "[{\"op\": \"add\", \"path\": \"/status/capacity/nvidia.com~1gpu\", \"value\": \"$(<"$state/run/gpus")\"}]" >/dev/null
}
