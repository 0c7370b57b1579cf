"""What a machine's disk is born with: the packages of its host's concerns, as the image of a real node may bring them.

They are in a layer of their own on top of what the lab's parts need, so they are unpacked once and not once a machine. A host on such
a disk is configured by `converge` like any other; it finds its packages installed, so they stay when a concern goes.
"""

from __future__ import annotations

import dataclasses
import functools

from pinion.lab.parts import MachineNeeds
from pinion.lab.recipes import LayerRecipe
from pinion.plan.model import Plan

#: Concerns that any host may have and whose packages are Debian's own, so that a layer can be built with them.
_OF_DEBIAN = ("os_tuning", "base", "node_metrics", "firewall", "identity")


def planned(plan: Plan, name: str) -> tuple[str, ...]:
    """The packages that the disk of machine *name* is to bring, in order; none for a machine that is no host."""
    concerns = next((host.concerns for host in plan.hosts if host.name == name), {})
    return tuple(
        sorted({package for concern in _OF_DEBIAN if concern in concerns for package in concerns[concern].packages})
    )


def equipped(needs: MachineNeeds, packages: tuple[str, ...]) -> MachineNeeds:
    """*needs* with a layer that has *packages*, too."""
    if not packages or needs.layer is None:
        return needs
    return dataclasses.replace(needs, layer=_with(needs.layer, packages), equipment=packages)


@functools.cache
def _with(layer: LayerRecipe, packages: tuple[str, ...]) -> LayerRecipe:
    return LayerRecipe(name=f"{layer.name}-equipped", parent=layer, packages=packages, minutes=0.5)
