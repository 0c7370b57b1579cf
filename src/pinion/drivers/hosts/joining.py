"""What a host needs from the operator's machine to join the site's cluster: the cluster's authority, and a token that counts for minutes.

Invariants:

* The token is made for one host, when that host has said that it needs one; it is good for asking for a node's certificate, and no more.
* The token is in no argument, file or log of the operator's machine: kubectl gets it on its standard input.
* Only the cluster that the plan names is asked: a kubeconfig for another server is refused.
"""

from __future__ import annotations

import base64
import binascii
import json
import secrets
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pinion.drivers.identity.place import AuthorityError

#: The environment variable that names the kubeconfig for the site's cluster.
VARIABLE = "PINION_KUBECONFIG"
#: How long a token counts: a slow run over many hosts, and no longer; as an enrolment token of `identity`.
LIFETIME = timedelta(minutes=15)
#: Who shows such a token is in this group, and `cluster_access.yaml` says what that may do.
GROUP = "system:bootstrappers:pinion"
#: Kubernetes documentation, Authenticating with Bootstrap Tokens: six and sixteen of these.
_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
_ASK_SECONDS = 30

#: What the cluster's administrator allows once, so that hosts can join.
ACCESS = Path(__file__).with_name("cluster_access.yaml")

Run = Callable[..., subprocess.CompletedProcess[str]]


class JoinError(AuthorityError):
    """The cluster cannot take the host in; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """A kubeconfig's file and the cluster that it is for."""

    path: Path
    cluster: Mapping[str, Any]


def cluster_authority(server: str, variables: Mapping[str, str]) -> str:
    """The certificate (PEM) of the authority of the cluster at *server*, from the kubeconfig that *variables* name. Raises `JoinError`."""
    found = kubeconfig(server, variables)
    inline, file = found.cluster.get("certificate-authority-data"), found.cluster.get("certificate-authority")
    try:
        if inline:
            text = base64.b64decode(str(inline), validate=True).decode()
        elif file:
            text = (found.path.parent / str(file)).read_text()
        else:
            raise JoinError(
                f"{found.path}: it names no certificate-authority for {server}; nodes would not know whom to trust"
            )
    except (OSError, UnicodeDecodeError, binascii.Error) as error:
        raise JoinError(f"{found.path}: its certificate-authority cannot be read: {error}") from None
    if "-----BEGIN CERTIFICATE-----" not in text:
        raise JoinError(f"{found.path}: its certificate-authority is no certificate in PEM")
    return text.rstrip("\n") + "\n"


def cluster_token(
    server: str,
    node: str,
    variables: Mapping[str, str],
    run: Run = subprocess.run,
    *,
    now: datetime | None = None,
) -> str:
    """A new token for *node* to join the cluster at *server* with. A secret; it counts for `LIFETIME`. Raises `JoinError`."""
    found = kubeconfig(server, variables)
    name, secret = ("".join(secrets.choice(_LETTERS) for _ in range(length)) for length in (6, 16))
    ends = (now or datetime.now(UTC)) + LIFETIME
    manifest = {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "bootstrap.kubernetes.io/token",
        "metadata": {
            "name": f"bootstrap-token-{name}",
            "namespace": "kube-system",
            "labels": {"pinion/node": node},
        },
        "stringData": {
            "token-id": name,
            "token-secret": secret,
            "description": f"node {node} joins, by Pinion",
            "expiration": ends.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "usage-bootstrap-authentication": "true",
            "auth-extra-groups": GROUP,
        },
    }
    try:
        # create, not apply: that would write the whole manifest into an annotation as well
        kubectl(found, ["create", "--filename=-", "--output=name"], run, given=json.dumps(manifest))
    except JoinError as error:
        raise JoinError(f"{node} joins {server}: no token could be made: {str(error).replace(secret, '…')}") from None
    return f"{name}.{secret}"


def kubectl(cluster: Kubeconfig, arguments: Sequence[str], run: Run, *, given: str = "") -> str:
    """What kubectl says to *arguments*, with *given* on its standard input. Raises `JoinError` with its own words."""
    command = ["kubectl", "--kubeconfig", str(cluster.path), f"--request-timeout={_ASK_SECONDS}s", *arguments]
    try:
        done = run(command, input=given, capture_output=True, text=True, timeout=2 * _ASK_SECONDS, check=False)
    except FileNotFoundError:
        raise JoinError("there is no kubectl on PATH") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JoinError(f"kubectl: {error}") from None
    if done.returncode != 0:
        raise JoinError((done.stderr or done.stdout).strip())
    return done.stdout


def kubeconfig(server: str, variables: Mapping[str, str]) -> Kubeconfig:
    """The kubeconfig for *server* that *variables* name. Raises `JoinError`."""
    stated = variables.get(VARIABLE)
    if not stated:
        raise JoinError(
            f"hosts join the cluster at {server}: name a kubeconfig for it with {VARIABLE}; docs/joining.md"
        )
    import yaml  # only here: `lab exec` asks this module for a name, and is to be quick

    path = Path(stated).expanduser()
    try:
        document = yaml.safe_load(path.read_text())
        contexts, clusters = (
            {entry["name"]: entry[kind] for entry in document[f"{kind}s"]} for kind in ("context", "cluster")
        )
        cluster = clusters[contexts[document["current-context"]]["cluster"]]
        found = str(cluster["server"]).rstrip("/")
    except OSError as error:
        raise JoinError(f"{VARIABLE}: {error}") from None
    except (yaml.YAMLError, KeyError, TypeError) as error:
        kind = type(error).__name__
        raise JoinError(f"{path}: not a kubeconfig with a current context ({kind}: {error})") from None
    if found != server.rstrip("/"):
        raise JoinError(
            f"{path} is for {found}, and the plan's cluster is at {server}; name the right one with {VARIABLE}"
        )
    return Kubeconfig(path, cluster)
