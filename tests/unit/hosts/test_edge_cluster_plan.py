"""What the plan says of the concern edge_cluster: a kubelet of the planned node, that the real one takes; nothing where Pis do not join."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from unit.hosts.nodes import JOINED, JOINING, concern, file, first, starts, stated
from unit.hosts.sites import DC, LAB, planned

from pinion.checks.claims import checks
from pinion.lab.pki import authority
from pinion.plan import Plan
from pinion.plan.concerns.edge_cluster import edge_cluster
from pinion.plan.concerns.edge_runtime import POD_FILE, llama_program
from pinion.plan.concerns.model_store import FOLDER
from pinion.plan.edge_units import PATH_UNIT, SERVICE
from pinion.plan.joining import BOOTSTRAP_FILE, CA_FILE, CONFIG_FILE, FETCHED, JOIN_FILE, PACKAGED
from pinion.plan.kubelet import CONTAINERD_CONFIG, UNIT
from pinion.plan.leaving import behind
from pinion.plan.model import Concern, DeviceKind
from pinion.plan.programs import FOLDER as PROGRAMS

PI = DeviceKind.PI
CACHE = Path(os.environ.get("PINION_CACHE", "/var/cache/pinion"))
KUBELET = CACHE / "bin/kubelet"
CONTAINERD = next(iter(sorted((CACHE / "layers").glob("node-*/fs/usr/bin/containerd"))), None)
UNIT_FILE = f"/etc/systemd/system/{UNIT}"


def plan(settings: dict[str, Any] | None = None, **concerns: Any) -> Plan:
    return stated(DC, {**concerns, "edge_cluster": settings or {}}, **JOINED)


def configuration(found: Plan) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(file(concern(found, PI, "edge_cluster"), CONFIG_FILE).content)
    return read


def test_labels_taints_and_address_are_those_of_the_plans_node() -> None:
    found = plan()
    assert found.cluster is not None
    for node in (node for node in found.cluster.nodes if node.kind is PI):
        (host,) = [host for host in found.hosts if host.name == node.name]
        entry = host.concerns["edge_cluster"]
        join, words = json.loads(file(entry, JOIN_FILE).content), starts(entry)
        flags = dict(word.removeprefix("--").split("=", 1) for word in words[1:])
        assert dict(label.split("=") for label in flags["node-labels"].split(",")) == node.labels == join["labels"]
        assert node.labels == {"edge": "pi", "arch": "arm64"}
        taints = [taint.model_dump(mode="json") for taint in node.taints]
        assert json.loads(file(entry, CONFIG_FILE).content)["registerWithTaints"] == taints == join["taints"]
        assert (flags["hostname-override"], flags["node-ip"]) == (node.name, node.address)
        assert (
            json.loads(file(entry, BOOTSTRAP_FILE).content)["clusters"][0]["cluster"]["server"] == found.cluster.server
        )


def test_the_flows_and_the_swap_are_those_of_a_node() -> None:
    found = plan(firewall={}, pi_tuning={})
    pi = first(found, PI)
    rules = next(entry.content for entry in pi.concerns["firewall"].files if entry.path.endswith(".nft"))
    assert "kubelet: " in rules
    assert "10250" in rules
    assert not any("zram" in name for name in pi.concerns["pi_tuning"].packages)


@pytest.mark.parametrize("kubernetes", [None, {"control_plane": "mgmt-1", "pis_join": False}])
def test_without_a_cluster_to_join_there_is_nothing(kubernetes: dict[str, Any] | None) -> None:
    found = planned(LAB, kubernetes=kubernetes, services=None, concerns={"edge_cluster": {}})
    assert not any("edge_cluster" in host.concerns for host in found.hosts)


def test_only_pis_join_by_it() -> None:
    assert {host.kind for host in plan().hosts if "edge_cluster" in host.concerns} == {PI}
    assert edge_cluster.__name__ == "edge_cluster"


def test_where_the_kubelet_comes_from() -> None:
    assert starts(concern(plan(), PI, "edge_cluster"))[0] == PACKAGED
    assert starts(concern(plan({"program": "/opt/k8s/kubelet"}), PI, "edge_cluster"))[0] == "/opt/k8s/kubelet"
    source = {"url": "https://files.example/kubelet", "sha256": "ab" * 32}
    found = concern(plan({"source": source}), PI, "edge_cluster")
    assert starts(found)[0] == FETCHED
    assert json.loads(file(found, JOIN_FILE).content)["source"] == source
    assert "ExecStartPre=/usr/local/lib/pinion/kube-join program" in file(found, UNIT_FILE).content.splitlines()
    assert "kube-join program" not in file(concern(plan(), PI, "edge_cluster"), UNIT_FILE).content


def test_who_may_be_a_node_is_the_sites_until_it_leaves() -> None:
    found = plan().cluster
    assert found is not None
    hosts = {host.name: host.kind for host in plan().hosts}
    assert found.members == hosts
    assert set(found.members.values()) == set(DeviceKind) - {DeviceKind.SWITCH}
    pis = sorted(name for name, kind in hosts.items() if kind is PI)
    gone = stated(DC, {"edge_cluster": {}}, **JOINED, decommissioned=pis).cluster
    assert gone is not None
    assert gone.members.keys() == hosts.keys() - set(pis), "the last that leaves is refused too"
    tool = stated(DC, {}, **JOINED).cluster
    assert tool is not None
    assert tool.members == {}, "the cluster's own tool says who may"
    listed = "cluster.configmap.kube-system.pinion-nodes"
    assert [check.id for check in checks(plan()) if check.id == listed] == [listed]
    assert not any(check.id == listed for check in checks(stated(DC, {}, **JOINED)))
    server = stated(DC, JOINING["kube_node"], **JOINED).cluster
    assert server is not None
    assert server.members == hosts


def test_pods_have_the_runtimes_filter_and_a_bound_on_processes() -> None:
    told = configuration(plan())
    assert (told["seccompDefault"], told["podPidsLimit"]) == (True, 4096)
    found = concern(stated(DC, JOINING["kube_node"], **JOINED), DeviceKind.GPU_SERVER, "kube_node")
    server = json.loads(file(found, CONFIG_FILE).content)
    assert (server["seccompDefault"], server["podPidsLimit"]) == (True, 16384)


def test_the_systems_memory_is_not_given_to_pods() -> None:
    assert configuration(plan())["systemReserved"] == {"memory": "512Mi"}
    assert configuration(plan({"system_memory_mib": 300}))["systemReserved"] == {"memory": "300Mi"}


def test_the_token_is_a_secret_that_only_a_host_without_a_certificate_gets() -> None:
    found = concern(plan(), PI, "edge_cluster")
    token = file(found, BOOTSTRAP_FILE)
    assert (token.mode, token.secret) == ("0600", True)
    assert token.path.startswith("/run/"), "in memory"
    assert token.unless == "/usr/local/lib/pinion/kube-join good"
    assert [entry.kind for entry in token.materials] == ["cluster-token"]
    assert [entry.kind for entry in file(found, CA_FILE).materials] == ["cluster-authority"]
    assert json.loads(token.content)["users"][0]["user"] == {"token": "@cluster-token@"}


def test_a_lab_machines_containerd_is_the_labs() -> None:
    here = concern(planned(LAB, concerns={"edge_cluster": {}}), PI, "edge_cluster")
    assert CONTAINERD_CONFIG not in [entry.path for entry in here.files]
    assert "containerd" not in here.packages
    there = concern(plan(), PI, "edge_cluster")
    assert "SystemdCgroup = true" in file(there, CONTAINERD_CONFIG).content.splitlines()
    assert configuration(plan())["cgroupDriver"] == "systemd", "one owner of control groups"


def test_a_node_that_leaves_has_its_key_wiped() -> None:
    left = behind(first(plan(), PI))
    assert UNIT in left.units
    assert {entry.path for entry in left.data if entry.secret} >= {"/var/lib/kubelet/pki", BOOTSTRAP_FILE}


# --- the real kubelet -------------------------------------------------------------------------------------------------


def said(folder: Path, change: dict[str, Any]) -> str:
    """What a real kubelet says of the file, changed by *change*; it ends for want of a kubeconfig."""
    config, ca = folder / "kubelet.json", authority(folder, "kubernetes").certificate
    ours = configuration(plan()) | {"failCgroupV1": False} | change
    ours["authentication"]["x509"]["clientCAFile"] = str(ca)
    config.write_text(json.dumps(ours))
    words = [
        f"--config={config}",
        f"--root-dir={folder}/root",
        f"--cert-dir={folder}/pki",
        f"--kubeconfig={folder}/no",
        f"--bootstrap-kubeconfig={folder}/none",
    ]
    done = subprocess.run(
        ["unshare", "-n", "-m", str(KUBELET), *words], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode != 0
    return done.stderr


needs_kubelet = pytest.mark.skipif(
    not KUBELET.exists() or os.geteuid() != 0, reason="needs root and a kubelet: make it with `pinion lab up`"
)


@needs_kubelet
def test_a_real_kubelet_takes_the_file(tmp_path: Path) -> None:
    words = said(tmp_path, {})
    assert f"{tmp_path}/none" in words, words
    assert "strict decoding" not in words
    assert "invalid configuration" not in words


@needs_kubelet
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rotateCertificate": True}, "unknown field"),
        ({"shutdownGracePeriodCriticalPods": "40s"}, "shutdownGracePeriodCriticalPods"),
        ({"imageGCLowThresholdPercent": 90}, "imageGCLowThresholdPercent"),
    ],
)
def test_a_real_kubelet_would_tell_a_wrong_one(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    assert words in said(tmp_path, change)


# --- the edge runtime as a pod ----------------------------------------------------------------------------------------


def runtimes(**settings: Any) -> tuple[Concern, Concern]:
    """The concern edge_runtime of a Pi that joins, and of one that does not."""
    own = yaml.safe_load(DC.read_text())["concerns"]
    stating = {"model_store": own["model_store"], "edge_runtime": settings}
    return (
        concern(plan(**stating), PI, "edge_runtime"),
        concern(stated(DC, stating), PI, "edge_runtime"),
    )


def pod(found: Concern) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(file(found, POD_FILE).content)["pod"]
    return read


@pytest.mark.parametrize("settings", [{}, {"slots": 2, "context": 512, "cores": 2, "port": 9000, "memory": "50%"}])
def test_a_pod_runs_what_the_service_runs_and_may_take_as_much(settings: dict[str, Any]) -> None:
    joined, alone = runtimes(**settings)
    (container,) = pod(joined)["spec"]["containers"]
    unit = file(alone, f"/etc/systemd/system/{SERVICE}").content.splitlines()
    (line,) = [line for line in unit if line.startswith("ExecStart=")]
    assert line.endswith(f"/health {' '.join(container['command'])}"), "behind what starts it"
    limits = container["resources"]["limits"]
    assert f"MemoryMax={limits['memory'].removesuffix('Mi')}M" in unit
    assert f"CPUQuota={limits['cpu']}00%" in unit
    assert llama_program(joined) == llama_program(alone) == "/usr/bin/llama-server"
    probes = [container[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")]
    (port,) = {probe["port"] for probe in probes}
    assert f"--port {port}" in line
    assert {f"--host {probe['host']}" in line for probe in probes} == {True}


def test_the_kubelet_does_not_end_a_pod_that_is_being_drained() -> None:
    """Its probes are refused then as everybody is: it must not lose patience before the drain's time is over."""
    joined = runtimes()[0]
    (drain,) = [
        line.split()
        for line in file(joined, f"/etc/systemd/system/{SERVICE}").content.splitlines()
        if line.startswith("ExecStop=-")
    ]
    (container,) = pod(joined)["spec"]["containers"]
    probe = container["livenessProbe"]
    assert (probe["failureThreshold"] - 1) * probe["periodSeconds"] > float(drain[drain.index("--for") + 1])


def test_going_down_the_kubelet_ends_no_pod_before_the_runtime_was_drained() -> None:
    """It is told of a shutdown at once (logind), and systemd stops units only after that."""
    assert {configuration(plan())[f"shutdownGracePeriod{of}"] for of in ("", "CriticalPods")} == {"0s"}
    unit = file(runtimes()[0], f"/etc/systemd/system/{SERVICE}").content.splitlines()
    assert "After=kubelet.service" in unit, "so it is stopped before"


def test_a_pod_is_fenced_in() -> None:
    found = pod(runtimes()[0])
    spec = found["spec"]
    (container,) = spec["containers"]
    assert spec["securityContext"]["runAsNonRoot"]
    assert spec["securityContext"]["runAsUser"] > 0
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    own = container["securityContext"]
    assert own == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    shown = {volume["name"]: volume["hostPath"]["path"] for volume in spec["volumes"] if "hostPath" in volume}
    read_only = {mount["name"] for mount in container["volumeMounts"] if mount.get("readOnly")}
    assert set(shown) == read_only, "what is the host's cannot be written"
    assert {path for path in shown.values() if not path.startswith(("/usr", "/etc/alternatives"))} == {FOLDER}
    assert "privileged" not in json.dumps(found)
    assert (spec.get("hostPID"), spec.get("hostIPC")) == (None, None)
    assert found["metadata"]["labels"].items() >= {"edge": "pi", "arch": "arm64"}.items()


def test_one_switch_moves_the_runtime_and_the_units_that_others_know_stay() -> None:
    joined, alone = runtimes()
    names = {entry.path for entry in joined.files} & {entry.path for entry in alone.files}
    assert {f"/etc/systemd/system/{SERVICE}", f"/etc/systemd/system/{PATH_UNIT}"} <= names
    assert [unit.name for unit in joined.units] == [PATH_UNIT]
    started = f"ExecStart={PROGRAMS}/edge-serve --usable {FOLDER}/tiny/current {PROGRAMS}/edge-pod place"
    assert started in file(joined, f"/etc/systemd/system/{SERVICE}").content.splitlines()
    assert joined.users == (), "its user is a number"
    assert configuration(plan())["staticPodPath"] == str(
        Path(json.loads(file(joined, POD_FILE).content)["placed"]).parent
    )


def test_the_image_is_the_one_that_is_there_in_any_case() -> None:
    own = yaml.safe_load(DC.read_text())["concerns"]
    found = plan({"pause": "mirror.example:5000/pause:3.10"}, model_store=own["model_store"], edge_runtime={})
    assert pod(concern(found, PI, "edge_runtime"))["spec"]["containers"][0]["image"] == "mirror.example:5000/pause:3.10"
    text = file(concern(found, PI, "edge_cluster"), CONTAINERD_CONFIG).content
    assert 'sandbox_image = "mirror.example:5000/pause:3.10"' in text.splitlines()


@pytest.mark.skipif(CONTAINERD is None, reason="needs a containerd: make it with `pinion lab up`")
def test_a_real_containerd_reads_its_file(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(
        file(concern(plan({"pause": "mirror.example/pause:3.10"}), PI, "edge_cluster"), CONTAINERD_CONFIG).content
    )
    done = subprocess.run(
        [str(CONTAINERD), "--config", str(path), "config", "dump"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    read = tomllib.loads(done.stdout)["plugins"]["io.containerd.grpc.v1.cri"]
    assert read["sandbox_image"] == "mirror.example/pause:3.10"
    assert read["containerd"]["runtimes"]["runc"]["options"]["SystemdCgroup"] is True
    assert read["cni"]["bin_dir"] == "/opt/cni/bin", "where the page says that network plugins go"
