# Level node of cluster.sh: its files, its sandbox and its cgroups; sourced, not run.
# Uses STATE, ADDR and CGROUP of cluster.sh, CNI_BIN of build.sh.
node_files() {
    local n=$STATE/node p=$STATE/pki
    mkdir -p "$n"/{cni,kubelet,containerd}
    : >"$n/resolv.conf"
    cat >"$STATE/sandbox.sh" <<'S'
# init of the sandbox: private mounts, loopback and one veth pair, then wait and reap
set -e
STATE=$1 ADDR=$2
mount --make-rprivate /
mkdir -p /run/rig-old && mount --bind "$STATE" /run/rig-old
mount -t tmpfs -o mode=755 tmpfs /var/lib
mkdir -p /var/lib/kubelet /var/lib/containerd /var/lib/cni
mount --bind /run/rig-old/node/kubelet /var/lib/kubelet
mount --bind /run/rig-old/node/containerd /var/lib/containerd
umount /run/rig-old && rmdir /run/rig-old
mount -t tmpfs -o mode=755 tmpfs /run
mount -t tmpfs -o mode=755 tmpfs /var/log
mkdir -p /run/lock /run/netns
# The kubelet insists on these three settings, which are the whole machine's: show
# it the values that it wants to read instead of letting it write them.
mkdir /run/sysctl
for kv in vm/overcommit_memory=1 kernel/panic=10 kernel/panic_on_oops=1; do
    f=/run/sysctl/${kv#*/}; f=${f%=*}
    echo "${kv#*=}" >"$f"
    mount --bind "$f" "/proc/sys/${kv%=*}"
done
mount --make-rshared /
hostname node1
ip link set lo up
ip link add node0 type veth peer name node0p
ip addr add "$ADDR/24" dev node0
ip link set node0p up; ip link set node0 up
ip route add default dev node0
echo 1 >/proc/sys/net/ipv4/ip_forward
# Not in every kernel; where it is, answers of a pod on the same bridge need it.
f=/proc/sys/net/bridge/bridge-nf-call-iptables
[ ! -e $f ] || echo 1 >$f
touch "$STATE/pid/sandbox.ready"
trap 'exit 0' TERM
while :; do sleep 86400 & wait $! || true; done
S
    cat >"$n/containerd.toml" <<Y
version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs", "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing"]
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "rig.local/pause:1"
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "$CNI_BIN"
    conf_dir = "$n/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
Y
    cat >"$n/cni/10-rig.conflist" <<'Y'
{"cniVersion": "1.0.0", "name": "rig", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true, "ipMasq": false,
   "ipam": {"type": "host-local", "dataDir": "/run/cni-ipam", "ranges": [[{"subnet": "10.244.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
Y
    cat >"$n/kubelet.yaml" <<Y
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: 0.0.0.0
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: $p/ca.crt}
authorization: {mode: Webhook}
tlsCertFile: $p/kubelet.crt
tlsPrivateKeyFile: $p/kubelet.key
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
cgroupDriver: cgroupfs
cgroupRoot: $CGROUP
failCgroupV1: false
failSwapOn: false
enforceNodeAllocatable: ["none"]
featureGates: {KubeletInUserNamespace: true}
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
resolvConf: $n/resolv.conf
volumePluginDir: /var/lib/kubelet/volume-plugins
localStorageCapacityIsolation: false
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: 50Mi, nodefs.available: 0%, imagefs.available: 0%, nodefs.inodesFree: 0%, imagefs.inodesFree: 0%}
logging: {verbosity: 1}
Y
    cat >"$n/kube-proxy.yaml" <<Y
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
hostnameOverride: node1
clusterCIDR: 10.244.0.0/16
clientConnection: {kubeconfig: $STATE/kubeconfig/kube-proxy}
healthzBindAddress: 127.0.0.1:10256
metricsBindAddress: 127.0.0.1:10249
nftables: {minSyncPeriod: 100ms}
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
Y
    cat >"$n/coredns.yaml" <<'Y'
apiVersion: v1
kind: ServiceAccount
metadata: {name: coredns, namespace: kube-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: system:coredns}
rules:
- {apiGroups: [""], resources: [endpoints, services, pods, namespaces], verbs: [list, watch]}
- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: system:coredns}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: system:coredns}
subjects: [{kind: ServiceAccount, name: coredns, namespace: kube-system}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: coredns, namespace: kube-system}
data:
  Corefile: |
    .:53 {
        errors
        health
        ready
        kubernetes cluster.local in-addr.arpa {
            pods insecure
            ttl 5
        }
        template ANY ANY . {
            rcode NXDOMAIN
        }
        cache 5
        loadbalance
    }
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: coredns, namespace: kube-system, labels: {k8s-app: kube-dns}}
spec:
  selector: {matchLabels: {k8s-app: kube-dns}}
  template:
    metadata: {labels: {k8s-app: kube-dns}}
    spec:
      serviceAccountName: coredns
      dnsPolicy: Default
      terminationGracePeriodSeconds: 1
      containers:
      - name: coredns
        image: rig.local/coredns:1
        imagePullPolicy: Never
        args: [-conf, /etc/coredns/Corefile]
        readinessProbe: {httpGet: {path: /ready, port: 8181}, periodSeconds: 1}
        volumeMounts: [{name: config, mountPath: /etc/coredns}]
      volumes: [{name: config, configMap: {name: coredns}}]
---
apiVersion: v1
kind: Service
metadata: {name: kube-dns, namespace: kube-system}
spec:
  clusterIP: 10.96.0.10
  selector: {k8s-app: kube-dns}
  ports:
  - {name: dns, port: 53, protocol: UDP}
  - {name: dns-tcp, port: 53, protocol: TCP}
Y
}
sandbox() {
    sandbox_alive && return 0
    rm -f "$STATE"/pid/*
    # --kill-child: the namespaces die with the outer unshare as well
    setsid unshare --mount --net --pid --ipc --uts --fork --mount-proc --kill-child=KILL \
        bash "$STATE/sandbox.sh" "$STATE" "$ADDR" >>"$STATE/log/sandbox.log" 2>&1 </dev/null &
    local outer=$!; disown
    wait_for sandbox 20 test -e "$STATE/pid/sandbox.ready" || { cat "$STATE/log/sandbox.log" >&2; return 1; }
    cat "/proc/$outer/task/$outer/children" | tr -d ' ' >"$STATE/pid/sandbox"
}
cgroup_folders() { # of the cluster: one in each v1 hierarchy, or the one of v2
    local h
    if [[ -e /sys/fs/cgroup/cgroup.controllers ]]; then echo "/sys/fs/cgroup$CGROUP"; return; fi
    for h in /sys/fs/cgroup/*/; do echo "$h${CGROUP#/}"; done
}
cgroups() { # make|remove the cluster's own cgroups
    local g
    for g in $(cgroup_folders); do
        case $1 in
        make) [[ $g == */unified/* ]] || mkdir -p "$g" ;;  # runc adds that one itself
        remove) # a killed process leaves its cgroup a moment later
            for _ in {1..30}; do
                [[ -d $g ]] || break
                find "$g" -depth -type d -exec rmdir {} \; 2>/dev/null || true
                [[ ! -d $g ]] || sleep 0.1
            done ;;
        esac
    done
}
node_obstacle() { # why no node can run on this machine, in one sentence; nothing where one can
    local c root=/sys/fs/cgroup
    if (( EUID != 0 )); then echo "a node needs root"; return; fi
    if ! unshare --mount --net --pid --ipc --uts --fork --mount-proc true 2>/dev/null; then
        echo "root may not make namespaces here (in a container: run it privileged)"; return
    fi
    if [[ -e $root/cgroup.controllers ]]; then
        for c in cpu cpuset memory pids; do
            grep -qw "$c" $root/cgroup.controllers || { echo "the cgroup controller $c is not available here"; return; }
        done
    else root+=/memory; fi
    if ! { mkdir "$root/rig-probe-$$" && rmdir "$root/rig-probe-$$"; } 2>/dev/null; then
        echo "root may not make cgroups in $root (in a container: run it privileged)"; return
    fi
    if [[ -n $(debian_missing) ]] && ! { command -v apt-get && command -v dpkg; } >/dev/null; then
        echo "these programs are missing and there is no apt-get to fetch them: $(debian_missing | cut -d= -f1 | tr '\n' ' ')"; return
    fi
    command -v go >/dev/null || echo "Go is missing, which builds Kubernetes"
}
