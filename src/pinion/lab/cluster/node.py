"""What a node runs of Kubernetes inside its lab machine: containerd, kubelet, kube-proxy and the pod network, as systemd services.

Invariants:

* A node has the credentials of a node and no others (`system:node:NAME`, RBAC by the Node authoriser and NodeRestriction): its labels and
  taints come from the stack, never from here.
* Images are our own archives, imported before the kubelet starts; nothing is ever pulled.
* containerd's and the kubelet's data lie outside the machine's overlay (`NESTED_CONTAINERS`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files as resources
from pathlib import Path

from pinion.lab.cluster import unit_text
from pinion.lab.cluster.control_plane import BIN, ETC, File, credential_files, local_kubeconfig
from pinion.lab.cluster.credentials import ClusterCredentials
from pinion.lab.images.own import PAUSE
from pinion.plan.model import ClusterPlan, NodePlan

PROGRAMS = ("kubelet", "kube-proxy")
#: Where the images' archives are shown in the machine.
IMAGES = "/opt/pinion/images"
UNITS = (
    "pinion-cgroups.service",
    "containerd.service",
    "pinion-images.service",
    "kubelet.service",
    "kube-proxy.service",
)
#: The kubelet's customary loopback port for its health.
KUBELET_HEALTH_PORT = 10248
_CONTAINERD = "/run/containerd/containerd.sock"

#: On cgroup v1 systemd-nspawn shows every controller read-only; containers need to make groups below the machine's own.
_CGROUPS = """\
[Unit]
Description=Let containers have control groups below this machine's own
DefaultDependencies=no
After=local-fs.target
Before=containerd.service kubelet.service
ConditionPathIsMountPoint=/sys/fs/cgroup/memory

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -ec 'for group in /sys/fs/cgroup/*/; do mountpoint -q "$group" && mount -o remount,bind,rw "$group" || :; done'

[Install]
WantedBy=multi-user.target
"""

#: An image that is there already is not imported again: the name leads to the digest beside the archive.
_IMPORT = f"""\
#!/bin/sh
# Give containerd our images, those that it has not.
set -eu
for archive in {IMAGES}/*.tar; do
  while read -r name digest; do
    ctr -n k8s.io images ls "name==$name" | grep -q " $digest " || ctr -n k8s.io images import "$archive"
  done <"${{archive%.tar}}.digest"
done
"""

#: The kubelet sets three parameters of the whole kernel, which are not a lab machine's to set, and dies where it cannot. It alone sees
#: files in their place; its other mounts (pods' volumes) are still shared with the machine.
_START_KUBELET = f"""\
#!/bin/sh
set -eu
mount --make-rprivate /proc
mkdir -p /run/pinion/kubelet
for setting in vm/overcommit_memory=1 kernel/panic=10 kernel/panic_on_oops=1; do
  shown=/run/pinion/kubelet/$(basename "${{setting%=*}}")
  echo "${{setting#*=}}" >"$shown"
  mount --bind "$shown" "/proc/sys/${{setting%=*}}"
done
exec {BIN}/kubelet "$@"
"""
_KUBELET_STARTER = "/usr/local/lib/pinion/start-kubelet"


def files(plan: ClusterPlan, node: NodePlan, keys: ClusterCredentials) -> Mapping[str, File]:
    """Every file of *node*, by path in its machine."""
    client, serving = keys.kubelet(node)
    proxy = keys.user("system:kube-proxy")
    containerd = (resources("pinion.lab.cluster") / "files" / "containerd.toml").read_text().replace("@PAUSE@", PAUSE)
    return {
        f"{ETC}/pki/ca.crt": File(keys.kubernetes.certificate.read_bytes()),
        **dict(credential_files("pki/kubelet-client", client)),
        **dict(credential_files("pki/kubelet", serving)),
        **dict(credential_files("pki/kube-proxy", proxy)),
        f"{ETC}/kubelet.kubeconfig": File(local_kubeconfig(plan.server, f"system:node:{node.name}", "kubelet-client")),
        f"{ETC}/kube-proxy.kubeconfig": File(local_kubeconfig(plan.server, "system:kube-proxy", "kube-proxy")),
        f"{ETC}/kubelet.json": File(_kubelet_configuration()),
        f"{ETC}/kube-proxy.json": File(_proxy_configuration(plan, node)),
        "/etc/containerd/config.toml": File(containerd),
        "/usr/local/lib/pinion/import-images": File(_IMPORT, 0o755),
        _KUBELET_STARTER: File(_START_KUBELET, 0o755),
        "/etc/systemd/system/pinion-cgroups.service": File(_CGROUPS),
        "/etc/systemd/system/containerd.service.d/10-pinion.conf": File("[Service]\nExecStartPre=\nTimeoutStopSec=8\n"),
        "/etc/systemd/system/pinion-images.service": File(_images_unit()),
        "/etc/systemd/system/kubelet.service": File(_kubelet_unit(node)),
        "/etc/systemd/system/kube-proxy.service": File(_proxy_unit()),
    }


def _kubelet_configuration() -> str:
    nothing = "1Mi"
    return json.dumps({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": f"{ETC}/pki/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "readOnlyPort": 0,
        "healthzPort": KUBELET_HEALTH_PORT,
        "tlsCertFile": f"{ETC}/pki/kubelet.crt",
        "tlsPrivateKeyFile": f"{ETC}/pki/kubelet.key",
        "tlsMinVersion": "VersionTLS13",
        "containerRuntimeEndpoint": f"unix://{_CONTAINERD}",
        "cgroupDriver": "cgroupfs",
        # v1 still rules where the lab's own machine has it
        "failCgroupV1": False,
        "failSwapOn": False,
        "enforceNodeAllocatable": [],
        # memory and disk are those of the whole machine that carries the lab: not this node's to judge
        "evictionHard": {"memory.available": nothing, "nodefs.available": nothing, "imagefs.available": nothing, "nodefs.inodesFree": "0%"},
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "localStorageCapacityIsolation": False,
        "maxPods": 32,
        "registerNode": True,
        "nodeStatusUpdateFrequency": "10s",
        "nodeLeaseDurationSeconds": 40,
        "shutdownGracePeriod": "0s",
        "logging": {"verbosity": 1},
    }, indent=1)  # fmt: skip


def _proxy_configuration(plan: ClusterPlan, node: NodePlan) -> str:
    return json.dumps({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": f"{ETC}/kube-proxy.kubeconfig"},
        "hostnameOverride": node.name,
        "mode": "nftables",
        "clusterCIDR": plan.pod_prefix,
        "healthzBindAddress": "127.0.0.1:10256",
        "metricsBindAddress": "127.0.0.1:10249",
        # the sizes of connection tracking belong to the machine that carries the lab
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    })  # fmt: skip


def _images_unit() -> str:
    return unit_text.service(
        "Images that this node runs without a registry",
        "/usr/local/lib/pinion/import-images",
        after=("containerd.service",),
        requires=("containerd.service",),
        service=("Type=oneshot", "RemainAfterExit=yes"),
    )


def _kubelet_unit(node: NodePlan) -> str:
    flags = {
        "config": f"{ETC}/kubelet.json",
        "kubeconfig": f"{ETC}/kubelet.kubeconfig",
        "hostname-override": node.name,
        "node-ip": node.address,
    }
    return unit_text.service(
        "Kubernetes node agent",
        unit_text.command(f"/usr/bin/unshare --mount --propagation=unchanged {_KUBELET_STARTER}", flags),
        after=("containerd.service", "pinion-images.service", "pinion-cgroups.service"),
        requires=("containerd.service",),
        service=("Environment=GOGC=60", *unit_text.KEPT_RUNNING),
    )


def _proxy_unit() -> str:
    return unit_text.service(
        "Kubernetes services of this node",
        unit_text.command(f"{BIN}/kube-proxy", {"config": f"{ETC}/kube-proxy.json"}),
        service=("Environment=GOGC=60", *unit_text.KEPT_RUNNING),
    )


def podnet_unit(package: Path) -> str:
    """The unit of the pod network, whose *package* lies in the machine."""
    return unit_text.service(
        "Network of pods",
        f"/usr/bin/python3 -m {package.name} /etc/pinion/podnet.json",
        service=(
            f"WorkingDirectory={package.parent}",
            "Environment=PYTHONDONTWRITEBYTECODE=1",
            *unit_text.KEPT_RUNNING,
        ),
    )
