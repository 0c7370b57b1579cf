"""A node joins with a token of Pinion's: a real API server that approves and signs, a real kubelet that asks; no machine of the lab."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from unit.hosts.kubelet_requests import request, signing_request
from unit.hosts.nodes import JOINED, concern, file, stated
from unit.hosts.sites import DC, REPOSITORY

from pinion.drivers.hosts.admission import Admission
from pinion.drivers.hosts.approving import CLIENT_SIGNER, approve
from pinion.drivers.hosts.joining import (
    ACCESS,
    LIFETIME,
    REJOIN_VARIABLE,
    VARIABLE,
    JoinError,
    cluster_authority,
    cluster_token,
)
from pinion.lab.cluster.standalone import StandaloneCluster
from pinion.lab.state import cache_root
from pinion.plan.cluster import MEMBERS, MEMBERS_NAMESPACE
from pinion.plan.joining import CONFIG_FILE, JOIN_FILE, bootstrap
from pinion.plan.model import DeviceKind, HostApproval

#: One that left, and one that stays.
NAMES = ("pi-21", "pi-22")
BIN = cache_root() / "bin"
RUNNING = {"status": {"phase": "Running"}}
#: Seconds for what takes some on a machine that is busy.
LIMIT = 120.0
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
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{BIN}:{os.environ['PATH']}")
        # the API server makes it a moment after it is ready
        until(lambda: bool(kubectl(cluster, "get", "namespace", "kube-system", "--ignore-not-found")), "no kube-system")
        kubectl(cluster, "apply", "-f", str(ACCESS))
    return cluster


def until(holds: Callable[[], bool], why: str) -> None:
    """Wait for what a controller brings about."""
    deadline = time.monotonic() + LIMIT
    while not holds():
        assert time.monotonic() < deadline, why
        time.sleep(0.2)


def variables(cluster: StandaloneCluster) -> dict[str, str]:
    return {VARIABLE: str(cluster.kubeconfig)}


def test_a_token_asks_for_a_certificate_and_does_no_more(joined: StandaloneCluster) -> None:
    made = cluster_token(joined.server, "pi-01", variables(joined))
    token = made.text
    may = kubectl(joined, "auth", "can-i", "create", "certificatesigningrequests", token=token)
    assert may.strip() == "yes"
    for verb, what in (("get", "secrets"), ("list", "nodes"), ("create", "pods"), ("approve", "signers")):
        assert "no" in kubectl(joined, "auth", "can-i", verb, what, token=token, expect=1).split()
    secret = json.loads(kubectl(joined, "get", "-n", "kube-system", "-o", "json", f"secret/{made.object_name}"))
    assert secret["metadata"].get("annotations") is None, "nothing writes the token down a second time"
    assert secret["metadata"]["labels"] == {"pinion/node": "pi-01"}


def test_a_token_counts_for_minutes(joined: StandaloneCluster) -> None:
    long_ago = datetime.now(UTC) - LIFETIME - timedelta(seconds=1)
    token = cluster_token(joined.server, "pi-01", variables(joined), now=long_ago).text
    assert "logged in" in kubectl(joined, "get", "csr", token=token, expect=1)


def first_request(name: str, node: str) -> str:
    """What is asked for to become *node*."""
    asked = signing_request(name, request(node, [], []), signerName=CLIENT_SIGNER)
    asked["spec"]["usages"] = ["digital signature", "client auth"]
    return json.dumps(asked)


def status(cluster: StandaloneCluster, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(kubectl(cluster, "get", "csr", name, "-o", "json"))["status"]
    return found


def test_a_thief_of_a_token_becomes_no_other_node(joined: StandaloneCluster) -> None:
    with Admission(operator(joined), pause=0.2) as admission:
        token = admission.token(joined.server, "pi-01")
        kubectl(joined, "create", "-f", "-", given=first_request("theft", "nv-1"), token=token)
        kubectl(joined, "create", "-f", "-", given=first_request("own", "pi-01"), token=token)
        until(lambda: "certificate" in status(joined, "own"), "the node's own is not signed")
        # a second use of it, after the first
        kubectl(joined, "create", "-f", "-", given=first_request("again", "pi-01"), token=token)
        until(lambda: "again" in str(admission.told({"error": "x"})), "nobody has looked at it")
    said = str(admission.told({"notes": []})["error"])
    assert "theft is made out to CN=system:node:nv-1" in said
    assert (status(joined, "theft"), status(joined, "again")) == ({}, {})
    # the API server hears of it a moment later
    until(lambda: "logged in" in _tried(joined, token), "the token outlives its request")
    assert (status(joined, "theft"), status(joined, "again")) == ({}, {})


def _tried(cluster: StandaloneCluster, token: str) -> str:
    """What the bearer of *token* is told, whether or not it counts."""
    try:
        return kubectl(cluster, "get", "csr", token=token)
    except AssertionError as refused:
        return str(refused)


def test_a_node_that_has_joined_gets_a_token_only_when_told_so(joined: StandaloneCluster) -> None:
    named = operator(joined)
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "pi-07"}}
    kubectl(joined, "create", "-f", "-", given=json.dumps(node))
    try:
        cluster_token(joined.server, "pi-07", named)  # somebody has made the object; no kubelet has
        info = {"op": "add", "path": "/status/nodeInfo/kubeletVersion", "value": "v1.34.2"}
        kubectl(joined, "patch", "node", "pi-07", "--subresource=status", "--type=json", "-p", json.dumps([info]))
        with pytest.raises(JoinError, match=r"pi-07 .* it has joined before \(kubelet v1\.34\.2\).*--rejoin pi-07"):
            cluster_token(joined.server, "pi-07", named)
        assert cluster_token(joined.server, "pi-07", {**named, REJOIN_VARIABLE: "pi-07"}).node == "pi-07"
    finally:
        kubectl(joined, "delete", "node", "pi-07")


# --- names that left --------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def members(cluster: StandaloneCluster, *names: str) -> Iterator[None]:
    """The list that the stack keeps, in force while the block lasts."""
    listed = [f"--from-literal={name}=pi" for name in names]
    kubectl(cluster, "create", "configmap", MEMBERS, f"--namespace={MEMBERS_NAMESPACE}", *listed)
    try:
        until(
            lambda: "is not, or no longer, of this site" in asks(cluster, "nobody", "--dry-run=server"), "not in force"
        )
        yield
    finally:
        kubectl(cluster, "delete", "configmap", MEMBERS, f"--namespace={MEMBERS_NAMESPACE}")
        until(lambda: "created" in asks(cluster, "nobody", "--dry-run=server"), "still in force")


def as_node(cluster: StandaloneCluster, node: str, *argv: str, given: str = "") -> str:
    """What kubectl says to who has the certificate of *node*, whether or not it may."""
    who = cluster.kubeconfig_of(f"system:node:{node}", "system:nodes")
    command = ["kubectl", f"--kubeconfig={who}", *argv]
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False, timeout=60)
    return done.stdout + done.stderr


def asks(cluster: StandaloneCluster, node: str, *options: str) -> str:
    """What is said to the kubelet of *node* when it renews its certificate."""
    return as_node(cluster, node, "create", "-f", "-", *options, given=first_request(f"renewal-of-{node}", node))


def says_of_itself(
    cluster: StandaloneCluster, node: str, status: object, method: str = "PATCH", kind: str = "merge-patch+json"
) -> str:
    """What is answered when the kubelet of *node* writes its *status*, as kubectl cannot for want of the right to read it."""
    own = cluster.credentials.user(f"system:node:{node}", "system:nodes")
    context = ssl.create_default_context(cafile=str(own.ca))
    context.load_cert_chain(own.certificate, own.key)
    url = urlsplit(cluster.server)
    connection = HTTPSConnection(url.hostname or "", url.port, timeout=60, context=context)
    with contextlib.closing(connection):
        path = f"/api/v1/nodes/{node}/status"
        connection.request(method, path, json.dumps(status), {"Content-Type": f"application/{kind}"})
        return connection.getresponse().read().decode()


def test_a_node_does_not_take_back_that_it_has_joined(joined: StandaloneCluster) -> None:
    """Its root has the kubelet's certificate, and would get a token for its name that it need not use for the same machine."""
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "pi-08"}}
    info = {"kubeletVersion": "v1.34.2"}
    try:
        assert "created" in as_node(joined, "pi-08", "create", "-f", "-", given=json.dumps(node))
        assert '"kubeletVersion":"v1.34.2"' in says_of_itself(joined, "pi-08", {"status": {"nodeInfo": info}})
        refusal = "does not take back that its kubelet has registered"
        blank = {"op": "replace", "path": "/status/nodeInfo/kubeletVersion", "value": ""}
        until(lambda: refusal in says_of_itself(joined, "pi-08", [blank], kind="json-patch+json"), "not in force")
        for gone in ({"nodeInfo": None}, {"nodeInfo": {"kubeletVersion": None}}, None):
            assert refusal in says_of_itself(joined, "pi-08", {"status": gone})

        def written_whole() -> str:
            found = json.loads(kubectl(joined, "get", "node", "pi-08", "-o", "json"))
            return says_of_itself(joined, "pi-08", {**found, "status": {}}, "PUT", "json")

        # a controller may have been faster with a taint
        until(lambda: refusal in written_whole(), "whole objects are another way")
        assert "forbidden" in as_node(joined, "pi-08", "delete", "node", "pi-08").lower()
        with pytest.raises(JoinError, match=r"pi-08 .* it has joined before"):
            cluster_token(joined.server, "pi-08", operator(joined))
        newer = {"status": {"nodeInfo": {"kubeletVersion": "v1.34.3"}}}
        assert '"kubeletVersion":"v1.34.3"' in says_of_itself(joined, "pi-08", newer), "an upgrade is told"
    finally:
        kubectl(joined, "delete", "node", "pi-08", "--ignore-not-found")


def test_a_node_that_left_renews_nothing_and_does_not_come_back(joined: StandaloneCluster) -> None:
    registers = {node: json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}}) for node in NAMES}
    left, stays = NAMES
    refusal = f"node {left} is not, or no longer, of this site"
    with members(joined, stays):
        assert refusal in asks(joined, left)
        assert refusal in as_node(joined, left, "create", "-f", "-", given=registers[left])
        asked = signing_request("to-serve", request(left, [left], ["10.1.2.9"]))
        assert refusal in as_node(joined, left, "create", "-f", "-", given=json.dumps(asked))
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": left, "namespace": "kube-node-lease"},
        }
        assert refusal in as_node(joined, left, "create", "-f", "-", given=json.dumps(lease))
        token = cluster_token(joined.server, left, variables(joined)).text
        assert refusal in kubectl(joined, "create", "-f", "-", given=first_request("b", left), token=token, expect=1)
        # its object is there yet, as where nobody may delete it
        kubectl(joined, "create", "-f", "-", given=registers[left])
        assert refusal in as_node(joined, left, "annotate", "node", left, "still=here")
        assert refusal in says_of_itself(joined, left, RUNNING)
        kubectl(joined, "delete", "node", left)
        # what it may yet: read what every node may, and no Secret, as it has no pods
        kubectl(joined, "create", "secret", "generic", "of-a-pod")
        assert "forbidden" in as_node(joined, left, "get", "secret", "of-a-pod").lower()
        assert "kubernetes" in as_node(joined, left, "get", "services")
        kubectl(joined, "delete", "secret", "of-a-pod")
        # who stays is a node, and renews its certificate without anybody
        assert "created" in as_node(joined, stays, "create", "-f", "-", given=registers[stays])
        assert '"phase":"Running"' in says_of_itself(joined, stays, RUNNING)
        assert "created" in asks(joined, stays)
        until(lambda: "certificate" in status(joined, f"renewal-of-{stays}"), "nobody renews it")
        kubectl(joined, "delete", "node", stays)


def test_a_node_of_somebody_else_is_let_be_by_a_key_of_its_own(joined: StandaloneCluster) -> None:
    with members(joined, "pi-01"):
        entry = json.dumps({"data": {"their-node": "of another team"}})
        kubectl(joined, "patch", "configmap", MEMBERS, f"--namespace={MEMBERS_NAMESPACE}", "--patch", entry)
        until(lambda: "created" in asks(joined, "their-node", "--dry-run=server"), "refused all the same")


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
    with Admission(operator(joined)) as admission:
        becomes_a_node(joined, tmp_path, admission.token(joined.server, "pi-01"))
    assert admission.told({"notes": []}) == {"notes": []}
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
    try:
        is_told_of(joined, tmp_path)
    finally:
        kubectl(joined, "delete", "node", "pi-01")


def becomes_a_node(joined: StandaloneCluster, tmp_path: Path, token: str) -> None:
    """A kubelet asks for its certificate with *token*, and gets it."""
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
            said = program(tmp_path, "joined", "--wait", "80")
        finally:
            kubelet.terminate()
            kubelet.wait(20)
    assert said.returncode == 0, said.stderr + (tmp_path / "kubelet.log").read_text()[-3000:]
    assert "its token is removed" in said.stdout
    assert not (tmp_path / "bootstrap").exists()


def is_told_of(joined: StandaloneCluster, tmp_path: Path) -> None:
    """What the node's check says as its Node object comes to be as planned."""
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
    inside = ["rolebinding", "pinion:operator", "--role=pinion:operator", "--namespace=kube-system", *binding[3:]]
    kubectl(cluster, "apply", "--server-side", "-f", "-", given=kubectl(cluster, "create", *inside, "--output=json"))
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
