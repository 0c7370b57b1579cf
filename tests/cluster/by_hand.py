"""What kubectl does at a person's hand: read, change, write, and once more when a controller wrote in between."""

from __future__ import annotations

import time
from contextlib import suppress

from pinion.drivers.cluster import ClusterClient, ClusterConflictError, Json, ObjectKind

#: For how long an object may change under the writer's feet: controllers settle well within.
_PATIENCE_SECONDS = 120.0


def change_by_hand(
    api: ClusterClient, kind: ObjectKind, namespace: str | None, name: str, patch: Json, *, manager: str = "kubectl"
) -> Json:
    """Merge *patch* into the object as it is at that moment; the object then. `AssertionError` when there is none or it never rests."""
    until = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < until:
        found = api.get(kind, namespace, name)
        assert found is not None, f"{name} is there"
        version = {"resourceVersion": found["metadata"]["resourceVersion"]}
        with suppress(ClusterConflictError):
            versioned = {**patch, "metadata": {**patch.get("metadata", {}), **version}}
            return api.merge(kind, namespace, name, versioned, manager=manager)
    raise AssertionError(f"{name} changes all the time")
