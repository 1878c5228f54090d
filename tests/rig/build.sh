# What cluster.sh needs before it can start anything: programs and images; sourced, not run.
# Uses HERE, TOOLS, CACHE and KUBE_VERSION of cluster.sh.

# The programs of level node that come from Debian, each with its package. They are few, and
# containerd and runc cannot be built without C.
NODE_PROGRAMS="containerd=containerd runc=runc nft=nftables conntrack=conntrack ip=iproute2"

key() { # FILE...: one cache folder per pinned dependency set and Go version
    printf '%s' "$(cat "$@" | sha256sum | cut -c1-12)-$(GOTOOLCHAIN=local go env GOVERSION)"
}
need_go() { # FOLDER: its go.mod says which
    command -v go >/dev/null || die "go is missing: install Go $(sed -n 's/^go //p' "$1/go.mod") or newer${2:-}"
}
lock() { # FOLDER: one build at a time in it, until unlock
    mkdir -p "$1"
    exec 9>"$1/.lock"; flock 9
}
unlock() { flock -u 9; exec 9>&-; }
go_build() { # MODULE OUT FLAG... -- NAME=PACKAGE...: those that OUT lacks
    local module=$1 out=$2 flags=() t0 p missing=(); shift 2
    while [[ $1 != -- ]]; do flags+=("$1"); shift; done; shift
    for p in "$@"; do [[ -x $out/${p%%=*} ]] || missing+=("$p"); done
    ((${#missing[@]})) || return 0
    [[ ${CLUSTER_NO_BUILD:-0} != 1 ]] || die "${missing[*]%%=*} not built in $out: run \`cargo verify\` (it builds them once)"
    t0=$(now)
    rm -rf "$out/.out"; mkdir "$out/.out"
    # The environment and -trimpath are the same for all, else they would not share Go's build cache.
    (cd "$module" && GOTOOLCHAIN=local GOFLAGS=-buildvcs=false CGO_ENABLED=0 go build -trimpath "${flags[@]}" -o "$out/.out/" "${missing[@]#*=}")
    [[ ! -e $out/.out/server ]] || mv "$out/.out/server" "$out/.out/etcd"
    mv "$out/.out"/* "$out/"; rmdir "$out/.out"
    say "built $(printf '%s ' "${missing[@]%%=*}")in $(since "$t0")"
}
build() { # api|control|node: BIN is the folder then, NODE_ROOT that of the Debian programs
    local level=${1:-node} t0 p
    local want="etcd=go.etcd.io/etcd/server/v3 kube-apiserver=k8s.io/kubernetes/cmd/kube-apiserver kubectl=k8s.io/kubernetes/cmd/kubectl"
    case $level in control|node) want+=" kube-controller-manager=k8s.io/kubernetes/cmd/kube-controller-manager kube-scheduler=k8s.io/kubernetes/cmd/kube-scheduler" ;; esac
    case $level in node) want+=" kubelet=k8s.io/kubernetes/cmd/kubelet kube-proxy=k8s.io/kubernetes/cmd/kube-proxy coredns=./cmd/coredns" ;; esac
    NODE_ROOT=
    if [[ -n ${KUBEBUILDER_ASSETS:-} ]]; then
        BIN=$KUBEBUILDER_ASSETS
        for p in $want; do [[ -x $BIN/${p%%=*} ]] || die "${p%%=*} is missing in KUBEBUILDER_ASSETS=$BIN: put it there, or unset the variable to build it"; done
        [[ $level != node ]] || die "level node needs the images that only a build makes: unset KUBEBUILDER_ASSETS"
        return 0
    fi
    [[ $level != node ]] || debian
    need_go "$TOOLS" ", or set KUBEBUILDER_ASSETS"
    BIN=$CACHE/$(key "$TOOLS"/go.{mod,sum} "$TOOLS"/cmd/*/*.go "$TOOLS/pause.c")
    lock "$BIN"
    local v=k8s.io/component-base/version
    # shellcheck disable=SC2086
    go_build "$TOOLS" "$BIN" -ldflags "-s -w -X $v.gitVersion=$KUBE_VERSION -X $v.gitMajor=1 -X $v.gitMinor=37 -X $v.gitTreeState=clean -X $v.gitCommit=0 -X $v.buildDate=2026-01-01T00:00:00Z" -- $want
    if [[ $level == node && ! -e $BIN/coredns.tar ]]; then
        t0=$(now)
        local r=$BIN/.root
        rm -rf "$r"; mkdir -p "$r"
        gcc -static -Os -s -o "$r/pause" "$TOOLS/pause.c"
        image rig.local/pause:1 "$r" "$BIN/pause.tar" '{"Entrypoint":["/pause"]}'
        rm "$r/pause"; cp "$BIN/coredns" "$r/"
        image rig.local/coredns:1 "$r" "$BIN/coredns.tar" '{"Entrypoint":["/coredns"]}'
        rm -rf "$r"
        say "packed the pause and coredns images in $(since "$t0")"
    fi
    unlock
}
build_beside() { # helm|prometheus: a module and a cache folder of its own, PROGRAM is the path then
    local name=$1 module=$HERE/$1 out flags=(-ldflags "-s -w") packages
    case $name in
    # What it says of itself is only the minor version otherwise.
    helm) flags=(-ldflags "-s -w -X helm.sh/helm/v4/internal/version.version=$(awk '$1 == "helm.sh/helm/v4" {print $2}' "$module/go.mod")")
        packages="helm=helm.sh/helm/v4/cmd/helm" ;;
    # Without the clients of every cloud: targets come from files here.
    prometheus) flags+=(-tags remove_all_sd)
        packages="prometheus=github.com/prometheus/prometheus/cmd/prometheus promtool=github.com/prometheus/prometheus/cmd/promtool" ;;
    esac
    need_go "$module"
    out=$CACHE/$name-$(key "$module"/go.{mod,sum})
    lock "$out"
    # shellcheck disable=SC2086
    go_build "$module" "$out" "${flags[@]}" -- $packages
    unlock
    PROGRAM=$out/$name
}

# ---- Debian -----------------------------------------------------------------
# What the machine lacks is unpacked into the cache and found by PATH; nothing is installed.
debian_missing() { # PROGRAM=PACKAGE, a line each
    local p
    for p in $NODE_PROGRAMS; do command -v "${p%%=*}" >/dev/null || echo "$p"; done
    [[ -n $(cni /usr/lib/cni /opt/cni/bin) ]] || echo "CNI plugins=containernetworking-plugins"
}
debian() {
    local p packages missing t0 dir
    mapfile -t packages < <(debian_missing)
    ((${#packages[@]})) || return 0
    missing=$(printf '%s, ' "${packages[@]%%=*}"); packages=("${packages[@]#*=}")
    dir=$CACHE/debian-$(printf '%s\n' "${packages[@]}" "$(dpkg --print-architecture 2>/dev/null)" "$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)" | sha256sum | cut -c1-12)
    NODE_ROOT=$dir/root
    lock "$dir"
    # Unpacked on another machine it may lack a library here.
    if [[ ! -e $dir/done ]] || unresolved "$NODE_ROOT" >/dev/null; then
        local remedy="level node needs ${missing%, }: apt-get install --no-install-recommends ${packages[*]}"
        [[ ${CLUSTER_NO_BUILD:-0} != 1 ]] || die "$remedy, or run \`cluster.sh build node\`, which unpacks them into the cache"
        command -v apt-get >/dev/null && command -v dpkg >/dev/null || die "$remedy (or what your system calls them)"
        t0=$(now)
        rm -rf "$dir/apt" "$dir/root" "$dir/done"; mkdir -p "$dir/apt" "$NODE_ROOT"
        download "$dir/apt" "${packages[@]}" >"$dir/log" 2>&1 || die "$remedy (they cannot be downloaded: $(tail -n1 "$dir/log"))"
        for p in "$dir"/apt/archives/*.deb; do dpkg -x "$p" "$NODE_ROOT"; done
        rm -rf "$dir/apt"
        ! p=$(unresolved "$NODE_ROOT") || die "$remedy (unpacked into $NODE_ROOT they lack libraries: $p)"
        touch "$dir/done"
        say "unpacked ${packages[*]} in $(since "$t0")"
    fi
    unlock
}
download() { # CACHE PACKAGE...: with what they depend on and the machine lacks
    local d=$1 o; shift
    o=(-o "Dir::Cache=$d" -o APT::Sandbox::User=root -o Debug::NoLocking=1)
    # The machine's package lists may be missing or old: then lists of our own, fetched once.
    apt-get install -y --download-only --no-install-recommends --no-upgrade "${o[@]}" "$@" && return 0
    mkdir -p "$d/lists/partial"
    o+=(-o "Dir::State::lists=$d/lists")
    apt-get update "${o[@]}" && apt-get install -y --download-only --no-install-recommends --no-upgrade "${o[@]}" "$@"
}
unresolved() { # ROOT: the libraries that its programs do not find; false when there are none
    local found
    found=$(LD_LIBRARY_PATH=$(libraries "$1") ldd "$1"/usr/bin/containerd "$1"/usr/sbin/{runc,nft,conntrack} 2>/dev/null | sed -n 's/^[[:space:]]*\(.*\) => not found/\1/p' | sort -u | tr '\n' ' ')
    [[ -n $found ]] && printf '%s\n' "$found"
}
libraries() { local l; for l in "$1"/usr/lib/*-linux-gnu*; do [[ ! -d $l ]] || printf '%s:' "$l"; done; } # ROOT
cni() { local d; for d in "$@"; do [[ ! -x $d/bridge || ! -x $d/host-local ]] || { printf '%s' "$d"; return; }; done; } # FOLDER...
node_path() { # what comes from NODE_ROOT is found by name, with its libraries
    CNI_BIN=$(cni ${NODE_ROOT:+"$NODE_ROOT/usr/lib/cni"} /usr/lib/cni /opt/cni/bin)
    [[ -n ${NODE_ROOT:-} ]] || return 0
    PATH=$PATH:$NODE_ROOT/usr/sbin:$NODE_ROOT/usr/bin
    LD_LIBRARY_PATH=$(libraries "$NODE_ROOT")${LD_LIBRARY_PATH:-}
    LD_LIBRARY_PATH=${LD_LIBRARY_PATH%:}
    export PATH LD_LIBRARY_PATH
}

# ---- images -----------------------------------------------------------------
image() { # NAME ROOTFS OUT.tar [CONFIG]: an OCI image layout in a tar, for `ctr images import`
    local name=$1 root=$2 out=$3 config=${4:-\{\}} d arch
    case $(uname -m) in x86_64) arch=amd64 ;; aarch64) arch=arm64 ;; *) arch=$(uname -m) ;; esac
    d=$(mktemp -d); mkdir -p "$d/blobs/sha256"
    # Readable by any user, whatever umask the folder was made under.
    tar -C "$root" --sort=name --mode=u+rwX,go+rX,go-w --mtime=@0 --owner=0 --group=0 --numeric-owner -cf "$d/layer" .
    put() { local s; s=$(sha256sum "$1" | cut -d' ' -f1); mv "$1" "$d/blobs/sha256/$s"; echo "$s"; }
    local ls cs ms size
    size=$(stat -c %s "$d/layer"); ls=$(put "$d/layer")
    printf '{"architecture":"%s","os":"linux","config":%s,"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' \
        "$arch" "$config" "$ls" >"$d/config"
    local csize; csize=$(stat -c %s "$d/config"); cs=$(put "$d/config")
    printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"sha256:%s","size":%d},"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar","digest":"sha256:%s","size":%d}]}' \
        "$cs" "$csize" "$ls" "$size" >"$d/manifest"
    local msize; msize=$(stat -c %s "$d/manifest"); ms=$(put "$d/manifest")
    printf '{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"sha256:%s","size":%d,"annotations":{"io.containerd.image.name":"%s","org.opencontainers.image.ref.name":"%s"},"platform":{"architecture":"%s","os":"linux"}}]}' \
        "$ms" "$msize" "$name" "${name##*:}" "$arch" >"$d/index.json"
    printf '{"imageLayoutVersion":"1.0.0"}' >"$d/oci-layout"
    tar -C "$d" --mtime=@0 --owner=0 --group=0 --numeric-owner -cf "$out.part" oci-layout index.json blobs
    mv "$out.part" "$out"; rm -rf "$d"
}
