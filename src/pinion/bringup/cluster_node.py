"""One node of the cluster, by kubectl: its pods moved elsewhere for good or for a while, its Node object taken away."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

#: Seconds that pods have to end and to be let go by their disruption budgets.
DRAIN_SECONDS = 120
_ASK_SECONDS = 30
#: The annotation of a node that was cordoned by us and for a while: whoever finds it later may uncordon the node.
MARK = "pinion/cordoned-for"

Run = Callable[..., subprocess.CompletedProcess[str]]


class ClusterNodeError(Exception):
    """The cluster refused or did not answer; the text says what."""


class ForbiddenError(ClusterNodeError):
    """The kubeconfig's user may not do that."""


def exists(kubeconfig: Path, node: str, run: Run = subprocess.run) -> bool:
    """Whether the cluster has the node."""
    return bool(_kubectl(kubeconfig, run, "get", "node", node, "--ignore-not-found", "-o", "name").strip())


def drain(kubeconfig: Path, node: str, run: Run = subprocess.run) -> str | None:
    """Let no pod start on *node* and evict those that are there; None when there is no such node. Raises `ClusterNodeError`."""
    if not exists(kubeconfig, node, run):
        return None
    said = _kubectl(
        kubeconfig,
        run,
        *("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--force", f"--timeout={DRAIN_SECONDS}s"),
        seconds=DRAIN_SECONDS + _ASK_SECONDS,
    )
    evicted = sum(line.startswith("pod/") and line.endswith(" evicted") for line in said.splitlines())
    return f"cordoned, {evicted} pods evicted"


def hold(kubeconfig: Path, node: str, purpose: str, run: Run = subprocess.run) -> str | None:
    """`drain`, for a while: `let_go` ends it, unless somebody else had cordoned the node before. Raises `ClusterNodeError`."""
    said = _kubectl(kubeconfig, run, "get", "node", node, "--ignore-not-found", "-o", "json")
    if not said.strip():
        return None
    if not json.loads(said)["spec"].get("unschedulable", False):
        # before it is cordoned: a run that is killed in between leaves a mark without a cordon, which does no harm
        _kubectl(kubeconfig, run, "annotate", "node", node, f"{MARK}={purpose}", "--overwrite")
    return drain(kubeconfig, node, run)


def held(kubeconfig: Path, run: Run = subprocess.run) -> frozenset[str]:
    """The nodes that `hold` has cordoned and nobody has let go. Raises `ClusterNodeError`."""
    nodes = json.loads(_kubectl(kubeconfig, run, "get", "nodes", "-o", "json"))["items"]
    return frozenset(node["metadata"]["name"] for node in nodes if MARK in node["metadata"].get("annotations", {}))


def let_go(kubeconfig: Path, node: str, run: Run = subprocess.run) -> None:
    """Let pods start on *node* again. Raises `ClusterNodeError`."""
    _kubectl(kubeconfig, run, "uncordon", node)
    _kubectl(kubeconfig, run, "annotate", "node", node, f"{MARK}-")


def forget(kubeconfig: Path, node: str, run: Run = subprocess.run) -> bool:
    """Take the Node object away; False when there was none. Raises `ForbiddenError`, `ClusterNodeError`."""
    if not exists(kubeconfig, node, run):
        return False
    _kubectl(kubeconfig, run, "delete", "node", node, "--ignore-not-found")
    return True


def server_version(kubeconfig: Path, run: Run = subprocess.run) -> str:
    """The minor version of the API server, as "1.34". Raises `ClusterNodeError`."""
    said = _kubectl(kubeconfig, run, "version", "-o", "json")
    try:
        found = json.loads(said)["serverVersion"]
        # some distributions write "34+"
        return f"{int(found['major'])}.{int(found['minor'].rstrip('+'))}"
    except (ValueError, KeyError, TypeError):
        raise ClusterNodeError(f"kubectl version: no version of the API server in {said[:200]!r}") from None


def _kubectl(kubeconfig: Path, run: Run, *arguments: str, seconds: float = _ASK_SECONDS) -> str:
    try:
        done = run(
            ["kubectl", "--kubeconfig", str(kubeconfig), f"--request-timeout={_ASK_SECONDS}s", *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds + _ASK_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ClusterNodeError(f"kubectl {arguments[0]}: {error}") from error
    if done.returncode != 0:
        said = done.stderr.strip() or done.stdout.strip()
        kind = ForbiddenError if "(Forbidden)" in said or "is forbidden" in said else ClusterNodeError
        raise kind(f"kubectl {arguments[0]} {arguments[1]}: {said}")
    return done.stdout
