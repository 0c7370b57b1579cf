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

#: Kubernetes documentation, static pods: the annotation of the copy that the API server shows of one.
_BY_FILE = "kubernetes.io/config.mirror"

Run = Callable[..., subprocess.CompletedProcess[str]]


class ClusterNodeError(Exception):
    """The cluster refused or did not answer; the text says what."""


class LossError(ClusterNodeError):
    """Pods, or what they keep, would be lost; the text names them."""


class ForbiddenError(ClusterNodeError):
    """The kubeconfig's user may not do that."""


def exists(kubeconfig: Path, node: str, run: Run = subprocess.run) -> bool:
    """Whether the cluster has the node."""
    return bool(_kubectl(kubeconfig, run, "get", "node", node, "--ignore-not-found", "-o", "name").strip())


def losses(kubeconfig: Path, node: str, run: Run = subprocess.run) -> tuple[str, ...]:
    """What is lost when *node* is drained: pods that nobody starts again elsewhere, and what pods keep on the node alone.

    As `kubectl drain` judges: pods of DaemonSets stay, those that the kubelet was given by a file are its own, and ended ones hold nothing.
    Raises `ClusterNodeError`.
    """
    asked = ("get", "pods", "--all-namespaces", f"--field-selector=spec.nodeName={node}", "-o", "json")
    found = []
    for pod in json.loads(_kubectl(kubeconfig, run, *asked))["items"]:
        about, status = pod["metadata"], pod.get("status", {})
        owner = next((one for one in about.get("ownerReferences") or () if one.get("controller")), None)
        if (
            status.get("phase") in {"Succeeded", "Failed"}
            or _BY_FILE in (about.get("annotations") or {})
            or (owner is not None and owner.get("kind") == "DaemonSet")
        ):
            continue
        name = f"{about['namespace']}/{about['name']}"
        if owner is None:
            found.append(f"pod {name}: no controller starts it again")
        scratch = [volume["name"] for volume in pod["spec"].get("volumes") or () if "emptyDir" in volume]
        if scratch:
            found.append(f"pod {name}: what is in its volumes {', '.join(scratch)} (emptyDir)")
    return tuple(found)


def drain(kubeconfig: Path, node: str, run: Run = subprocess.run, *, lose: bool) -> str | None:
    """Let no pod start on *node* and evict those that are there; None when there is no such node.

    *lose*: also when something is lost by that (`losses`), which the answer then names. Raises `LossError`, `ClusterNodeError`.
    """
    if not exists(kubeconfig, node, run):
        return None
    lost = losses(kubeconfig, node, run)
    if lost and not lose:
        raise LossError(f"{node} is not drained, for this would be lost: {'; '.join(lost)}")
    said = _kubectl(
        kubeconfig,
        run,
        *("drain", node, "--ignore-daemonsets", f"--timeout={DRAIN_SECONDS}s"),
        *(("--delete-emptydir-data", "--force") if lose else ()),
        seconds=DRAIN_SECONDS + _ASK_SECONDS,
    )
    evicted = sum(line.startswith("pod/") and line.endswith(" evicted") for line in said.splitlines())
    return "; ".join((f"cordoned, {evicted} pods evicted", *(f"lost: {each}" for each in lost)))


def hold(kubeconfig: Path, node: str, purpose: str, run: Run = subprocess.run, *, lose: bool = False) -> str | None:
    """`drain`, for a while: `let_go` ends it, unless somebody else had cordoned the node before. Raises `LossError`, `ClusterNodeError`."""
    if not lose and (lost := losses(kubeconfig, node, run)):
        raise LossError(f"{node} is not drained, for this would be lost: {'; '.join(lost)}")
    said = _kubectl(kubeconfig, run, "get", "node", node, "--ignore-not-found", "-o", "json")
    if not said.strip():
        return None
    if not json.loads(said)["spec"].get("unschedulable", False):
        # before it is cordoned: a run that is killed in between leaves a mark without a cordon, which does no harm
        _kubectl(kubeconfig, run, "annotate", "node", node, f"{MARK}={purpose}", "--overwrite")
    return drain(kubeconfig, node, run, lose=lose)


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
