"""What a provider implements: a `Plugin` with some `ResourceKind`s. Nothing here knows gRPC.

Invariants that implementers rely on:

* Every method runs in a worker thread, any number at once; `configure` has returned before any resource method is called.
* No method is called after `cancel` has returned and the grace is over.
* Properties are `pinion.provider.plugin.values`; inputs that `check` returned are what the later methods get.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

from pinion.provider.plugin.differences import Difference, differences
from pinion.provider.plugin.engine import Engine, NoEngine, Redactor, Severity
from pinion.provider.plugin.errors import CancelledError, UnsupportedError
from pinion.provider.plugin.values import Properties


@dataclass(frozen=True)
class Failure:
    """One thing wrong with the inputs. *path* is a property path, "" when it is about the whole."""

    path: str
    reason: str


@dataclass(frozen=True)
class Checked:
    """The inputs to go on with (normalised, defaults filled in), or all that is wrong with them."""

    inputs: Properties
    failures: Sequence[Failure] = ()


@dataclass(frozen=True)
class Created:
    """A new object: its id for the state ("" only in a preview) and its outputs."""

    id: str
    outputs: Properties


@dataclass(frozen=True)
class Found:
    """An object as it is now. *reasons*, when not empty, say why it is not healthy."""

    id: str
    inputs: Properties
    outputs: Properties
    reasons: Sequence[str] = ()


@dataclass(frozen=True)
class Call:
    """One call of the engine: what it is about, how long it may take (*timeout*, seconds, None: no limit) and the way to talk back."""

    urn: str = ""
    name: str = ""
    type: str = ""
    preview: bool = False
    timeout: float | None = None
    cancelled: threading.Event = field(default_factory=threading.Event)
    engine: Engine = field(default_factory=NoEngine)
    redact: Redactor = field(default_factory=Redactor)

    def sleep(self, seconds: float) -> None:
        """Wait, but raise `CancelledError` as soon as the user asks to stop."""
        if self.cancelled.wait(seconds):
            raise CancelledError

    def debug(self, message: str) -> None:
        """A line that only ``pulumi --debug`` shows."""
        self._log(Severity.DEBUG, message)

    def info(self, message: str) -> None:
        """A line in the diagnostics of this resource."""
        self._log(Severity.INFO, message)

    def warn(self, message: str) -> None:
        """A warning in the diagnostics of this resource."""
        self._log(Severity.WARNING, message)

    def error(self, message: str) -> None:
        """An error in the diagnostics of this resource. It does not fail the call."""
        self._log(Severity.ERROR, message)

    def status(self, message: str) -> None:
        """What is being done just now; replaced by the next one."""
        self._log(Severity.INFO, message, ephemeral=True)

    def _log(self, severity: Severity, message: str, *, ephemeral: bool = False) -> None:
        self.engine.log(severity, self.redact(message), self.urn, ephemeral=ephemeral)


class ResourceKind(ABC):
    """One kind of resource. Errors: any `PluginError`."""

    @abstractmethod
    def check(self, call: Call, olds: Properties, news: Properties) -> Checked:
        """Judge *news* without touching the world. *olds* are the inputs in the state, empty for a new resource."""

    def diff(
        self,
        call: Call,  # noqa: ARG002
        resource_id: str,  # noqa: ARG002
        old_inputs: Properties,
        olds: Properties,  # noqa: ARG002
        news: Properties,
        ignore: Sequence[str],
    ) -> Difference:
        """What an update would change. *olds* are the outputs in the state; *ignore* are property paths."""
        return differences(old_inputs, news, ignore=ignore)

    @abstractmethod
    def create(self, call: Call, news: Properties, *, preview: bool) -> Created:
        """Make it, or say what making it would do."""

    @abstractmethod
    def read(self, call: Call, resource_id: str, inputs: Properties, olds: Properties) -> Found | None:
        """As it is now; None when it is gone. *inputs* and *olds* are empty in an import."""

    @abstractmethod
    def update(
        self, call: Call, resource_id: str, old_inputs: Properties, olds: Properties, news: Properties, *, preview: bool
    ) -> Properties:
        """Bring it to *news*; the new outputs."""

    @abstractmethod
    def delete(self, call: Call, resource_id: str, old_inputs: Properties, olds: Properties) -> None:
        """Take it away. Gone already is fine."""


class Plugin(ABC):
    """A provider: a package *name*, a semantic *version*, and its kinds."""

    name: str
    version: str

    @abstractmethod
    def kind(self, token: str) -> ResourceKind:
        """The kind called *token* (``package:module:Name``); `UnsupportedError` when there is none."""

    def schema(self) -> dict[str, object]:
        """The package schema."""
        return {"name": self.name, "version": self.version, "resources": {}}

    def check_config(self, news: Properties) -> Checked:
        """Judge the provider's configuration without touching the world. Values may be UNKNOWN."""
        return Checked(news)

    def diff_config(self, olds: Properties, news: Properties) -> Difference:
        """What changed in the configuration. The default never replaces the provider, so never its resources."""
        return differences(olds, news)

    def configure(self, config: Properties, call: Call) -> None:  # noqa: B027
        """Take the configuration; secrets are plain here and taken out of every log line from now on."""

    def invoke(self, token: str, arguments: Properties, call: Call) -> Properties:  # noqa: ARG002
        """Run a function of the package."""
        raise UnsupportedError(f"{self.name} has no function {token}")

    def cancel(self) -> None:  # noqa: B027
        """The user asked to stop: let what is in flight end soon."""

    def close(self) -> None:  # noqa: B027
        """The process ends."""
