"""Pulumi's provider protocol (gRPC) on one side, a `Plugin` on the other.

Invariants:

* Every answer is either a well-formed response or a gRPC status with a readable reason in which no known secret occurs.
* After `Cancel` no new call begins, and those in flight are answered within `GRACE` seconds, finished or not.
* A call with a time limit (Pulumi's customTimeouts) is answered within it; what it had begun goes on until it is done.
* A handler's bug is an INTERNAL status that names the plugin, with the traceback in the engine's debug log.
"""

from __future__ import annotations

import json
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Final, NoReturn, TypeVar, cast

import grpc
from google.protobuf import any_pb2, empty_pb2, message
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc, status_pb2
from typing_extensions import override

from pinion.provider.plugin import engine as engine_line
from pinion.provider.plugin.differences import Difference
from pinion.provider.plugin.errors import CancelledError, LateError, PartialError, PluginError
from pinion.provider.plugin.interface import Call, Checked, Plugin
from pinion.provider.plugin.values import Value, decode, encode, plain_properties, secret_texts

GRACE: Final = 20.0  # seconds that calls in flight have after Cancel
WORKERS: Final = 256  # threads, made as they are needed: the engine's --parallel bounds how many
_Answer = TypeVar("_Answer")
_CHANGES: Final = provider_pb2.DiffResponse
_KINDS: Final = provider_pb2.PropertyDiff


class Servicer(provider_pb2_grpc.ResourceProviderServicer):
    """Serves *plugin*. *engine_address* is where to log to; the engine may say so later (Handshake, Attach)."""

    def __init__(self, plugin: Plugin, engine_address: str | None = None, *, grace: float = GRACE) -> None:
        self._plugin = plugin
        self._grace = grace
        self._engine: engine_line.Engine = engine_line.NoEngine()
        self._redact = engine_line.Redactor()
        self._cancelled = threading.Event()
        self._given_up: Future[None] = Future()
        self._workers = ThreadPoolExecutor(max_workers=WORKERS, thread_name_prefix="call")
        if engine_address:
            self._reach(engine_address)

    def _reach(self, address: str) -> None:
        if address and not (isinstance(self._engine, engine_line.EngineClient) and self._engine.address == address):
            self._engine = engine_line.EngineClient(address)

    # --- meeting the engine -------------------------------------------------------------------------------------------

    @override
    def Handshake(
        self, request: provider_pb2.ProviderHandshakeRequest, context: grpc.ServicerContext
    ) -> provider_pb2.ProviderHandshakeResponse:
        """The engine says where it is, we what we understand."""
        self._reach(request.engine_address)
        return provider_pb2.ProviderHandshakeResponse(accept_secrets=True, accept_resources=True, accept_outputs=True)

    @override
    def Attach(self, request: plugin_pb2.PluginAttach, context: grpc.ServicerContext) -> empty_pb2.Empty:
        """A debugger's way of the same."""
        self._reach(request.address)
        return empty_pb2.Empty()

    @override
    def GetPluginInfo(self, request: empty_pb2.Empty, context: grpc.ServicerContext) -> plugin_pb2.PluginInfo:
        """The version."""
        return plugin_pb2.PluginInfo(version=self._plugin.version)

    @override
    def GetSchema(
        self, request: provider_pb2.GetSchemaRequest, context: grpc.ServicerContext
    ) -> provider_pb2.GetSchemaResponse:
        """The package schema."""
        return self._answer(
            context,
            Call(),
            lambda: provider_pb2.GetSchemaResponse(schema=json.dumps(self._plugin.schema(), sort_keys=True)),
        )

    # --- configuration ------------------------------------------------------------------------------------------------

    @override
    def CheckConfig(
        self, request: provider_pb2.CheckRequest, context: grpc.ServicerContext
    ) -> provider_pb2.CheckResponse:
        """Judge the provider's own inputs."""
        call = self._call(request)
        return self._answer(
            context, call, lambda: self._checked(self._plugin.check_config(self._learn(decode(request.news))))
        )

    @override
    def DiffConfig(self, request: provider_pb2.DiffRequest, context: grpc.ServicerContext) -> provider_pb2.DiffResponse:
        """What changed in the provider's own inputs."""
        call = self._call(request)
        return self._answer(
            context,
            call,
            lambda: _difference(self._plugin.diff_config(decode(request.old_inputs), decode(request.news))),
        )

    @override
    def Configure(
        self, request: provider_pb2.ConfigureRequest, context: grpc.ServicerContext
    ) -> provider_pb2.ConfigureResponse:
        """Take the configuration."""
        call = self._call(request)

        def configure() -> provider_pb2.ConfigureResponse:
            self._plugin.configure(plain_properties(self._learn(decode(request.args))), call)
            return provider_pb2.ConfigureResponse(
                acceptSecrets=True, supportsPreview=True, acceptResources=True, acceptOutputs=True
            )

        return self._answer(context, call, configure)

    # --- resources ----------------------------------------------------------------------------------------------------

    @override
    def Check(self, request: provider_pb2.CheckRequest, context: grpc.ServicerContext) -> provider_pb2.CheckResponse:
        """Judge a resource's inputs."""
        call = self._call(request)
        return self._answer(
            context,
            call,
            lambda: self._checked(
                self._plugin.kind(_token(request)).check(call, decode(request.olds), self._learn(decode(request.news)))
            ),
        )

    @override
    def Diff(self, request: provider_pb2.DiffRequest, context: grpc.ServicerContext) -> provider_pb2.DiffResponse:
        """What an update would change."""
        call = self._call(request)

        def diff() -> provider_pb2.DiffResponse:
            old_inputs, olds, news = decode(request.old_inputs), decode(request.olds), decode(request.news)
            kind = self._plugin.kind(_token(request))
            return _difference(kind.diff(call, request.id, old_inputs, olds, news, list(request.ignoreChanges)))

        return self._answer(context, call, diff)

    @override
    def Create(self, request: provider_pb2.CreateRequest, context: grpc.ServicerContext) -> provider_pb2.CreateResponse:
        """Make a resource, or say what that would do."""
        call = self._call(request, preview=request.preview, timeout=request.timeout)

        def create() -> provider_pb2.CreateResponse:
            news = self._learn(decode(request.properties))
            created = self._plugin.kind(_token(request)).create(call, news, preview=request.preview)
            return provider_pb2.CreateResponse(id=created.id, properties=encode(created.outputs))

        return self._answer(context, call, create)

    @override
    def Read(self, request: provider_pb2.ReadRequest, context: grpc.ServicerContext) -> provider_pb2.ReadResponse:
        """A resource as it is now; an empty answer when it is gone."""
        call = self._call(request)

        def read() -> provider_pb2.ReadResponse:
            kind = self._plugin.kind(_token(request))
            found = kind.read(call, request.id, decode(request.inputs), decode(request.properties))
            if found is None:
                return provider_pb2.ReadResponse()
            if found.reasons:
                raise PartialError(found.id, found.outputs, found.reasons, inputs=found.inputs)
            return provider_pb2.ReadResponse(id=found.id, properties=encode(found.outputs), inputs=encode(found.inputs))

        return self._answer(context, call, read)

    @override
    def Update(self, request: provider_pb2.UpdateRequest, context: grpc.ServicerContext) -> provider_pb2.UpdateResponse:
        """Bring a resource to its new inputs, or say what that would do."""
        call = self._call(request, preview=request.preview, timeout=request.timeout)

        def update() -> provider_pb2.UpdateResponse:
            old_inputs, olds = decode(request.old_inputs), decode(request.olds)
            news = self._learn(decode(request.news))
            kind = self._plugin.kind(_token(request))
            outputs = kind.update(call, request.id, old_inputs, olds, news, preview=request.preview)
            return provider_pb2.UpdateResponse(properties=encode(outputs))

        return self._answer(context, call, update)

    @override
    def Delete(self, request: provider_pb2.DeleteRequest, context: grpc.ServicerContext) -> empty_pb2.Empty:
        """Take a resource away."""
        call = self._call(request, timeout=request.timeout)

        def delete() -> empty_pb2.Empty:
            kind = self._plugin.kind(_token(request))
            kind.delete(call, request.id, decode(request.old_inputs), decode(request.properties))
            return empty_pb2.Empty()

        return self._answer(context, call, delete)

    @override
    def Invoke(self, request: provider_pb2.InvokeRequest, context: grpc.ServicerContext) -> provider_pb2.InvokeResponse:
        """Run a function."""
        call = Call(cancelled=self._cancelled, engine=self._engine, redact=self._redact)

        def invoke() -> provider_pb2.InvokeResponse:
            result = self._plugin.invoke(request.tok, decode(request.args), call)
            response = provider_pb2.InvokeResponse()
            getattr(response, "return").CopyFrom(encode(result))  # a field named by a Python keyword
            return response

        return self._answer(context, call, invoke)

    @override
    def Cancel(self, request: empty_pb2.Empty, context: grpc.ServicerContext) -> empty_pb2.Empty:
        """The user asked to stop."""
        if not self._cancelled.is_set():
            self._cancelled.set()
            timer = threading.Timer(self._grace, self._give_up)
            timer.daemon = True
            timer.start()
            self._workers.submit(self._plugin.cancel)
        return empty_pb2.Empty()

    # --- plumbing -----------------------------------------------------------------------------------------------------

    def _give_up(self) -> None:
        if not self._given_up.done():
            self._given_up.set_result(None)

    def _learn(self, properties: dict[str, Value]) -> dict[str, Value]:
        self._redact.learn(*secret_texts(properties))
        return properties

    def _call(self, request: message.Message, *, preview: bool = False, timeout: float = 0.0) -> Call:
        return Call(
            urn=getattr(request, "urn", ""),
            name=getattr(request, "name", ""),
            type=_token(request),
            preview=preview,
            timeout=timeout or None,
            cancelled=self._cancelled,
            engine=self._engine,
            redact=self._redact,
        )

    def _checked(self, checked: Checked) -> provider_pb2.CheckResponse:
        # The path goes into the reason: for a nested path the engine would print an empty value beside it.
        failures = [
            provider_pb2.CheckFailure(
                reason=self._redact(f"{failure.path}: {failure.reason}" if failure.path else failure.reason)
            )
            for failure in sorted(checked.failures, key=lambda failure: failure.path)
        ]
        return provider_pb2.CheckResponse(inputs=encode(checked.inputs), failures=failures)

    def _answer(self, context: grpc.ServicerContext, call: Call, work: Callable[[], _Answer]) -> _Answer:
        if self._cancelled.is_set():
            _fail(context, CancelledError(f"cancelled before {call.name or 'this call'} was begun"))
        running = self._workers.submit(work)
        wait(cast("list[Future[object]]", [running, self._given_up]), call.timeout, FIRST_COMPLETED)
        if not running.done() and not self._given_up.done():
            _fail(context, LateError(f"not done within {call.timeout:g} s; the next run finds out what was done"))
        if not running.done():
            _fail(
                context,
                CancelledError(f"gave up {self._grace:g} s after the cancel; the next run finds out what was done"),
            )
        try:
            return running.result()
        except PartialError as failure:
            _fail_partly(context, failure, self._redact)
        except PluginError as error:
            context.abort(error.code, self._redact(error.reason))
        except Exception as error:  # noqa: BLE001 (the last resort: whatever it is, the engine gets a reason)
            call.debug(traceback.format_exc())
            reason = f"a bug in {self._plugin.name}: {type(error).__name__}: {error}"
            context.abort(grpc.StatusCode.INTERNAL, self._redact(reason))
        raise AssertionError("abort raises")


def _token(request: message.Message) -> str:
    """The resource's type: newer engines send it, older ones only inside the URN (``urn:pulumi:stack::project::types::name``)."""
    token = str(getattr(request, "type", ""))
    if token:
        return token
    parts = str(getattr(request, "urn", "")).split("::")
    return parts[2].rpartition("$")[2] if len(parts) > 2 else ""


def _difference(difference: Difference) -> provider_pb2.DiffResponse:
    changes = difference.changes
    return provider_pb2.DiffResponse(
        changes=_CHANGES.DIFF_SOME if changes else _CHANGES.DIFF_NONE,
        replaces=difference.replaces,
        diffs=sorted({path.partition(".")[0].partition("[")[0] for path in changes}),
        deleteBeforeReplace=difference.delete_before_replace,
        hasDetailedDiff=True,
        detailedDiff={
            path: provider_pb2.PropertyDiff(kind=_KINDS.Kind.Value(kind.value)) for path, kind in changes.items()
        },
    )


def _fail(context: grpc.ServicerContext, error: PluginError) -> NoReturn:
    context.abort(error.code, error.reason)
    raise AssertionError("abort raises")


def _fail_partly(context: grpc.ServicerContext, failure: PartialError, redact: engine_line.Redactor) -> NoReturn:
    detail = provider_pb2.ErrorResourceInitFailed(
        id=failure.id,
        properties=encode(failure.outputs),
        reasons=[redact(reason) for reason in failure.reasons],
        inputs=None if failure.inputs is None else encode(failure.inputs),
    )
    packed = any_pb2.Any()
    packed.Pack(detail)
    text = redact(failure.reason)
    status = status_pb2.Status(code=grpc.StatusCode.UNKNOWN.value[0], message=text, details=[packed])
    context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    context.abort(grpc.StatusCode.UNKNOWN, text)
    raise AssertionError("abort raises")
