# The first process of a cluster's namespaces: it makes them the cluster's own, and ends with everything in them.
# shellcheck shell=bash
set -euo pipefail
state=$1
# /proc is still the host's, and so is the number that it tells.
read -r pid _ </proc/self/stat
mount -t proc proc /proc
# What kubelet, containerd and CNI plugins keep in fixed places. Another cluster's, or the host's, stay untouched.
for place in /var/lib /var/log /run; do
    mkdir -p "$state/host$place"
    mount --bind "$state/host$place" "$place"
done
# A slow disk would make etcd lose its leadership.
mkdir "$state/etcd"
mount -t tmpfs -o mode=700 tmpfs "$state/etcd"
# Kubelet would set them for the whole machine, for good; as they read here it finds them set.
sysctls=(vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1
    kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000)
for each in "${sysctls[@]}"; do
    file=$state/host/sysctl/${each%=*}
    mkdir -p "${file%/*}"
    echo "${each#*=}" >"$file"
    mount --bind "$file" "/proc/sys/${each%=*}"
done
echo 1 >/proc/sys/net/ipv4/ip_forward
ip link set lo up
echo "$pid $(readlink /proc/self/ns/pid)" >"$state/run/init.new"
mv "$state/run/init.new" "$state/run/init"
# Bash takes note of the end of orphans, which `exec sleep` would not.
sleep infinity &
wait
