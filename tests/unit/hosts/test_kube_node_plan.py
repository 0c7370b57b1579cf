"""What the plan says of the concern kube_node: the kubelet reserves what the kernel does not isolate."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from unit.hosts.nodes import JOINED, JOINING, concern, file, starts, stated
from unit.hosts.sites import DC
from unit.hosts.test_cpu_isolation_plan import boot

from pinion.lab.pki import authority
from pinion.plan import Plan, numa
from pinion.plan.concerns.kube_node import CONFIG_FILE, CONFIG_FOLDER, DEFAULTS_FILE
from pinion.plan.joining import BOOTSTRAP_FILE, CA_FILE, FETCHED, JOIN_FILE, PACKAGED, SECRETS, joined_by
from pinion.plan.joining import CONFIG_FILE as JOINING_CONFIG
from pinion.plan.kubelet import UNIT
from pinion.plan.leaving import behind
from pinion.plan.model import DeviceKind
from pinion.plan.programs import program_path

GPU = DeviceKind.GPU_SERVER
PROGRAM = program_path("kube_join")
KUBELET = Path(os.environ.get("PINION_CACHE", "/var/cache/pinion")) / "bin/kubelet"


def plan(isolation: dict[str, Any] | None = None, **settings: Any) -> Plan:
    return stated(DC, {"cpu_isolation": isolation or {}, "kube_node": settings})


def joined(isolation: dict[str, Any] | None = None, **settings: Any) -> Plan:
    """The plan of a site whose GPU server joins by a kubelet with *settings*; its cores are divided where *isolation* says how."""
    divided = {} if isolation is None else {"cpu_isolation": isolation}
    return stated(DC, {**divided, "container_runtime": {}, "kube_node": {"join": settings}}, **JOINED)


def configuration(found: Plan) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(file(concern(found, GPU, "kube_node"), CONFIG_FILE).content)
    return read


@pytest.mark.parametrize(("system", "interrupts"), [(1, 1), (2, 2), (8, 4), (54, 1)])
def test_kernel_and_kubelet_agree_on_every_core(system: int, interrupts: int) -> None:
    """Both read back from what is rendered, each by its own reader."""
    found = plan({"system_cores": system, "interrupt_cores": interrupts})
    line = boot(concern(found, GPU, "cpu_isolation"))
    isolated = numa.parse(str(line["nohz_full"][0]))
    reserved = numa.parse(configuration(found)["reservedSystemCPUs"])
    assert isolated & reserved == frozenset()
    assert isolated | reserved == frozenset(range(224))
    assert len(reserved) == 2 * 2 * (system + interrupts), "two nodes, two threads a core"


def test_policies() -> None:
    found = configuration(plan())
    assert (found["cpuManagerPolicy"], found["cpuManagerPolicyOptions"]) == ("static", {"full-pcpus-only": "true"})
    assert (found["topologyManagerPolicy"], found["topologyManagerScope"]) == ("restricted", "container")
    other = configuration(plan(topology_policy="single-numa-node", topology_scope="pod"))
    assert (other["topologyManagerPolicy"], other["topologyManagerScope"]) == ("single-numa-node", "pod")


def test_the_kubelet_finds_the_file_and_forgets_its_old_division() -> None:
    found = concern(plan(), GPU, "kube_node")
    assert CONFIG_FILE.startswith(f"{CONFIG_FOLDER}/")
    assert CONFIG_FILE.endswith(".conf"), "others are not read"
    assert f"KUBELET_EXTRA_ARGS=--config-dir={CONFIG_FOLDER}" in file(found, DEFAULTS_FILE).content.splitlines()
    (command,) = file(found, CONFIG_FILE).run
    assert "rm -f /var/lib/kubelet/cpu_manager_state" in command


#: Marks in the folder MARKS; `cut` there ends the shell that runs it after its next stop, as a power cut does.
SYSTEMCTL = """#!/bin/sh
cd "$MARKS"; case $1 in
stop) rm -f active; if test -e cut; then rm cut; kill -KILL $PPID; fi;;
start) : >active;;
*) test -e "${2#is-}";;
esac
"""


@pytest.mark.parametrize("cut", [False, True], ids=["whole", "cut"])
@pytest.mark.parametrize("there", [False, True], ids=["none", "kubelet"])
def test_a_kubelet_that_runs_does_so_afterwards_also_when_the_run_was_cut(
    tmp_path: Path, there: bool, cut: bool
) -> None:
    (command,) = file(concern(plan(), GPU, "kube_node"), CONFIG_FILE).run
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/systemctl").write_text(SYSTEMCTL)
    (tmp_path / "bin/systemctl").chmod(0o755)
    for mark in (("enabled", "active") if there else ()) + (("cut",) if cut else ()):
        (tmp_path / mark).touch()
    path = f"{tmp_path}/bin:/usr/bin:/bin"
    shell = ["sh", "-c", command.replace("/var/lib/kubelet", str(tmp_path))]
    done = subprocess.run(shell, env={"PATH": path, "MARKS": str(tmp_path)}, check=False)
    if cut:
        assert done.returncode == -9
        assert not (tmp_path / "active").exists()
        done = subprocess.run(shell, env={"PATH": path, "MARKS": str(tmp_path)}, check=False)
    assert done.returncode == 0
    assert (tmp_path / "active").exists() is there


def test_without_a_division_of_the_cores_there_is_nothing_to_say() -> None:
    assert not any("kube_node" in host.concerns for host in stated(DC, {"kube_node": {}}).hosts)


# --- the join ---------------------------------------------------------------------------------------------------------


def test_a_server_joins_with_what_a_kubelet_may_say_of_its_own_node() -> None:
    found = joined({})
    assert found.cluster is not None
    (node,) = [node for node in found.cluster.nodes if node.kind is GPU]
    entry = concern(found, GPU, "kube_node")
    join, words = json.loads(file(entry, JOIN_FILE).content), starts(entry)
    flags = dict(word.removeprefix("--").split("=", 1) for word in words[1:])
    labels = dict(label.split("=") for label in flags["node-labels"].split(","))
    assert labels == join["labels"] == {"gpu": "nvlink"}
    assert node.labels == labels | {"kubernetes.io/nvlink": "true"}, "a kubelet that is told this one does not start"
    taints = [taint.model_dump(mode="json") for taint in node.taints]
    assert json.loads(file(entry, JOINING_CONFIG).content)["registerWithTaints"] == taints == join["taints"] != []
    assert (words[0], flags["hostname-override"], flags["node-ip"]) == (PACKAGED, node.name, node.address)


def test_its_drop_in_is_the_one_that_other_clusters_servers_get() -> None:
    entry, alone = concern(joined({}), GPU, "kube_node"), concern(plan(), GPU, "kube_node")
    assert file(entry, CONFIG_FILE) == file(alone, CONFIG_FILE)
    assert f"--config-dir={CONFIG_FOLDER}" in starts(entry)
    assert DEFAULTS_FILE not in [known.path for known in entry.files], "nobody reads it here"
    assert [claim.expected for claim in entry.claims if claim.name == "policy"] == ["static"]


def test_without_a_division_its_pods_share_the_cores() -> None:
    found = joined()
    assert configuration(found) == {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "cpuManagerPolicy": "none",
        "topologyManagerPolicy": "restricted",
        "topologyManagerScope": "container",
    }
    assert [entry.expected for entry in concern(found, GPU, "kube_node").claims if entry.name == "policy"] == ["none"]


def test_both_kinds_of_node_join_by_the_same_files() -> None:
    stating = {**JOINING["kube_node"], **JOINING["edge_cluster"]}
    found = stated(DC, stating, **JOINED)
    server, pi = concern(found, GPU, "kube_node"), concern(found, DeviceKind.PI, "edge_cluster")
    shared = (PROGRAM, CA_FILE, BOOTSTRAP_FILE)
    assert [file(server, path).content for path in shared] == [file(pi, path).content for path in shared]
    assert {claim.name for claim in server.claims} == {claim.name for claim in pi.claims} | {"policy"}
    assert {joined_by(host) for host in found.hosts if host.kind is GPU} == {"kube_node"}
    assert {joined_by(host) for host in found.hosts if host.kind is DeviceKind.MANAGEMENT_HOST} == {None}


def test_a_kubelet_of_its_own_for_each_kind() -> None:
    source = {"url": "https://files.example/kubelet", "sha256": "ab" * 32}
    assert starts(concern(joined(source=source), GPU, "kube_node"))[0] == FETCHED
    assert starts(concern(joined(program="/opt/k8s/kubelet"), GPU, "kube_node"))[0] == "/opt/k8s/kubelet"


def test_a_server_that_leaves_has_its_key_wiped() -> None:
    left = behind(next(host for host in joined({}).hosts if host.kind is GPU))
    assert UNIT in left.units
    assert {entry.path for entry in left.data if entry.secret} >= set(SECRETS)
    assert len({entry.path for entry in left.data}) == len(left.data)


# --- the real kubelet -------------------------------------------------------------------------------------------------


def kubelet(folder: Path, change: dict[str, Any], *, alone: bool = False) -> str:
    """What a real kubelet says of the file, changed by *change*: over a cluster's configuration, or *alone*. It ends at the kubeconfig.

    A kubelet takes unknown fields and tells them only where the file is its main one.
    """
    drop_ins, base = folder / "kubelet.conf.d", folder / "kubelet.json"
    drop_ins.mkdir()
    cluster = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "failCgroupV1": False}
    ours = configuration(plan()) | change
    base.write_text(json.dumps(cluster | ours if alone else cluster))
    if not alone:
        (drop_ins / Path(CONFIG_FILE).name).write_text(json.dumps(ours))
    arguments = [
        f"--config={base}",
        f"--config-dir={drop_ins}",
        f"--root-dir={folder}/root",
        f"--cert-dir={folder}/pki",
        f"--kubeconfig={folder}/no",
    ]
    done = subprocess.run(
        ["unshare", "-n", "-m", str(KUBELET), *arguments], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode != 0
    return done.stderr


needs_kubelet = pytest.mark.skipif(
    not KUBELET.exists() or os.geteuid() != 0, reason="needs root and a kubelet: make it with `pinion lab up`"
)


@needs_kubelet
@pytest.mark.parametrize("alone", [True, False])
def test_a_real_kubelet_takes_the_file(tmp_path: Path, alone: bool) -> None:
    said = kubelet(tmp_path, {}, alone=alone)
    assert f"{tmp_path}/no" in said, said
    assert "strict decoding" not in said
    assert "invalid configuration" not in said


@needs_kubelet
@pytest.mark.parametrize(
    ("change", "alone", "said"),
    [
        ({"cpuManagerPolicyy": "static"}, True, "unknown field"),
        ({"reservedSystemCPUs": "0-3,x"}, False, "reservedSystemCPUs"),
        ({"topologyManagerPolicy": "often"}, False, "topologyManagerPolicy"),
    ],
)
def test_a_real_kubelet_would_tell_a_wrong_one(tmp_path: Path, change: dict[str, Any], alone: bool, said: str) -> None:
    assert said in kubelet(tmp_path, change, alone=alone)


@needs_kubelet
@pytest.mark.parametrize("label", ["", "kubernetes.io/nvlink=true"])
def test_a_real_kubelet_starts_as_the_unit_says_and_with_no_label_of_kubernetes_own(tmp_path: Path, label: str) -> None:
    entry = concern(joined({}), GPU, "kube_node")
    for entry_file in (file(entry, JOINING_CONFIG), file(entry, CONFIG_FILE)):
        path = tmp_path / entry_file.path.removeprefix("/")
        path.parent.mkdir(parents=True)
        ours = json.loads(entry_file.content)
        if path.suffix == ".json":
            ours["authentication"]["x509"]["clientCAFile"] = str(authority(tmp_path, "kubernetes").certificate)
            ours["failCgroupV1"] = False
        path.write_text(json.dumps(ours))
    words = [
        word.replace("=/", f"={tmp_path}/") + (f",{label}" if label and "labels" in word else "")
        for word in starts(entry)
    ]
    command = [
        "unshare",
        "-n",
        "-m",
        str(KUBELET),
        *words[1:],
        f"--root-dir={tmp_path}/root",
        f"--cert-dir={tmp_path}/pki",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode != 0
    wrong = "--node-labels in the 'kubernetes.io' namespace" in done.stderr
    assert wrong is bool(label)
    assert (f"{tmp_path}{BOOTSTRAP_FILE}" in done.stderr) is not wrong, "it has read all but the token"
    assert "strict decoding" not in done.stderr
