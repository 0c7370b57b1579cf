"""A kubeconfig, the API server that follows from it, and its errors as the engine knows them."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pinion.drivers.cluster import (
    ClusterClient,
    ClusterConflictError,
    ClusterDeniedError,
    ClusterError,
    ClusterUnreachableError,
)
from pinion.drivers.kubeconfig import is_text
from pinion.provider.plugin import Call, DeniedError, PluginError, RefusedError, UnreachableError

_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Connection:
    """One API server. *kubeconfig* is a path (or None for the user's own), as helm needs it."""

    client: ClusterClient
    kubeconfig: Path | None
    context: str | None


class Connector:
    """Opens the connection when a resource first needs it. *kubeconfig* is a path, a kubeconfig's text, or None for the user's own."""

    def __init__(self, kubeconfig: str | None, context: str | None = None) -> None:
        self._kubeconfig, self._context = kubeconfig, context
        self._private: Path | None = None
        self._open: Connection | None = None
        self._lock = threading.Lock()

    def connection(self) -> Connection:
        """The connection. `RefusedError` when the kubeconfig is no good."""
        with self._lock:
            if self._open is None:
                path = self._path(self._kubeconfig) if self._kubeconfig else None
                try:
                    client = ClusterClient.open(path, self._context)
                except ClusterError as error:
                    raise RefusedError(f"kubernetes:kubeconfig: {error}") from None
                self._open = Connection(client, path, self._context)
            return self._open

    def _path(self, kubeconfig: str) -> Path:
        """A kubeconfig's path; its text is put into a file that only we can read and that goes with us."""
        if not is_text(kubeconfig):
            return Path(kubeconfig).expanduser()
        if self._private is None:
            self._private = Path(tempfile.mkdtemp(prefix="pinion-kubernetes-"))
        path = self._private / "kubeconfig"
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as stream:
            stream.write(kubeconfig)
        return path

    def close(self) -> None:
        """End the connection and remove what was written."""
        with self._lock:
            if self._open is not None:
                self._open.client.close()
            self._open = None
            if self._private is not None:
                shutil.rmtree(self._private, ignore_errors=True)
            self._private = None


def told(call: Call, client: ClusterClient) -> ClusterClient:
    """*client* that breaks off when the user does, and tells the engine why it tries again."""

    def tell(reason: str) -> None:
        call.debug(reason)
        call.status("waits for the API server")

    return client.on_behalf(call.sleep, tell)


def asked(what: str, question: Callable[[], _Result], *, on_conflict: str = "") -> _Result:
    """The answer to *question*; an error of the API server as one of the engine's, which names *what*.

    *on_conflict* says what to do about a field that another manager owns.
    """
    try:
        return question()
    except ClusterError as error:
        raise plugin_error(what, error, on_conflict=on_conflict) from None


def plugin_error(what: str, error: ClusterError, *, on_conflict: str = "") -> PluginError:
    """*error* as the engine knows it."""
    if isinstance(error, ClusterUnreachableError):
        return UnreachableError(f"{what}: {error}")
    if isinstance(error, ClusterDeniedError):
        return DeniedError(f"{what}: {error}")
    if isinstance(error, ClusterConflictError) and on_conflict:
        return RefusedError(f"{what}: {error}\n{on_conflict}")
    return RefusedError(f"{what}: {error}")
