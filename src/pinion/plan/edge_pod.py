"""The edge runtime as a pod: fenced in as its systemd service, with the same program and models, shown to it read-only. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pinion.plan.edge_units import DRAIN

#: Where the kubelet looks for pods that its own host states. In memory: after a boot a pod is placed when its model was checked.
PODS = "/run/pinion-pods"
NAME = "edge-runtime"
PLACED = f"{PODS}/{NAME}.json"
#: Nobody's number (as in images without a user of their own), and its group.
USER = 65532
#: Folders of the host's system that programs need, and where a pod sees them. /usr has no secrets; not every architecture has lib64.
_SYSTEM = {
    "usr": ("/usr", "/usr"),
    "bin": ("/usr/bin", "/bin"),
    "lib": ("/usr/lib", "/lib"),
    "lib64": ("/usr/lib64", "/lib64"),
    "alternatives": ("/etc/alternatives", "/etc/alternatives"),
}
#: Seconds between two looks at a runtime that starts.
_LOOK = 2
#: Seconds between two looks at one that runs, and how many in a row it may miss: a drain refuses the kubelet too, which must not end it.
_ALIVE = 10
_MISSED = DRAIN // _ALIVE + 2


@dataclass(frozen=True, slots=True)
class Runtime:
    """What runs: *command*, which serves HTTP at *address*:*port* with *health*; *models* is the store's folder, *image* an empty root.

    *cores* and *memory* (MiB) are the most that it may take; *start* are seconds until it must answer.
    """

    command: Sequence[str]
    environment: Mapping[str, str]
    image: str
    address: str
    port: int
    health: str
    models: str
    cores: int
    memory: int
    start: int


def if_there() -> dict[str, str]:
    """Volumes of which a host may have no folder, with that folder."""
    return {name: path for name, (path, _) in _SYSTEM.items()}


def pod(runtime: Runtime, labels: Mapping[str, str]) -> dict[str, object]:
    """The pod (core/v1)."""
    shown = {**_SYSTEM, "models": (runtime.models, runtime.models)}
    answers = {"httpGet": {"host": runtime.address, "port": runtime.port, "path": runtime.health}, "timeoutSeconds": 5}
    memory = f"{runtime.memory}Mi"
    container = {
        "name": NAME,
        "image": runtime.image,
        "imagePullPolicy": "IfNotPresent",
        "command": list(runtime.command),
        "env": [{"name": name, "value": value} for name, value in runtime.environment.items()],
        # one core for sure, the others while nobody else wants them
        "resources": {
            "requests": {"cpu": "1", "memory": memory},
            "limits": {"cpu": str(runtime.cores), "memory": memory},
        },
        "startupProbe": {**answers, "periodSeconds": _LOOK, "failureThreshold": runtime.start // _LOOK},
        "readinessProbe": {**answers, "periodSeconds": 5},
        "livenessProbe": {**answers, "periodSeconds": _ALIVE, "failureThreshold": _MISSED},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            *({"name": name, "mountPath": path, "readOnly": True} for name, (_, path) in shown.items()),
            {"name": "tmp", "mountPath": "/tmp"},
        ],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": NAME, "namespace": "default", "labels": {"app.kubernetes.io/name": NAME, **labels}},
        "spec": {
            # it listens at the host's planned address, behind the host's firewall
            "hostNetwork": True,
            "enableServiceLinks": False,
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 10,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": USER,
                "runAsGroup": USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [container],
            "volumes": [
                *({"name": name, "hostPath": {"path": path, "type": "Directory"}} for name, (path, _) in shown.items()),
                {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}},
            ],
        },
    }
