#!/usr/bin/env bash
# Builds Kubernetes' programs from its Go module, once, and prints their folder: KUBE_BIN, or one in the user's cache.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
version=$(sed -n 's/^require k8s.io\/kubernetes v//p' "$here/go.mod.in")
bin=${KUBE_BIN:-${XDG_CACHE_HOME:-$HOME/.cache}/nemo-airflow-provider/kube/v$version}
programs=(kube-apiserver kube-controller-manager kube-scheduler kubelet kubectl)

built() {
    local program
    for program in "${programs[@]}"; do [ -x "$bin/$program" ] || return 1; done
}

# Two builds at once would take twice as long and twice the memory.
mkdir -p "$(dirname "$bin")"
exec 9>"$bin.lock"
flock 9
if built; then
    echo "$bin"
    exit
fi

PATH=$PATH:/usr/local/go/bin
if ! go version 2>/dev/null | grep -Eq ' go1\.(2[4-9]|[3-9][0-9])'; then
    echo "Kubernetes $version is built with Go 1.24 or newer, which is neither on PATH nor in /usr/local/go/bin:" \
        "install it from https://go.dev/dl, or set KUBE_BIN to a folder with ${programs[*]}." >&2
    exit 1
fi
echo "Building Kubernetes $version into $bin; that takes 5 to 10 minutes, once …" >&2
work=$(mktemp -d)
trap 'rm -rf "$work" "$bin.new"' EXIT
rm -rf "$bin.new"
mkdir "$bin.new"
cd "$work"
cp "$here/go.mod.in" go.mod
# Without cgo no C compiler is needed.
export GOFLAGS="-mod=mod -buildvcs=false" CGO_ENABLED=0
source_folder=$(go mod download -json "k8s.io/kubernetes@v$version" | sed -n 's/.*"Dir": "\(.*\)",/\1/p')
# Its own go.mod has k8s.io/api and such as v0.0.0, folders beside it; as modules they are v0.<minor>.<patch>.
sed -nE 's/^\s+(k8s\.io\/[a-z-]+) v0\.0\.0( .*)?$/\1/p' "$source_folder/go.mod" | sort -u |
    while read -r module; do echo "replace $module => $module v0.${version#1.}"; done >>go.mod
stamp=k8s.io/component-base/version
IFS=. read -r major minor _ <<<"$version"
go build -trimpath \
    -ldflags "-s -w -X $stamp.gitVersion=v$version -X $stamp.gitMajor=$major -X $stamp.gitMinor=$minor" \
    -o "$bin.new/" "${programs[@]/#/k8s.io/kubernetes/cmd/}" >&2
mkdir -p "$bin"
mv "$bin.new"/* "$bin/"
echo "$bin"
