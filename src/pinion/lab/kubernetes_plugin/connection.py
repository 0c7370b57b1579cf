"""The provider's configuration, and the API server that follows from it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from pinion.drivers.cluster import (
    ClusterClient,
    ClusterConflictError,
    ClusterDeniedError,
    ClusterError,
    ClusterUnreachableError,
)
from pinion.drivers.kubeconfig import is_text
from pinion.provider.plugin import (
    UNKNOWN,
    Call,
    DeniedError,
    Failure,
    PluginError,
    Properties,
    RefusedError,
    UnreachableError,
    Value,
)

_Result = TypeVar("_Result")

#: Settings of the official provider that change nothing here.
_WITHOUT_EFFECT: Final = {
    "kubeClientSettings",
    "suppressDeprecationWarnings",
    "suppressHelmHookWarnings",
    "clusterIdentifier",
    "enableConfigMapMutable",  # here they always are
}
_USED: Final = {"kubeconfig", "context", "namespace", "enableServerSideApply", "version", "pluginDownloadURL"}
#: The official provider's environment variable: take over fields that someone else owns.
FORCE_VARIABLE: Final = "PULUMI_K8S_ENABLE_PATCH_FORCE"


@dataclass(frozen=True)
class Connection:
    """One API server. *kubeconfig* is a path (or None for the user's own), as helm needs it; *namespace* the default one."""

    client: ClusterClient
    kubeconfig: Path | None
    context: str | None
    namespace: str


def config_failures(config: Properties) -> list[Failure]:
    """What this stand-in cannot do as configured."""
    failures = [
        Failure(key, f"{key} is not known to the stand-in for pulumi-kubernetes; it knows {', '.join(sorted(_USED))}")
        for key, value in config.items()
        if key not in _USED | _WITHOUT_EFFECT and value not in (None, "", "false", False, UNKNOWN)
    ]
    if config.get("enableServerSideApply") in ("false", False):
        failures.append(
            Failure("enableServerSideApply", "the stand-in for pulumi-kubernetes knows server-side apply only")
        )
    return failures


class Connector:
    """Opens the connection when a resource first needs it. *config* are the provider's settings, plain."""

    def __init__(self, config: Properties) -> None:
        self._config = config
        self._private: Path | None = None
        self._open: Connection | None = None

    @property
    def known(self) -> bool:
        """Whether the settings are all known (in a preview the cluster itself may be yet to be made)."""
        return UNKNOWN not in self._config.values()

    @property
    def namespace(self) -> str:
        """The namespace of what names none."""
        return self._text("namespace") or "default"

    def connection(self) -> Connection:
        """The connection. `RefusedError` when the kubeconfig is no good."""
        if self._open is None:
            kubeconfig, context = self._text("kubeconfig"), self._text("context")
            path = self._path(kubeconfig) if kubeconfig else None
            try:
                client = ClusterClient.open(path, context)
            except ClusterError as error:
                raise RefusedError(f"provider configuration: {error}") from None
            self._open = Connection(client, path, context, self.namespace)
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

    def _text(self, key: str) -> str | None:
        value: Value = self._config.get(key)
        return value if isinstance(value, str) and value else None

    def close(self) -> None:
        """End the connection and remove what was written."""
        if self._open is not None:
            self._open.client.close()
        if self._private is not None:
            shutil.rmtree(self._private, ignore_errors=True)


def told(call: Call, client: ClusterClient) -> ClusterClient:
    """*client* that breaks off when the user does, and tells the engine why it tries again."""

    def tell(reason: str) -> None:
        call.debug(reason)
        call.status("waits for the API server")

    return client.on_behalf(call.sleep, tell)


def asked(what: str, question: Callable[[], _Result]) -> _Result:
    """The answer to *question*; an error of the API server as one of the engine's, which names *what*."""
    try:
        return question()
    except ClusterError as error:
        raise plugin_error(what, error) from None


def plugin_error(what: str, error: ClusterError) -> PluginError:
    """*error* as the engine knows it."""
    if isinstance(error, ClusterUnreachableError):
        return UnreachableError(f"{what}: {error}")
    if isinstance(error, ClusterDeniedError):
        return DeniedError(f"{what}: {error}")
    if isinstance(error, ClusterConflictError):
        return RefusedError(
            f'{what}: {error}\nSomeone else set this. Take it over: annotate the resource with pulumi.com/patchForce: "true", '
            f"or set {FORCE_VARIABLE}=true"
        )
    return RefusedError(f"{what}: {error}")
