"""What of a release's objects is no longer as its chart says: asked of the API server, which knows its own defaults and spellings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice, zip_longest
from typing import Any, Final

import yaml

from pinion.drivers.cluster.client import ClusterClient
from pinion.drivers.cluster.errors import ClusterDeniedError, ClusterError
from pinion.drivers.cluster.kinds import ObjectKind, kind_of

#: Only ever used in dry runs.
_MANAGER: Final = "pinion-drift"
#: Differences that are told of one object.
_TOLD: Final = 5
_MISSING: Final = object()


def objects_in(manifest: str, namespace: str) -> Iterator[Mapping[str, Any]]:
    """The objects of a rendered *manifest*. One that names no namespace is in *namespace* when its kind has any (the caller knows)."""
    for document in yaml.safe_load_all(manifest):
        if isinstance(document, dict) and document.get("kind"):
            metadata = {"namespace": namespace, **document.get("metadata", {})}
            yield {**document, "metadata": metadata}


def drift(client: ClusterClient, manifest: str, namespace: str) -> list[str]:
    """A sentence for each difference between the objects of *manifest* and the live ones; kinds that we do not know are left out.

    Raises `ClusterError` when the API server cannot be asked.
    """
    found = []
    for stated in objects_in(manifest, namespace):
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
    changes = _changes(_comparable(live), _comparable(wanted), "")
    return [_told(label, path, is_now, said) for path, is_now, said in islice(changes, _TOLD)]


def _comparable(item: Mapping[str, Any]) -> dict[str, Any]:
    """What a chart may state of an object."""
    metadata = item["metadata"]
    rest = {key: value for key, value in item.items() if key not in {"metadata", "status"}}
    return {**rest, "metadata": {key: metadata.get(key) or {} for key in ("labels", "annotations")}}


def _changes(live: object, wanted: object, path: str) -> Iterator[tuple[str, object, object]]:
    """Path, live and wanted value of each leaf that differs; `_MISSING` where one side has none."""
    if isinstance(live, Mapping) and isinstance(wanted, Mapping):
        for key in sorted(live.keys() | wanted.keys()):
            yield from _changes(live.get(key, _MISSING), wanted.get(key, _MISSING), f"{path}.{key}" if path else key)
    elif isinstance(live, list) and isinstance(wanted, list):
        for index, (ours, theirs) in enumerate(zip_longest(live, wanted, fillvalue=_MISSING)):
            yield from _changes(ours, theirs, f"{path}[{index}]")
    elif live != wanted:
        yield path, live, wanted


def _told(label: str, path: str, is_now: object, said: object) -> str:
    if is_now is _MISSING:
        return f"{label}: {path} is missing"
    if said is _MISSING:
        return f"{label}: {path} was added"
    if path.startswith(("data", "stringData")):
        return f"{label}: {path} was changed"
    return f"{label}: {path} is {is_now}, the chart says {said}"
