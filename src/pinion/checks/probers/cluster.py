"""Probe a Kubernetes cluster: nodes, objects, and releases that answer."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pinion.checks.model import (
    AS_THE_CHART_SAYS,
    Check,
    ClusterProbe,
    Finding,
    HttpProbe,
    InferenceProbe,
    PodsProbe,
    ReleaseProbe,
    judge,
    not_run,
)
from pinion.checks.probers import Prober, inference
from pinion.drivers.cluster import ClusterError, ClusterReader
from pinion.plan.model import Plan

_KINDS = ClusterProbe | HttpProbe | ReleaseProbe | PodsProbe | InferenceProbe


def cluster_prober(kubeconfig: Path) -> Prober:
    """A prober for whatever is asked of the API server; every object is read once."""

    def prober(plan: Plan, checks: Sequence[Check]) -> list[Finding]:  # noqa: ARG001  (the Prober signature)
        mine = [check for check in checks if isinstance(check.probe, _KINDS)]
        if not mine:
            return []
        try:
            reader = ClusterReader(kubeconfig)
        except ClusterError as error:
            return [not_run(check, str(error)) for check in mine]
        seen: dict[tuple[str, str | None, str], Mapping[str, Any] | None] = {}
        return [_one(reader, check, seen) for check in mine]

    return prober


def _one(
    reader: ClusterReader, check: Check, seen: dict[tuple[str, str | None, str], Mapping[str, Any] | None]
) -> Finding:
    started = time.monotonic()
    probe = check.probe
    try:
        if isinstance(probe, InferenceProbe):
            return inference.probe(reader, check, probe)
        if isinstance(probe, PodsProbe):
            found = placed(reader.pods(probe.namespace, probe.release), probe.nodes)
        elif isinstance(probe, HttpProbe):
            found = str(reader.http_status(probe.namespace, probe.service, probe.port, probe.path))
        elif isinstance(probe, ReleaseProbe):
            said = reader.release_drift(probe.namespace, probe.name)
            found = "absent" if said is None else "; ".join(said) or AS_THE_CHART_SAYS
        elif isinstance(probe, ClusterProbe):
            key = probe.object, probe.namespace, probe.name
            if key not in seen:
                seen[key] = reader.get(probe.object, probe.name, probe.namespace)
            found = fact(seen[key], probe.fact)
        else:
            raise TypeError(f"{check.id} is no probe of a cluster")
    except ClusterError as error:
        return not_run(check, str(error))
    return judge(check, found, time.monotonic() - started)


def placed(pods: Sequence[Mapping[str, Any]], nodes: Sequence[str]) -> str:
    """How many of *pods* are ready on one of *nodes*, and beside it each that is neither on its way out nor that."""
    good, others = 0, []
    for pod in pods:
        metadata, node = pod["metadata"], (pod.get("spec") or {}).get("nodeName")
        if metadata.get("deletionTimestamp"):
            continue
        if fact(pod, "ready") == "True" and node in nodes:
            good += 1
        else:
            others.append(
                f"{metadata['name']} on {node or 'no node'} is {'not ' * (fact(pod, 'ready') != 'True')}ready"
            )
    return "; ".join([str(good), *sorted(others)])


def fact(held: Mapping[str, Any] | None, asked: str) -> str:
    """One fact of an object in the phrase that the claim expects; ``absent`` when the object or the fact is not there."""
    if held is None:
        return "absent"
    word, _, key = asked.partition(" ")
    if word == "exists":
        return "True"
    if word == "ready":
        conditions = (held.get("status") or {}).get("conditions") or ()
        return next((condition["status"] for condition in conditions if condition["type"] == "Ready"), "absent")
    if word in ("synced", "health"):
        found = (held.get("status") or {}).get("sync" if word == "synced" else "health") or {}
        return str(found.get("status", "absent"))
    if word == "label":
        return str((held["metadata"].get("labels") or {}).get(key, "absent"))
    taints = (held.get("spec") or {}).get("taints") or ()
    return next((f"{taint.get('value', '')}:{taint['effect']}" for taint in taints if taint["key"] == key), "absent")
