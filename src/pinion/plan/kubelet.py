"""What kubelets and their containerd are told, whoever's host they run on: what the concerns of nodes share. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from pinion.plan.model import HostFile, HostModule
from pinion.plan.texts import kept_by

#: kubelet(1), --config-dir: files that end in ``.conf`` are merged over --config, in lexical order.
CONFIG_FOLDER = "/etc/kubernetes/kubelet.conf.d"
UNIT = "kubelet.service"
#: The kubelet's own data: volumes of pods, checkpoints, certificates.
DATA = "/var/lib/kubelet"
CONTAINERD_UNIT = "containerd.service"
CONTAINERD_CONFIG = "/etc/containerd/config.toml"
CRI = 'plugins."io.containerd.grpc.v1.cri"'
#: Kernel modules of whoever runs containers.
CONTAINERD_MODULES = (
    HostModule(name="overlay", source="Kubernetes documentation, Container Runtimes: images are layers of it"),
)


def configuration(fields: Mapping[str, object]) -> str:
    """A KubeletConfiguration (kubelet.config.k8s.io/v1beta1) with *fields* and nothing else."""
    head = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
    return json.dumps({**head, **fields}, indent=1) + "\n"


def containerd_file(concern: str, lines: Sequence[str]) -> HostFile:
    """containerd-config.toml(5), version 2: what containerd 1.7 (Debian 13) reads and 2.x still understands. *lines* follow its head."""
    return HostFile(
        path=CONTAINERD_CONFIG,
        content="\n".join([kept_by(concern), "version = 2", "", *lines, ""]),
        restart=(CONTAINERD_UNIT,),
        validate_command="containerd --config %s config dump >/dev/null",
    )


def cri(pause: str) -> list[str]:
    """What containerd does for any kubelet. *pause* is the image of the container that holds a pod's namespaces."""
    return [f"[{CRI}]", f'sandbox_image = "{pause}"']


def network_plugins() -> list[str]:
    """Where containerd finds network plugins."""
    return [
        f"[{CRI}.cni]",
        "# where pod networks and kubernetes-cni put their plugins; Debian's containerd would look in /usr/lib/cni",
        'bin_dir = "/opt/cni/bin"',
    ]


def runc() -> list[str]:
    """The runtime runc."""
    return [
        f"[{CRI}.containerd.runtimes.runc]",
        'runtime_type = "io.containerd.runc.v2"',
        f"[{CRI}.containerd.runtimes.runc.options]",
        "# Kubernetes documentation, Container Runtimes: one owner of control groups, as the kubelet's cgroupDriver",
        "SystemdCgroup = true",
    ]
