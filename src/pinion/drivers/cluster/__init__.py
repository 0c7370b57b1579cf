"""Kubernetes clusters: the only code of ours that reads them (what is declared in them is Pulumi's)."""

from __future__ import annotations

from pinion.drivers.cluster.reader import ClusterError, ClusterReader

__all__ = ["ClusterError", "ClusterReader"]
