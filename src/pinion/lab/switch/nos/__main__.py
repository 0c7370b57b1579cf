"""Runs the switch: ``python3 -m nos --config FILE``. The file says all; see `Settings`."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import signal
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

import asyncssh

from .config import factory
from .core import Switch
from .dataplane import DataPlane, DataPlaneError, MemoryDataPlane
from .ovs import OvsDataPlane
from .server import LOGIN_SECONDS, SwitchServer
from .status import IN_STEP, notify
from .storage import Storage
from .users import Users

_log = logging.getLogger("switch")

#: Seconds between two looks at the commit timer, and at the cables.
_TICK, _LOOK = 0.2, 1.0


@dataclass(frozen=True)
class Settings:
    """The JSON file of a switch.

    *ports* are its front ports, *management* its out-of-band interface. *flash* and *run* are the folders of
    `pinion.lab.switch.nos.storage.Storage`. *users* and *host_key* are files. *data_plane* is ``ovs`` or ``memory``.
    *everywhere*: the SSH server answers at every address of the switch, its gateways too, as EOS does; else at the loopback address only.
    *port* 0 takes any free port and writes it to ``<run>/port``.
    """

    ports: tuple[str, ...]
    management: str
    flash: Path
    run: Path
    users: Path
    host_key: Path
    data_plane: str
    everywhere: bool
    port: int

    @classmethod
    def read(cls, path: Path) -> Settings:
        """The settings in *path*. `ValueError`, `KeyError` or `OSError` when it is not such a file."""
        found = json.loads(path.read_text(encoding="utf-8"))
        return cls(
            ports=tuple(found["ports"]),
            management=found["management"],
            flash=Path(found["flash"]),
            run=Path(found["run"]),
            users=Path(found["users"]),
            host_key=Path(found["host_key"]),
            data_plane=found["data_plane"],
            everywhere=bool(found["everywhere"]),
            port=int(found["port"]),
        )


def _listener(settings: Settings) -> socket.socket:
    """The listening socket. Who may reach it is the data plane's part."""
    listener = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    listener.bind(("::" if settings.everywhere else "::ffff:127.0.0.1", settings.port))
    return listener


async def _serve(settings: Settings) -> None:
    plane: DataPlane = OvsDataPlane() if settings.data_plane == "ovs" else MemoryDataPlane()
    storage = Storage(settings.flash, settings.run)
    base = factory(settings.ports, settings.management)
    switch = await asyncio.to_thread(Switch, storage, plane, base)
    server = SwitchServer(switch, Users.read(settings.users))
    acceptor = await asyncssh.listen(
        sock=_listener(settings),
        server_host_keys=[str(settings.host_key)],
        server_factory=server.connection,
        process_factory=server.session,
        encoding=None,
        line_editor=False,
        login_timeout=LOGIN_SECONDS,
        keepalive_interval=10,
        keepalive_count_max=3,
        allow_scp=False,
        sftp_factory=None,
        agent_forwarding=False,
        x11_forwarding=False,
    )
    (settings.run / "port").write_text(f"{acceptor.get_port()}\n", encoding="ascii")
    _log.info("serving %s on port %d", switch.running.hostname, acceptor.get_port())
    notify(READY=1, STATUS=switch.fault or IN_STEP)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    watchers = [asyncio.create_task(_watch_timer(switch)), asyncio.create_task(_watch_cables(switch))]
    await stop.wait()
    acceptor.close()
    for watcher in watchers:
        watcher.cancel()


async def _watch_timer(switch: Switch) -> None:
    while True:
        await asyncio.sleep(_TICK)
        timer = switch.timer
        if timer is not None and switch.clock() >= timer.deadline:
            await asyncio.to_thread(switch.tick)


async def _watch_cables(switch: Switch) -> None:
    """Plug in what appears, and try again what failed."""
    seen = switch.plane.plugged_in()
    while True:
        await asyncio.sleep(_LOOK)
        with contextlib.suppress(OSError, DataPlaneError):
            there = switch.plane.plugged_in()
            if there != seen or switch.fault is not None:
                await asyncio.to_thread(switch.reconcile)
                seen = switch.plane.plugged_in()
                notify(STATUS=switch.fault or IN_STEP)


def main() -> int:
    """Run until SIGTERM. 2 when the settings are unusable."""
    parser = argparse.ArgumentParser(
        description="The lab's switch", epilog="example: python3 -m nos --config /etc/switch/switch.json"
    )
    parser.add_argument("--config", type=Path, required=True, help="settings of the switch (JSON)")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    logging.getLogger("asyncssh").setLevel(logging.WARNING)
    try:
        settings = Settings.read(options.config)
    except (OSError, ValueError, KeyError) as error:
        print(f"{options.config}: {error!r}", file=sys.stderr)
        return 2
    asyncio.run(_serve(settings))
    return 0


if __name__ == "__main__":
    sys.exit(main())
