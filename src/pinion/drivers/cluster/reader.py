"""Read facts of a Kubernetes cluster: what exists, what a node carries, what a service answers. Changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kubernetes import client, config, dynamic
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

#: Seconds to connect and to wait for an answer.
TIMEOUT = (5, 20)

_API_VERSIONS = {
    "Namespace": "v1",
    "Node": "v1",
    "ServiceAccount": "v1",
    "NetworkPolicy": "networking.k8s.io/v1",
}


class ClusterError(Exception):
    """The API server did not answer, or refused: the text names server, object and reason."""


class ClusterReader:
    """Reads through one kubeconfig. Safe for several threads.

    Raises `ClusterError` when the kubeconfig cannot be used.
    """

    def __init__(self, kubeconfig: Path) -> None:
        try:
            self._api: client.ApiClient = config.new_client_from_config(config_file=str(kubeconfig))
        except (config.ConfigException, OSError) as error:
            raise ClusterError(f"kubeconfig {kubeconfig}: {error}") from None
        self._api.configuration.retries = 2
        self._dynamic: dynamic.DynamicClient | None = None

    @property
    def server(self) -> str:
        """The API server's URL."""
        return str(self._api.configuration.host)

    def get(self, kind: str, name: str, namespace: str | None = None) -> Mapping[str, Any] | None:
        """The object as the API server holds it, None when there is none; `ClusterError` when it cannot be asked."""
        try:
            if self._dynamic is None:
                self._dynamic = dynamic.DynamicClient(self._api)
            resource = self._dynamic.resources.get(api_version=_API_VERSIONS[kind], kind=kind)
            found: Mapping[str, Any] = resource.get(name=name, namespace=namespace, _request_timeout=TIMEOUT).to_dict()
            return found
        except ApiException as error:
            if error.status == 404:
                return None
            raise ClusterError(f"{self.server}: {kind} {name}: {error.status} {error.reason}") from None
        except HTTPError as error:
            raise ClusterError(f"{self.server}: {kind} {name}: {error}") from None

    def http_status(self, namespace: str, service: str, port: int, path: str) -> int:
        """The status code that *service* answers *path* with, asked through the API server's service proxy.

        A service without a ready endpoint is answered by the API server itself, with 503. Raises `ClusterError` when it cannot be asked.
        """
        url = f"/api/v1/namespaces/{namespace}/services/{service}:{port}/proxy{path}"
        try:
            _, status, _ = self._api.call_api(
                url,
                "GET",
                auth_settings=["BearerToken"],
                response_type=None,
                _preload_content=False,
                _return_http_data_only=False,
                _request_timeout=TIMEOUT,
            )
            return int(status)
        except ApiException as error:
            return int(error.status)
        except HTTPError as error:
            raise ClusterError(f"{self.server}: service {namespace}/{service}: {error}") from None
