"""What helm remembers of a release: a Secret for each revision (Helm documentation, storage backends), read without helm."""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pinion.drivers.cluster.client import ClusterClient, Json
from pinion.drivers.cluster.errors import ClusterRefusedError
from pinion.drivers.cluster.kinds import ObjectKind, kind_of

DEPLOYED: Final = "deployed"
#: Statuses in which helm leaves a revision while it works, and for good when it is killed.
PENDING: Final = frozenset({"pending-install", "pending-upgrade", "pending-rollback"})
UNINSTALLING: Final = "uninstalling"
#: The kind in which helm keeps its records.
RECORD: Final[ObjectKind] = kind_of("Secret")


@dataclass(frozen=True)
class HelmRecord:
    """One revision of a release. *labels* are those of the Secret, helm's own among them; *chart* is its metadata; *secret* its name."""

    namespace: str
    name: str
    revision: int
    status: str
    labels: Mapping[str, str]
    chart: Mapping[str, Any]
    values: Mapping[str, Any] = field(repr=False)
    manifest: str = field(repr=False)
    secret: str
    uid: str


def helm_records(client: ClusterClient, namespace: str, name: str) -> Sequence[HelmRecord]:
    """All revisions that helm remembers of a release, oldest first; empty when there is no such release. Raises `ClusterError`."""
    found = [_record(item) for item in client.list(RECORD, namespace, f"owner=helm,name={name}")]
    return sorted(found, key=lambda record: record.revision)


def _record(item: Json) -> HelmRecord:
    metadata = item["metadata"]
    labels = metadata.get("labels") or {}
    try:
        release = json.loads(gzip.decompress(base64.b64decode(base64.b64decode(item["data"]["release"]))))
        return HelmRecord(
            namespace=metadata["namespace"],
            name=labels["name"],
            revision=int(release["version"]),
            status=labels["status"],
            labels=labels,
            chart=release["chart"]["metadata"],
            values=release.get("config") or {},
            manifest=release.get("manifest") or "",
            secret=metadata["name"],
            uid=metadata["uid"],
        )
    except (KeyError, ValueError, TypeError, OSError, EOFError, zlib.error) as error:
        raise ClusterRefusedError(
            f"Secret {metadata['namespace']}/{metadata['name']} is no record of helm that can be read: {error!r}"
        ) from None
