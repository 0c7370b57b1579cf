"""MIG instances that a GPU cannot have, or cannot have beside each other (NVIDIA Multi-Instance GPU user guide, "Supported MIG Profiles").

A GPU has eight memory slices and seven compute slices. An instance takes so many memory slices in a row, from certain slices on.
"""

from __future__ import annotations

from dataclasses import dataclass

from pinion.site.errors import Path
from pinion.site.node_concerns import GpuDriver
from pinion.site.rules.facts import Facts

#: Compute slices of a GPU.
_COMPUTE = 7
#: Media engines beyond those that instances share are one instance's.
_MEDIA = "+me"


@dataclass(frozen=True, slots=True)
class _Instance:
    """Compute slices, memory slices, and the memory slices that it may begin at."""

    compute: int
    memory: int
    starts: tuple[int, ...]


def _profiles(one: int, two: int, four: int, eight: int) -> dict[str, _Instance]:
    """The profiles of a GPU whose one, two, four and eight memory slices are called so many gigabytes."""
    small = _Instance(1, 1, tuple(range(7)))
    return {
        f"1g.{one}gb": small,
        f"1g.{one}gb{_MEDIA}": small,
        f"1g.{two}gb": _Instance(1, 2, (0, 2, 4, 6)),
        f"2g.{two}gb": _Instance(2, 2, (0, 2, 4)),
        f"3g.{four}gb": _Instance(3, 4, (0, 4)),
        f"4g.{four}gb": _Instance(4, 4, (0,)),
        f"7g.{eight}gb": _Instance(7, 8, (0,)),
    }


#: By server profile of the catalogue: H100 with 80 GB, H200 with 141 GB.
PROFILES = {"dgx-h100": _profiles(10, 20, 40, 80), "dgx-h200": _profiles(18, 35, 71, 141)}


def check(facts: Facts, stated: GpuDriver) -> None:
    """All rules about MIG instances. One problem of a list is enough: the first server's GPU decides."""
    for name, server in facts.site.gpu_servers.items():
        known = PROFILES.get(server.profile)
        if known is not None and _refused(facts, name, server.profile, stated.mig, known):
            return


def _refused(facts: Facts, name: str, profile: str, stated: tuple[str, ...], known: dict[str, _Instance]) -> bool:
    where: Path = ("concerns", "gpu_driver", "mig")
    unknown = [index for index, each in enumerate(stated) if each not in known]
    for index in unknown:
        said = facts.report.hint(stated[index], known)
        facts.report.on("NODE-023", (*where, index), value=stated[index], name=name, profile=profile, hint=said)
    if unknown:
        return True
    instances = sorted((known[each] for each in stated), key=lambda each: -each.memory)
    enough = sum(each.compute for each in instances) <= _COMPUTE
    media = sum(each.endswith(_MEDIA) for each in stated) <= 1
    if not (enough and media and _fit(instances, frozenset())):
        facts.report.on("NODE-024", where, name=name, profile=profile, stated=", ".join(stated))
        return True
    return False


def _fit(instances: list[_Instance], taken: frozenset[int]) -> bool:
    """Whether there is a place for each of *instances* beside the memory slices that are *taken*."""
    if not instances:
        return True
    first, *rest = instances
    spans = (frozenset(range(start, start + first.memory)) for start in first.starts)
    return any(not span & taken and _fit(rest, taken | span) for span in spans)
