"""The one process between a lab and its machine: loopback ports that lead into the lab, and the package proxy that leads out of it.

Runs in the root namespace; a socket is made inside a lab namespace by entering it for the moment of the making, so no packet with a lab
address is ever seen outside. ``python -m pinion.lab.uplink CONFIG`` serves until it gets SIGTERM.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pinion.lab import namespaces
from pinion.lab.errors import LabError
from pinion.lab.package_proxy import PackageProxy
from pinion.lab.state import JsonValue, write_file

#: Linux: bind to an address that is not there yet (ip(7)).
_IP_FREEBIND = 15
_CHUNK = 1 << 16
#: Seconds for a connection into the lab to be made.
_CONNECT = 10.0


@dataclass(frozen=True)
class Listener:
    """127.0.0.1:*port* leads to *host*:*target* inside *namespace*."""

    name: str
    port: int
    namespace: str
    host: str
    target: int


@dataclass(frozen=True)
class Proxy:
    """The package proxy: listens on *address*:*port* inside *namespace*, whose *inode* tells it from an earlier one of that name.

    *mirrors* and *upstream*: see `PackageProxy`.
    """

    namespace: str
    inode: int
    address: str
    port: int
    mirrors: Mapping[str, str]
    cache: str
    upstream: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class UplinkConfig:
    """What one uplink serves. *code* is the digest of the program that shall serve it."""

    listeners: tuple[Listener, ...] = ()
    proxy: Proxy | None = None
    code: str = ""

    def as_json(self) -> dict[str, JsonValue]:
        """For the configuration file."""
        value: dict[str, JsonValue] = json.loads(json.dumps(asdict(self)))
        return value

    @classmethod
    def read(cls, path: Path) -> UplinkConfig:
        """From the configuration file."""
        value = json.loads(path.read_text())
        proxy = value.get("proxy")
        listeners = tuple(Listener(**entry) for entry in value.get("listeners", ()))
        return cls(listeners, Proxy(**proxy) if proxy else None, value.get("code", ""))


class Uplink:
    """The running process: `serve` opens everything, tells by *ready* that it did, and goes on until cancelled."""

    def __init__(self, config: UplinkConfig, ready: Path) -> None:
        self._config = config
        self._ready = ready

    async def serve(self) -> None:
        """Serve until cancelled. OSError when a port is taken."""
        async with contextlib.AsyncExitStack() as stack:
            for listener in self._config.listeners:
                await stack.enter_async_context(await self._listen(listener))
            if self._config.proxy is not None:
                stack.enter_context(_package_proxy(self._config.proxy))
            write_file(self._ready, json.dumps(self._config.as_json(), sort_keys=True))
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                self._ready.unlink(missing_ok=True)

    async def _listen(self, listener: Listener) -> asyncio.Server:
        async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._carry(listener, reader, writer)

        return await asyncio.start_server(accepted, "127.0.0.1", listener.port)

    async def _carry(self, listener: Listener, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, both ways, until both sides have ended."""
        with contextlib.suppress(OSError, LabError, TimeoutError):
            async with _closing(writer):
                made = namespaces.new_socket(listener.namespace)
                made.setblocking(False)
                async with asyncio.timeout(_CONNECT):
                    await asyncio.get_running_loop().sock_connect(made, (listener.host, listener.target))
                inner_reader, inner_writer = await asyncio.open_connection(sock=made)
                async with _closing(inner_writer):
                    await asyncio.gather(_pump(reader, inner_writer), _pump(inner_reader, writer))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy until the end, then pass the end on; a reset on either side ends both."""
    while chunk := await reader.read(_CHUNK):
        writer.write(chunk)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


@contextlib.asynccontextmanager
async def _closing(writer: asyncio.StreamWriter) -> AsyncIterator[None]:
    try:
        yield
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


@contextlib.contextmanager
def _package_proxy(config: Proxy) -> Iterator[None]:
    """The package proxy in threads of its own."""
    listening = namespaces.new_socket(config.namespace, socket.AF_INET6 if ":" in config.address else socket.AF_INET)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # the machine puts its address on when it boots, perhaps after us
    listening.setsockopt(socket.IPPROTO_IP, _IP_FREEBIND, 1)
    listening.bind((config.address, config.port))
    listening.listen(64)
    server = PackageProxy(listening, config.mirrors, Path(config.cache), config.upstream)
    thread = threading.Thread(target=server.serve_forever, name="package-proxy", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


async def _until_told(uplink: Uplink) -> None:
    serving = asyncio.ensure_future(uplink.serve())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, serving.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await serving


def main(argv: Sequence[str]) -> int:
    """Serve the configuration file named in *argv*; the file ``ready`` beside it tells that everything listens."""
    path = Path(argv[0])
    try:
        asyncio.run(_until_told(Uplink(UplinkConfig.read(path), path.with_name("ready"))))
    except (OSError, LabError) as error:
        print(f"uplink: {error}", flush=True)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
