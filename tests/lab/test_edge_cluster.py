"""Pis that join the cluster by the concern `edge_cluster` and serve there, and a GPU server that joins by `kube_node`: a real API server
that approves and signs, real kubelets in three machines, and llama.cpp's server as a pod of the Pis; and back when the concerns go.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from lab.draining import answers_and_refuses
from lab.hosts_rack import REPOSITORY, kill_tree
from lab.serving_rack import ServingRack, reference, until
from lab.small_rack import GPU

from pinion.drivers.hosts.approving import SIGNER
from pinion.drivers.hosts.joining import GROUP
from pinion.lab.images.own import PAUSE
from pinion.lab.state import cache_root
from pinion.plan.concerns.edge_cluster import NAME
from pinion.plan.concerns.edge_runtime import POD_FILE
from pinion.plan.edge_pod import PODS
from pinion.plan.edge_units import SERVICE
from pinion.plan.joining import BOOTSTRAP_FILE, CERTIFICATE, CONFIG_FILE, JOIN_FILE
from pinion.plan.kubelet import DATA, UNIT

pytestmark = [
    pytest.mark.lab,
    pytest.mark.timeout(900),
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces and mounts need root"),
]

POD = "app.kubernetes.io/name=edge-runtime"
SERVER = "nv-1"
NODES = ("nv-1", "pi-01", "pi-02")


#: A pod for whom the GPU server's taint is no obstacle.
_TOLERANT = {
    "apiVersion": "v1",
    "spec": {
        "nodeSelector": {"gpu": "nvlink"},
        "tolerations": [{"key": "special", "operator": "Equal", "value": "true", "effect": "NoSchedule"}],
    },
}


@dataclass(frozen=True)
class JoiningRack(ServingRack):
    """A control plane on the management host, and two Pis and a GPU server that no lab has made nodes."""

    PARTS = "switch,cluster,models"

    @classmethod
    def make(cls, folder: Path, name: str) -> JoiningRack:
        made = super().make(folder, name)
        rack = cls(made.instance, made.folder)
        stated = yaml.safe_load(rack.site.read_text())
        stated |= yaml.safe_load(GPU)
        stated["concerns"] |= {NAME: {"pause": PAUSE}, "container_runtime": {}, "kube_node": {"join": {}}}
        rack.site.write_text(yaml.safe_dump(stated, sort_keys=False))
        return rack

    @property
    def environment(self) -> dict[str, str]:
        """With kubectl, as `bin/pinion-env` has it."""
        inherited = super().environment
        return {**inherited, "PATH": f"{cache_root() / 'bin'}:{inherited['PATH']}"}

    def kubectl(self, *argv: str) -> str:
        """Run kubectl as the cluster's administrator."""
        kubeconfig = json.loads(self.store.endpoints.read_text())["kubernetes"]["admin_kubeconfig"]
        return self.inside("kubectl", "--kubeconfig", str(kubeconfig), *argv).stdout

    def objects(self, *what: str) -> Sequence[dict[str, Any]]:
        """Objects of the cluster."""
        found: Sequence[dict[str, Any]] = json.loads(self.kubectl("get", *what, "-o", "json"))["items"]
        return found

    def joins(self, by: str, *names: str, again: bool = False) -> int:
        """Have *names* join (*again*: as they have before), with all checks of their concerns held; how many things changed."""
        options = [word for name in names for word in ("--limit", name, *(("--rejoin", name) if again else ()))]
        answer = self.converge(by, "--at-once", *options)
        assert (answer["failed"], answer["stopped"]) == ([], [])
        return int(answer["changed"])

    def engine(self, name: str) -> int:
        """The process that listens on *name*."""
        return int(self.on(name, "ss -Hltnp 'sport = :8080' | sed -n 's/.*,pid=\\([0-9]*\\),.*/\\1/p' | head -n 1"))

    def serves_again(self, name: str) -> None:
        """*name* serves before long."""
        until(lambda: self.serves(name), f"{name} serves", self, name, seconds=60)

    @staticmethod
    def ready(pods: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """What *pods* say of being ready."""
        return [entry for pod in pods for entry in pod["status"]["conditions"] if entry["type"] == "Ready"]

    def tokens(self) -> list[str]:
        """Whose tokens the cluster has now."""
        found = self.objects("secrets", "-n", "kube-system", "-l", "pinion/node")
        return [entry["metadata"]["labels"]["pinion/node"] for entry in found]

    def used(self) -> list[str]:
        """The ids of the tokens that were used, as often as they were."""
        bearer = "system:bootstrap:"
        users = [entry["spec"]["username"] for entry in self.objects("csr")]
        return sorted(user.removeprefix(bearer) for user in users if user.startswith(bearer))


@pytest.fixture(scope="module")
def rack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JoiningRack]:
    """One running instance: pi-01 has joined by Ansible, pi-02 and nv-1 by pyinfra; before, none had a kubelet.

    Of pi-01 there was a Node object that somebody else had labelled (the stack); of the others there was none.
    """
    made = JoiningRack.make(tmp_path_factory.mktemp("edge-cluster"), "t-edgek8s")
    try:
        made.up()
        for name in NODES:
            assert (
                made.on(name, f"systemctl is-active {UNIT}; test -e {CERTIFICATE} && echo there; true") == "inactive\n"
            )
        made.kubectl("label", "node", "pi-01", "edge=pi", "arch=arm64")
        made.kubectl("delete", "node", "pi-02", SERVER)
        assert made.joins("ansible", "pi-01") > 0
        assert made.joins("pyinfra", "pi-02", SERVER) > 0
        yield made
    finally:
        made.run("down", "--purge", expect=None)


def test_all_are_ready_and_the_pis_have_the_plans_labels(rack: JoiningRack) -> None:
    nodes = {item["metadata"]["name"]: item for item in rack.objects("nodes", "-l", "edge=pi,arch=arm64")}
    assert set(nodes) == {"pi-01", "pi-02"}
    for node in nodes.values():
        assert node["status"]["nodeInfo"]["kubeletVersion"] == "v1.34.2"
        assert any(entry["type"] == "Ready" and entry["status"] == "True" for entry in node["status"]["conditions"])
    rack.checks_hold(*NODES)


def test_the_gpu_server_is_ready_with_its_taint_and_runs_only_what_tolerates_it(rack: JoiningRack) -> None:
    (node,) = rack.objects("nodes", "-l", "gpu=nvlink")
    assert node["metadata"]["name"] == SERVER
    assert {"key": "special", "value": "true", "effect": "NoSchedule"} in node["spec"]["taints"]
    assert [entry["status"] for entry in node["status"]["conditions"] if entry["type"] == "Ready"] == ["True"]
    rack.kubectl("run", "probe", f"--image={PAUSE}", "--restart=Never", f"--overrides={json.dumps(_TOLERANT)}")
    rack.kubectl("wait", "pod/probe", "--for=condition=Ready", "--timeout=60s")
    (pod,) = rack.objects("pods", "--field-selector", "metadata.name=probe")
    assert pod["spec"]["nodeName"] == SERVER


def test_each_asked_for_its_own_certificate_and_the_cluster_signed_it(rack: JoiningRack) -> None:
    signed = [entry for entry in rack.objects("csr") if entry["status"].get("certificate")]
    nodes = [entry for entry in signed if entry["spec"]["signerName"] == "kubernetes.io/kube-apiserver-client-kubelet"]
    assert len(nodes) == len(NODES)
    for entry in nodes:
        assert entry["spec"]["username"].startswith("system:bootstrap:")
        assert GROUP in entry["spec"]["groups"]
        assert any(f"{GROUP}:{name}" in entry["spec"]["groups"] for name in NODES)
        assert [condition["type"] for condition in entry["status"]["conditions"]] == ["Approved"]
    serving = [entry for entry in signed if entry["spec"]["signerName"] == SIGNER]
    assert {entry["spec"]["username"] for entry in serving} == {f"system:node:{name}" for name in NODES}
    assert len(nodes) + len(serving) == len(signed)
    ca = rack.store.root / "pki/kubernetes/ca.crt"
    for name in NODES:
        certificate = rack.on(name, f"openssl x509 -in {CERTIFICATE}")
        said = rack.inside("openssl", "verify", "-CAfile", str(ca), "/dev/stdin", given=certificate).stdout
        assert said.strip().endswith("OK")


def test_who_is_there_needs_no_token_and_either_finds_nothing_to_do(rack: JoiningRack) -> None:
    before = rack.used()
    assert len(set(before)) == len(NODES)
    assert rack.tokens() == [], "each ended with the request that it was made for"
    assert rack.joins("pyinfra", "pi-01") == 0
    assert rack.joins("ansible", "pi-02", SERVER) == 0
    answer = rack.converge("ansible", "--limit", "pi-0*", "--limit", SERVER, "--check")
    assert answer["changed"] == 0
    assert (rack.used(), rack.tokens()) == (before, [])


def test_no_token_is_left_anywhere(rack: JoiningRack) -> None:
    pattern = rf"({'|'.join(rack.used())})\.[a-z0-9]{{16}}"
    for name in NODES:
        # the pattern is on the standard input, for the search's own command line must not be what it finds
        places = f"/etc /home /root /run /tmp /var/lib/pinion /var/log {DATA}"
        found = rack.machine(name).run(
            ["sh", "-c", f"grep -rlE -f /dev/stdin {places} 2>/dev/null; true"], input=f"{pattern}\n"
        )
        assert found.stdout == "", name
        assert rack.on(name, f"test ! -e {BOOTSTRAP_FILE} && echo gone") == "gone\n"
    logs = rack.inside("grep", "-rlE", pattern, ".pinion/converge", expect=None).stdout
    assert logs == ""


def test_each_serves_as_a_pod_of_its_kubelet(rack: JoiningRack) -> None:
    pods = rack.objects("pods", "-l", POD)
    assert {pod["spec"]["nodeName"] for pod in pods} == {"pi-01", "pi-02"}
    for name in ("pi-01", "pi-02"):
        assert rack.process(name) == 0, "nothing of systemd's"
        assert "kubepods" in rack.on(name, f"cat /proc/{rack.engine(name)}/cgroup")
        answer = rack.completion("mgmt-1", name)
        assert answer["tokens"] == reference(rack)["tokens"]
    assert [entry["status"] for entry in rack.ready(pods)] == ["True", "True"]


def test_logs_and_exec_reach_the_pods_of_every_node(rack: JoiningRack) -> None:
    """The lab's API server verifies who serves as a node."""
    for name in ("pi-01", "pi-02"):
        assert "listening" in rack.kubectl("logs", f"edge-runtime-{name}")
        assert rack.kubectl("exec", f"edge-runtime-{name}", "--", "/usr/bin/id", "-u") == "65532\n"
    rack.kubectl("logs", "probe")


def test_it_serves_again_when_it_was_killed_even_while_nobody_reaches_the_cluster(rack: JoiningRack) -> None:
    rack.on("mgmt-1", "systemctl stop kube-apiserver")
    try:
        before = rack.engine("pi-01")
        rack.on("pi-01", f"kill -KILL {before}")
        rack.serves_again("pi-01")
        assert rack.engine("pi-01") != before
    finally:
        rack.on("mgmt-1", "systemctl start kube-apiserver")


def test_the_store_has_the_pod_start_anew(rack: JoiningRack) -> None:
    before = rack.engine("pi-02")
    rack.on("pi-02", f"systemctl try-restart {SERVICE}")
    assert rack.serves("pi-02")
    assert rack.engine("pi-02") != before


@pytest.mark.parametrize("taken_away", [f"systemctl restart {SERVICE}", "systemctl reboot"])
def test_taken_away_under_requests_it_answers_those_and_refuses_others(rack: JoiningRack, taken_away: str) -> None:
    """As a runtime of systemd's does (tests/concerns/test_05_serving.py)."""
    before = rack.engine("pi-01")
    answers_and_refuses(rack, "pi-01", before, taken_away)
    assert rack.engine("pi-01") != before


def test_a_node_that_lost_its_certificate_is_let_in_again_when_the_operator_says_so(rack: JoiningRack) -> None:
    rack.on("pi-02", f"systemctl stop {UNIT}; rm -r {DATA}/pki {DATA}/kubeconfig")
    before = len(set(rack.used()))
    answer = rack.converge("ansible", "--at-once", "--limit", "pi-02", expect=1)
    assert answer["failed"] == ["pi-02"]
    assert "it has joined before (kubelet v1.34.2)" in str(answer["hosts"]["pi-02"])
    assert len(set(rack.used())) == before
    assert rack.joins("ansible", "pi-02", again=True) > 0
    assert len(set(rack.used())) == before + 1
    rack.checks_hold("pi-02")


@pytest.mark.parametrize(
    "seconds", [3.0, pytest.param(5.0, marks=pytest.mark.variant), pytest.param(7.0, marks=pytest.mark.variant)]
)
def test_a_run_that_is_killed_is_finished_by_the_next(rack: JoiningRack, seconds: float) -> None:
    rack.on("pi-02", f"systemctl stop {UNIT}; rm -r {DATA}/pki {DATA}/kubeconfig")
    command = rack.converge_command("pyinfra", "--limit", "pi-02", "--rejoin", "pi-02")
    run = subprocess.Popen(
        command, env=rack.environment, cwd=REPOSITORY, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True
    )
    time.sleep(seconds)
    assert run.poll() is None, "it was to be killed at work"
    kill_tree(run)
    rack.joins("pyinfra", "pi-02", again=True)
    assert rack.joins("ansible", "pi-02") == 0
    assert rack.on("pi-02", f"test ! -e {BOOTSTRAP_FILE} && echo gone") == "gone\n"


def test_after_a_power_cut_it_is_a_node_without_being_told(rack: JoiningRack) -> None:
    before = rack.used()
    rack.cut("pi-01")
    rack.serves_again("pi-01")
    assert rack.joins("pyinfra", "pi-01") == 0
    assert rack.used() == before


def test_the_concerns_go_and_the_node_serves_by_systemd(rack: JoiningRack) -> None:
    rack.without(NAME, "kube_node")
    assert rack.joins("ansible", "pi-01", SERVER) > 0
    assert rack.joins("pyinfra", "pi-01", SERVER) == 0
    files = f"ls {CONFIG_FILE} {JOIN_FILE} {CERTIFICATE} {POD_FILE} {PODS} 2>/dev/null; find {DATA} -mindepth 1"
    left = f"{files}; pgrep -fa '[k]ubelet --config'; grep -l kubepods /proc/[0-9]*/cgroup; true"
    for name in ("pi-01", SERVER):
        assert rack.on(name, left) == ""
        assert rack.on(name, f"systemctl is-active {UNIT}; true") == "inactive\n"
    assert rack.process("pi-01") != 0
    assert rack.completion("mgmt-1", "pi-01")["tokens"] == reference(rack)["tokens"]
    deadline = time.monotonic() + 90
    while True:
        (node,) = rack.objects("nodes", "--field-selector", "metadata.name=pi-01")
        (ready,) = [entry["status"] for entry in node["status"]["conditions"] if entry["type"] == "Ready"]
        if ready != "True":
            break
        assert time.monotonic() < deadline, "the cluster does not miss it"
        time.sleep(2)
