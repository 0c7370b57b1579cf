"""A TCP proxy on loopback that fails in a chosen way: lets connections in, refuses them, goes silent, or cuts them off in the middle."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self


class Gate:
    """In front of *port* on 127.0.0.1.

    *admits*: how many connections are let through; later ones are closed at once. *silent*: connections are accepted and nothing ever
    comes back. *octets*: what the server may say on each of the first *cuts* connections before it is cut off.
    """

    def __init__(self, port: int, *, admits: int = 1_000, silent: bool = False, octets: int = 0, cuts: int = 0) -> None:
        self._target = port
        self._admits = admits
        self._silent = silent
        self._octets = octets
        self._cuts = cuts
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.connections = 0

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()
        for side in self._open:
            _close(side)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            if self._silent:
                self._open.append(client)
                continue
            if self.connections > self._admits:
                _close(client)
                continue
            server = socket.create_connection(("127.0.0.1", self._target))
            self._open += [client, server]
            allowance = self._octets if self.connections <= self._cuts else None
            threading.Thread(target=_pump, args=(client, server, None), daemon=True).start()
            threading.Thread(target=_pump, args=(server, client, allowance), daemon=True).start()


def _pump(source: socket.socket, target: socket.socket, allowance: int | None) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(4096):
            if allowance is not None:
                data = data[:allowance]
                allowance -= len(data)
            target.sendall(data)
            if allowance == 0:
                break
    _close(source)
    _close(target)


def _close(side: socket.socket) -> None:
    with contextlib.suppress(OSError):
        side.shutdown(socket.SHUT_RDWR)
    side.close()
