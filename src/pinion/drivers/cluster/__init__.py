"""Kubernetes clusters: the only code of ours that talks to their API servers."""

from __future__ import annotations

from pinion.drivers.cluster.client import ClusterClient, Json
from pinion.drivers.cluster.drift import drift, objects_in
from pinion.drivers.cluster.errors import (
    ClusterConflictError,
    ClusterDeniedError,
    ClusterError,
    ClusterRefusedError,
    ClusterUnreachableError,
    KubeconfigError,
)
from pinion.drivers.cluster.helm_records import DEPLOYED, PENDING, RECORD, UNINSTALLING, HelmRecord, helm_records
from pinion.drivers.cluster.kinds import ObjectKind, kind_of
from pinion.drivers.cluster.membership import absent, refused
from pinion.drivers.cluster.ownership import Ownership, ownership
from pinion.drivers.cluster.reader import ClusterReader

__all__ = [
    "DEPLOYED",
    "PENDING",
    "RECORD",
    "UNINSTALLING",
    "ClusterClient",
    "ClusterConflictError",
    "ClusterDeniedError",
    "ClusterError",
    "ClusterReader",
    "ClusterRefusedError",
    "ClusterUnreachableError",
    "HelmRecord",
    "Json",
    "KubeconfigError",
    "ObjectKind",
    "Ownership",
    "absent",
    "drift",
    "helm_records",
    "kind_of",
    "objects_in",
    "ownership",
    "refused",
]
