"""The provider resource: settings that a program states itself, or those of the stack's configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pulumi

from pinion.provider.settings import SECRET_KEYS, STACK_KEYS

_STACK_PROVIDERS: Final[dict[str, Provider]] = {}


class Provider(pulumi.ProviderResource):
    """An explicit provider. *settings* are named as in `pinion.provider.settings.STACK_KEYS`; secrets are made secret here."""

    def __init__(
        self, name: str, settings: Mapping[str, pulumi.Input[str]], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        unknown = sorted(set(settings) - set(STACK_KEYS))
        if unknown:
            raise ValueError(f"the provider has no setting {', '.join(unknown)}; known are {', '.join(STACK_KEYS)}")
        inputs = {key: pulumi.Output.secret(value) if key in SECRET_KEYS else value for key, value in settings.items()}
        super().__init__("pinion", name, inputs, opts)


def stack_provider() -> Provider:
    """The provider with the settings of the stack's configuration; one a program."""
    stack = pulumi.get_stack()
    if stack not in _STACK_PROVIDERS:
        settings: dict[str, pulumi.Input[str]] = {}
        for key, name in STACK_KEYS.items():
            namespace, _, variable = name.partition(":")
            config = pulumi.Config(namespace)
            value = config.get_secret(variable) if key in SECRET_KEYS else config.get(variable)
            if value is not None:
                settings[key] = value
        _STACK_PROVIDERS[stack] = Provider("pinion", settings)
    return _STACK_PROVIDERS[stack]


def with_provider(opts: pulumi.ResourceOptions | None) -> pulumi.ResourceOptions:
    """*opts* with the stack's provider, unless they, or a parent, name another."""
    given = opts or pulumi.ResourceOptions()
    if given.provider is not None or given.providers or (given.parent is not None and _has_provider(given.parent)):
        return given
    return pulumi.ResourceOptions.merge(given, pulumi.ResourceOptions(provider=stack_provider()))


def _has_provider(parent: pulumi.Resource) -> bool:
    return parent.get_provider("pinion:index:any") is not None
