"""What a stack's state of the first release of Pinion lacks or says in other words, put right so that nothing is replaced or uninstalled.

Then nodes and releases were resources of the Kubernetes plugin, always the lab's stand-in, and that kept no `__inputs`, without which the
official plugin takes an object for one in another namespace.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any, Final

#: The type of a resource then, and now.
_MOVED: Final[Mapping[str, str]] = {
    "kubernetes:core/v1:NodePatch": "pinion:cluster:Node",
    "kubernetes:helm.sh/v3:Release": "pinion:cluster:Release",
}
_PROVIDER: Final = "pulumi:providers:pinion"


def brought_up_to_date(deployment: Mapping[str, Any], site: str) -> dict[str, Any] | None:
    """*deployment* (of ``pulumi stack export``) of *site* in the words of today; None when it is so already."""
    resources = deployment.get("resources") or []
    provider = next((f"{one['urn']}::{one['id']}" for one in resources if one["type"] == _PROVIDER), None)
    moved = {one["type"] for one in resources} & _MOVED.keys() if provider else set()
    if not moved and not any(_lacks_inputs(one) for one in resources):
        return None
    text = json.dumps(deployment)
    for former in moved:
        text = text.replace(former, _MOVED[former])  # also where other resources name it
    found: dict[str, Any] = json.loads(text)
    for before, one in zip(resources, found["resources"], strict=True):
        if before["type"] in moved:
            one["provider"] = provider
            one["inputs"] = one["outputs"] = _INPUTS[before["type"]](before["inputs"], site)
        elif _lacks_inputs(before):
            one["outputs"]["__inputs"] = copy.deepcopy(before["inputs"])
    return found


def _lacks_inputs(resource: Mapping[str, Any]) -> bool:
    outputs = resource.get("outputs") or {}
    is_object = resource["type"].startswith("kubernetes:") and resource["type"] not in _MOVED
    return is_object and bool(outputs) and "__inputs" not in outputs


def _node(inputs: Mapping[str, Any], _site: str) -> dict[str, Any]:
    metadata, spec = inputs["metadata"], inputs.get("spec") or {}
    stated = {"labels": metadata.get("labels"), "taints": spec.get("taints")}
    return {"name": metadata["name"], **{key: value for key, value in stated.items() if value}}


def _release(inputs: Mapping[str, Any], site: str) -> dict[str, Any]:
    kept = {key: inputs[key] for key in ("name", "namespace", "chart", "values") if key in inputs}
    return {**kept, "site": site, **({} if inputs.get("atomic") else {"wait": False})}


_INPUTS: Final = {"kubernetes:core/v1:NodePatch": _node, "kubernetes:helm.sh/v3:Release": _release}
