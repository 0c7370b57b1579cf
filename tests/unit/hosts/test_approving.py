"""Which certificates the operator's machine lets kubelets serve with: the plan's, and no others."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from unit.hosts.kubelet_requests import request, waiting
from unit.hosts.test_joining import SERVER, named

from pinion.drivers.hosts.approving import approve, fault
from pinion.drivers.hosts.joining import JoinError
from pinion.plan.model import HostApproval

NODE, ADDRESS = "pi-01", "10.1.2.4"
WANTED = HostApproval(server=SERVER, node=NODE, addresses=(ADDRESS,), asks="true")
GOOD = request(NODE, [NODE], [ADDRESS])


class Cluster:
    """A cluster with *requests*, as kubectl shows it. *approved* are those that it was told to approve."""

    def __init__(self, *requests: dict[str, Any], refuses: str = "") -> None:
        self.requests = requests
        self.refuses = refuses
        self.approved: list[str] = []

    def __call__(self, argv: Sequence[str], **_: Any) -> subprocess.CompletedProcess[str]:
        words = list(argv)
        if self.refuses:
            return subprocess.CompletedProcess(words, 1, "", self.refuses)
        if "approve" in words:
            self.approved += words[words.index("approve") + 1 :]
            return subprocess.CompletedProcess(words, 0, "", "")
        return subprocess.CompletedProcess(words, 0, json.dumps({"items": self.requests}), "")


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, str]:
    return named(tmp_path, {"server": SERVER})


def test_what_the_plan_says_is_approved(variables: dict[str, str]) -> None:
    cluster = Cluster(waiting("csr-1", NODE, GOOD), waiting("csr-2", NODE, request(NODE, [NODE], [ADDRESS])))
    assert approve(WANTED, variables, cluster) == ("csr-1", "csr-2")
    assert cluster.approved == ["csr-1", "csr-2"]


def test_another_nodes_request_and_one_that_was_judged_are_left(variables: dict[str, str]) -> None:
    other = waiting("csr-1", "pi-02", request("pi-02", ["pi-02"], ["10.1.2.5"]))
    judged = {**waiting("csr-2", NODE, GOOD), "status": {"conditions": [{"type": "Denied"}]}}
    cluster = Cluster(other, judged)
    assert approve(WANTED, variables, cluster) == ()
    assert cluster.approved == []


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (request(NODE, [NODE, "mgmt-1"], [ADDRESS]), "DNS mgmt-1"),
        (request(NODE, [NODE], [ADDRESS, "10.1.2.3"]), r"IP 10\.1\.2\.3"),
        (request(NODE, [NODE], ["10.1.2.9"]), r"IP 10\.1\.2\.9, planned DNS pi-01, IP 10\.1\.2\.4"),
        (request(NODE, [], [ADDRESS]), r"is for IP 10\.1\.2\.4, planned"),
        (request(NODE, [NODE], [ADDRESS], others=[x509.RFC822Name("a@b.example")]), "RFC822Name"),
        (request(NODE, [], []), "is for no name, planned DNS pi-01"),
        (request(NODE, [NODE], [ADDRESS], user="system:node:pi-02"), "made out to CN=system:node:pi-02"),
        (request(NODE, [NODE], [ADDRESS], organisation="system:masters"), "O=system:masters"),
        ("-----BEGIN CERTIFICATE REQUEST-----\n-----END CERTIFICATE REQUEST-----\n", "cannot be read"),
    ],
)
def test_a_request_for_anything_else_is_left_and_told(variables: dict[str, str], asked: str, said: str) -> None:
    cluster = Cluster(waiting("csr-1", NODE, asked))
    with pytest.raises(JoinError, match=f"nobody approves it: csr-1 .*{said}"):
        approve(WANTED, variables, cluster)
    assert cluster.approved == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"groups": ["system:authenticated"]}, "is not a kubelet's"),
        ({"usages": ["client auth", "server auth"]}, "is for client auth, server auth"),
        ({"usages": ["digital signature"]}, "is for digital signature"),
        ({"request": "?"}, "cannot be read"),
    ],
)
def test_who_asks_and_what_for(changes: dict[str, Any], said: str) -> None:
    assert fault(waiting("csr-1", NODE, GOOD)["spec"], WANTED) is None
    assert said in str(fault(waiting("csr-1", NODE, GOOD, **changes)["spec"], WANTED))


def test_a_request_that_its_key_has_not_signed_is_left() -> None:
    lines = GOOD.splitlines()
    der = bytearray(base64.b64decode("".join(lines[1:-1])))
    der[-1] ^= 1
    forged = "\n".join((lines[0], base64.b64encode(bytes(der)).decode(), lines[-1])) + "\n"
    assert fault(waiting("csr-1", NODE, forged)["spec"], WANTED) == "is not signed by its own key"


def test_one_of_yesterday_with_another_address_does_not_hold_back_todays(variables: dict[str, str]) -> None:
    cluster = Cluster(waiting("old", NODE, request(NODE, [NODE], ["10.1.2.9"])), waiting("new", NODE, GOOD))
    assert approve(WANTED, variables, cluster) == ("new",)
    assert cluster.approved == ["new"]


def test_a_cluster_that_refuses_is_told(variables: dict[str, str]) -> None:
    with pytest.raises(JoinError, match=f"{NODE} at {SERVER}: .* could not be approved: you may not"):
        approve(WANTED, variables, Cluster(refuses="you may not"))
