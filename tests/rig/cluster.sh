#!/usr/bin/env bash
# A real Kubernetes for tests, from source, without Docker, images or internet.
#
#   cluster.sh build [api|control|node]           build what is missing into the cache
#   cluster.sh build helm|prometheus              the same; prints the path of the program
#   cluster.sh obstacle                           says why no node can run here, or nothing
#   cluster.sh up api|control|node STATE          api: etcd + kube-apiserver on loopback
#                                                 control: + controller-manager, scheduler
#                                                 node: the same + containerd, kubelet,
#                                                 kube-proxy, CoreDNS in namespaces of its own
#   cluster.sh status STATE | down STATE [--keep-data]
#   cluster.sh run STATE COMMAND...               with KUBECONFIG and PATH set; in the
#                                                 cluster's network namespace at level node
#   cluster.sh stop|kill|start|restart STATE COMPONENT
#   cluster.sh expire STATE                       watches and list tokens so far get 410
#   cluster.sh image NAME ROOTFS OUT.tar [CONFIG] pack a folder as an OCI image, no daemon;
#                                                 CONFIG is the image's, as JSON
#   cluster.sh load STATE OUT.tar                 import it into the node's containerd
#
# CLUSTER_CACHE (default ~/.cache/hangar/tools) holds the built programs.
# CLUSTER_NO_BUILD=1 makes a missing program an error instead of a build.
# Level node takes containerd, runc, nftables, conntrack, iproute2 and the CNI plugins from
# the machine, or unpacks Debian's into the cache where one is missing.
# KUBEBUILDER_ASSETS, when set, is where the programs are; nothing is built then.
set -euo pipefail
umask 022
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
TOOLS=${CLUSTER_TOOLS:-$HERE/tools}
CACHE=${CLUSTER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hangar/tools}
KUBE_VERSION=v1.37.2
PATH=$PATH:/usr/sbin:/sbin

say() { printf '%s\n' "cluster: $*" >&2; }
die() { say "$*"; exit 1; }
now() { date +%s%N; }
since() { local d=$(( ($(now) - $1) / 10000000 )); printf '%d.%02ds' $((d / 100)) $((d % 100)); }

# ---- processes --------------------------------------------------------------
# At level node everything runs in a sandbox: mount, network, PID, IPC and UTS
# namespaces under one init; when that init dies the kernel ends the rest.
rig() { # run in the sandbox, or here
    if [[ $LEVEL == node ]]; then nsenter -t "$(cat "$STATE/pid/sandbox")" -m -n -p -i -u -- "$@"; else "$@"; fi
}
sandbox_alive() { [[ -s $STATE/pid/sandbox ]] && [[ $(tr '\0' ' ' <"/proc/$(cat "$STATE/pid/sandbox")/cmdline" 2>/dev/null) == *"$STATE/sandbox.sh"* ]]; }
alive() { # COMPONENT
    [[ -s $STATE/pid/$1 ]] || return 1
    [[ $LEVEL != node ]] || sandbox_alive || return 1
    local exe; exe=$(rig readlink "/proc/$(cat "$STATE/pid/$1")/exe" 2>/dev/null) || return 1
    [[ ${exe##*/} == "$1" ]]
}
spawn() { # COMPONENT PROGRAM ARGS...
    local name=$1; shift
    printf '%s\n' "--- $(date -u +%FT%TZ) $*" >>"$STATE/log/$name.log"
    rm -f "$STATE/pid/$name"
    # The shell writes its own pid (of its own PID namespace) and becomes the program.
    rig setsid sh -c 'echo $$ >"$1.part"; mv "$1.part" "$1"; shift; exec "$@"' sh "$STATE/pid/$name" "$@" \
        >>"$STATE/log/$name.log" 2>&1 </dev/null &
    disown
    until [[ -s $STATE/pid/$name ]]; do sleep 0.01; done
}
halt() { # COMPONENT [SIGNAL] [SECONDS]
    alive "$1" || { rm -f "$STATE/pid/$1"; return 0; }
    local pid n=0; pid=$(cat "$STATE/pid/$1")
    rig sh -c "kill -${2:-TERM} $pid" || true
    while alive "$1"; do
        if (( n++ > ${3:-15} * 20 )); then rig sh -c "kill -KILL $pid" || true; fi
        sleep 0.05
    done
    # Its listening socket lives until the last thread is gone: wait for that too.
    for ((n = 0; n < 60; n++)); do rig test -e "/proc/$pid" || break; sleep 0.05; done
    rm -f "$STATE/pid/$1"
}
wait_for() { # WHAT SECONDS COMMAND...
    local what=$1 limit=$2 t0; shift 2; t0=$SECONDS
    until "$@" >/dev/null 2>&1; do
        if [[ -e $STATE/pid/$what ]] && ! alive "$what"; then say "$what ended: $(tail -n1 "$STATE/log/$what.log")"; return 1; fi
        (( SECONDS - t0 < limit )) || { say "$what is not ready after ${limit}s; logs are in $STATE/log"; return 1; }
        sleep 0.1
    done
}

# ---- state ------------------------------------------------------------------
free_port() {
    local p
    while :; do
        p=$((20000 + RANDOM % 12000))
        [[ " ${USED_PORTS:-} " == *" $p "* ]] || ss -Htan "sport = :$p" | grep -q . || break
    done
    USED_PORTS+=" $p"; PORT=$p
}
cert() { # NAME SUBJECT [SANS]
    local d=$STATE/pki
    openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$d/$1.key" -subj "$2" -out "$d/$1.csr" 2>/dev/null
    openssl x509 -req -in "$d/$1.csr" -CA "$d/ca.crt" -CAkey "$d/ca.key" -CAcreateserial -days 3650 -out "$d/$1.crt" \
        -extfile <(printf 'keyUsage=digitalSignature\nextendedKeyUsage=serverAuth,clientAuth\n%s' "${3:+subjectAltName=$3}") 2>/dev/null
    rm "$d/$1.csr"
}
kubeconfig() { # NAME
    cat >"$STATE/kubeconfig/$1" <<Y
apiVersion: v1
kind: Config
clusters: [{name: rig, cluster: {server: "https://$ADDR:$API_PORT", certificate-authority: $STATE/pki/ca.crt}}]
users: [{name: $1, user: {client-certificate: $STATE/pki/$1.crt, client-key: $STATE/pki/$1.key}}]
contexts: [{name: rig, context: {cluster: rig, user: $1, namespace: default}}]
current-context: rig
Y
}
prepare() {
    mkdir -p "$STATE"/{pki,kubeconfig,log,pid,etcd,node}
    chmod 700 "$STATE/pki"
    if [[ $LEVEL == node ]]; then
        ADDR=10.99.0.1 API_PORT=6443 ETCD_PORT=2379 PEER_PORT=2380
    else
        ADDR=127.0.0.1
        free_port; API_PORT=$PORT; free_port; ETCD_PORT=$PORT; free_port; PEER_PORT=$PORT
    fi
    local d=$STATE/pki
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj /CN=rig-ca -keyout "$d/ca.key" -out "$d/ca.crt" 2>/dev/null
    openssl genrsa -out "$d/sa.key" 2048 2>/dev/null; openssl rsa -in "$d/sa.key" -pubout -out "$d/sa.pub" 2>/dev/null
    cert apiserver /CN=kube-apiserver "IP:127.0.0.1,IP:$ADDR,IP:10.96.0.1,DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local"
    cert admin /O=system:masters/CN=admin
    cert kube-controller-manager /CN=system:kube-controller-manager
    cert kube-scheduler /CN=system:kube-scheduler
    if [[ $LEVEL == node ]]; then
        cert kubelet "/O=system:nodes/CN=system:node:node1" "IP:$ADDR,DNS:node1"
        cert kube-proxy /CN=system:kube-proxy
        cert kubelet-client /O=system:masters/CN=kube-apiserver-kubelet-client
    fi
    ADMIN_TOKEN=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
    (umask 077; printf '%s,admin,admin,"system:masters"\n' "$ADMIN_TOKEN" >"$d/tokens.csv")
    local n; for n in admin kube-controller-manager kube-scheduler kubelet kube-proxy; do [[ ! -e $d/$n.key ]] || kubeconfig "$n"; done
    printf '%s=%s\n' LEVEL "$LEVEL" ADDR "$ADDR" API_PORT "$API_PORT" ETCD_PORT "$ETCD_PORT" PEER_PORT "$PEER_PORT" ADMIN_TOKEN "$ADMIN_TOKEN" BIN "$BIN" NODE_ROOT "$NODE_ROOT" >"$STATE/env.part"
    mv "$STATE/env.part" "$STATE/env"
}
state() { # STATE: load it
    STATE=$(realpath -m "$1")
    [[ -e $STATE/env ]] || die "no cluster in $STATE"
    . "$STATE/env"
    [[ $LEVEL != node ]] || node_path
}

# ---- components -------------------------------------------------------------
start() {
    alive "$1" && return 0
    local p=$STATE/pki
    case $1 in
    etcd)
        spawn etcd "$BIN/etcd" --name=rig --data-dir="$STATE/etcd" --unsafe-no-fsync --log-level=warn \
            --listen-client-urls="http://127.0.0.1:$ETCD_PORT" --advertise-client-urls="http://127.0.0.1:$ETCD_PORT" \
            --listen-peer-urls="http://127.0.0.1:$PEER_PORT" --initial-advertise-peer-urls="http://127.0.0.1:$PEER_PORT" \
            --initial-cluster="rig=http://127.0.0.1:$PEER_PORT"
        wait_for etcd 30 rig curl -sf "http://127.0.0.1:$ETCD_PORT/health" ;;
    kube-apiserver)
        local a=(--authorization-mode=RBAC --endpoint-reconciler-type=none)
        [[ $LEVEL != api ]] || a+=(--disable-admission-plugins=ServiceAccount)
        [[ $LEVEL != node ]] || a=(--authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction
            --kubelet-client-certificate="$p/kubelet-client.crt" --kubelet-client-key="$p/kubelet-client.key"
            --kubelet-certificate-authority="$p/ca.crt" --kubelet-preferred-address-types=InternalIP)
        spawn kube-apiserver "$BIN/kube-apiserver" --etcd-servers="http://127.0.0.1:$ETCD_PORT" \
            --bind-address="$([[ $LEVEL == node ]] && echo 0.0.0.0 || echo 127.0.0.1)" --advertise-address="$ADDR" --secure-port="$API_PORT" \
            --tls-cert-file="$p/apiserver.crt" --tls-private-key-file="$p/apiserver.key" --client-ca-file="$p/ca.crt" \
            --token-auth-file="$p/tokens.csv" --service-cluster-ip-range=10.96.0.0/16 --allow-privileged=true --profiling=false \
            --service-account-issuer=https://kubernetes.default.svc.cluster.local \
            --service-account-key-file="$p/sa.pub" --service-account-signing-key-file="$p/sa.key" "${a[@]}"
        wait_for kube-apiserver 90 rig curl -sf --cacert "$p/ca.crt" "https://$ADDR:$API_PORT/readyz" ;;
    kube-controller-manager)
        spawn kube-controller-manager "$BIN/kube-controller-manager" --kubeconfig="$STATE/kubeconfig/kube-controller-manager" \
            --use-service-account-credentials --service-account-private-key-file="$p/sa.key" --root-ca-file="$p/ca.crt" \
            --cluster-signing-cert-file="$p/ca.crt" --cluster-signing-key-file="$p/ca.key" \
            --flex-volume-plugin-dir="$STATE/node/flex" --leader-elect=false --secure-port=0 --profiling=false ;;
    kube-scheduler)
        spawn kube-scheduler "$BIN/kube-scheduler" --kubeconfig="$STATE/kubeconfig/kube-scheduler" --leader-elect=false --secure-port=0 --profiling=false ;;
    containerd)
        spawn containerd containerd --config "$STATE/node/containerd.toml"
        wait_for containerd 30 rig ctr version ;;
    kubelet)
        spawn kubelet "$BIN/kubelet" --config="$STATE/node/kubelet.yaml" --kubeconfig="$STATE/kubeconfig/kubelet" \
            --hostname-override=node1 --node-ip="$ADDR" --root-dir=/var/lib/kubelet --cert-dir=/var/lib/kubelet/pki
        # One that loses containerd while it starts would end, and nobody starts it again.
        wait_for kubelet 60 rig curl -sf http://127.0.0.1:10248/healthz ;;
    kube-proxy)
        spawn kube-proxy "$BIN/kube-proxy" --config="$STATE/node/kube-proxy.yaml" ;;
    *) die "no component $1" ;;
    esac
}
components() {
    case $LEVEL in
    api) echo etcd kube-apiserver ;;
    control) echo etcd kube-apiserver kube-controller-manager kube-scheduler ;;
    node) echo etcd kube-apiserver kube-controller-manager kube-scheduler containerd kubelet kube-proxy ;;
    esac
}

. "$HERE/build.sh"
. "$HERE/node.sh"

# ---- commands ---------------------------------------------------------------
up() {
    local level=$1 t0 t1 c; t0=$(now)
    STATE=$(realpath -m "$2")
    [[ $level =~ ^(api|control|node)$ ]] || die "level: api, control or node"
    [[ $level != node || -z $(node_obstacle) ]] || die "$(node_obstacle)"
    case $STATE/ in /run/* | /var/lib/* | /var/log/* | /proc/* | /sys/*) die "the state folder cannot lie in ${STATE%/*}: the sandbox hides it" ;; esac
    build "$level"
    if [[ -e $STATE/env ]]; then
        . "$STATE/env"
        [[ $LEVEL == "$level" ]] || die "$STATE is at level $LEVEL: down first"
    else
        LEVEL=$level; mkdir -p "$STATE"; prepare
    fi
    CGROUP=/rig-$(printf '%s' "$STATE" | sha256sum | cut -c1-8)
    if [[ $LEVEL == node ]]; then node_path; node_files; cgroups make; sandbox; fi
    for c in $(components); do
        t1=$(now)
        if ! alive "$c"; then start "$c"; say "$c up in $(since "$t1")"; fi
        if [[ $c == containerd ]]; then
            t1=$(now)
            for i in pause coredns; do rig ctr -n k8s.io images import "$BIN/$i.tar" >/dev/null; done
            say "images loaded in $(since "$t1")"
        fi
    done
    export KUBECONFIG=$STATE/kubeconfig/admin
    t1=$(now)
    wait_for "namespace default" 60 rig "$BIN/kubectl" get namespace default kube-system
    if [[ $LEVEL != api ]]; then wait_for "service account default" 60 rig "$BIN/kubectl" -n default get serviceaccount default; fi
    if [[ $LEVEL == node ]]; then
        wait_for "node" 90 rig "$BIN/kubectl" wait --for=condition=Ready node/node1 --timeout=1s
        say "node Ready $(since "$t1") later"; t1=$(now)
        rig "$BIN/kubectl" apply -f "$STATE/node/coredns.yaml" >/dev/null
        wait_for "CoreDNS" 90 rig "$BIN/kubectl" -n kube-system rollout status deployment/coredns --timeout=5s
        say "CoreDNS Ready $(since "$t1") later"
    fi
    say "level $LEVEL up in $(since "$t0"): KUBECONFIG=$KUBECONFIG"
}
down() {
    local c r=() keep=${2:-}
    STATE=$(realpath -m "$1")
    [[ -e $STATE/env ]] || { say "no cluster in $STATE"; return 0; }
    . "$STATE/env"
    CGROUP=/rig-$(printf '%s' "$STATE" | sha256sum | cut -c1-8)
    if [[ $LEVEL == node ]]; then
        if sandbox_alive; then
            local init; init=$(cat "$STATE/pid/sandbox")
            [[ $keep != --keep-data ]] || for c in kube-apiserver etcd; do halt "$c" TERM 5; done
            kill -KILL "$init"
            while [[ -e /proc/$init ]]; do sleep 0.05; done
        fi
        cgroups remove
    else
        for c in $(components); do r=("$c" "${r[@]}"); done
        for c in "${r[@]}"; do halt "$c" "$([[ $keep == --keep-data ]] && echo TERM || echo KILL)" 5; done
    fi
    if [[ $keep == --keep-data ]]; then rm -f "$STATE"/pid/*; else rm -rf "$STATE"; fi
    say "down"
}
status() {
    state "$1"
    local c pid rc=0
    printf 'level %s, api https://%s:%s, kubeconfig %s\n' "$LEVEL" "$ADDR" "$API_PORT" "$STATE/kubeconfig/admin"
    for c in $(components); do
        if alive "$c"; then
            pid=$(cat "$STATE/pid/$c")
            printf '%-24s pid %-6s rss %s MiB\n' "$c" "$pid" "$(rig awk '/VmRSS/{print int($2/1024)}' "/proc/$pid/status")"
        else printf '%-24s down\n' "$c"; rc=1; fi
    done
    return $rc
}
expire() { # compact etcd at its newest revision, and give the API server a new watch cache
    local rev
    rev=$(rig curl -sf -X POST "http://127.0.0.1:$ETCD_PORT/v3/maintenance/status" -d '{}' | grep -o '"revision":"[0-9]*"' | head -1 | grep -o '[0-9]*')
    rig curl -sf -X POST "http://127.0.0.1:$ETCD_PORT/v3/kv/compaction" -d "{\"revision\":\"$rev\",\"physical\":true}" >/dev/null
    halt kube-apiserver KILL
    start kube-apiserver
    say "compacted at $rev"
}

main() { # one function, so that the file can be changed while it runs
local cmd=${1:-help}; shift || true
case $cmd in
build) case ${1:-node} in
    api|control|node) build "${1:-node}"; echo "$BIN" ;;
    helm|prometheus) build_beside "$1"; echo "$PROGRAM" ;;
    *) die "build what: api, control, node, helm or prometheus" ;;
    esac ;;
obstacle) node_obstacle ;;
up) up "$1" "$2" ;;
down) down "$@" ;;
status) status "$1" ;;
run) state "$1"; shift; export KUBECONFIG=$STATE/kubeconfig/admin PATH=$BIN:$PATH
    if [[ $LEVEL == node ]]; then exec nsenter -t "$(cat "$STATE/pid/sandbox")" -n -- "$@"; else exec "$@"; fi ;;
stop) state "$1"; halt "$2" TERM 3 ;;  # an API server with open watches would take 60 s
kill) state "$1"; halt "$2" KILL ;;
start) state "$1"; start "$2" ;;
restart) state "$1"; halt "$2" KILL; start "$2" ;;
expire) state "$1"; expire ;;
image) image "$@" ;;
load) state "$1"; [[ $LEVEL == node ]] || die "only at level node"; rig ctr -n k8s.io images import "$(realpath "$2")" ;;
*) sed -n '2,27s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
esac
}
main "$@"; exit
