"""A cluster changes hands: a stack forgets what Flux or Argo CD owns from then on, and deletes nothing of it.

Pulumi deletes what its state has and its program does not. So before the program leaves the cluster's objects out, they leave the state, in
one import of it; a run that is killed leaves the state as it was, or as it is to be.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pinion.bringup.stack import pulumi
from pinion.plan.handed_over import is_owners


def hand_over(root: Path, site: str) -> tuple[str, ...]:
    """Have the stack of *site* forget what the owner of its cluster makes; the names of what it forgot, none where it knew of nothing.

    Raises `StackError` when pulumi refuses.
    """
    exported = json.loads(pulumi(root, ["stack", "export", "--stack", site]))
    resources = exported["deployment"].get("resources") or []
    gone = {one["urn"] for one in resources if is_owners(one["urn"])}
    if gone:
        exported["deployment"]["resources"] = [_without(one, gone) for one in resources if one["urn"] not in gone]
        pulumi(root, ["stack", "import", "--stack", site], given=json.dumps(exported))
    return tuple(sorted(urn.rpartition("::")[2] for urn in gone))


def _without(resource: Mapping[str, Any], gone: Iterable[str]) -> dict[str, Any]:
    """*resource* without its dependencies on those that are *gone*."""
    found = dict(resource)
    if "dependencies" in found:
        found["dependencies"] = [urn for urn in found["dependencies"] if urn not in gone]
    if "propertyDependencies" in found:
        found["propertyDependencies"] = {
            name: [urn for urn in urns or () if urn not in gone] for name, urns in found["propertyDependencies"].items()
        }
    return found
