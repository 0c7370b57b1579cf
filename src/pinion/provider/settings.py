"""The provider's own configuration: where NetBox and the cluster are, how to log in to switches, whether to adopt.

Checked as a whole, without network.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from pinion.drivers.clear_text import PLAIN_HTTP, is_in_clear
from pinion.provider.plugin import Checked, Failure, Properties, Secret, Value, has_unknown, plain_properties

#: Properties of every provider, not ours to judge.
_ENGINE_OWN: Final = frozenset({"version", "pluginDownloadURL", "__internal"})


class Settings(BaseModel):
    """All settings. Times are seconds. The text form never shows a secret."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)

    netbox_url: str | None = None
    netbox_token: SecretStr | None = None
    netbox_ca_file: Path | None = None
    netbox_allow_plain_http: bool = False
    netbox_connect_timeout: float = Field(default=5.0, gt=0, le=600)
    netbox_read_timeout: float = Field(default=60.0, gt=0, le=3600)
    netbox_total_time: float = Field(default=120.0, gt=0, le=7200)
    switch_username: str | None = None
    switch_password: SecretStr | None = None
    switch_enable_password: SecretStr | None = None
    switch_known_hosts: Path | None = None
    switch_confirm_within: int = Field(default=60, ge=10, le=3600)
    kubernetes_kubeconfig: SecretStr | None = None
    adopt: bool = False

    @field_validator("netbox_url")
    @classmethod
    def _is_a_url(cls, url: str | None) -> str | None:
        if url is not None and not url.startswith(("https://", "http://")):
            raise ValueError("must begin with https:// (or http://)")
        return url.rstrip("/").removesuffix("/api") if url else None

    @model_validator(mode="after")
    def _no_token_in_clear(self) -> Self:
        if self.netbox_url is not None and is_in_clear(self.netbox_url) and not self.netbox_allow_plain_http:
            raise PydanticCustomError("plain_http", PLAIN_HTTP)
        return self


#: What the stack's configuration calls each setting, for messages.
STACK_KEYS: Final = {
    "netboxUrl": "netbox:url",
    "netboxToken": "netbox:token",
    "netboxCaFile": "netbox:caFile",
    "netboxAllowPlainHttp": "netbox:allowPlainHttp",
    "netboxConnectTimeout": "netbox:connectTimeout",
    "netboxReadTimeout": "netbox:readTimeout",
    "netboxTotalTime": "netbox:totalTime",
    "switchUsername": "switch:username",
    "switchPassword": "switch:password",
    "switchEnablePassword": "switch:enablePassword",
    "switchKnownHosts": "switch:knownHosts",
    "switchConfirmWithin": "switch:confirmWithin",
    "kubernetesKubeconfig": "kubernetes:kubeconfig",
    "adopt": "pinion:adopt",
}
SECRET_KEYS: Final = frozenset({"netboxToken", "switchPassword", "switchEnablePassword", "kubernetesKubeconfig"})


def check_settings(news: Properties) -> Checked:
    """*news* with every secret marked as one, or all that is wrong."""
    stated = {key: value for key, value in news.items() if key not in _ENGINE_OWN}
    failures: list[Failure] = []
    try:
        Settings.model_validate(_known(stated))
    except ValidationError as error:
        for problem in error.errors(include_url=False, include_input=False):
            key = (
                str(problem["loc"][0]) if problem["loc"] else "netboxUrl"
            )  # what concerns several settings is about the address
            name = STACK_KEYS.get(key, key)
            reason = problem["msg"] if key in STACK_KEYS else f"no such setting; known are {', '.join(STACK_KEYS)}"
            failures.append(Failure(name, reason))
    marked = {key: _secret(value) if key in SECRET_KEYS else value for key, value in news.items()}
    return Checked(marked, failures)


def read_settings(config: Properties) -> Settings:
    """The settings in a configuration that `check_settings` has passed. `ValidationError` otherwise."""
    return Settings.model_validate(_known({key: value for key, value in config.items() if key not in _ENGINE_OWN}))


def _known(stated: Properties) -> dict[str, Value]:
    """What can be judged now: a preview may not know all; an empty text is as good as none."""
    plain = plain_properties(stated)
    return {key: value for key, value in plain.items() if not has_unknown(value) and value not in (None, "")}


def _secret(value: Value) -> Value:
    return value if isinstance(value, Secret) else Secret(value)
