#!/usr/bin/python3 -I
"""Take the edge runtime out of service: edge-drain [--for SECONDS] URL, and edge-drain --end.

New connections to the port of URL are refused at once (TCP reset), for hosts and for this one; those that there are go on. The program
ends when the runtime says that it is answering nobody (requests_processing and requests_deferred of its /metrics; where it has none, when
nobody is connected), when it is gone, or after SECONDS. --end lets them in again. A boot does too: the rule is in memory only.
Exit: 0 nobody is being answered (or they are let in again), 1 the time is over, or nobody can be kept out or let in, 2 could not work.
"""

from __future__ import annotations

import argparse
import http.client
import re
import socket
import subprocess
import sys
import time
import urllib.parse
from pathlib import Path

TABLE = "inet pinion_drain"
#: Of packets of this program's own, which are let in: these bits alone. Others change theirs on the way: kube-proxy takes off 0x4000.
MARK, MARK_BITS = 0x6E, 0xFF
#: Seconds between two looks. A server that is deep in a prompt answers late: that is an answer under way.
PAUSE = 0.25
#: Linux include/net/tcp_states.h, as /proc/net/tcp has it.
ESTABLISHED = "01"
_UNDER_WAY = re.compile(r"^\w+:requests_(?:processing|deferred) ([0-9.e+]+)$", re.MULTILINE)


class GoneError(Exception):
    """There is no server."""


class _Own(http.client.HTTPConnection):
    """A connection that is let in."""

    def connect(self) -> None:
        """Connect, marked: socket(7), SO_MARK."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        self.sock = socket.socket(family, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, MARK)
        self.sock.connect((self.host, self.port))


def nft(*arguments: str, given: str = "") -> str | None:
    """Have nft(8) do something; why it did not, or None."""
    done = subprocess.run(["nft", *arguments], input=given, capture_output=True, text=True, timeout=20, check=False)
    return None if done.returncode == 0 else (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[0]


def rules(port: int) -> str:
    """A table of our own, before the firewall's: whoever is refused learns it at once and asks another node."""
    return (
        f"add table {TABLE}\ndelete table {TABLE}\ntable {TABLE} {{\n chain input {{\n"
        "  type filter hook input priority filter - 10; policy accept;\n"
        f"  tcp dport {port} ct state new meta mark & {MARK_BITS:#x} != {MARK:#x} reject with tcp reset\n }}\n}}\n"
    )


def end() -> int:
    """Let them in again, if they are not; 1 when that failed, which is told."""
    kept = nft("-f", "-", given=f"add table {TABLE}\ndelete table {TABLE}\n")
    if kept is not None:
        print(f"new requests may still be kept out: {kept}", file=sys.stderr)
    return int(kept is not None)


def under_way(host: str, port: int, patience: float) -> int:
    """How many requests are being answered or wait. Raises `GoneError`, `TimeoutError`."""
    connection = _Own(host, port, timeout=max(patience, PAUSE))
    try:
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        found = _UNDER_WAY.findall(answer.read().decode("utf-8", "replace")) if answer.status == 200 else []
        return sum(round(float(count)) for count in found) if found else connected(port)
    except TimeoutError:
        raise
    except (OSError, http.client.HTTPException) as error:
        raise GoneError(str(error)) from error
    finally:
        connection.close()


def connected(port: int) -> int:
    """Connections of others to *port*: proc(5), /proc/net/tcp."""
    count = -1  # our own
    for name in ("tcp", "tcp6"):
        path = Path("/proc/net", name)
        for line in path.read_text(encoding="ascii").splitlines()[1:] if path.exists() else ():
            _, local, _, state = line.split()[:4]
            count += state == ESTABLISHED and int(local.rpartition(":")[2], 16) == port
    return max(count, 0)


def drain(url: str, seconds: float) -> int:
    """Keep new ones out and wait until nobody is being answered."""
    where = urllib.parse.urlsplit(url)
    host, port = where.hostname or "", where.port or 80
    deadline = time.monotonic() + seconds
    refused = nft("-f", "-", given=rules(port))
    if refused is not None:
        print(f"new requests cannot be kept out: {refused}", flush=True)
    quiet = False
    try:
        while (left := deadline - time.monotonic()) > 0:
            try:
                count = under_way(host, port, left)
            except TimeoutError:
                continue
            # A request that came in just before is not counted until the server has read it: so nobody is there twice.
            if count == 0 and quiet:
                return int(refused is not None)
            quiet = count == 0
            time.sleep(PAUSE)
    except GoneError:
        return 0
    print(f"still answering after {seconds:g} s: who is being answered is cut off", flush=True)
    return 1


def main(arguments: list[str]) -> int:
    """Run the program."""
    parser = argparse.ArgumentParser(prog="edge-drain", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("url", nargs="?")
    parser.add_argument("--for", dest="seconds", type=float, default=30.0, metavar="SECONDS")
    parser.add_argument("--end", action="store_true", help="let them in again")
    options = parser.parse_args(arguments)
    if options.end == (options.url is not None):
        parser.error("either a URL or --end")
    try:
        if options.end:
            return end()
        return drain(options.url, options.seconds)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        print(f"edge-drain: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
