"""What a host needs from the operator's machine to join the site's cluster: the cluster's authority, and a token that counts for minutes.

Invariants:

* The token is made for one host, when that host has said that it needs one and the cluster does not know it as a node that has joined;
  who shows it may ask for a certificate, and gets none but the one that `admission` approves.
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
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pinion.drivers.identity.place import AuthorityError

#: The environment variable that names the kubeconfig for the site's cluster.
VARIABLE = "PINION_KUBECONFIG"
#: The environment variable that names nodes (separated by commas) that get a token although they have joined: lost keys, another machine.
REJOIN_VARIABLE = "PINION_REJOIN"
#: How long a token counts when the run that made it does not take it back: it was killed. As an enrolment token of `identity`.
LIFETIME = timedelta(minutes=15)
#: Who shows such a token is in this group, and `cluster_access.yaml` says what that may do; and in that of its node, `GROUP`:NODE.
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


@dataclass(frozen=True, slots=True)
class JoinToken:
    """A token that *node* asks its first certificate with. *secret* is one."""

    node: str
    id: str
    secret: str = field(repr=False)

    @property
    def text(self) -> str:
        """What its bearer shows."""
        return f"{self.id}.{self.secret}"

    @property
    def user(self) -> str:
        """As whom the API server knows its bearer (Kubernetes documentation, Authenticating with Bootstrap Tokens)."""
        return f"system:bootstrap:{self.id}"

    @property
    def groups(self) -> frozenset[str]:
        """The groups of its bearer that say what it is for."""
        return frozenset((GROUP, f"{GROUP}:{self.node}"))

    @property
    def object_name(self) -> str:
        """The Secret in kube-system that the API server knows it by."""
        return f"bootstrap-token-{self.id}"


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
) -> JoinToken:
    """A new token for *node* to join the cluster at *server* with; it counts for `LIFETIME` unless `take_back` ends it before.

    Raises `JoinError`, also for a node that has joined and is not among those that `REJOIN_VARIABLE` names.
    """
    found = kubeconfig(server, variables)
    token = JoinToken(node, *("".join(secrets.choice(_LETTERS) for _ in range(length)) for length in (6, 16)))
    ends = (now or datetime.now(UTC)) + LIFETIME
    manifest = {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "bootstrap.kubernetes.io/token",
        "metadata": {
            "name": token.object_name,
            "namespace": "kube-system",
            "labels": {"pinion/node": node},
        },
        "stringData": {
            "token-id": token.id,
            "token-secret": token.secret,
            "description": f"node {node} joins, by Pinion",
            "expiration": ends.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "usage-bootstrap-authentication": "true",
            "auth-extra-groups": ",".join(sorted(token.groups)),
        },
    }
    try:
        if node not in variables.get(REJOIN_VARIABLE, "").split(",") and (kubelet := _joined(found, node, run)):
            raise JoinError(
                f"it has joined before (kubelet {kubelet}), and now says that it has no certificate. If its keys are lost or it is another "
                f"machine, say so: pinion converge … --rejoin {node} (or {REJOIN_VARIABLE}={node}); else find out who asks"
            )
        # create, not apply: that would write the whole manifest into an annotation as well
        kubectl(found, ["create", "--filename=-", "--output=name"], run, given=json.dumps(manifest))
    except JoinError as error:
        said = str(error).replace(token.secret, "…")
        raise JoinError(f"{node} joins {server}: no token could be made: {said}") from None
    return token


def take_back(server: str, token: JoinToken, variables: Mapping[str, str], run: Run = subprocess.run) -> None:
    """End *token*, whether or not it was used. Raises `JoinError`."""
    arguments = ["delete", "secret", token.object_name, "--namespace=kube-system", "--ignore-not-found", "--wait=false"]
    kubectl(kubeconfig(server, variables), arguments, run)


def _joined(cluster: Kubeconfig, node: str, run: Run) -> str | None:
    """The version of the kubelet that has registered as *node*, None where none has: a Node object alone may be an administrator's."""
    said = kubectl(cluster, ["get", "node", node, "--ignore-not-found", "--output=json"], run)
    if not said.strip():
        return None
    try:
        version = json.loads(said).get("status", {}).get("nodeInfo", {}).get("kubeletVersion")
    except (ValueError, AttributeError) as error:
        raise JoinError(f"kubectl get node {node}: not a Node object ({error})") from None
    return str(version) if version else None


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
