"""The stand-in as a plugin: which tokens it serves, and its configuration."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Final

from typing_extensions import override

from pinion.drivers.cluster import ObjectKind, kind_of
from pinion.lab.kubernetes_plugin import choice
from pinion.lab.kubernetes_plugin.connection import Connector, config_failures
from pinion.lab.kubernetes_plugin.objects import ObjectResource
from pinion.lab.kubernetes_plugin.patches import NodePatchResource
from pinion.lab.kubernetes_plugin.releases import ReleaseResource
from pinion.provider.plugin import Call, Checked, Plugin, Properties, ResourceKind, UnsupportedError, serve

#: Tokens of whole objects, and the kind of each.
OBJECTS: Final[dict[str, ObjectKind]] = {
    "kubernetes:core/v1:Namespace": kind_of("Namespace"),
    "kubernetes:core/v1:ServiceAccount": kind_of("ServiceAccount"),
    "kubernetes:core/v1:ConfigMap": kind_of("ConfigMap"),
    "kubernetes:core/v1:Secret": kind_of("Secret"),
    "kubernetes:networking.k8s.io/v1:NetworkPolicy": kind_of("NetworkPolicy"),
}
NODE_PATCH: Final = "kubernetes:core/v1:NodePatch"
RELEASE: Final = "kubernetes:helm.sh/v3:Release"
TOKENS: Final = (*OBJECTS, NODE_PATCH, RELEASE)


class KubernetesPlugin(Plugin):
    """Stands in for pulumi-kubernetes, of whose library it takes the version."""

    name = "kubernetes"
    version = version("pulumi-kubernetes")

    def __init__(self) -> None:
        self._home = Path(tempfile.mkdtemp(prefix="pinion-helm-"))
        self._set_up(Connector({}))

    def _set_up(self, connector: Connector) -> None:
        self._connector = connector
        self._kinds: dict[str, ResourceKind] = {
            **{token: ObjectResource(kind, connector) for token, kind in OBJECTS.items()},
            NODE_PATCH: NodePatchResource(kind_of("Node"), connector),
            RELEASE: ReleaseResource(connector, self._home),
        }

    @override
    def check_config(self, news: Properties) -> Checked:
        """See `Plugin.check_config`."""
        return Checked(news, config_failures(news))

    @override
    def configure(self, config: Properties, call: Call) -> None:
        """See `Plugin.configure`: connects when a resource first needs it."""
        self._set_up(Connector(config))

    @override
    def kind(self, token: str) -> ResourceKind:
        """See `Plugin.kind`."""
        found = self._kinds.get(token)
        if found is None:
            raise UnsupportedError(
                f"{token}: this is Pinion's stand-in for pulumi-kubernetes, which knows {', '.join(TOKENS)}. Where Pulumi can download "
                "its own plugin, every kind works: pulumi plugin install resource kubernetes"
            )
        return found

    @override
    def close(self) -> None:
        """See `Plugin.close`."""
        self._connector.close()
        shutil.rmtree(self._home, ignore_errors=True)


def main() -> int:
    """The program that the engine starts as ``pulumi-resource-kubernetes``."""
    program = choice.official(KubernetesPlugin.version, os.environ)
    if program is not None:
        choice.become(program, sys.argv[1:])
    return serve(KubernetesPlugin())
