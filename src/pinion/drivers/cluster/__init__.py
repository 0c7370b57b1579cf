"""Kubernetes clusters: the only code of ours that talks to their API servers."""

from __future__ import annotations

from pinion.drivers.cluster.client import ClusterClient, Json
from pinion.drivers.cluster.errors import (
    ClusterConflictError,
    ClusterDeniedError,
    ClusterError,
    ClusterRefusedError,
    ClusterUnreachableError,
    KubeconfigError,
)
from pinion.drivers.cluster.kinds import ObjectKind, kind_of
from pinion.drivers.cluster.membership import absent, refused
from pinion.drivers.cluster.reader import ClusterReader

__all__ = [
    "ClusterClient",
    "ClusterConflictError",
    "ClusterDeniedError",
    "ClusterError",
    "ClusterReader",
    "ClusterRefusedError",
    "ClusterUnreachableError",
    "Json",
    "KubeconfigError",
    "ObjectKind",
    "absent",
    "kind_of",
    "refused",
]
