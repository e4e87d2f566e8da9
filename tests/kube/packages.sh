#!/usr/bin/env bash
# Prints the packages of Debian or Ubuntu that a cluster needs and this machine lacks.
has() { command -v "$1" >/dev/null; }
has etcd || echo etcd-server
has containerd && has ctr || echo containerd
has runc || echo runc
[ -x /usr/lib/cni/bridge ] || echo containernetworking-plugins
has ip || echo iproute2
has openssl || echo openssl
has python3 || echo python3
(cd "$(dirname "$0")/../.." && python3 -c 'from tests.busybox import busybox; exit(not busybox())') 2>/dev/null ||
    echo busybox-static
