"""Makes the way to the hosts longer, for whatever connects to port 22: `python ssh_delay.py SECONDS`, in the operator's position, as root.

nftables sends connections to this process, which passes them on to where they were meant for, `delaying_proxy`'s way: half of the round
trip in each direction, and one for the handshake. Says "ready" when it does; its rules go when its standard input ends.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from delaying_proxy import DelayingProxy

_TABLE = "pinion-ssh-delay"
_MARK = 77
_SO_MARK = 36  # asm-generic/socket.h
_SO_ORIGINAL_DST = 80  # linux/netfilter_ipv4.h


class TransparentProxy(DelayingProxy):
    """Passes each connection on to where it was meant for before nftables sent it here."""

    async def _connect(self, writer: asyncio.StreamWriter) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        near: socket.socket = writer.get_extra_info("socket")
        _, port, packed = struct.unpack("!HH4s8x", near.getsockopt(socket.SOL_IP, _SO_ORIGINAL_DST, 16))
        far = socket.socket()
        far.setsockopt(socket.SOL_SOCKET, _SO_MARK, _MARK)
        far.setblocking(False)
        await asyncio.get_running_loop().sock_connect(far, (socket.inet_ntoa(packed), port))
        return await asyncio.open_connection(sock=far)


def rules(port: int) -> str:
    """Connections to port 22 go to *port* here, unless they are this process's own."""
    return (
        f"table ip {_TABLE} {{ chain output {{ type nat hook output priority -100; "
        f"meta mark {_MARK} accept; tcp dport 22 redirect to :{port}; }}; }}"
    )


def main() -> None:
    """Run until the standard input ends."""
    with TransparentProxy("", 0, float(sys.argv[1])) as proxy:
        subprocess.run(["nft", "-f", "-"], input=rules(proxy.port), text=True, check=True)
        try:
            print("ready", flush=True)
            sys.stdin.read()
        finally:
            subprocess.run(["nft", "delete", "table", "ip", _TABLE], check=True)


if __name__ == "__main__":
    main()
