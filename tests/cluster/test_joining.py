"""A node joins with a token of Pinion's: a real API server that approves and signs, a real kubelet that asks; no machine of the lab."""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from unit.hosts.kubelet_requests import request, signing_request
from unit.hosts.nodes import JOINED, concern, file, stated
from unit.hosts.sites import DC, REPOSITORY

from pinion.drivers.hosts.approving import approve
from pinion.drivers.hosts.joining import ACCESS, LIFETIME, VARIABLE, JoinError, cluster_authority, cluster_token
from pinion.lab.cluster.standalone import StandaloneCluster
from pinion.lab.state import cache_root
from pinion.plan.joining import CONFIG_FILE, JOIN_FILE, bootstrap
from pinion.plan.model import DeviceKind, HostApproval

BIN = cache_root() / "bin"
PROGRAM = REPOSITORY / "src/pinion/services/node_programs/kube_join.py"

pytestmark = pytest.mark.skipif(
    not (BIN / "kubectl").exists() or not (BIN / "kubelet").exists(),
    reason="needs kubectl and kubelet: make them with `pinion lab up`",
)


@pytest.fixture(autouse=True)
def path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{BIN}:{os.environ['PATH']}")


def kubectl(cluster: StandaloneCluster, *argv: str, given: str = "", token: str = "", expect: int = 0) -> str:
    """Run kubectl as the administrator, or as whoever shows *token*."""
    if token:
        ca = cluster.credentials.kubernetes.certificate
        who = [
            f"--server={cluster.server}",
            f"--certificate-authority={ca}",
            "--kubeconfig=/dev/null",
            f"--token={token}",
        ]
    else:
        who = [f"--kubeconfig={cluster.kubeconfig}"]
    done = subprocess.run(
        ["kubectl", *who, *argv], input=given, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == expect, done.stdout + done.stderr
    return done.stdout + (done.stderr if expect else "")


@pytest.fixture(scope="module")
def joined(cluster: StandaloneCluster) -> StandaloneCluster:
    """The cluster, as its administrator prepares it."""
    os.environ["PATH"], before = f"{BIN}:{os.environ['PATH']}", os.environ["PATH"]
    kubectl(cluster, "apply", "-f", str(ACCESS))
    os.environ["PATH"] = before
    return cluster


def variables(cluster: StandaloneCluster) -> dict[str, str]:
    return {VARIABLE: str(cluster.kubeconfig)}


def test_a_token_asks_for_a_certificate_and_does_no_more(joined: StandaloneCluster) -> None:
    token = cluster_token(joined.server, "pi-01", variables(joined))
    may = kubectl(joined, "auth", "can-i", "create", "certificatesigningrequests", token=token)
    assert may.strip() == "yes"
    for verb, what in (("get", "secrets"), ("list", "nodes"), ("create", "pods"), ("approve", "signers")):
        assert "no" in kubectl(joined, "auth", "can-i", verb, what, token=token, expect=1).split()
    secret = json.loads(
        kubectl(joined, "get", "-n", "kube-system", "-o", "json", f"secret/bootstrap-token-{token.partition('.')[0]}")
    )
    assert secret["metadata"].get("annotations") is None, "nothing writes the token down a second time"
    assert secret["metadata"]["labels"] == {"pinion/node": "pi-01"}


def test_a_token_counts_for_minutes(joined: StandaloneCluster) -> None:
    long_ago = datetime.now(UTC) - LIFETIME - timedelta(seconds=1)
    token = cluster_token(joined.server, "pi-01", variables(joined), now=long_ago)
    assert "logged in" in kubectl(joined, "get", "csr", token=token, expect=1)


def test_who_may_not_make_secrets_is_told_so_and_no_secret_is(joined: StandaloneCluster) -> None:
    nobody = joined.kubeconfig_of("nobody")
    with pytest.raises(JoinError, match=r"no token could be made.*forbidden") as caught:
        cluster_token(joined.server, "pi-01", {VARIABLE: str(nobody)})
    assert "token-secret" not in str(caught.value)


def program(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The program of the node, with the plan's file as it would be on this machine."""
    argv = [sys.executable, "-I", str(PROGRAM), *arguments, "--config", str(folder / "kube-join.json")]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=90)


def placed(folder: Path, cluster: StandaloneCluster, token: str) -> list[str]:
    """The plan's files for pi-01 below *folder*, and the command line of a kubelet that uses them."""
    found = concern(stated(DC, {"edge_cluster": {}}, **JOINED), DeviceKind.PI, "edge_cluster")
    told: dict[str, Any] = json.loads(file(found, JOIN_FILE).content)
    ca, certificate = folder / "ca.pem", folder / "pki/kubelet-client-current.pem"
    ca.write_text(cluster_authority(cluster.server, variables(cluster)))
    told |= {
        "server": cluster.server,
        "authority": str(ca),
        "certificate": str(certificate),
        "bootstrap": str(folder / "bootstrap"),
    }
    (folder / "kube-join.json").write_text(json.dumps(told))
    text = bootstrap(cluster.server).replace("@cluster-token@", token)
    document = json.loads(text)
    document["clusters"][0]["cluster"]["certificate-authority"] = str(ca)
    (folder / "bootstrap").write_text(json.dumps(document))
    settings = json.loads(file(found, CONFIG_FILE).content)
    settings["authentication"]["x509"]["clientCAFile"] = str(ca)
    settings |= {"failCgroupV1": False, "failSwapOn": False, "containerRuntimeEndpoint": f"unix://{folder}/none.sock"}
    (folder / "kubelet.json").write_text(json.dumps(settings))
    return [
        str(BIN / "kubelet"),
        f"--config={folder}/kubelet.json",
        f"--bootstrap-kubeconfig={folder}/bootstrap",
        f"--kubeconfig={folder}/kubeconfig",
        f"--cert-dir={folder}/pki",
        f"--root-dir={folder}/root",
        "--hostname-override=pi-01",
    ]


@pytest.mark.skipif(os.geteuid() != 0, reason="a kubelet wants root")
def test_a_real_kubelet_gets_its_certificate_and_the_token_goes(joined: StandaloneCluster, tmp_path: Path) -> None:
    token = cluster_token(joined.server, "pi-01", variables(joined))
    command = placed(tmp_path, joined, token)
    assert program(tmp_path, "good").returncode == 1
    late = program(tmp_path, "joined", "--wait", "1")
    assert late.returncode == 1
    assert "reachable from here" in late.stderr
    with (tmp_path / "kubelet.log").open("w") as log, socket.socket(socket.AF_UNIX) as runtime:
        # a container runtime that takes its time: a kubelet without any ends before it has its certificate
        runtime.bind(f"{tmp_path}/none.sock")
        runtime.listen()
        kubelet = subprocess.Popen(["unshare", "-m", *command], stdout=log, stderr=log)
        try:
            said = program(tmp_path, "joined", "--wait", "40")
        finally:
            kubelet.terminate()
            kubelet.wait(20)
    assert said.returncode == 0, said.stderr + (tmp_path / "kubelet.log").read_text()[-3000:]
    assert "its token is removed" in said.stdout
    assert not (tmp_path / "bootstrap").exists()
    assert program(tmp_path, "good").returncode == 0
    assert "node is answered with HTTP 404" in program(tmp_path, "--check").stdout, (
        "it has a certificate; it is no node yet"
    )
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "pi-01", "labels": {"edge": "pi", "arch": "amd64"}},
    }
    kubectl(joined, "create", "-f", "-", given=json.dumps(node))
    found = program(tmp_path, "--check")
    assert found.returncode == 1
    assert found.stdout.splitlines() == ["not Ready: never said", "label arch is amd64, planned arm64"]
    kubectl(joined, "label", "--overwrite", "node", "pi-01", "arch=arm64")
    ready = [{"op": "replace", "path": "/status/conditions", "value": [{"type": "Ready", "status": "True"}]}]
    kubectl(joined, "patch", "node", "pi-01", "--subresource=status", "--type=json", "-p", json.dumps(ready))
    done = program(tmp_path, "--check")
    assert (done.returncode, done.stdout) == (0, "")


# --- the certificate that it serves with ------------------------------------------------------------------------------


def operator(cluster: StandaloneCluster) -> dict[str, str]:
    """The environment of somebody who may do what the administrator allows operators, and no more."""
    binding = [
        "clusterrolebinding",
        "pinion:operator",
        "--clusterrole=pinion:operator",
        "--user=operator",
        "--dry-run=client",
    ]
    kubectl(cluster, "apply", "--server-side", "-f", "-", given=kubectl(cluster, "create", *binding, "--output=json"))
    return {VARIABLE: str(cluster.kubeconfig_of("operator"))}


def asks_to_serve(cluster: StandaloneCluster, name: str, node: str, address: str) -> None:
    """Have the kubelet of *node* ask for a certificate to serve with."""
    stated = signing_request(name, request(node, [node], [address]))
    who = cluster.kubeconfig_of(f"system:node:{node}", "system:nodes")
    command = ["kubectl", f"--kubeconfig={who}", "create", "-f", "-"]
    subprocess.run(command, input=json.dumps(stated), capture_output=True, text=True, check=True, timeout=60)


def test_the_operator_approves_what_a_node_serves_with_and_the_cluster_signs_it(
    joined: StandaloneCluster, tmp_path: Path
) -> None:
    placed(tmp_path, joined, "abcdef.0123456789abcdef")
    told = json.loads((tmp_path / "kube-join.json").read_text())
    pki = tmp_path / "pki"
    pki.mkdir()
    own = joined.credentials.user("system:node:pi-01", "system:nodes")
    (pki / "kubelet-client-current.pem").write_bytes(own.certificate.read_bytes() + own.key.read_bytes())
    (tmp_path / "kube-join.json").write_text(json.dumps({**told, "serving": f"{pki}/server.pem"}))
    wanted = HostApproval(server=joined.server, node="pi-01", addresses=(told["address"],), asks="true")
    asks_to_serve(joined, "another", "pi-02", "10.0.0.2")
    assert program(tmp_path, "asks").returncode == 1, "nobody asks but its neighbour"
    assert approve(wanted, operator(joined)) == ()

    asks_to_serve(joined, "too-much", "pi-01", "10.0.0.1")
    assert program(tmp_path, "asks").returncode == 0
    with pytest.raises(JoinError, match=r"too-much is for DNS pi-01, IP 10\.0\.0\.1, planned"):
        approve(wanted, operator(joined))

    asks_to_serve(joined, "as-planned", "pi-01", told["address"])
    assert approve(wanted, operator(joined)) == ("as-planned",)
    deadline = time.monotonic() + 30
    signed = ""
    while not signed:
        assert time.monotonic() < deadline, "nobody signs"
        signed = json.loads(kubectl(joined, "get", "csr", "as-planned", "-o", "json"))["status"].get("certificate", "")
    (pki / "server.pem").write_bytes(base64.b64decode(signed))
    assert program(tmp_path, "asks").returncode == 1, "it has what it needs, whatever else waits"
    left = [entry for entry in json.loads(kubectl(joined, "get", "csr", "-o", "json"))["items"] if not entry["status"]]
    assert {"another", "too-much"} <= {entry["metadata"]["name"] for entry in left}


def test_an_operator_may_approve_nothing_else(joined: StandaloneCluster) -> None:
    who = operator(joined)[VARIABLE]
    somebody = request("pi-01", [], [], user="somebody", organisation="anybody")
    asked = signing_request("a-client", somebody, signerName="kubernetes.io/kube-apiserver-client")
    asked["spec"]["usages"] = ["digital signature", "client auth"]
    kubectl(joined, "create", "-f", "-", given=json.dumps(asked))
    command = ["kubectl", f"--kubeconfig={who}", "certificate", "approve", "a-client"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, "forbidden" in done.stderr) == (1, True)


def test_another_nodes_certificate_is_not_good(joined: StandaloneCluster, tmp_path: Path) -> None:
    placed(tmp_path, joined, "abcdef.0123456789abcdef")
    other = joined.credentials.user("system:node:pi-02", "system:nodes")
    certificate = tmp_path / "pki/kubelet-client-current.pem"
    certificate.parent.mkdir()
    certificate.write_bytes(other.certificate.read_bytes() + other.key.read_bytes())
    said = program(tmp_path, "good")
    assert (said.returncode, "made out to system:node:pi-02" in said.stderr) == (1, True)
    stranger = joined.credentials.etcd.issue("system-node-pi-01", usages=("client",), subject="system:node:pi-01")
    certificate.write_bytes(stranger.certificate.read_bytes() + stranger.key.read_bytes())
    assert program(tmp_path, "good").returncode == 1, "of another authority"
