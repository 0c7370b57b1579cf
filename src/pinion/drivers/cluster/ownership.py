"""Whose the objects are that a site declares and the cluster holds already: told by a label and an annotation, which people can see.

Server-side apply takes what exists, and a destroy deletes it; so nobody's object is taken unless it carries our mark or the stack says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pinion.drivers.cluster.client import Json
from pinion.drivers.cluster.reader import ClusterReader
from pinion.plan.cluster import ADOPTED, SITE_LABEL
from pinion.plan.model import StatedObject

#: What Pulumi's plugin calls itself in an object's managed fields, and what our program stated before it stated a mark.
_PULUMI, _STATED_ALWAYS = "pulumi-kubernetes", "pulumi.com/patchForce"


@dataclass(frozen=True)
class Ownership:
    """What became of declared objects that exist. *strangers*: one sentence each for those that are not this site's, with what to do.

    *adopted*: somebody else made them, and they stay when the stack goes. *unmarked*: of this site before there was a mark.
    """

    strangers: Sequence[str] = ()
    adopted: frozenset[StatedObject] = field(default_factory=frozenset)
    unmarked: frozenset[StatedObject] = field(default_factory=frozenset)


def ownership(site: str, stated: Iterable[StatedObject], reader: ClusterReader, *, adopt: bool) -> Ownership:
    """Whose each of the *stated* objects is. With *adopt* the stack takes over what is of no site. Raises `ClusterError`."""
    strangers: list[str] = []
    adopted: set[StatedObject] = set()
    unmarked: set[StatedObject] = set()
    for item in stated:
        held = reader.get(item.kind, item.name, item.namespace)
        if held is None:
            continue
        metadata = held["metadata"]
        owner = (metadata.get("labels") or {}).get(SITE_LABEL)
        if owner == site:
            if (metadata.get("annotations") or {}).get(ADOPTED) == "true":
                adopted.add(item)
        elif owner is None and _is_of_a_former_release(held):
            unmarked.add(item)
        elif owner is None and adopt:
            adopted.add(item)
        else:
            strangers.append(_told(item, site, owner))
    return Ownership(strangers, frozenset(adopted), frozenset(unmarked))


def _is_of_a_former_release(held: Json) -> bool:
    """Whether Pulumi made it for a program that states what ours has stated of each object from the first release on."""
    metadata = held["metadata"]
    managers = {str(entry.get("manager", "")) for entry in metadata.get("managedFields") or ()}
    annotations = metadata.get("annotations") or {}
    return annotations.get(_STATED_ALWAYS) == "true" and any(manager.startswith(_PULUMI) for manager in managers)


def _told(item: StatedObject, site: str, owner: str | None) -> str:
    inside = f" -n {item.namespace}" if item.namespace else ""
    whose = f"site {owner}'s" if owner else f"not this site's: it has no label {SITE_LABEL}"
    overwrite = " --overwrite" if owner else ""
    hand_over = f"kubectl{inside} label {item.kind.lower()} {item.name} {SITE_LABEL}={site}{overwrite}"
    return f"{item} exists already and is {whose}. To hand it over to this site: {hand_over}"
