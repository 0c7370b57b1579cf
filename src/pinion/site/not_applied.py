"""What a site file may state and nothing obeys yet: told with its line wherever the site file is looked at, so that nobody relies on it.

`NOT_APPLIED` is the one table. An entry leaves it with the change that obeys its key: a test alters each leaf of the site model in turn
and wants to see an effect on what the plan renders or proves, or the key here, and never both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

from pinion.site import tree
from pinion.site.errors import Path
from pinion.site.fixes import shown

#: What stands for any name in a key.
ANY = "*"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a statement has no effect, and what will obey it. *lab_obeys*: the lab does, where it makes the cluster's control plane."""

    why: str
    will: str
    lab_obeys: bool = False


_ROUTER = Reason("no router runs on the Pis yet", "the router of the Pis")
_OBJECTIVES = Reason("nothing measures or alerts yet", "recording and alerting rules of Prometheus")
_QUANTISED = Reason("a model's file is taken as it is, and is not asked what it holds", "the check of a model's file")
_SERVICES = Reason(
    "Pinion makes no control plane outside the lab; give --service-cluster-ip-range to your own",
    "a check of the control plane",
    lab_obeys=True,
)

#: Of a lossless class where no NIC is told to pause: a switch that pauses for such a NIC is worse than none.
_NO_NIC_PAUSES = Reason(
    "no NIC is told to pause without concerns.nic_tuning, so no switch pauses either and the class is lossy",
    "concerns: {nic_tuning: {}} in this file",
)

#: Key of the site file (`*`: any name) to why nothing obeys it.
NOT_APPLIED: Mapping[str, Reason] = {
    "kubernetes.service_prefix": _SERVICES,
    "models.*.edge.quantisation": _QUANTISED,
    "routing.prompt_tokens": _ROUTER,
    "routing.queue_wait": _ROUTER,
    "routing.cpu": _ROUTER,
    "routing.confidence": _ROUTER,
    "routing.local_tokens": _ROUTER,
    "routing.speculative_tokens": _ROUTER,
    "routing.pool_timeout": _ROUTER,
    "objectives.edge.p50": _OBJECTIVES,
    "objectives.edge.p95": _OBJECTIVES,
    "objectives.site.availability": _OBJECTIVES,
    "objectives.alert_at": _OBJECTIVES,
}


@dataclass(frozen=True, slots=True)
class Remark:
    """A statement that nothing obeys yet: where it stands (*line* and *column* from 1), its *key*, *why*, and what *will* obey it."""

    file: str
    line: int
    column: int
    key: str
    why: str
    will: str

    def __str__(self) -> str:
        """One line."""
        return f"{self.file}:{self.line}:{self.column} {self.said}"

    @property
    def said(self) -> str:
        """The remark without its place."""
        return f"{shown(self.key)} is stated, not applied: {self.why} (to come: {self.will})"

    def as_dict(self) -> dict[str, str | int]:
        """The remark for JSON."""
        return asdict(self)


def remarks(root: tree.Mapping, file: str) -> tuple[Remark, ...]:
    """The statements of the site file *root*, which messages call *file*, that nothing obeys yet, in the order of the file."""
    in_lab = _control_plane_in_lab(root)
    found = [
        Remark(file, entry.line, entry.column, ".".join(path), reason.why, reason.will)
        for key, reason in NOT_APPLIED.items()
        if not (reason.lab_obeys and in_lab)
        for path, entry in _stated(root, tuple(key.split(".")))
    ]
    if (entry := _lossless_without_nics(root)) is not None:
        why, will = _NO_NIC_PAUSES.why, _NO_NIC_PAUSES.will
        found.append(Remark(file, entry.line, entry.column, "traffic_classes.rdma.delivery", why, will))
    return tuple(sorted(found, key=lambda remark: (remark.line, remark.column)))


def _stated(
    root: tree.Mapping, pattern: tuple[str, ...], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], tree.Entry]]:
    """The entries below *root* that *pattern* means, with their paths."""
    names = [name for name in root.entries if pattern[0] in {ANY, name}]
    for name in names:
        entry = root.entries[name]
        if len(pattern) == 1:
            yield (*path, name), entry
        elif isinstance(entry.node, tree.Mapping):
            yield from _stated(entry.node, pattern[1:], (*path, name))


def _lossless_without_nics(root: tree.Mapping) -> tree.Entry | None:
    """The entry that makes a class lossless, where RDMA NICs are there and nothing tells them to pause."""
    path: Path = ("traffic_classes", "rdma", "delivery")
    with_nics = next(_stated(root, ("gpu_servers", ANY, "rdma")), None) is not None
    told = tree.entry_at(root, ("concerns", "nic_tuning")) is not None
    return tree.entry_at(root, path) if _text(root, path) == "lossless" and with_nics and not told else None


def _control_plane_in_lab(root: tree.Mapping) -> bool:
    """Whether the cluster's control plane runs on a machine that Pinion makes itself."""
    name = _text(root, ("kubernetes", "control_plane"))
    return name is not None and _text(root, ("management_hosts", name, "platform")) == "lab"


def _text(root: tree.Mapping, path: Path) -> str | None:
    entry = tree.entry_at(root, path)
    return entry.node.text if entry is not None and isinstance(entry.node, tree.Scalar) else None
