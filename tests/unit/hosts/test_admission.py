"""Which first certificates the operator's machine lets nodes have: one a token, in the name that the token was made for."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from unit.hosts.kubelet_requests import first_request, request
from unit.hosts.test_joining import SERVER, named

from pinion.drivers.hosts.admission import Admission
from pinion.drivers.hosts.approving import client_fault
from pinion.drivers.hosts.joining import JoinError, JoinToken

NODE = "pi-01"
TOKEN = JoinToken(NODE, "abcdef", "0123456789abcdef")
#: Seconds for a look that comes every hundredth of one.
LIMIT = 30.0


class Cluster:
    """A cluster that shows what *asks* makes of the last token's id; *refuses* are the verbs that it does not allow."""

    def __init__(self, asks: Callable[[str], Sequence[dict[str, Any]]], refuses: Sequence[str] = ()) -> None:
        self.asks, self.refuses = asks, refuses
        self.tokens: list[str] = []
        self.taken: list[str] = []
        self.approved: list[str] = []
        self.looks = 0

    def __call__(self, argv: Sequence[str], **given: Any) -> subprocess.CompletedProcess[str]:
        words = list(argv)
        verb = words[4]
        if verb in self.refuses:
            return subprocess.CompletedProcess(words, 1, "", f"{verb}: you may not")
        said = ""
        if verb == "create":
            self.tokens.append(json.loads(given["input"])["stringData"]["token-id"])
        elif verb == "delete":
            self.taken.append(words[6])
        elif verb == "certificate":
            self.approved += words[6:]
        elif words[5] == "csr":
            # judged ones have a status
            found = [{**e, "status": {"conditions": []}} if self._judged(e) else e for e in self.asks(self.tokens[-1])]
            self.looks += 1
            said = json.dumps({"items": found})
        return subprocess.CompletedProcess(words, 0, said, "")

    def _judged(self, entry: dict[str, Any]) -> bool:
        return entry["metadata"]["name"] in self.approved


def at_work(cluster: Cluster, folder: Path, answer: dict[str, Any], until: Callable[[], bool]) -> dict[str, Any]:
    """What is told of the host's *answer*, which it gives once *until* holds."""
    with Admission(named(folder, {"server": SERVER}), cluster, pause=0.01) as admission:
        shown = admission.token(SERVER, NODE)
        assert shown.startswith(f"{cluster.tokens[-1]}.")
        deadline = time.monotonic() + LIMIT
        while not until():
            assert time.monotonic() < deadline
            time.sleep(0.01)
    return dict(admission.told(answer))


def test_the_nodes_own_request_is_approved_once_and_the_token_ends(tmp_path: Path) -> None:
    def asks(token: str) -> list[dict[str, Any]]:
        late = [first_request("csr-2", NODE, token)] if cluster.approved else []
        return [first_request("csr-1", NODE, token), *late]

    cluster = Cluster(asks)
    told = at_work(cluster, tmp_path, {"notes": ["a"]}, lambda: cluster.looks > 4)
    assert cluster.approved == ["csr-1"]
    assert cluster.taken == [f"bootstrap-token-{cluster.tokens[0]}"]
    assert told["notes"][0] == "a"
    assert "a further certificate was asked for, which nobody gets: csr-2" in told["notes"][1]
    assert "error" not in told


def test_of_a_kubelet_that_was_started_anew_the_later_request_is_approved(tmp_path: Path) -> None:
    def asks(token: str) -> list[dict[str, Any]]:
        found = [first_request(name, NODE, token) for name in ("new", "old")]
        for minute, entry in zip((2, 1), found, strict=True):
            entry["metadata"]["creationTimestamp"] = f"2026-11-24T02:0{minute}:00Z"
        return found

    cluster = Cluster(asks)
    at_work(cluster, tmp_path, {}, lambda: cluster.looks > 4)
    assert cluster.approved == ["new"]


def test_another_tokens_request_is_left(tmp_path: Path) -> None:
    cluster = Cluster(lambda _: [first_request("csr-1", NODE, "zzzzzz")])
    told = at_work(cluster, tmp_path, {"error": "no certificate"}, lambda: cluster.looks > 2)
    assert cluster.approved == []
    assert "no certificate; nothing was asked for with the token of pi-01: did `pulumi up`" in told["error"]


def test_who_asks_for_another_node_with_it_is_told_though_the_host_is_well(tmp_path: Path) -> None:
    cluster = Cluster(
        lambda token: [
            first_request("theft", NODE, token, request("nv-1", [], [])),
            first_request("csr-1", NODE, token),
        ]
    )
    told = at_work(cluster, tmp_path, {"notes": []}, lambda: cluster.looks > 2)
    assert cluster.approved == ["csr-1"]
    assert "theft is made out to CN=system:node:nv-1" in told["error"]


@pytest.mark.parametrize(
    ("verb", "said"), [("certificate", "could not be approved"), ("delete", "could not be taken back")]
)
def test_what_the_cluster_does_not_allow_is_told(tmp_path: Path, verb: str, said: str) -> None:
    cluster = Cluster(lambda token: [first_request("csr-1", NODE, token)], [verb])
    told = at_work(cluster, tmp_path, {"notes": []}, lambda: cluster.looks > 2)
    assert f"{said}: {verb}: you may not" in told["error"]


def test_a_cluster_that_falls_silent_after_the_approval_is_no_fault(tmp_path: Path) -> None:
    def asks(token: str) -> list[dict[str, Any]]:
        if cluster.approved:
            cluster.refuses = ["get"]
        return [first_request("csr-1", NODE, token)]

    cluster = Cluster(asks)
    assert at_work(cluster, tmp_path, {"notes": []}, lambda: "get" in cluster.refuses) == {"notes": []}


def test_a_host_that_breaks_off_leaves_no_token(tmp_path: Path) -> None:
    cluster = Cluster(lambda _: [])

    def breaks_off() -> bool:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        at_work(cluster, tmp_path, {}, breaks_off)
    assert cluster.taken == [f"bootstrap-token-{cluster.tokens[0]}"]


def test_without_a_token_nobody_is_asked(tmp_path: Path) -> None:
    cluster = Cluster(lambda _: [], ["create"])
    with (
        pytest.raises(JoinError, match="no token could be made"),
        Admission(named(tmp_path, {"server": SERVER}), cluster) as admission,
    ):
        admission.token(SERVER, NODE)
    assert cluster.taken == []
    assert cluster.looks == 0


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (request("nv-1", [], []), "made out to CN=system:node:nv-1"),
        (request(NODE, [], [], organisation="system:masters"), "O=system:masters"),
        (request(NODE, [NODE], []), "is for DNS pi-01 as well"),
        (request(NODE, [], ["10.1.2.3"]), r"is for IP 10.1.2.3 as well"),
        (request(NODE, [], [], others=[x509.RFC822Name("a@b.example")]), "RFC822Name"),
        ("?", "cannot be read"),
    ],
)
def test_what_a_token_is_not_for(asked: str, said: str) -> None:
    assert said in str(client_fault(first_request("csr-1", NODE, TOKEN.id, asked)["spec"], TOKEN))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"username": "system:bootstrap:zzzzzz"}, "not of the bearer"),
        ({"username": "system:node:pi-01"}, "not of the bearer"),
        ({"groups": ["system:bootstrappers:pinion", "system:bootstrappers:pinion:pi-02"]}, "not of the bearer"),
        ({"usages": ["client auth"]}, "is for client auth"),
        ({"usages": ["digital signature", "client auth", "server auth"]}, "server auth"),
    ],
)
def test_who_asks_and_what_for(changes: dict[str, Any], said: str) -> None:
    assert client_fault(first_request("csr-1", NODE, TOKEN.id)["spec"], TOKEN) is None
    rsa = {"usages": ["digital signature", "key encipherment", "client auth"]}
    assert client_fault(first_request("csr-1", NODE, TOKEN.id, **rsa)["spec"], TOKEN) is None
    assert said in str(client_fault(first_request("csr-1", NODE, TOKEN.id, **changes)["spec"], TOKEN))
