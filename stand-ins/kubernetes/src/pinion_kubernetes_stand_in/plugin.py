"""The stand-in as a plugin: which tokens it serves, and its configuration."""

from __future__ import annotations

from importlib.metadata import version
from typing import Final

from typing_extensions import override

from pinion.drivers.cluster import ObjectKind, kind_of
from pinion.provider.plugin import Call, Checked, Difference, Plugin, Properties, ResourceKind, UnsupportedError, serve
from pinion_kubernetes_stand_in.configuration import Configuration, config_difference, config_failures
from pinion_kubernetes_stand_in.objects import ObjectResource

#: Tokens of whole objects, and the kind of each.
OBJECTS: Final[dict[str, ObjectKind]] = {
    "kubernetes:core/v1:Namespace": kind_of("Namespace"),
    "kubernetes:core/v1:ServiceAccount": kind_of("ServiceAccount"),
    "kubernetes:core/v1:ConfigMap": kind_of("ConfigMap"),
    "kubernetes:core/v1:Secret": kind_of("Secret"),
    "kubernetes:networking.k8s.io/v1:NetworkPolicy": kind_of("NetworkPolicy"),
}
TOKENS: Final = tuple(OBJECTS)
_SAID: Final = (
    "the cluster's objects go through Pinion's stand-in for pulumi-kubernetes, which is for the lab; a stack that must not have it: "
    "pulumi config rm pinion:kubernetesPlugin (docs/real-site.md)"
)


class KubernetesPlugin(Plugin):
    """Stands in for pulumi-kubernetes, of whose library it takes the version."""

    name = "kubernetes"
    version = f"{version('pulumi-kubernetes')}-stand-in"

    def __init__(self) -> None:
        self._set_up(Configuration({}))

    def _set_up(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._kinds: dict[str, ResourceKind] = {
            token: ObjectResource(kind, configuration) for token, kind in OBJECTS.items()
        }

    @override
    def check_config(self, news: Properties) -> Checked:
        """See `Plugin.check_config`."""
        return Checked(news, config_failures(news))

    @override
    def diff_config(self, olds: Properties, news: Properties) -> Difference:
        """See `Plugin.diff_config`."""
        return config_difference(olds, news)

    @override
    def configure(self, config: Properties, call: Call) -> None:
        """See `Plugin.configure`: connects when a resource first needs it, and says what this is."""
        call.info(_SAID)
        self._configuration.close()
        self._set_up(Configuration(config))

    @override
    def kind(self, token: str) -> ResourceKind:
        """See `Plugin.kind`."""
        found = self._kinds.get(token)
        if found is None:
            raise UnsupportedError(
                f"{token}: this is Pinion's stand-in for pulumi-kubernetes, which knows {', '.join(TOKENS)}. With Pulumi's own plugin "
                "every kind works: pulumi config rm pinion:kubernetesPlugin, and pulumi plugin install resource kubernetes"
            )
        return found

    @override
    def close(self) -> None:
        """See `Plugin.close`."""
        self._configuration.close()


def main() -> int:
    """The program that the engine starts as ``pulumi-resource-kubernetes``."""
    return serve(KubernetesPlugin())
