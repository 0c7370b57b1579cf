"""Talk to a Kubernetes API server: read, apply, delete, with bounded retries where a call is safe to repeat.

Invariants:

* Every call here is safe to repeat (reads, server-side apply, patches tied to a version, deletes tied to a uid, and making what may be
  there only once), so every call is retried
  when the server does not answer, hangs, breaks off, or says 429 or 5xx; never when it says no.
* A call ends after `ATTEMPTS` tries at the latest; `Retry-After` is obeyed up to `LONGEST_WAIT`.
* Proxies of the environment are used as `kubernetes` does; certificates are always verified as the kubeconfig says.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import yaml
from kubernetes import client as kubernetes_client
from kubernetes import config as kubernetes_config
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from pinion.drivers.cluster.errors import (
    ClusterConflictError,
    ClusterDeniedError,
    ClusterError,
    ClusterRefusedError,
    ClusterUnreachableError,
    KubeconfigError,
)
from pinion.drivers.cluster.kinds import ObjectKind, kind_of
from pinion.drivers.kubeconfig import is_text

#: An object of the API as JSON.
Json = Mapping[str, Any]

ATTEMPTS: Final = 5
FIRST_WAIT, LONGEST_WAIT = 0.5, 15.0
#: Seconds to connect, and to wait for the next byte of an answer.
TIMEOUT: Final = (5, 20)
_AGAIN = {
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.INTERNAL_SERVER_ERROR,
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
}
#: What the library raises on a file that is anything else.
_NO_KUBECONFIG = (TypeError, ValueError, LookupError, AttributeError)
_APPLY, _MERGE, _JSON = "application/apply-patch+yaml", "application/merge-patch+json", "application/json"


class ClusterClient:
    """One API server with one user's credentials. Safe for several threads.

    *sleep* waits between tries (a caller's own may raise to break off); *tell* hears why a call is tried again.
    """

    def __init__(
        self,
        api: kubernetes_client.ApiClient,
        timeout: tuple[float, float] = TIMEOUT,
        sleep: Callable[[float], object] = time.sleep,
        tell: Callable[[str], object] = lambda _: None,
    ) -> None:
        self._api, self._timeout, self._sleep, self._tell = api, timeout, sleep, tell

    def on_behalf(self, sleep: Callable[[float], object], tell: Callable[[str], object]) -> ClusterClient:
        """The same client, waiting and telling in another way."""
        return ClusterClient(self._api, self._timeout, sleep, tell)

    @classmethod
    def open(cls, kubeconfig: Path | str | None = None, context: str | None = None) -> ClusterClient:
        """A client from a kubeconfig: its path, its text, or None for `$KUBECONFIG` or the user's own. `KubeconfigError`."""
        settings = kubernetes_client.Configuration()
        settings.retries = False
        try:
            if isinstance(kubeconfig, str) and is_text(kubeconfig):
                document = yaml.safe_load(kubeconfig)
                if not isinstance(document, dict):
                    raise KubeconfigError("kubeconfig: its text is no mapping")
                api = kubernetes_config.new_client_from_config_dict(
                    document, context=context, persist_config=False, client_configuration=settings
                )
            else:
                path = str(Path(kubeconfig).expanduser()) if kubeconfig is not None else None
                api = kubernetes_config.new_client_from_config(
                    path, context=context, persist_config=False, client_configuration=settings
                )
        except (kubernetes_config.ConfigException, OSError, yaml.YAMLError, *_NO_KUBECONFIG) as error:
            shown = "kubeconfig" if kubeconfig is None or is_text(str(kubeconfig)) else f"kubeconfig {kubeconfig}"
            raise KubeconfigError(f"{shown}: {error}") from None
        return cls(api)

    @property
    def server(self) -> str:
        """The API server's URL."""
        return str(self._api.configuration.host)

    def close(self) -> None:
        """End its connections."""
        self._api.rest_client.pool_manager.clear()

    # --- objects ------------------------------------------------------------------------------------------------------

    def get(self, kind: ObjectKind, namespace: str | None, name: str) -> Json | None:
        """The object, None when there is none."""
        return self._call("GET", kind.path(namespace, name), missing=True)

    def list(self, kind: ObjectKind, namespace: str | None, selector: str = "") -> Sequence[Json]:
        """The objects of a collection that the label *selector* takes."""
        query = [("labelSelector", selector)] if selector else []
        answer = self._call("GET", kind.path(namespace), query=query)
        items: Sequence[Json] = (answer or {}).get("items") or ()
        return items

    def create(self, kind: ObjectKind, manifest: Json, *, manager: str, dry_run: bool = False) -> Json:
        """Make an object. `ClusterConflictError` when there is one of the name, which after a lost answer may be the one just made."""
        query = [("fieldManager", manager), ("fieldValidation", "Strict"), *([("dryRun", "All")] if dry_run else [])]
        path = kind.path(manifest["metadata"].get("namespace"))
        return self._call("POST", path, body=manifest, query=query) or {}

    def apply(
        self, kind: ObjectKind, manifest: Json, *, manager: str, force: bool = False, dry_run: bool = False
    ) -> Json:
        """Server-side apply of *manifest* as field manager *manager*; the object as it is then (or would be, in a dry run).

        Raises `ClusterConflictError` when another manager owns a field with another value, unless *force*.
        """
        metadata = manifest["metadata"]
        query = [("fieldManager", manager), ("fieldValidation", "Strict")]
        query += [("force", "true")] if force else []
        query += [("dryRun", "All")] if dry_run else []
        path = kind.path(metadata.get("namespace"), metadata["name"])
        return self._call("PATCH", path, body=manifest, content=_APPLY, query=query) or {}

    def merge(
        self, kind: ObjectKind, namespace: str | None, name: str, patch: Json, *, manager: str, dry_run: bool = False
    ) -> Json:
        """JSON merge patch (RFC 7386). *patch* names the version that it was made from (``metadata.resourceVersion``): may be repeated.

        Raises `ClusterConflictError` when the object has changed meanwhile.
        """
        query = [("fieldManager", manager), *([("dryRun", "All")] if dry_run else [])]
        return self._call("PATCH", kind.path(namespace, name), body=patch, content=_MERGE, query=query) or {}

    def delete(self, kind: ObjectKind, namespace: str | None, name: str, *, uid: str) -> bool:
        """Ask for the deletion of the object that has *uid*; False when that object is gone already."""
        body = {"propagationPolicy": "Foreground", "preconditions": {"uid": uid}}
        try:
            return self._call("DELETE", kind.path(namespace, name), body=body, missing=True) is not None
        except ClusterConflictError:  # another object of that name
            return False

    def proxied(
        self, namespace: str, service: str, port: int, path: str, body: Json | None = None
    ) -> tuple[int, bytes]:
        """Status and body of what *service* answers to *path*, through the API server's proxy; *body* is posted. Without endpoints: 503."""
        url = f"/api/v1/namespaces/{namespace}/services/{service}:{port}/proxy{path}"
        try:
            status, answer, _ = self._once("GET" if body is None else "POST", url, (), body, _JSON)
        except HTTPError as error:
            raise ClusterUnreachableError(f"{self.server}: service {namespace}/{service}: {_reason(error)}") from None
        if status == HTTPStatus.UNAUTHORIZED:
            raise ClusterDeniedError(f"{self.server}: the credentials of the kubeconfig are not accepted (401)")
        return status, answer

    def log(self, namespace: str, pod: str, container: str, *, lines: int, previous: bool = False) -> str:
        """The last *lines* that a container wrote, or that the one before its last start did. Asked once: its kubelet may be out of reach.

        Raises `ClusterError`.
        """
        path = f"{kind_of('Pod').path(namespace, pod)}/log"
        query = [("container", container), ("tailLines", str(lines)), *([("previous", "true")] if previous else [])]
        try:
            status, answer, _ = self._once("GET", path, query, None, "text/plain")
        except HTTPError as error:
            raise ClusterUnreachableError(f"{self.server}{path}: {_reason(error)}") from None
        if status >= HTTPStatus.BAD_REQUEST:
            raise _refusal(status, f"{self.server}{path}: GET was answered {status} {_message(answer)}")
        return answer.decode(errors="replace")

    # --- calls --------------------------------------------------------------------------------------------------------

    def _call(
        self,
        method: str,
        path: str,
        *,
        body: Json | None = None,
        content: str = _JSON,
        query: Sequence[tuple[str, str]] = (),
        missing: bool = False,
    ) -> Json | None:
        """One call with its retries; None when *missing* is allowed and there is no such object."""
        wait, said = FIRST_WAIT, ""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                status, answer, asked = self._once(method, path, query, body, content)
            except HTTPError as error:
                said, asked = _reason(error), 0.0
                if "certificate" in said.lower():
                    raise ClusterUnreachableError(
                        f"{self.server}: {said}; the kubeconfig's certificate authority does not vouch for this server"
                    ) from None
            else:
                if status < HTTPStatus.BAD_REQUEST:
                    return _document(self.server + path, answer)
                if status == HTTPStatus.NOT_FOUND and missing:
                    return None
                said = f"{status} {_message(answer)}"
                # the one mistake of a caller that server-side apply answers with 500
                if status not in _AGAIN or "failed to create typed patch object" in said:
                    raise _refusal(status, f"{self.server}{path}: {method} was answered {said}")
            if attempt < ATTEMPTS:
                pause = min(max(wait, asked), LONGEST_WAIT)
                self._tell(f"{method} {path}: {said}; again in {pause:.1f} s ({attempt} of {ATTEMPTS})")
                self._sleep(pause)
                wait *= 2
        raise ClusterUnreachableError(
            f"{self.server}{path}: {method} got no good answer in {ATTEMPTS} tries; the last: {said}"
        )

    def _once(
        self, method: str, path: str, query: Sequence[tuple[str, str]], body: Json | None, content: str
    ) -> tuple[int, bytes, float]:
        """Status, body and `Retry-After` in seconds of one request. Raises urllib3's HTTPError."""
        try:
            answer = self._api.call_api(
                path,
                method,
                query_params=list(query),
                header_params={"Content-Type": content, "Accept": f"{_JSON}, */*"},
                body=dict(body) if body is not None else None,
                auth_settings=["BearerToken"],
                _preload_content=False,
                _return_http_data_only=True,
                _request_timeout=self._timeout,
            )
        except ApiException as error:
            if not error.status:
                raise HTTPError(str(error.reason).replace("\n", ": ")) from None
            headers = error.headers or {}
            return error.status, _bytes(error.body), _seconds(headers.get("Retry-After"))
        return answer.status, answer.data, 0.0


def _bytes(body: object) -> bytes:
    return body if isinstance(body, bytes) else str(body or "").encode()


def _seconds(header: str | None) -> float:
    return float(header) if header is not None and header.strip().isdigit() else 0.0


def _document(url: str, answer: bytes) -> Json:
    try:
        document = json.loads(answer)
    except ValueError:
        raise ClusterRefusedError(f"{url}: the answer is no JSON: {answer[:80]!r}; is this an API server?") from None
    if not isinstance(document, dict):
        raise ClusterRefusedError(f"{url}: the answer is no object; is this an API server?")
    return document


def _message(answer: bytes) -> str:
    """What a Status object says, else the beginning of the answer."""
    try:
        document = json.loads(answer)
        return str(document["message"])
    except (ValueError, KeyError, TypeError):
        return answer[:200].decode(errors="replace").strip()


def _refusal(status: int, text: str) -> ClusterError:
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return ClusterDeniedError(text)
    if status == HTTPStatus.CONFLICT:
        return ClusterConflictError(text)
    return ClusterRefusedError(text)


def _reason(error: HTTPError) -> str:
    """The innermost reason of an error of urllib3, without memory addresses."""
    inner: object = error
    while (reason := getattr(inner, "reason", None)) is not None and not isinstance(reason, str):
        inner = reason
    text = str(inner)
    return text.partition(">: ")[2] or text or type(inner).__name__
