"""OpenPGP public keys in their ASCII form: whether one is whole, and vouches for itself (RFC 9580). Pure but for the clock.

A key says whose it is by a signature over itself. So a block whose key was changed is told here, and not by apt on every host.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pysequoia import Cert

_ARMOUR = re.compile(
    r"-----BEGIN PGP PUBLIC KEY BLOCK-----\n(?:[A-Za-z]+: .*\n)*\n(?P<body>(?:[A-Za-z0-9+/]+=*\n)+)"
    r"(?:=(?P<sum>[A-Za-z0-9+/]{4})\n)?-----END PGP PUBLIC KEY BLOCK-----"
)
#: What Sequoia says of a signature that holds and is made in a way that it no longer trusts (SHA-1): apt's to judge, not ours.
_OLD = "Policy rejected"


def mistake(written: str) -> str | None:
    """What is wrong with a public key in its ASCII form; None when it is a good one."""
    match = _ARMOUR.fullmatch(written.strip())
    if match is None:
        return "it is not the block from '-----BEGIN PGP PUBLIC KEY BLOCK-----' to its end"
    try:
        data = base64.b64decode(match["body"].replace("\n", ""), validate=True)
    except (binascii.Error, ValueError):
        return "what is in the block is not base64"
    if match["sum"] is not None and base64.b64decode(match["sum"]) != _checksum(data):
        return "its checksum says that the block was changed or cut off; export it again"
    return _unlike_itself(data)


def _unlike_itself(data: bytes) -> str | None:
    """What Sequoia finds wrong with the packets *data* of a key."""
    from pysequoia import Cert  # here: 9 MB, for the few site files that state a key

    try:
        keys = Cert.split_bytes(data)
    except RuntimeError:
        return "the block was changed or cut off, or holds no public key; export it again"
    if not keys:
        return "what is in the block is no public key"
    if all(map(_vouches, keys)):
        return None
    return "its signature over itself does not hold: the block was changed or cut off; export it again"


def _vouches(key: Cert) -> bool:
    try:
        return bool(key.user_ids)
    except RuntimeError as refused:
        return _OLD in str(refused)


def _checksum(packets: bytes) -> bytes:
    """The CRC-24 at the end of an ASCII form (6.1). Sequoia does not look at it, as the RFC asks; an edited block is told by it first."""
    found = 0xB704CE
    for byte in packets:
        found ^= byte << 16
        for _ in range(8):
            found = found << 1 ^ (0x1864CFB if found & 0x800000 else 0)
    return (found & 0xFFFFFF).to_bytes(3, "big")
