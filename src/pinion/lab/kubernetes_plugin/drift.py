"""What of a release's objects is no longer as its chart says: asked of the API server, which knows its own defaults and spellings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pinion.drivers.cluster import ClusterClient, ClusterDeniedError, ClusterError, ObjectKind, kind_of
from pinion.lab.kubernetes_plugin.charts import objects
from pinion.provider.plugin import Kind, differences

#: Only ever used in dry runs.
_MANAGER: Final = "pinion-drift"
#: Differences that are told of one object.
_TOLD: Final = 5


def drift(client: ClusterClient, manifest: str, namespace: str) -> list[str]:
    """A sentence for each difference between the objects of *manifest* and the live ones; kinds that we do not know are left out.

    Raises `ClusterError` when the API server cannot be asked.
    """
    found = []
    for stated in objects(manifest, namespace):
        try:
            kind = kind_of(stated["kind"], stated["apiVersion"])
        except KeyError:
            continue
        found += _of_object(client, kind, stated)
    return found


def _of_object(client: ClusterClient, kind: ObjectKind, stated: Mapping[str, Any]) -> list[str]:
    metadata = (
        stated["metadata"] if kind.namespaced else {k: v for k, v in stated["metadata"].items() if k != "namespace"}
    )
    stated = {**stated, "metadata": metadata}
    label = f"{kind.kind} {metadata['name']}"
    live = client.get(kind, metadata.get("namespace"), metadata["name"])
    if live is None:
        return [f"{label} is gone"]
    try:
        wanted = client.apply(kind, stated, manager=_MANAGER, force=True, dry_run=True)
    except ClusterDeniedError:
        return []  # who may not write it cannot repair it either
    except ClusterError as error:
        return [f"{label}: {error}"]
    changes = differences(_comparable(live), _comparable(wanted)).changes
    return [_told(label, path, change, live, wanted) for path, change in list(changes.items())[:_TOLD]]


def _comparable(item: Mapping[str, Any]) -> dict[str, Any]:
    """What a chart may state of an object."""
    metadata = item["metadata"]
    rest = {key: value for key, value in item.items() if key not in {"metadata", "status"}}
    return {**rest, "metadata": {key: metadata.get(key) or {} for key in ("labels", "annotations")}}


def _told(label: str, path: str, change: Kind, live: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    if change is Kind.ADD:
        return f"{label}: {path} is missing"
    if change is Kind.DELETE:
        return f"{label}: {path} was added"
    if path.startswith(("data", "stringData")):
        return f"{label}: {path} was changed"
    return f"{label}: {path} is {_value(live, path)}, the chart says {_value(wanted, path)}"


def _value(item: Any, path: str) -> object:  # noqa: ANN401 - JSON
    """The value at a property path of JSON."""
    from pinion.provider.plugin import path_steps

    for step in path_steps(path):
        item = item[step] if isinstance(item, Sequence) and isinstance(step, int) else item.get(step)
    return item
