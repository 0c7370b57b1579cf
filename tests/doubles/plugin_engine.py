"""A plugin over a real channel for tests: what the engine would send and see, without the engine."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, cast

import grpc
from google.protobuf import empty_pb2, message
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc, provider_pb2, provider_pb2_grpc, status_pb2
from typing_extensions import override

from pinion.provider.plugin.interface import Plugin
from pinion.provider.plugin.server import start
from pinion.provider.plugin.values import Properties, Value, decode, encode

_CALL_SECONDS: Final = 60.0
_Request = TypeVar("_Request", bound=message.Message)


@dataclass(frozen=True)
class Line:
    """One line that the plugin logged: severity by name (``INFO``)."""

    severity: str
    message: str
    urn: str
    ephemeral: bool


class RecordingEngine(engine_pb2_grpc.EngineServicer):
    """An engine that only keeps log lines."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self._lock = threading.Lock()

    @override
    def Log(self, request: engine_pb2.LogRequest, context: grpc.ServicerContext) -> empty_pb2.Empty:
        """Keep one line."""
        severity = engine_pb2.LogSeverity.Name(request.severity)
        with self._lock:
            self.lines.append(Line(severity, request.message, request.urn, request.ephemeral))
        return empty_pb2.Empty()

    def text(self, *severities: str) -> str:
        """All messages (of the given severities), a line each."""
        return "\n".join(line.message for line in self.lines if not severities or line.severity in severities)


@dataclass(frozen=True)
class Partial:
    """What an ErrorResourceInitFailed carried."""

    id: str
    outputs: dict[str, Value]
    inputs: dict[str, Value]
    reasons: list[str]


def partial_of(error: grpc.RpcError) -> Partial | None:
    """The detail of a partial failure, None when *error* is another."""
    for key, value in cast("grpc.Call", error).trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            status = status_pb2.Status.FromString(value if isinstance(value, bytes) else value.encode())
            for packed in status.details:
                detail = provider_pb2.ErrorResourceInitFailed()
                if packed.Unpack(detail):
                    return Partial(detail.id, decode(detail.properties), decode(detail.inputs), list(detail.reasons))
    return None


def _changes(response: provider_pb2.DiffResponse) -> dict[str, str]:
    return {path: provider_pb2.PropertyDiff.Kind.Name(change.kind) for path, change in response.detailedDiff.items()}


@dataclass
class Client:
    """Calls a plugin as the engine does."""

    stub: provider_pb2_grpc.ResourceProviderStub
    engine: RecordingEngine
    project: str = "project"
    stack: str = "stack"
    timeout: float = _CALL_SECONDS
    handshake: provider_pb2.ProviderHandshakeResponse = field(default_factory=provider_pb2.ProviderHandshakeResponse)

    def urn(self, token: str, name: str) -> str:
        """The URN of a resource of this stack."""
        return f"urn:pulumi:{self.stack}::{self.project}::{token}::{name}"

    def _about(self, request: _Request, token: str, name: str) -> _Request:
        for field_name, value in (("urn", self.urn(token, name)), ("type", token), ("name", name)):
            setattr(request, field_name, value)
        return request

    def check_config(self, news: Properties, token: str = "pulumi:providers:pinion") -> provider_pb2.CheckResponse:
        """CheckConfig."""
        request = provider_pb2.CheckRequest(news=encode(news))
        response: provider_pb2.CheckResponse = self.stub.CheckConfig(
            self._about(request, token, "p"), timeout=self.timeout
        )
        return response

    def diff_config(self, olds: Properties, news: Properties) -> dict[str, str]:
        """DiffConfig: the kind of change by property path."""
        request = provider_pb2.DiffRequest(old_inputs=encode(olds), olds=encode(olds), news=encode(news))
        return _changes(self.stub.DiffConfig(self._about(request, "pulumi:providers:x", "p"), timeout=self.timeout))

    def schema(self) -> dict[str, Any]:
        """GetSchema, parsed."""
        response = self.stub.GetSchema(provider_pb2.GetSchemaRequest(), timeout=self.timeout)
        return cast("dict[str, Any]", json.loads(response.schema))

    def configure(self, config: Properties) -> provider_pb2.ConfigureResponse:
        """Configure."""
        response: provider_pb2.ConfigureResponse = self.stub.Configure(
            provider_pb2.ConfigureRequest(args=encode(config)), timeout=self.timeout
        )
        return response

    def check(
        self, token: str, name: str, news: Properties, olds: Properties | None = None
    ) -> provider_pb2.CheckResponse:
        """Check."""
        request = provider_pb2.CheckRequest(news=encode(news), olds=encode(olds or {}))
        response: provider_pb2.CheckResponse = self.stub.Check(self._about(request, token, name), timeout=self.timeout)
        return response

    def diff(
        self,
        token: str,
        name: str,
        resource_id: str,
        *,
        old_inputs: Properties,
        olds: Properties,
        news: Properties,
        ignore: tuple[str, ...] = (),
    ) -> dict[str, str]:
        """Diff: the kind of change by property path."""
        request = provider_pb2.DiffRequest(
            id=resource_id,
            old_inputs=encode(old_inputs),
            olds=encode(olds),
            news=encode(news),
            ignoreChanges=ignore,
        )
        response = self.stub.Diff(self._about(request, token, name), timeout=self.timeout)
        return _changes(response)

    def create(
        self, token: str, name: str, news: Properties, *, preview: bool = False, limit: float = 0.0
    ) -> tuple[str, dict[str, Value]]:
        """Create: id and outputs. *limit*: the program's own time limit, seconds, 0 for none."""
        request = provider_pb2.CreateRequest(properties=encode(news), preview=preview, timeout=limit)
        response = self.stub.Create(self._about(request, token, name), timeout=self.timeout)
        return response.id, decode(response.properties)

    def read(
        self,
        token: str,
        name: str,
        resource_id: str,
        *,
        inputs: Properties | None = None,
        olds: Properties | None = None,
    ) -> tuple[dict[str, Value], dict[str, Value]] | None:
        """Read: inputs and outputs, None when it is gone."""
        request = provider_pb2.ReadRequest(id=resource_id, inputs=encode(inputs or {}), properties=encode(olds or {}))
        response = self.stub.Read(self._about(request, token, name), timeout=self.timeout)
        return (decode(response.inputs), decode(response.properties)) if response.id else None

    def update(
        self,
        token: str,
        name: str,
        resource_id: str,
        *,
        old_inputs: Properties,
        olds: Properties,
        news: Properties,
        preview: bool = False,
    ) -> dict[str, Value]:
        """Update: outputs."""
        request = provider_pb2.UpdateRequest(
            id=resource_id,
            old_inputs=encode(old_inputs),
            olds=encode(olds),
            news=encode(news),
            preview=preview,
        )
        return decode(self.stub.Update(self._about(request, token, name), timeout=self.timeout).properties)

    def delete(self, token: str, name: str, resource_id: str, *, old_inputs: Properties, olds: Properties) -> None:
        """Delete."""
        request = provider_pb2.DeleteRequest(id=resource_id, old_inputs=encode(old_inputs), properties=encode(olds))
        self.stub.Delete(self._about(request, token, name), timeout=self.timeout)

    def cancel(self) -> None:
        """Cancel."""
        self.stub.Cancel(empty_pb2.Empty(), timeout=self.timeout)


@contextmanager
def started(plugin: Plugin, *, grace: float | None = None) -> Iterator[Client]:
    """*plugin* on a real channel, with a `RecordingEngine` that it logs to."""
    engine = RecordingEngine()
    engine_server = grpc.server(ThreadPoolExecutor(max_workers=8))
    engine_pb2_grpc.add_EngineServicer_to_server(engine, engine_server)
    engine_port = engine_server.add_insecure_port("127.0.0.1:0")
    engine_server.start()
    server, port = start(plugin, grace=grace)
    try:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = provider_pb2_grpc.ResourceProviderStub(channel)
            request = provider_pb2.ProviderHandshakeRequest(engine_address=f"127.0.0.1:{engine_port}")
            shaken = stub.Handshake(request, timeout=_CALL_SECONDS)
            yield Client(stub, engine, handshake=shaken)
    finally:
        server.stop(grace=None).wait()
        engine_server.stop(grace=None).wait()
        plugin.close()
