"""A proxy that makes a real server misbehave: it delays, refuses, hangs, cuts answers short, answers 429 and 500, shows a bad certificate.

It understands just enough HTTP/1.1 to know where a message ends, so it stands in front of NetBox as well as of a Kubernetes API server.
What goes wrong is said by a schedule: a script of a test, or a seeded one, which gives the same faults for the same requests each time.

Invariants:

* A fault `before` never lets the request through; a fault `after` always does, and spoils the answer only. Tests rely on it to know
  whether a write happened.
* It listens on loopback only, and ends with the block that started it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import datetime as dt
import ipaddress
import random
import ssl
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Literal, Self
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Kind = Literal["answer", "answer-after", "hang", "hang-after", "drop", "drop-after", "cut", "slow"]
#: Certificates that a careful client must refuse.
BadCertificate = Literal["unknown-authority", "expired", "other-name"]

_LONGEST_HEAD = 256 * 1024
_PIECE = 64 * 1024


@dataclass(frozen=True, slots=True)
class Fault:
    """One misbehaviour.

    ``answer``: *status* with *headers* and *body*, the server never sees the request; ``answer-after``: the same, but the server
    has done the work. ``hang``, ``drop`` (connection closed) likewise. ``cut``: half of the real answer, then a reset.
    ``slow``: the real answer after *seconds*. A ``hang`` lasts *seconds*, then the connection closes.
    """

    kind: Kind
    status: int = 500
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = '{"detail": "injected"}'
    seconds: float = 3600.0


def too_many(retry_after: int | str, *, status: int = 429) -> Fault:
    """429 (or 503) with Retry-After: the server has not seen the request."""
    return Fault("answer", status, {"Retry-After": str(retry_after)})


@dataclass(frozen=True, slots=True)
class Request:
    """What a schedule sees of a request. *number* counts from 0 over all connections."""

    number: int
    method: str
    path: str


Schedule = Callable[[Request], Fault | None]


@dataclass(slots=True)
class Script:
    """Faults for the requests that *matches*, in order; afterwards nothing goes wrong any more."""

    faults: list[Fault | None]
    matches: Callable[[Request], bool] = lambda _: True
    _next: int = 0

    def __call__(self, request: Request) -> Fault | None:
        """The fault for *request*."""
        if not self.matches(request) or self._next >= len(self.faults):
            return None
        self._next += 1
        return self.faults[self._next - 1]


#: Faults that pass when the request is repeated; each short, so that a test of many takes seconds.
PASSING_FAULTS: tuple[Fault, ...] = (
    Fault("answer", 500),
    Fault("answer", 503, {"Retry-After": "0"}),
    Fault("answer-after", 502),
    too_many("0.1"),
    Fault("drop"),
    Fault("drop-after"),
    Fault("cut"),
    Fault("slow", seconds=0.2),
)


@dataclass(slots=True)
class Seeded:
    """A fault from *faults* for a *rate* of the requests, decided by *seed*; never more than *in_a_row* one after the other."""

    seed: int
    rate: float = 0.2
    faults: Sequence[Fault] = PASSING_FAULTS
    in_a_row: int = 2
    _streak: int = 0

    def __call__(self, request: Request) -> Fault | None:
        """The fault for *request*."""
        choice = random.Random(f"{self.seed}/{request.number}")
        if self._streak >= self.in_a_row or choice.random() >= self.rate:
            self._streak = 0
            return None
        self._streak += 1
        return choice.choice(self.faults)


class FaultProxy:
    """A proxy in front of *target* (`http://host:port` or `https://…`) while the block runs.

    *schedule*: what goes wrong. *delay*: seconds added to each request and to each answer, as a long link would. *certificate*: serve TLS
    with a bad certificate, or with the good one in (certificate, key) files. *ca_file*: authority of an https target. *client*: files with
    certificate and key to show to the target.
    """

    def __init__(
        self, target: str, schedule: Schedule = lambda _: None, *, delay: float = 0.0,
        certificate: BadCertificate | tuple[Path, Path] | None = None, ca_file: Path | None = None, client: tuple[Path, Path] | None = None,
        port: int = 0,
    ) -> None:  # fmt: skip
        parts = urlsplit(target)
        self._host, self._port = parts.hostname or "127.0.0.1", parts.port or (443 if parts.scheme == "https" else 80)
        self._upstream = _client_context(ca_file, client) if parts.scheme == "https" else None
        #: The bad certificate (PEM), for clients that are to trust its signer and refuse it for the rest.
        self.certificate = (
            b"" if certificate is None or isinstance(certificate, tuple) else bad_certificate(certificate)
        )
        self._server = (
            _server_context(certificate if isinstance(certificate, tuple) else self.certificate)
            if certificate
            else None
        )
        self._schedule = schedule
        self._delay = delay
        self._wanted_port = port
        self._count = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="fault-proxy", daemon=True)
        self._started = threading.Event()
        self._failure: BaseException | None = None
        self._stop: asyncio.Event | None = None
        self.port = 0
        #: Every request that came, with what was done to it.
        self.log: list[tuple[Request, Fault | None]] = []

    @property
    def url(self) -> str:
        """Where clients reach the proxy."""
        return f"{'https' if self._server else 'http'}://127.0.0.1:{self.port}"

    @property
    def requests(self) -> int:
        """Requests seen so far."""
        return len(self.log)

    def set_schedule(self, schedule: Schedule) -> None:
        """What goes wrong from now on."""
        self._schedule = schedule

    def __enter__(self) -> Self:
        self._thread.start()
        self._started.wait()
        if self._failure is not None:
            raise self._failure
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(timeout=10)

    # --- the proxy ------------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        except BaseException as error:  # noqa: BLE001 - told to whoever starts the proxy
            self._failure = error
            self._started.set()
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        server = await asyncio.start_server(
            self._connection, "127.0.0.1", self._wanted_port, ssl=self._server, limit=_LONGEST_HEAD
        )
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        await self._stop.wait()
        server.close()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0.05)  # closed connections are taken down by the loop

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        try:
            while (head := await _head(reader)) is not None:
                body = await _body(reader, head)
                upstream = await self._exchange(head, body, writer, upstream)
                if upstream is None:
                    return
        except (OSError, EOFError, asyncio.LimitOverrunError, ValueError):
            pass  # either side went away, or speaks no HTTP
        finally:
            # Not waited for: an end that never reads would keep the proxy from ending.
            for end in (writer, *(upstream[1:] if upstream else ())):
                end.close()

    async def _exchange(
        self,
        head: _Head,
        body: bytes,
        writer: asyncio.StreamWriter,
        upstream: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None,
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """One request and its answer; the connection to the server for the next, None when this connection is over."""
        request = Request(self._count, head.method, head.target)
        self._count += 1
        fault = self._schedule(request)
        self.log.append((request, fault))
        if self._delay:
            await asyncio.sleep(self._delay)
        if fault and fault.kind in ("answer", "hang", "drop"):
            return await self._spoil(fault, writer, upstream)
        if upstream is None:
            upstream = await asyncio.open_connection(self._host, self._port, ssl=self._upstream, limit=_LONGEST_HEAD)
        upstream[1].write(head.raw + body)
        await upstream[1].drain()
        answer = await _head(upstream[0])
        if answer is None:
            return None
        if fault and fault.kind in ("answer-after", "hang-after", "drop-after"):
            await _discard(upstream[0], answer, head.method)
            return await self._spoil(fault, writer, upstream)
        if fault and fault.kind == "slow":
            await asyncio.sleep(fault.seconds)
        if self._delay:
            await asyncio.sleep(self._delay)
        if fault and fault.kind == "cut":
            content = await _body(upstream[0], answer, head.method)
            writer.write(answer.raw + content[: len(content) // 2])
            await writer.drain()
            writer.transport.abort()
            return None
        if answer.status == 101:
            writer.write(answer.raw)
            return None
        await _relay(upstream[0], answer, head.method, writer)
        return None if answer.closes else upstream

    async def _spoil(
        self,
        fault: Fault,
        writer: asyncio.StreamWriter,
        upstream: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None,
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        if fault.kind.startswith("hang"):
            await asyncio.sleep(fault.seconds)
        if not fault.kind.startswith("answer"):
            writer.transport.abort()
            return None
        content = fault.body.encode()
        headers = {
            "Content-Type": "application/json",
            "Content-Length": str(len(content)),
            "Connection": "close",
            **fault.headers,
        }
        lines = [f"HTTP/1.1 {fault.status} Injected", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        writer.write("\r\n".join(lines).encode() + content)
        await writer.drain()
        if upstream is not None:
            upstream[1].close()
        return None


# --- just enough HTTP -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Head:
    """Start line and headers of a message, as they came."""

    raw: bytes
    start: tuple[str, str, str]
    headers: Mapping[str, str]

    @property
    def method(self) -> str:
        return self.start[0]

    @property
    def target(self) -> str:
        return self.start[1]

    @property
    def status(self) -> int:
        return int(self.start[1])

    @property
    def length(self) -> int | None:
        value = self.headers.get("content-length")
        return int(value) if value is not None else None

    @property
    def chunked(self) -> bool:
        return "chunked" in self.headers.get("transfer-encoding", "")

    @property
    def closes(self) -> bool:
        return "close" in self.headers.get("connection", "").lower() or self.start[0] == "HTTP/1.0"


async def _head(reader: asyncio.StreamReader) -> _Head | None:
    """The next message's head, None when the connection ended between messages."""
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise
        return None
    first, *lines = raw.decode("latin-1").rstrip("\r\n").split("\r\n")
    words = [*first.split(" ", 2), "", ""]
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return _Head(raw, (words[0], words[1], words[2]), headers)


def _bodiless(answer: _Head, method: str) -> bool:
    return method == "HEAD" or (
        answer.start[0].startswith("HTTP/") and (answer.status in (204, 304) or answer.status < 200)
    )


async def _stream(reader: asyncio.StreamReader, head: _Head, method: str | None) -> AsyncIterator[bytes]:
    """The body as it comes, framing included."""
    if method is not None and _bodiless(head, method):
        return
    if head.chunked:
        while True:
            line = await reader.readuntil(b"\r\n")
            size = int(line.split(b";")[0], 16)
            yield line + await reader.readexactly(size + 2 if size else 0)
            if size == 0:
                yield await reader.readuntil(b"\r\n")
                return
    elif head.length is not None:
        left = head.length
        while left:
            piece = await reader.read(min(left, _PIECE))
            if not piece:
                raise EOFError("the body ended early")
            left -= len(piece)
            yield piece
    elif method is not None:  # an answer without length ends with the connection
        while piece := await reader.read(_PIECE):
            yield piece


async def _body(reader: asyncio.StreamReader, head: _Head, method: str | None = None) -> bytes:
    return b"".join([piece async for piece in _stream(reader, head, method)])


async def _discard(reader: asyncio.StreamReader, head: _Head, method: str) -> None:
    await _body(reader, head, method)


async def _relay(reader: asyncio.StreamReader, head: _Head, method: str, writer: asyncio.StreamWriter) -> None:
    """Pass an answer on piece by piece: a watch never ends, and its events must not wait."""
    writer.write(head.raw)
    async for piece in _stream(reader, head, method):
        writer.write(piece)
        await writer.drain()
    await writer.drain()


# --- TLS --------------------------------------------------------------------------------------------------------------------


def _client_context(ca_file: Path | None, client: tuple[Path, Path] | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(ca_file) if ca_file else None)
    if client:
        context.load_cert_chain(*map(str, client))
    return context


def _server_context(certificate: bytes | tuple[Path, Path]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if isinstance(certificate, tuple):
        context.load_cert_chain(*map(str, certificate))
        return context
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bad.pem"
        path.touch(mode=0o600)
        path.write_bytes(certificate)
        context.load_cert_chain(str(path))
    return context


def bad_certificate(what: BadCertificate) -> bytes:
    """A self-signed certificate with its key (PEM): known to nobody, and expired or for another name if so asked."""
    key = ec.generate_private_key(ec.SECP256R1())
    now = dt.datetime.now(dt.UTC)
    start, end = (
        (now - dt.timedelta(days=9), now - dt.timedelta(days=2))
        if what == "expired"
        else (now, now + dt.timedelta(days=9))
    )
    host = "elsewhere.invalid" if what == "other-name" else "localhost"
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    names: list[x509.GeneralName] = [x509.DNSName(host)]
    if what != "other-name":
        names.append(x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return certificate.public_bytes(encoding) + key.private_bytes(encoding, form, serialization.NoEncryption())


# --- by hand ----------------------------------------------------------------------------------------------------------------


def main(argv: Sequence[str] | None = None) -> int:
    """Run a proxy until interrupted: `python tests/doubles/faults.py https://10.77.100.10 --ca-file ca.crt --seed 7 --rate 0.3`."""
    parser = argparse.ArgumentParser(description="Make a real HTTP server misbehave, on a loopback port.")
    parser.add_argument("target")
    parser.add_argument("--port", type=int, default=0, help="loopback port to listen on; any free one by default")
    parser.add_argument("--seed", type=int, help="inject faults, decided by this number")
    parser.add_argument("--rate", type=float, default=0.2, help="share of the requests that go wrong (with --seed)")
    parser.add_argument("--delay", type=float, default=0.0, help="seconds added to each request and each answer")
    parser.add_argument("--ca-file", type=Path, help="authority of an https target")
    parser.add_argument("--client", type=Path, nargs=2, metavar=("CERTIFICATE", "KEY"), help="shown to the target")
    parser.add_argument(
        "--certificate",
        choices=["unknown-authority", "expired", "other-name"],
        help="serve TLS with this bad certificate",
    )
    chosen = parser.parse_args(argv)
    schedule: Schedule = Seeded(chosen.seed, chosen.rate) if chosen.seed is not None else lambda _: None
    client = (chosen.client[0], chosen.client[1]) if chosen.client else None
    with FaultProxy(
        chosen.target, schedule, delay=chosen.delay, certificate=chosen.certificate, ca_file=chosen.ca_file, client=client, port=chosen.port
    ) as proxy:  # fmt: skip
        print(proxy.url, flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
