"""A TCP proxy in user space that makes a link longer: every byte arrives later by half the round trip, in order, bandwidth untouched.

It counts HTTP requests that pass (request lines from client to server).
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections import Counter
from types import TracebackType
from typing import Final, Self

_REQUEST: Final = re.compile(rb"(?:^|\n)(GET|POST|PATCH|PUT|DELETE|OPTIONS) /\S* HTTP/1\.1\r\n")
_PIECE: Final = 256 * 1024


class DelayingProxy:
    """Forwards a loopback port to *host*:*port*. *delay*: seconds added to a round trip; may be changed while it runs."""

    def __init__(self, host: str, port: int, delay: float = 0.0) -> None:
        self.delay = delay
        self.requests: Counter[str] = Counter()
        self.port = 0
        self._target = (host, port)
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._started.wait(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        self._loop.run_forever()
        server.close()
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(self.delay)  # the handshake is a round trip, too
        try:
            up_reader, up_writer = await self._connect(writer)
        except OSError:
            writer.close()
            return
        await asyncio.gather(self._pump(reader, up_writer, count=True), self._pump(up_reader, writer, count=False))

    async def _connect(self, _: asyncio.StreamWriter) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """The far end of the connection that came with this writer."""
        return await asyncio.open_connection(*self._target)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, count: bool) -> None:
        queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        sender = asyncio.create_task(self._send_late(queue, writer))
        while data := await self._read(reader):
            if count:
                self.requests.update(match.decode() for match in _REQUEST.findall(data))
            queue.put_nowait((self._loop.time() + self.delay / 2, data))
        queue.put_nowait((self._loop.time() + self.delay / 2, b""))
        await sender

    async def _read(self, reader: asyncio.StreamReader) -> bytes:
        try:
            return await reader.read(_PIECE)
        except OSError:
            return b""

    async def _send_late(self, queue: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter) -> None:
        while True:
            due, data = await queue.get()
            await asyncio.sleep(max(0.0, due - self._loop.time()))
            try:
                if not data:
                    writer.close()
                    return
                writer.write(data)
                await writer.drain()
            except OSError:
                return
