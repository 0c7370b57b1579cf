"""What a provider says when it cannot do as asked. Each error is one readable text; the class picks the gRPC status.

None of these maps to a status that the engine takes for "state unknown" (INTERNAL, UNKNOWN, DATA_LOSS): whatever a handler raises
on purpose is understood. `PartialError` alone puts something into the state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import grpc

from pinion.provider.plugin.values import Properties


class PluginError(Exception):
    """Base of all. *reason* names the object, where, what went wrong and what to do."""

    code: ClassVar[grpc.StatusCode] = grpc.StatusCode.FAILED_PRECONDITION

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class RefusedError(PluginError):
    """The other side, or we, will not do this as stated: the same call would fail again."""


class NotFoundError(PluginError):
    """Something that the call refers to is not there."""

    code = grpc.StatusCode.NOT_FOUND


class DeniedError(PluginError):
    """The credentials do not allow it, or there are none."""

    code = grpc.StatusCode.PERMISSION_DENIED


class UnreachableError(PluginError):
    """The other side did not answer, or not in time, after bounded retries."""

    code = grpc.StatusCode.UNAVAILABLE


class UnsupportedError(PluginError):
    """This provider has no such resource, function or property."""

    code = grpc.StatusCode.UNIMPLEMENTED


class InvalidError(PluginError):
    """The properties make no sense; `Check` should have said so."""

    code = grpc.StatusCode.INVALID_ARGUMENT


class LateError(PluginError):
    """Not done within the time that the program allows."""

    code = grpc.StatusCode.DEADLINE_EXCEEDED


class CancelledError(PluginError):
    """The user asked to stop."""

    code = grpc.StatusCode.CANCELLED

    def __init__(self, reason: str = "cancelled") -> None:
        super().__init__(reason)


class PartialError(PluginError):
    """The object exists (in part): the state keeps *outputs* under *id*, and the next `up` calls update.

    *inputs* replace the inputs in the state where a read found others; None keeps those of the program.
    """

    code = grpc.StatusCode.UNKNOWN  # what the engine expects beside the detail

    def __init__(
        self, resource_id: str, outputs: Properties, reasons: Sequence[str], inputs: Properties | None = None
    ) -> None:
        super().__init__("; ".join(reasons))
        self.id = resource_id
        self.outputs = outputs
        self.reasons = tuple(reasons)
        self.inputs = inputs
