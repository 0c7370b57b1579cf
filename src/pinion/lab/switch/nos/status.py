"""What the service manager is told (sd_notify(3))."""

from __future__ import annotations

import contextlib
import os
import socket

#: The status of a switch whose data plane holds its configuration. Any other status is what is wrong.
IN_STEP = "data plane in step with running-config"


def notify(**fields: object) -> None:
    """Tell the service manager *fields*; nothing where there is none."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    message = "\n".join(f"{key}={value}" for key, value in fields.items())
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.sendto(message.encode(), f"\0{address[1:]}" if address.startswith("@") else address)
