"""What a node runs of Kubernetes inside its lab machine: containerd, kubelet, kube-proxy and the pod network, as systemd services.

A node whose host has a concern that joins (`edge_cluster`, `kube_node`) is made one by that: its kubelet, its settings and its
certificate are not from here. The machine then has the kubelet's program where a package would put it, and what sets a machine apart
from a board.

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
from pinion.plan.joining import PACKAGED
from pinion.plan.kubelet import CONFIG_FOLDER, configuration
from pinion.plan.model import ClusterPlan, NodePlan

PROGRAMS = ("kubelet", "kube-proxy")
#: Where the images' archives are shown in the machine.
IMAGES = "/opt/pinion/images"
#: … and those that only a GPU server has.
MODEL_IMAGES = "/opt/pinion/model-images"
KUBELET = "kubelet.service"
UNITS = (
    "pinion-cgroups.service",
    "containerd.service",
    "pinion-images.service",
    KUBELET,
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
for archive in {IMAGES}/*.tar {MODEL_IMAGES}/*.tar; do
  [ -e "$archive" ] || continue
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
_START = f"/usr/bin/unshare --mount --propagation=unchanged {_KUBELET_STARTER}"


def units(*, joins: bool) -> tuple[str, ...]:
    """The units of a node; without the kubelet where the host's own concern *joins* the cluster."""
    return tuple(unit for unit in UNITS if not (joins and unit == KUBELET))


def files(plan: ClusterPlan, node: NodePlan, keys: ClusterCredentials, *, joins: bool) -> Mapping[str, File]:
    """Every file of *node*, by path in its machine. *joins*: the host's own concern brings and starts the kubelet."""
    proxy = keys.user("system:kube-proxy")
    containerd = (resources("pinion.lab.cluster") / "files" / "containerd.toml").read_text().replace("@PAUSE@", PAUSE)
    return {
        f"{ETC}/pki/ca.crt": File(keys.kubernetes.certificate.read_bytes()),
        **(_to_join() if joins else _kubelet(plan, node, keys)),
        **dict(credential_files("pki/kube-proxy", proxy)),
        f"{ETC}/kube-proxy.kubeconfig": File(local_kubeconfig(plan.server, "system:kube-proxy", "kube-proxy")),
        f"{ETC}/kube-proxy.json": File(_proxy_configuration(plan, node)),
        "/etc/containerd/config.toml": File(containerd),
        "/usr/local/lib/pinion/import-images": File(_IMPORT, 0o755),
        _KUBELET_STARTER: File(_START_KUBELET, 0o755),
        "/etc/systemd/system/pinion-cgroups.service": File(_CGROUPS),
        "/etc/systemd/system/containerd.service.d/10-pinion.conf": File("[Service]\nExecStartPre=\nTimeoutStopSec=8\n"),
        "/etc/systemd/system/pinion-images.service": File(_images_unit()),
        "/etc/systemd/system/kube-proxy.service": File(_proxy_unit()),
    }


def _kubelet(plan: ClusterPlan, node: NodePlan, keys: ClusterCredentials) -> dict[str, File]:
    """The kubelet that the lab brings and starts, with the credentials of its node."""
    client, serving = keys.kubelet(node)
    return {
        **dict(credential_files("pki/kubelet-client", client)),
        **dict(credential_files("pki/kubelet", serving)),
        f"{ETC}/kubelet.kubeconfig": File(local_kubeconfig(plan.server, f"system:node:{node.name}", "kubelet-client")),
        f"{ETC}/kubelet.json": File(_kubelet_configuration()),
        f"/etc/systemd/system/{KUBELET}": File(_kubelet_unit(node)),
    }


def _to_join() -> dict[str, File]:
    """A kubelet where its Debian package would put it, and what a machine of the lab must have it do otherwise than a board."""
    return {
        PACKAGED: File(f'#!/bin/sh\nexec {_START} "$@"\n', 0o755),
        f"{CONFIG_FOLDER}/90-lab.conf": File(configuration(_MACHINE)),
    }


_NOTHING = "1Mi"
#: What a machine of the lab cannot have as a board does.
_MACHINE = {
    "cgroupDriver": "cgroupfs",
    # v1 still rules where the lab's own machine has it
    "failCgroupV1": False,
    "failSwapOn": False,
    "enforceNodeAllocatable": [],
    # memory and disk are those of the whole machine that carries the lab: not this node's to judge
    "evictionHard": {
        "memory.available": _NOTHING,
        "nodefs.available": _NOTHING,
        "imagefs.available": _NOTHING,
        "nodefs.inodesFree": "0%",
    },
    "imageGCHighThresholdPercent": 100,
    "imageGCLowThresholdPercent": 99,
    "localStorageCapacityIsolation": False,
    "shutdownGracePeriod": "0s",
    "shutdownGracePeriodCriticalPods": "0s",
}


def _kubelet_configuration() -> str:
    return configuration({
        **_MACHINE,
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
        "maxPods": 32,
        "registerNode": True,
        "nodeStatusUpdateFrequency": "10s",
        "nodeLeaseDurationSeconds": 40,
        "logging": {"verbosity": 1},
    })  # fmt: skip


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
        unit_text.command(_START, flags),
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
