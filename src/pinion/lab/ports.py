"""Loopback ports for servers that run beside this process."""

from __future__ import annotations

import socket

#: What keeps the ports from others, for as long as this process lives.
_HELD: list[socket.socket] = []


def free_ports(count: int) -> list[int]:
    """*count* loopback ports that nobody else is given while this process lives: Linux gives none away that a socket is bound to.

    A server may listen there that sets SO_REUSEADDR or SO_REUSEPORT, as servers do (socket(7): not where another one listens).
    """
    found = []
    for _ in range(count):
        held = socket.socket()
        _HELD.append(held)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind(("127.0.0.1", 0))
        found.append(int(held.getsockname()[1]))
    return found
