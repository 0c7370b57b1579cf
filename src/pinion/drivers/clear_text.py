"""Which addresses would send a credential over a network in clear text."""

from __future__ import annotations

import ipaddress
from typing import Final
from urllib.parse import urlsplit

#: Why such an address is refused, and what to do.
PLAIN_HTTP: Final = (
    "http:// would send the token over the network in clear text: state an https:// address, or, when that network is yours alone, say so: "
    "pulumi config set netbox:allowPlainHttp true"
)


def is_in_clear(url: str) -> bool:
    """Whether what is sent to *url* can be read on the way: anything but https, unless it stays on this machine.

    A name counts as this machine only when it is `localhost` (or ends in `.localhost`): any other may lead elsewhere tomorrow.
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:  # no address at all: whoever connects says so
        return True
    if parts.scheme == "https" or host == "localhost" or host.endswith(".localhost"):
        return False
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return True
