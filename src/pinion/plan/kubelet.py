"""What kubelets and their containerd are told, whoever's host they run on: what the concerns of nodes share. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping

#: kubelet(1), --config-dir: files that end in ``.conf`` are merged over --config, in lexical order.
CONFIG_FOLDER = "/etc/kubernetes/kubelet.conf.d"
UNIT = "kubelet.service"
#: The kubelet's own data: volumes of pods, checkpoints, certificates.
DATA = "/var/lib/kubelet"
CONTAINERD_UNIT = "containerd.service"
CONTAINERD_CONFIG = "/etc/containerd/config.toml"
CRI = 'plugins."io.containerd.grpc.v1.cri"'


def configuration(fields: Mapping[str, object]) -> str:
    """A KubeletConfiguration (kubelet.config.k8s.io/v1beta1) with *fields* and nothing else."""
    head = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
    return json.dumps({**head, **fields}, indent=1) + "\n"


def network_plugins() -> list[str]:
    """Where containerd finds network plugins, in a containerd-config.toml(5) of version 2."""
    return [
        f"[{CRI}.cni]",
        "# where pod networks and kubernetes-cni put their plugins; Debian's containerd would look in /usr/lib/cni",
        'bin_dir = "/opt/cni/bin"',
    ]


def runc() -> list[str]:
    """The runtime runc in a containerd-config.toml(5) of version 2."""
    return [
        f"[{CRI}.containerd.runtimes.runc]",
        'runtime_type = "io.containerd.runc.v2"',
        f"[{CRI}.containerd.runtimes.runc.options]",
        "# Kubernetes documentation, Container Runtimes: one owner of control groups, as the kubelet's cgroupDriver",
        "SystemdCgroup = true",
    ]
