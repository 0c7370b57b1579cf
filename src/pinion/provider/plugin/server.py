"""The process of a provider plugin: argv, port line, life and death.

Invariants:

* stdout carries the port and nothing else: whatever handlers print goes to stderr.
* The process never outlives its engine by more than a second, however the engine died: an orphan that goes on writing would race
  with the next run. What it leaves half done the next run adopts.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import grpc
from pulumi.runtime.proto import provider_pb2_grpc

from pinion.provider.plugin.interface import Plugin
from pinion.provider.plugin.servicer import WORKERS, Servicer

_LARGEST_MESSAGE: Final = 400 * 1024 * 1024  # bytes: what the engine itself allows
_WATCH_SECONDS: Final = 0.25
_ENGINE_CHECK_EVERY: Final = 20  # watch rounds between two looks at the engine's port
_LOG: Final = logging.getLogger("pinion.provider")


def start(plugin: Plugin, engine_address: str | None = None, *, grace: float | None = None) -> tuple[grpc.Server, int]:
    """Serve *plugin* on a free port of the loopback interface; the server and its port."""
    options = [
        ("grpc.max_receive_message_length", _LARGEST_MESSAGE),
        ("grpc.max_send_message_length", _LARGEST_MESSAGE),
        ("grpc.so_reuseport", 0),
    ]
    server = grpc.server(ThreadPoolExecutor(max_workers=WORKERS, thread_name_prefix="rpc"), options=options)
    servicer = Servicer(plugin, engine_address) if grace is None else Servicer(plugin, engine_address, grace=grace)
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, port


def serve(plugin: Plugin, arguments: Sequence[str] | None = None) -> int:
    """Run *plugin* as a program of the engine until the engine is gone; the exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    parent = os.getppid()
    address = _engine_address(arguments)
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s %(message)s")
    port_line = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # a stray print of a library must not end up in the engine's hands
    server, port = start(plugin, address)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    port_line.write(f"{port}\n")
    port_line.flush()
    _wait_for_end(stop, parent, address)
    if stop.is_set():
        server.stop(grace=1.0).wait()
        plugin.close()
    os._exit(0)  # worker threads that wait for a dead server must not keep the process


def _engine_address(arguments: Sequence[str]) -> str | None:
    """The engine's ``host:port``: the last word, as flags come before it."""
    return arguments[-1] if arguments and ":" in arguments[-1] and not arguments[-1].startswith("-") else None


def _wait_for_end(stop: threading.Event, parent: int, address: str | None) -> None:
    rounds = 0
    while not stop.wait(_WATCH_SECONDS):
        rounds += 1
        if os.getppid() != parent:
            _LOG.warning("the engine is gone")
            return
        if address and rounds % _ENGINE_CHECK_EVERY == 0 and not _listens(address):
            _LOG.warning("nothing listens at the engine's address %s", address)
            return


def _listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=2.0):
            return True
    except ConnectionRefusedError:
        return False
    except OSError:
        return True  # busy is not gone
