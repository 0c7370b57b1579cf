"""Loopback ports for servers that run beside this process."""

from __future__ import annotations

import contextlib
import socket


def free_ports(count: int) -> list[int]:
    """*count* loopback ports that nobody uses now."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for listener in sockets:
            listener.bind(("127.0.0.1", 0))
        return [listener.getsockname()[1] for listener in sockets]
