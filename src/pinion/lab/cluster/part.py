"""The cluster as a part of the lab: what its machines need, how they are written, when they are ready."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import subprocess
import threading
from collections.abc import Mapping, Sequence
from importlib.resources import files as resources
from pathlib import Path

import yaml

from pinion.bringup.programs import ProgramMissingError, obtain
from pinion.drivers.hosts.joining import ACCESS
from pinion.lab.cluster import control_plane, node
from pinion.lab.cluster.api import ClusterApi, NoAnswerError
from pinion.lab.cluster.control_plane import ETC, File
from pinion.lab.cluster.credentials import DEPLOYER, POD_NETWORK, ClusterCredentials, referring
from pinion.lab.cluster.recipes import KUBERNETES_NODE
from pinion.lab.errors import LabError
from pinion.lab.images.own import write_images
from pinion.lab.instance import Lab
from pinion.lab.machine import Machine
from pinion.lab.parts import NESTED_CONTAINERS, Bind, Forward, JsonValue, MachineNeeds
from pinion.lab.state import write_file
from pinion.lab.triton.image import folder_of, have_image
from pinion.lab.triton.recipes import TRITON
from pinion.plan.joining import joined_by
from pinion.plan.model import ClusterPlan, DeviceKind, NodePlan
from pinion.plan.pool import serves_lab_image

#: Name of the loopback forward to the API server.
FORWARD = "kubernetes"
_PODNET = "/usr/local/lib/pinion/podnet"
_PODNET_UNIT = "podnet.service"
#: Says that the lab made a Node object, so that the lab may take it away.
_MADE_BY_LAB = "pinion.lab/made"


class ClusterPart:
    """etcd and the control plane on the management host, kubelets on the nodes."""

    name = "cluster"

    def __init__(self) -> None:
        self._images = threading.Lock()

    # --- what the machines need ---------------------------------------------------------------------------------------

    def needs(self, lab: Lab) -> Mapping[str, MachineNeeds]:
        """The control plane's machine and every node that is a machine of the lab."""
        plan = _plan(lab)
        if plan is None:
            return {}
        found = {
            plan.control_plane: MachineNeeds(
                binds=_binds(lab.cache, control_plane.PROGRAMS),
                data=(control_plane.ETCD_DATA,),
                units=(*control_plane.UNITS, _PODNET_UNIT),
                revision=_revision(),
            )
        }
        serving = serves_lab_image(plan)
        for member in _nodes(lab, plan):
            images = [Bind(_images_folder(lab), node.IMAGES)]
            if serving and member.kind is DeviceKind.GPU_SERVER:
                images.append(Bind(folder_of(lab.cache), node.MODEL_IMAGES))
            found[member.name] = dataclasses.replace(
                NESTED_CONTAINERS,
                layer=KUBERNETES_NODE,
                binds=(*_binds(lab.cache, node.PROGRAMS), *images),
                units=(*node.units(joins=_joins(lab, member.name)), _PODNET_UNIT),
                revision=_revision(),
            )
        return found

    def prepare(self, lab: Lab) -> None:
        """Programs, certificates and images."""
        plan = _plan(lab)
        if plan is None:
            return
        for member in _nodes(lab, plan):
            if not _joins(lab, member.name):
                _credentials(lab, plan).kubelet(member)
        try:
            obtain((*control_plane.PROGRAMS, *node.PROGRAMS), lab.say)
        except ProgramMissingError as error:
            raise LabError(str(error)) from error
        layer = lab.layer(KUBERNETES_NODE)[0]
        with self._images:
            folder = _images_folder(lab)
            for name, made in write_images(layer / "usr/bin/busybox", folder).items():
                stem = name.rpartition("/")[2].partition(":")[0]
                write_file(folder / f"{stem}.digest", f"{name} {made.digest}\n", 0o644)
            if serves_lab_image(plan):
                have_image(lab.layer(TRITON), folder_of(lab.cache), lab.say)

    def provision(self, lab: Lab, machine: Machine) -> None:
        """Write every file of the machine."""
        plan = _existing_plan(lab)
        if machine.name == plan.control_plane:
            _make_accounts(machine)
            owner, group = control_plane.ACCOUNTS["etcd"], control_plane.ACCOUNTS["etcd"]
            data = machine.data_path(control_plane.ETCD_DATA)
            data.chmod(0o700)
            os.chown(data, owner, group)
        _write(machine, _files(lab, plan, machine.name))

    # --- when it is ready ---------------------------------------------------------------------------------------------

    def ready(self, lab: Lab, machine: Machine) -> str | None:
        """The control plane: answers, and knows its nodes and users. A node: its kubelet runs with all images.

        A node joins by itself as soon as the fabric lets it reach the API server, which is after the stack has configured the switch; one
        whose host has a concern that joins, when that is brought about.
        """
        plan = _existing_plan(lab)
        renewed = _write(machine, _files(lab, plan, machine.name))
        if machine.name == plan.control_plane:
            return self._control_plane_ready(lab, plan, machine, renewed)
        joins = _joins(lab, machine.name)
        ours = () if joins else (node.KUBELET,)
        if renewed:
            machine.run(["systemctl", "daemon-reload"])
            machine.run(["systemctl", "try-restart", *ours, "kube-proxy.service", _PODNET_UNIT])
        units = ("containerd.service", "pinion-images.service", *ours, "kube-proxy.service", _PODNET_UNIT)
        return _inactive(machine, units) or (None if joins else _unwell(machine, node.KUBELET_HEALTH_PORT, "kubelet"))

    def _control_plane_ready(self, lab: Lab, plan: ClusterPlan, machine: Machine, renewed: bool) -> str | None:
        if renewed:
            machine.run(["systemctl", "daemon-reload"])
            machine.run(["systemctl", "try-restart", *control_plane.UNITS])
        api = ClusterApi(machine, plan.server, _credentials(lab, plan).administrator())
        if waiting := api.ready():
            return waiting
        try:
            for text in (resources("pinion.lab.cluster") / "files" / "access.yaml", ACCESS):
                for document in yaml.safe_load_all(text.read_text()):
                    api.apply(document)
            _have_nodes(api, {member.name for member in _nodes(lab, plan)})
        except NoAnswerError as error:
            return str(error)
        return _inactive(machine, ("kube-controller-manager.service", "kube-scheduler.service"))

    def forwards(self, lab: Lab) -> Sequence[Forward]:
        """The API server for the user's own kubectl."""
        plan = _plan(lab)
        return [Forward(FORWARD, plan.control_plane, "127.0.0.1", _port(plan))] if plan is not None else []

    def endpoints(self, lab: Lab) -> Mapping[str, JsonValue]:
        """Kubeconfigs: the deployer's (what the stack uses), the administrator's, and the latter through the loopback forward; and which
        Kubernetes plugin the stack uses.
        """
        plan = _plan(lab)
        if plan is None:
            return {}
        keys = _credentials(lab, plan)
        local = f"https://127.0.0.1:{lab.forward_port(FORWARD)}"
        administrator = keys.administrator()
        folder = lab.state / "kubernetes"
        folder.mkdir(mode=0o700, exist_ok=True)
        kubeconfigs = {
            "kubeconfig": ("deployer.kubeconfig", referring(plan.server, DEPLOYER, keys.user(DEPLOYER))),
            "admin_kubeconfig": ("admin.kubeconfig", referring(plan.server, "administrator", administrator)),
            "local_kubeconfig": ("local.kubeconfig", referring(local, "administrator", administrator)),
        }
        for file_name, text in kubeconfigs.values():
            write_file(folder / file_name, text)
        paths: dict[str, JsonValue] = {key: str(folder / file_name) for key, (file_name, _) in kubeconfigs.items()}
        # Pulumi's own plugin cannot be downloaded inside a lab
        return {"kubernetes": {"server": plan.server, "local_server": local, "plugin": "stand-in", **paths}}


def _plan(lab: Lab) -> ClusterPlan | None:
    """The cluster, when its control plane is a machine of the lab."""
    plan = lab.plan.cluster
    return plan if plan is not None and plan.control_plane in lab.machines else None


def _joins(lab: Lab, name: str) -> bool:
    """Whether the host's own concern has it join the cluster."""
    return any(host.name == name and joined_by(host) is not None for host in lab.plan.hosts)


def _existing_plan(lab: Lab) -> ClusterPlan:
    plan = _plan(lab)
    if plan is None:
        raise LabError(f"site {lab.plan.site}: it has no cluster whose control plane is in the lab")
    return plan


def _nodes(lab: Lab, plan: ClusterPlan) -> list[NodePlan]:
    """The nodes that are machines of the lab."""
    return [member for member in plan.nodes if member.name in lab.machines]


def _port(plan: ClusterPlan) -> int:
    return int(plan.server.rpartition(":")[2])


def _credentials(lab: Lab, plan: ClusterPlan) -> ClusterCredentials:
    return ClusterCredentials(lab.state, plan)


def _images_folder(lab: Lab) -> Path:
    return lab.cache / "images" / KUBERNETES_NODE.folder


def _binds(cache: Path, programs: tuple[str, ...]) -> tuple[Bind, ...]:
    return tuple(Bind(source, target) for source, target in control_plane.binaries(cache, programs).items())


def _revision() -> str:
    """The digest of the code that writes machines: when it changes, machines are written and booted anew."""
    package = Path(__file__).parent
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*")):
        if path.suffix in {".py", ".yaml", ".toml"}:
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _files(lab: Lab, plan: ClusterPlan, name: str) -> Mapping[str, File]:
    """Every file of machine *name*."""
    keys = _credentials(lab, plan)
    member = next((known for known in plan.nodes if known.name == name), None)
    if member is None:
        secret = lab.secret("kubernetes-encryption").read_text()
        found = dict(control_plane.files(plan, keys, secret))
        address = plan.server.rpartition("//")[2].rpartition(":")[0]
    else:
        found = dict(node.files(plan, member, keys, joins=_joins(lab, name)))
        found |= control_plane.credential_files("pki/pod-network", keys.user(POD_NETWORK))
        address = member.address
    found |= {
        f"{_PODNET}/{path.name}": File(path.read_text())
        for path in sorted((Path(__file__).parent / "podnet").glob("*.py"))
    }
    found["/etc/pinion/podnet.json"] = File(_podnet_configuration(plan, name, address, runs_pods=member is not None))
    found[f"/etc/systemd/system/{_PODNET_UNIT}"] = File(node.podnet_unit(Path(_PODNET)))
    # routes of pods are not systemd-networkd's to tidy up
    found["/etc/systemd/networkd.conf.d/10-pods.conf"] = File("[Network]\nManageForeignRoutes=no\n")
    return found


def _podnet_configuration(plan: ClusterPlan, name: str, address: str, *, runs_pods: bool) -> str:
    return json.dumps(
        {
            "server": plan.server,
            "ca": f"{ETC}/pki/ca.crt",
            "certificate": f"{ETC}/pki/pod-network.crt",
            "key": f"{ETC}/pki/pod-network.key",
            "name": name,
            "address": address,
            "pod_prefix": plan.pod_prefix,
            "runs_pods": runs_pods,
        },
        indent=1,
    )


def _write(machine: Machine, found: Mapping[str, File]) -> bool:
    """Write *found* into the machine's root; whether anything changed."""
    changed = [
        machine.write(path, file.content, file.mode, file.owner, file.owner) for path, file in sorted(found.items())
    ]
    return any(changed)


def _make_accounts(machine: Machine) -> None:
    """Have the accounts of the control plane in the machine."""
    wanted = [f"u {name} {number}" for name, number in control_plane.ACCOUNTS.items()]
    subprocess.run(["systemd-sysusers", f"--root={machine.root}", "--inline", *wanted], check=True, capture_output=True)


def _inactive(machine: Machine, units: Sequence[str]) -> str | None:
    """The first of *units* that is not active, None when all are."""
    states = machine.run(["systemctl", "is-active", *units], check=False).stdout.split()
    for unit, state in zip(units, states, strict=False):
        if state == "failed":
            log = machine.run(["journalctl", "-u", unit, "-n", "8", "--no-pager", "-o", "cat"], check=False).stdout
            raise LabError(f"{machine.name}: {unit} failed:\n{log}")
        if state != "active":
            return unit.removesuffix(".service")
    return None if len(states) == len(units) else "systemd"


def _unwell(machine: Machine, port: int, what: str) -> str | None:
    """None when the program that serves ``/healthz`` on loopback *port* of *machine* says that it is well, else *what*."""
    try:
        with machine.connect("127.0.0.1", port, timeout=2.0) as connection:
            connection.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
            return None if b" 200 " in connection.recv(64) else what
    except OSError:
        return what


def _have_nodes(api: ClusterApi, wanted: set[str]) -> None:
    """Have a Node object for every node of the plan, so that labels and pods may be given to it before its kubelet can reach us, and none
    that the lab made for a machine that is gone."""
    held = {item["metadata"]["name"]: item["metadata"] for item in api.list("/api/v1/nodes")}
    for name in sorted(wanted - held.keys()):
        metadata = {"name": name, "annotations": {_MADE_BY_LAB: "true"}}
        api.apply({"apiVersion": "v1", "kind": "Node", "metadata": metadata})
    for name in sorted(held.keys() - wanted):
        if _MADE_BY_LAB in (held[name].get("annotations") or {}):
            api.delete(f"/api/v1/nodes/{name}")
