"""The words of verification: Check, Probe, Finding. Pure data; `pinion.checks.probes` is what touches the world.

Invariants:

* A Check states one claim about one subject with one expected value. Its `id` is stable and unique within a plan.
* A Finding carries the evidence that the probe could really give, never more than the platform allows.
* A probe that could not run is `NOT_RUN` with a reason: it is neither proved nor failed, and it makes `pinion verify` exit with 2.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from pinion.site.catalog import Evidence

#: What is found of a thing that a driver compared whole and that differs in nothing.
AS_PLANNED = "as planned"
#: What a claim about a model's answer expects.
ANSWERED = "answered"


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Topic(StrEnum):
    """What a check is about; also a section of the report."""

    RECORDS = "records"  #: NetBox
    FABRIC = "fabric"  #: switch configuration
    REACHABILITY = "reachability"  #: who can talk to whom
    HOSTS = "hosts"  #: packages, users, files, sysctls, units
    CLUSTER = "cluster"  #: Kubernetes objects
    SERVICES = "services"  #: releases that answer


#: What a release is found to be when nobody has changed its objects.
AS_THE_CHART_SAYS = "as the chart says"


class RecordProbe(_Data):
    """Read one NetBox object of the plan and compare it whole."""

    kind: Literal["record"] = "record"
    object: Literal["site", "vlan", "device"]
    name: str


class SwitchProbe(_Data):
    """Compare one element of a switch whole with the plan: ``port Ethernet1``, ``vlan 101``, ``svi 101``.

    ``rest`` is everything in our scope that no other element of the plan names: routing, ports beyond the plan, what is not saved.
    """

    kind: Literal["switch"] = "switch"
    switch: str
    element: Literal["vlan", "port", "svi", "rest"]
    key: str


class HostProbe(_Data):
    """Run *command* (POSIX shell, read-only) on *host* and compare its trimmed standard output. *sudo* runs it as root.

    It is cut off after *seconds*; None is for what cannot take long.
    """

    kind: Literal["host"] = "host"
    host: str
    command: str
    sudo: bool = False
    seconds: float | None = None


class PingProbe(_Data):
    """Send ICMP echo from *source* to *target*; the expected value is ``reachable`` or ``unreachable``."""

    kind: Literal["ping"] = "ping"
    source: str
    target: str


class ClusterProbe(_Data):
    """Read one fact of a Kubernetes object: *fact* is ``ready``, ``label KEY``, ``taint KEY``, ``exists``, or of an Argo CD Application
    ``synced`` or ``health``.
    """

    kind: Literal["cluster"] = "cluster"
    object: str
    namespace: str | None = None
    name: str
    fact: str


class HttpProbe(_Data):
    """Ask a release's service for *path* through the API server's service proxy; the expected value is the status code."""

    kind: Literal["http"] = "http"
    namespace: str
    service: str
    port: int
    path: str


class ReleaseProbe(_Data):
    """Compare the objects of a Helm release with what its chart says: ``as the chart says``, or each difference in words."""

    kind: Literal["release"] = "release"
    namespace: str
    name: str


class PodsProbe(_Data):
    """Count the pods of a Helm release that are ready on one of *nodes*; every other pod of it is named beside their number."""

    kind: Literal["pods"] = "pods"
    namespace: str
    release: str
    nodes: tuple[str, ...]


class InferenceProbe(_Data):
    """Ask a model server by KServe's protocol, version 2, through the API server's service proxy.

    *asks*: ``digest``, the SHA-256 that the loaded model was found to have; ``answer``, one short text; ``latency``, how long short
    texts take to be answered under a load: the 95th percentile is to be at most *within* seconds.
    """

    kind: Literal["inference"] = "inference"
    namespace: str
    service: str
    port: int
    model: str
    asks: Literal["digest", "answer", "latency"]
    within: float | None = None


Probe = Annotated[
    RecordProbe
    | SwitchProbe
    | HostProbe
    | PingProbe
    | ClusterProbe
    | HttpProbe
    | ReleaseProbe
    | PodsProbe
    | InferenceProbe,
    Field(discriminator="kind"),
]


class Check(_Data):
    """One claim of the plan that can be proved on the live site.

    *subject* is a device or VLAN or release; *claim* reads as a sentence with *expected*; *remedy* says what to do when it fails;
    *origin* is the key of the site file that the claim follows from; *best* the strongest evidence that the probe can give there.
    *after_boot*: it need not hold yet while the host says that it waits for a boot because of one of these; *settles* marks one that is
    set going and says how far it has come until it holds; *silent* one that is proved by an answer that does not come, so that its probe
    waits.
    """

    id: str
    topic: Topic
    subject: str
    claim: str
    expected: str
    probe: Probe
    remedy: str
    origin: str
    best: Evidence
    after_boot: tuple[str, ...] = ()
    settles: bool = False
    silent: bool = False


class Outcome(StrEnum):
    """What became of a check."""

    PROVED = "proved"
    FAILED = "failed"
    NOT_RUN = "not run"


class Finding(_Data):
    """What a check found. *found* is the observed value, or the reason why the probe could not run. *seconds* is its share of the time.

    *left* names what the probe saw beside it that is not ours: told, never counted against the claim.
    """

    check: Check
    outcome: Outcome
    found: str
    evidence: Evidence | None
    seconds: float
    left: tuple[str, ...] = ()


def judge(check: Check, found: str, seconds: float, left: tuple[str, ...] = ()) -> Finding:
    """A Finding from an observed value: proved when it equals the expected one. *left* is what is not ours."""
    outcome = Outcome.PROVED if found == check.expected else Outcome.FAILED
    return Finding(check=check, outcome=outcome, found=found, evidence=check.best, seconds=seconds, left=left)


def not_run(check: Check, reason: str) -> Finding:
    """A Finding for a probe that could not run."""
    return Finding(check=check, outcome=Outcome.NOT_RUN, found=reason, evidence=None, seconds=0.0)
