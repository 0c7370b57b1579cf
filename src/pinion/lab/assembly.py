"""The parts that a lab is made of."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from pinion.lab.errors import LabError
from pinion.lab.parts import Part

#: Part name to module and class: imported when asked for, so that a small lab does not load what it does not run.
PARTS: dict[str, tuple[str, str]] = {
    "switch": ("pinion.lab.switch.part", "SwitchPart"),
    "netbox": ("pinion.lab.netbox.part", "NetBoxPart"),
    "cluster": ("pinion.lab.cluster.part", "ClusterPart"),
    "authority": ("pinion.lab.authority", "AuthorityPart"),
    "models": ("pinion.lab.models.part", "ModelsPart"),
}


def parts(names: Sequence[str] | None = None) -> list[Part]:
    """The parts called *names*, all by default; `LabError` for a name that is none."""
    chosen = list(PARTS) if names is None else list(names)
    if unknown := [name for name in chosen if name not in PARTS]:
        raise LabError(f"part {', '.join(unknown)}: not known; the parts are {', '.join(PARTS)}")
    result: list[Part] = []
    for name in chosen:
        module, attribute = PARTS[name]
        part: Part = getattr(importlib.import_module(module), attribute)()
        result.append(part)
    return result
