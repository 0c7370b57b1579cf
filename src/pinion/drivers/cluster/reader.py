"""Read facts of a Kubernetes cluster: what exists, what a node carries, what a service answers. Changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pinion.drivers.cluster.client import ClusterClient, Json
from pinion.drivers.cluster.drift import drift
from pinion.drivers.cluster.helm_records import DEPLOYED, helm_records
from pinion.drivers.cluster.kinds import kind_of


class ClusterReader:
    """Reads through one kubeconfig: a path, or its text. Safe for several threads.

    Raises `ClusterError` when the kubeconfig cannot be used.
    """

    def __init__(self, kubeconfig: Path | str) -> None:
        self._client = ClusterClient.open(kubeconfig)

    @property
    def server(self) -> str:
        """The API server's URL."""
        return self._client.server

    def get(self, kind: str, name: str, namespace: str | None = None) -> Json | None:
        """The object as the API server holds it, None when there is none; `ClusterError` when it cannot be asked."""
        return self._client.get(kind_of(kind), namespace, name)

    def names(self, kind: str) -> frozenset[str]:
        """The names of all objects of *kind*, which is one without namespaces; `ClusterError` when it cannot be asked."""
        return frozenset(found["metadata"]["name"] for found in self._client.list(kind_of(kind), None))

    def release_drift(self, namespace: str, name: str) -> Sequence[str] | None:
        """What of a Helm release is not as its chart says, in words; None when there is no such release. `ClusterError` as above."""
        held = helm_records(self._client, namespace, name)
        if not held:
            return None
        if held[-1].status != DEPLOYED:
            return [f"release {namespace}/{name} is {held[-1].status}"]
        return drift(self._client, held[-1].manifest, namespace)

    def http_status(self, namespace: str, service: str, port: int, path: str) -> int:
        """The status code that *service* answers *path* with, asked through the API server's service proxy.

        A service without a ready endpoint is answered by the API server itself, with 503. Raises `ClusterError` when it cannot be asked.
        """
        status, _ = self._client.proxied(namespace, service, port, path)
        return status

    def answer(self, namespace: str, service: str, port: int, path: str, body: Json | None = None) -> tuple[int, bytes]:
        """Status and body of what *service* answers to *path*; *body* is posted, which needs the right to create `services/proxy`.

        Goes as `http_status` does. Raises `ClusterError` when it cannot be asked.
        """
        return self._client.proxied(namespace, service, port, path, body)

    def pods(self, namespace: str, release: str) -> Sequence[Json]:
        """The pods of the Helm release called *release*; `ClusterError` when they cannot be read."""
        return self._client.list(kind_of("Pod"), namespace, f"app.kubernetes.io/instance={release}")
