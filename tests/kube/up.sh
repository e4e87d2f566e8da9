#!/usr/bin/env bash
# Starts a Kubernetes of one node and prints the path of its kubeconfig; where it is up already, it only prints that.
# KUBE_STATE: everything that it writes, /tmp/nemo-kube. KUBE_NUMBER: 0 to 255, another for each cluster of a machine:
# its network is 10.219.<number>.0/24. KUBE_BIN: see build.sh. KUBE_GPUS: how many nvidia.com/gpu it pretends to have.
. "$(dirname "$0")/cluster.sh"
number=${KUBE_NUMBER:-0} gpus=${KUBE_GPUS:-4}
network=10.219.$number node=10.219.$number.2 service=10.96.0.1 link=kube$number cgroup=nemo-kube-$number

requirements() {
    local packages
    packages=$("$here/packages.sh" | xargs)
    [ -z "$packages" ] || fail "A cluster needs more of this machine: apt-get install $packages"
}

certificates() {
    local ec=(-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3650)
    openssl req -x509 "${ec[@]}" -keyout pki/ca.key -out pki/ca.crt -subj /CN=test-ca \
        -addext keyUsage=critical,keyCertSign,cRLSign 2>/dev/null
    openssl ecparam -genkey -name prime256v1 -noout -out pki/sa.key
    openssl ec -in pki/sa.key -pubout -out pki/sa.pub 2>/dev/null
    certificate apiserver /CN=kube-apiserver \
        "subjectAltName=IP:$node,IP:$service,DNS:localhost,IP:127.0.0.1,DNS:kubernetes.default.svc"
    certificate admin /O=system:masters/CN=admin extendedKeyUsage=clientAuth
    kubectl config set-cluster test --server="https://$node" --certificate-authority=pki/ca.crt --embed-certs
    kubectl config set-credentials admin --client-certificate=pki/admin.crt --client-key=pki/admin.key --embed-certs
    kubectl config set-context test --cluster=test --user=admin
    kubectl config use-context test
}

# certificate NAME SUBJECT EXTENSION
certificate() {
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "pki/$1.key" -out "pki/$1.csr" \
        -subj "$2" 2>/dev/null
    # Python 3.13 refuses a certificate that does not name its issuer's key.
    openssl x509 -req -in "pki/$1.csr" -CA pki/ca.crt -CAkey pki/ca.key -CAcreateserial -out "pki/$1.crt" -days 3650 \
        -extfile <(printf 'authorityKeyIdentifier=keyid\nsubjectKeyIdentifier=hash\n%s\n' "$3") 2>/dev/null
}

namespaces() {
    setsid unshare --mount --net --pid --fork bash "$here/init.sh" "$state" </dev/null >logs/init.log 2>&1 9>&- &
    until_ok 20 alive || fail "The cluster's namespaces could not be made: $(cat logs/init.log)"
}

# The host, the node and the pods are neighbours on one bridge of the cluster's network namespace.
bridge() {
    local pid
    read -r pid _ <run/init
    echo "$link" >run/link
    ip link add "$link" type veth peer name uplink netns "$pid"
    ip address add "$network.1/24" dev "$link"
    ip link set "$link" up
    # With no address of its own a bridge takes over its ports', so that neighbours lose it as pods come and go.
    inside ip link add kube address 02:00:0a:db:00:02 type bridge
    inside ip link set uplink master kube up
    inside ip address add "$node/24" dev kube
    # Pods find the API at its service's address too, with no proxy in between.
    inside ip address add "$service/32" dev kube
    inside ip link set kube up
}

cgroups() {
    local place
    if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
        sed 's/[^ ]*/+&/g' /sys/fs/cgroup/cgroup.controllers >/sys/fs/cgroup/cgroup.subtree_control
    fi
    # One of its own: a kubelet ends what is in kubepods and not its own.
    awk '$3 == "cgroup" || $3 == "cgroup2" { print $2 }' /proc/mounts | while read -r place; do
        mkdir -p "$place/$cgroup"
    done
    echo "$cgroup" >run/cgroup
}

configuration() {
    cat >cni/10-kube.conflist <<END
{"cniVersion": "0.4.0", "name": "kube", "plugins": [{"type": "bridge", "bridge": "kube", "isGateway": true,
  "ipam": {"type": "host-local", "routes": [{"dst": "0.0.0.0/0"}], "ranges": [[{"subnet": "$network.0/24",
    "rangeStart": "$network.10", "rangeEnd": "$network.250", "gateway": "$node"}]]}}]}
END
    cat >containerd.toml <<END
version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "$state/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "/var/lib/containerd-opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "docker.io/nemo-test/pause:1"
  disable_hugetlb_controller = true
  # Without CAP_SYS_RESOURCE no process may have less than containerd itself.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "$(snapshotter)"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$state/cni"
END
    cat >kubelet.yaml <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: $node
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $state/pki/ca.crt}}
authorization: {mode: Webhook}
cgroupDriver: cgroupfs
cgroupRoot: /$cgroup
# Nothing answers there; without one every pod has a warning.
clusterDNS: [10.96.0.10]
containerRuntimeEndpoint: unix://$state/containerd.sock
evictionHard: {memory.available: 100Mi, nodefs.available: "1%", imagefs.available: "1%"}
failSwapOn: false
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
makeIPTablesUtilChains: false
nodeLeaseDurationSeconds: 12
nodeStatusUpdateFrequency: 4s
resolvConf: ""
serializeImagePulls: false
volumePluginDir: /var/lib/kubelet-plugins
END
}

# An overlay cannot be put on another, where /tmp is a container's.
snapshotter() {
    mkdir -p host/try/{lower,upper,work,merged}
    if inside mount -t overlay overlay \
        -o "lowerdir=$state/host/try/lower,upperdir=$state/host/try/upper,workdir=$state/host/try/work" \
        "$state/host/try/merged" 2>/dev/null; then
        inside umount "$state/host/try/merged"
        echo overlayfs
    else
        echo native
    fi
}

# command_line COMPONENT WORD...: what component.sh starts it with, again and again.
command_line() {
    local name=$1
    shift
    {
        printf 'cd %q\necho $$ >run/%s.pid\nexec' "$state" "$name"
        printf ' %q' "$@"
        echo
    } >"run/$name.sh"
}

command_lines() {
    local bin client=http://127.0.0.1:2379
    bin=$(<run/bin)
    command_line etcd etcd --data-dir etcd/data --listen-peer-urls http://127.0.0.1:2380 \
        --listen-client-urls $client --advertise-client-urls $client
    # Without a grace period for watches it ends a minute after SIGTERM, with them.
    command_line apiserver "$bin/kube-apiserver" --etcd-servers=$client --secure-port=443 --advertise-address="$node" \
        --endpoint-reconciler-type=none --service-cluster-ip-range=10.96.0.0/16 --authorization-mode=RBAC \
        --allow-privileged=true --shutdown-watch-termination-grace-period=1s \
        --tls-cert-file=pki/apiserver.crt --tls-private-key-file=pki/apiserver.key \
        --client-ca-file=pki/ca.crt --kubelet-client-certificate=pki/admin.crt --kubelet-client-key=pki/admin.key \
        --kubelet-preferred-address-types=InternalIP --service-account-key-file=pki/sa.pub \
        --service-account-signing-key-file=pki/sa.key --service-account-issuer=https://kubernetes.default.svc
    command_line controller-manager "$bin/kube-controller-manager" --kubeconfig="$KUBECONFIG" --leader-elect=false \
        --use-service-account-credentials=true --service-account-private-key-file=pki/sa.key \
        --root-ca-file=pki/ca.crt --flex-volume-plugin-dir=/var/lib/kubelet-plugins \
        --node-monitor-period=2s --node-monitor-grace-period=20s
    command_line scheduler "$bin/kube-scheduler" --kubeconfig="$KUBECONFIG" --leader-elect=false
    command_line containerd containerd --config containerd.toml
    command_line kubelet "$bin/kubelet" --kubeconfig="$KUBECONFIG" --config=kubelet.yaml --hostname-override=node1 \
        --node-ip="$node"
}

import_images() {
    (cd "$here/../.." && python3 -m tests.kube.images) >images.tar
    containers images import images.tar >/dev/null
    rm images.tar
}

[[ $number =~ ^[0-9]+$ && $number -le 255 ]] || fail "KUBE_NUMBER=$number is none of 0 to 255."
need_root
requirements
bin=$("$here/build.sh")
# Another kube-up of this folder is waited for. What is started must not keep the lock, which is descriptor 9.
mkdir -p "$(dirname "$state")"
exec 9<"$(dirname "$state")"
flock 9
if alive && [ -e "$state/run/up" ]; then
    echo "$KUBECONFIG"
    exit
fi
"$here/down.sh"
[ ! -e "/sys/class/net/$link" ] ||
    fail "There is a cluster of number $number on this machine (network link $link); choose another KUBE_NUMBER."
mkdir -p "$state"/{run,logs,pki,cni,volumes}
cd "$state"
echo "$bin" >run/bin
trap '[ -e "$state/run/up" ] || { tail -n 10 "$state"/logs/*.log >&2 || true; "$here/down.sh"; }' EXIT
certificates >/dev/null
namespaces
bridge
cgroups
configuration
command_lines
start etcd
start containerd
wait_for etcd
start apiserver
wait_for containerd
import_images
wait_for apiserver
for each in controller-manager scheduler kubelet; do start "$each"; done
for each in controller-manager scheduler kubelet; do wait_for "$each"; done
echo "$gpus" >run/gpus
advertise_gpus
until_ok 60 kubectl --namespace default get serviceaccount default || fail "There is no default service account."
touch run/up
echo "$KUBECONFIG"
