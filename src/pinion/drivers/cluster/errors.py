"""What the API server, or the way to it, says no with. Every text names the server, the object and the reason."""

from __future__ import annotations


class ClusterError(Exception):
    """Base of all: the API server did not answer, or refused."""


class ClusterUnreachableError(ClusterError):
    """No usable answer after bounded retries, or none that can be trusted (certificate)."""


class ClusterDeniedError(ClusterError):
    """The credentials are not accepted (401) or do not allow this (403)."""


class ClusterConflictError(ClusterError):
    """Someone else owns a field, or changed the object meanwhile (409)."""


class ClusterRefusedError(ClusterError):
    """The API server will not have it as stated (any other 4xx)."""


class KubeconfigError(ClusterError):
    """The kubeconfig cannot be read or has no such context."""
