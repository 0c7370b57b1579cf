"""A port that is chosen for a server stays its own until it listens there, however many others are asked for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

#: Run where there are 24 ports: three are chosen, all others given away, by listening and by connecting; then servers listen on the three.
INSIDE = """
import socket
from pathlib import Path
from pinion.lab.ports import free_ports

Path("/proc/sys/net/ipv4/ip_local_port_range").write_text("40000 40023")
chosen = free_ports(3)
taken = []
try:
    while len(taken) < 40:
        taken.append(socket.create_server(("127.0.0.1", 0)))
except OSError:
    pass
others = {one.getsockname()[1] for one in taken}
assert len(others) == 21 and not others & set(chosen), (chosen, others)
for one in taken[1:]:
    one.close()
target = taken[0].getsockname()
callers = []
try:
    while len(callers) < 40:
        callers.append(socket.create_connection(target))
except OSError:
    pass
assert callers and not {one.getsockname()[1] for one in callers} & set(chosen)
for port, option in zip(chosen, (socket.SO_REUSEADDR, socket.SO_REUSEPORT, socket.SO_REUSEADDR)):
    for _ in range(2):  # and again, as after a restart
        with socket.socket() as server:
            server.setsockopt(socket.SOL_SOCKET, option, 1)
            server.bind(("127.0.0.1", port))
            server.listen()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="a network namespace needs root")
def test_nobody_else_is_given_a_chosen_port() -> None:
    done = subprocess.run(
        ["unshare", "--net", "/bin/sh", "-c", 'ip link set lo up && exec "$@"', "sh", sys.executable, "-c", INSIDE],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
