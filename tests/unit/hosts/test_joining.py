"""What the operator's machine says of a kubeconfig that cannot be the plan's cluster's."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pinion.drivers.hosts.joining import (
    GROUP,
    REJOIN_VARIABLE,
    VARIABLE,
    JoinError,
    cluster_authority,
    cluster_token,
)

SERVER = "https://10.1.2.3:6443"
CA = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----"


def named(folder: Path, cluster: dict[str, Any], **changes: Any) -> dict[str, str]:
    """The environment with a kubeconfig for *cluster*."""
    document = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": cluster}, {"name": "other", "cluster": {"server": "https://other:6443"}}],
        **changes,
    }
    (folder / "config").write_text(json.dumps(document))
    return {VARIABLE: str(folder / "config")}


def test_the_authority_inline_or_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text(CA)
    inline = {"server": f"{SERVER}/", "certificate-authority-data": base64.b64encode(CA.encode()).decode()}
    beside = {"server": SERVER, "certificate-authority": "ca.crt"}
    for cluster in (inline, beside):
        assert cluster_authority(SERVER, named(tmp_path, cluster)) == f"{CA}\n"


@pytest.mark.parametrize(
    ("cluster", "changes", "said"),
    [
        ({"server": "https://10.9.9.9:6443"}, {}, r"is for https://10\.9\.9\.9:6443, and the plan's cluster is at"),
        ({"server": SERVER}, {}, "names no certificate-authority"),
        ({"server": SERVER, "certificate-authority": "gone"}, {}, "cannot be read"),
        ({"server": SERVER, "certificate-authority-data": "!"}, {}, "cannot be read"),
        ({"server": SERVER, "certificate-authority-data": "YQ=="}, {}, "no certificate in PEM"),
        ({"server": SERVER}, {"current-context": ""}, "not a kubeconfig with a current context"),
        ({}, {}, "not a kubeconfig"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, cluster: dict[str, Any], changes: dict[str, Any], said: str) -> None:
    with pytest.raises(JoinError, match=said):
        cluster_authority(SERVER, named(tmp_path, cluster, **changes))


def test_a_kubeconfig_that_is_not_named_or_not_there(tmp_path: Path) -> None:
    with pytest.raises(JoinError, match=f"name a kubeconfig for it with {VARIABLE}"):
        cluster_authority(SERVER, {})
    with pytest.raises(JoinError, match="No such file"):
        cluster_authority(SERVER, {VARIABLE: str(tmp_path / "none")})
    (tmp_path / "list").write_text("- a\n")
    with pytest.raises(JoinError, match="not a kubeconfig"):
        cluster_authority(SERVER, {VARIABLE: str(tmp_path / "list")})


def test_the_token_is_no_argument_and_in_no_error(tmp_path: Path) -> None:
    asked: list[tuple[list[str], str]] = []

    def refuses(argv: list[str], **given: Any) -> subprocess.CompletedProcess[str]:
        if "get" in argv:
            return subprocess.CompletedProcess(argv, 0, "", "")
        asked.append((argv, given["input"]))
        secret = json.loads(given["input"])["stringData"]["token-secret"]
        return subprocess.CompletedProcess(argv, 1, "", f"the Secret with {secret} is invalid")

    with pytest.raises(JoinError, match="the Secret with … is invalid") as caught:
        cluster_token(SERVER, "pi-01", named(tmp_path, {"server": SERVER}), refuses)
    ((argv, given),) = asked
    parts = json.loads(given)["stringData"]
    assert len(parts["token-id"]) == 6
    assert len(parts["token-secret"]) == 16
    assert not any(parts["token-secret"] in word for word in [*argv, str(caught.value)])


@pytest.mark.parametrize(
    ("held", "made"),
    [
        ("", True),
        (json.dumps({"metadata": {"name": "pi-01"}, "status": {}}), True),
        (json.dumps({"status": {"nodeInfo": {"kubeletVersion": ""}}}), True),
        (json.dumps({"status": {"nodeInfo": {"kubeletVersion": "v1.34.2"}}}), False),
        ("what?", False),
    ],
)
def test_a_token_is_for_who_has_not_joined(tmp_path: Path, held: str, made: bool) -> None:
    created: list[str] = []

    def cluster(argv: list[str], **given: Any) -> subprocess.CompletedProcess[str]:
        if "get" in argv:
            return subprocess.CompletedProcess(argv, 0, held, "")
        created.append(given["input"])
        return subprocess.CompletedProcess(argv, 0, "", "")

    variables = named(tmp_path, {"server": SERVER})
    if made:
        token = cluster_token(SERVER, "pi-01", variables, cluster)
        (manifest,) = map(json.loads, created)
        assert manifest["stringData"]["auth-extra-groups"] == f"{GROUP},{GROUP}:pi-01"
        assert token.secret not in repr(token)
        return
    with pytest.raises(JoinError, match=r"pi-01 joins .*: no token could be made"):
        cluster_token(SERVER, "pi-01", variables, cluster)
    with pytest.raises(JoinError):
        cluster_token(SERVER, "pi-01", {**variables, REJOIN_VARIABLE: "pi-011,pi-0"}, cluster)
    assert created == []
    cluster_token(SERVER, "pi-01", {**variables, REJOIN_VARIABLE: "pi-02,pi-01"}, cluster)
    assert len(created) == 1
