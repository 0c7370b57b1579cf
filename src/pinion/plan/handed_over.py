"""Which resources of a stack are the cluster's owner's, when that is not the stack. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pinion.plan.cluster import MEMBERS

#: Pulumi's types of releases, and of what groups them.
_RELEASES: Final = ("pinion:cluster:Release", "pinion:infra:EdgeServices")
_OBJECTS: Final = "kubernetes:"


def is_owners(urn: str) -> bool:
    """Whether Pulumi's resource *urn* is a namespace, something in one, or a release; nodes and the list of members are the stack's."""
    *_, types, name = urn.split("::")
    kind = types.rpartition("$")[2]
    return kind in _RELEASES or (kind.startswith(_OBJECTS) and name != MEMBERS)


def still_held(urns: Iterable[str]) -> list[str]:
    """The names of those of *urns* that a stack would delete when its program no longer declares them."""
    return sorted(urn.rpartition("::")[2] for urn in urns if is_owners(urn))
