"""The provider's settings, what a change of them means for its resources, and the API server that follows from them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from pinion.drivers.kubeconfig import is_text
from pinion.provider.cluster.connection import Connection, Connector
from pinion.provider.plugin import (
    UNKNOWN,
    Difference,
    Failure,
    Kind,
    Properties,
    Unknown,
    differences,
    plain_properties,
)

#: Settings of the official provider that change nothing here.
_WITHOUT_EFFECT: Final = frozenset({"kubeClientSettings", "suppressDeprecationWarnings", "suppressHelmHookWarnings"})
IDENTIFIER: Final = "clusterIdentifier"
#: Switches, with the environment variable of the official provider for each.
SWITCHES: Final[Mapping[str, str]] = {
    "upsertExistingObjects": "PULUMI_K8S_UPSERT_EXISTING_OBJECTS",
    "enablePatchForce": "PULUMI_K8S_ENABLE_PATCH_FORCE",
    "enableConfigMapMutable": "PULUMI_K8S_ENABLE_CONFIGMAP_MUTABLE",
    "enableSecretMutable": "PULUMI_K8S_ENABLE_SECRET_MUTABLE",
}
_USED: Final = frozenset(
    {
        "kubeconfig",
        "context",
        "namespace",
        "enableServerSideApply",
        "version",
        "pluginDownloadURL",
        IDENTIFIER,
        *SWITCHES,
    }
)


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


def config_difference(olds: Properties, news: Properties) -> Difference:
    """What changed, and whether it replaces the provider and with it every resource: another identifier does, and where there was and is
    none, another cluster entry in the kubeconfig (an address suffices).
    """
    before, after = plain_properties(olds), plain_properties(news)
    found = differences(before, after)
    if not found.changes:
        return found
    was, now = before.get(IDENTIFIER), after.get(IDENTIFIER)
    if was and now:
        replacing = {IDENTIFIER} if was != now else set()
    elif any(isinstance(after.get(key), Unknown) for key in ("kubeconfig", "context")):
        replacing = {"kubeconfig", "context"}
    else:
        entries = _active_cluster(before), _active_cluster(after)
        replacing = {"kubeconfig", "context"} if None not in entries and entries[0] != entries[1] else set()
    changes: dict[str, Kind] = {
        path: kind.replacing if path in replacing else kind for path, kind in found.changes.items()
    }
    return Difference(changes)


def _active_cluster(config: Properties) -> object:
    """The entry of the kubeconfig that is in use; None when that cannot be told."""
    stated = config.get("kubeconfig")
    if not isinstance(stated, str) or not stated:
        return None
    try:
        text = stated if is_text(stated) else Path(stated).expanduser().read_text()
        document: Any = yaml.safe_load(text)
        name = config.get("context") or document["current-context"]
        contexts = {entry["name"]: entry["context"] for entry in document["contexts"]}
        clusters = {entry["name"]: entry["cluster"] for entry in document["clusters"]}
        found: object = clusters[contexts[name]["cluster"]]
    except (OSError, yaml.YAMLError, KeyError, TypeError):
        return None
    return found


class Configuration:
    """*config* are the provider's settings, plain."""

    def __init__(self, config: Properties) -> None:
        self._config = config
        self._connector = Connector(self._text("kubeconfig"), self._text("context"))

    @property
    def known(self) -> bool:
        """Whether the settings are all known (in a preview the cluster itself may be yet to be made)."""
        return UNKNOWN not in self._config.values()

    @property
    def namespace(self) -> str:
        """The namespace of what names none."""
        return self._text("namespace") or "default"

    def switch(self, key: str) -> bool:
        """Whether one of `SWITCHES` is on: by the settings, else by the environment."""
        stated = self._config.get(key)
        return stated in ("true", True) if stated is not None else os.environ.get(SWITCHES[key]) == "true"

    def connection(self) -> Connection:
        """The connection, opened when it is first needed. `RefusedError` when the kubeconfig is no good."""
        return self._connector.connection()

    def close(self) -> None:
        """End the connection."""
        self._connector.close()

    def _text(self, key: str) -> str | None:
        value = self._config.get(key)
        return value if isinstance(value, str) and value else None
