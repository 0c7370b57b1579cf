"""The lab's own talk with the API server: a few reads and server-side applies from the management host's network position."""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from pinion.lab.errors import LabError
from pinion.lab.machine import Machine
from pinion.lab.pki import Credential

#: The field manager of what the lab itself applies (Kubernetes' server-side apply).
FIELD_MANAGER = "pinion-lab"
#: Plural of the kinds that the lab applies.
_COLLECTIONS = {
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "Node": "nodes",
    "Role": "roles",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}


class NoAnswerError(Exception):
    """The API server does not answer (yet)."""


@dataclass(frozen=True)
class ClusterApi:
    """The API server of *server*, asked from *machine* as the user of *credential*."""

    machine: Machine
    server: str
    credential: Credential

    def ready(self) -> str | None:
        """None when the API server says that it is ready, else what it says it lacks."""
        try:
            status, body = self._request("GET", "/readyz?verbose")
        except NoAnswerError as error:
            return str(error)
        if status == http.HTTPStatus.OK:
            return None
        lacking = [
            line[3:].split(" ")[0] for line in body.decode(errors="replace").splitlines() if line.startswith("[-]")
        ]
        return f"API server: {', '.join(lacking) or status}"

    def list(self, path: str) -> Sequence[Mapping[str, Any]]:
        """The items of a collection, like ``/api/v1/nodes``. Raises `NoAnswerError`, or `LabError` when it is refused."""
        items: Sequence[Mapping[str, Any]] = self._json("GET", path)["items"]
        return items

    def apply(self, manifest: Mapping[str, Any]) -> bool:
        """Server-side apply; whether that changed the object. Raises as `list`, and `NoAnswerError` while its namespace is not there."""
        name = quote(manifest["metadata"]["name"], safe=":")
        root, namespace = _root(manifest["apiVersion"]), manifest["metadata"].get("namespace")
        if namespace is not None:
            root = f"{root}/namespaces/{namespace}"
            if self._request("GET", f"/api/v1/namespaces/{namespace}")[0] == http.HTTPStatus.NOT_FOUND:
                raise NoAnswerError(f"API server: no namespace {namespace} yet")
        path = f"{root}/{_COLLECTIONS[manifest['kind']]}/{name}"
        status, body = self._request("GET", path)
        before = json.loads(body)["metadata"]["resourceVersion"] if status == http.HTTPStatus.OK else None
        query = f"?fieldManager={FIELD_MANAGER}&force=true"
        after = self._json("PATCH", path + query, manifest, "application/apply-patch+yaml")
        return bool(after["metadata"]["resourceVersion"] != before)

    def delete(self, path: str) -> None:
        """Delete one object; gone already is fine. Raises as `list`."""
        status, body = self._request("DELETE", path)
        if status not in {http.HTTPStatus.OK, http.HTTPStatus.ACCEPTED, http.HTTPStatus.NOT_FOUND}:
            raise LabError(f"{self.server}{path}: DELETE was answered {status}: {body[:300].decode(errors='replace')}")

    def _json(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, kind: str = "application/json"
    ) -> Mapping[str, Any]:
        status, answer = self._request(method, path, json.dumps(body).encode() if body is not None else None, kind)
        if status in {
            http.HTTPStatus.TOO_MANY_REQUESTS,
            http.HTTPStatus.SERVICE_UNAVAILABLE,
            http.HTTPStatus.INTERNAL_SERVER_ERROR,
        }:
            raise NoAnswerError(f"API server: {status} for {path}")
        if status not in {http.HTTPStatus.OK, http.HTTPStatus.CREATED}:
            raise LabError(
                f"{self.server}{path}: {method} was answered {status}: {answer[:300].decode(errors='replace')}"
            )
        document: Mapping[str, Any] = json.loads(answer)
        return document

    def _request(
        self, method: str, path: str, body: bytes | None = None, kind: str = "application/json"
    ) -> tuple[int, bytes]:
        url = urlsplit(self.server)
        host, port = url.hostname or "", url.port or 443
        context = ssl.create_default_context(cafile=str(self.credential.ca))
        context.load_cert_chain(self.credential.certificate, self.credential.key)
        connection = _Connection(host, port, context, lambda: self.machine.connect(host, port, timeout=5.0))
        try:
            connection.request(method, path, body, {"Content-Type": kind, "Accept": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        except ConnectionRefusedError:
            raise NoAnswerError("API server") from None
        except (OSError, http.client.HTTPException) as error:
            raise NoAnswerError(f"API server: {error}") from error
        finally:
            with contextlib.suppress(OSError):
                connection.close()


class _Connection(http.client.HTTPSConnection):
    """HTTPS over a socket that someone else opens."""

    def __init__(self, host: str, port: int, context: ssl.SSLContext, dial: Callable[[], Any]) -> None:
        super().__init__(host, port, context=context, timeout=15.0)
        self._dial, self._tls = dial, context

    def connect(self) -> None:
        """Open the connection."""
        plain = self._dial()
        plain.settimeout(15.0)
        self.sock = self._tls.wrap_socket(plain, server_hostname=self.host)


def _root(api_version: str) -> str:
    """The path of a group and version."""
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
