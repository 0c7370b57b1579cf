"""The line back to Pulumi's engine: log lines and the live status, with secrets taken out. Losing it never fails a call."""

from __future__ import annotations

import logging
import threading
from enum import Enum
from typing import Final, Protocol

import grpc
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc

_LOG: Final = logging.getLogger("pinion.provider")
_CALL_SECONDS: Final = 5.0
_SHORTEST_SECRET: Final = 4  # characters; taking out shorter ones would make the text unreadable and hide nothing


class Severity(Enum):
    """How loud a line is."""

    DEBUG = logging.DEBUG
    INFO = logging.INFO
    WARNING = logging.WARNING
    ERROR = logging.ERROR


class Redactor:
    """Replaces every known secret in a text by ``[secret]``."""

    def __init__(self) -> None:
        self._secrets: tuple[str, ...] = ()
        self._lock = threading.Lock()

    def learn(self, *secrets: str) -> None:
        """Never show these texts again."""
        with self._lock:
            known = {*self._secrets, *(text for text in secrets if len(text) >= _SHORTEST_SECRET)}
            self._secrets = tuple(sorted(known, key=len, reverse=True))  # the longest first: one may contain another

    def __call__(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "[secret]")
        return text


class Engine(Protocol):
    """Where log lines go."""

    def log(self, severity: Severity, message: str, urn: str, *, ephemeral: bool = False) -> None:
        """Show *message* under the resource *urn* ("" for none). *ephemeral* shows it in the live status only."""


class EngineClient:
    """The engine at *address* (``host:port``)."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._channel = grpc.insecure_channel(address)
        self._stub = engine_pb2_grpc.EngineStub(self._channel)

    def log(self, severity: Severity, message: str, urn: str, *, ephemeral: bool = False) -> None:
        """See `Engine`. A log line that cannot be delivered goes to stderr, and nothing fails."""
        request = engine_pb2.LogRequest(
            severity=engine_pb2.LogSeverity.Value(severity.name), message=message, urn=urn, ephemeral=ephemeral
        )
        try:
            self._stub.Log(request, timeout=_CALL_SECONDS)
        except grpc.RpcError as error:
            _LOG.warning("the engine took no log line (%s): %s", error, message)

    def close(self) -> None:
        """Let the connection go."""
        self._channel.close()


class NoEngine:
    """Before the engine has said where it is: lines go to stderr."""

    def log(self, severity: Severity, message: str, urn: str, *, ephemeral: bool = False) -> None:  # noqa: ARG002
        """See `Engine`."""
        _LOG.log(severity.value, "%s %s", urn, message)
