"""OpenPGP public keys in their ASCII form: whether one is whole, and vouches for itself (RFC 9580). Pure.

A key says whose it is by a signature over itself. So a block that was changed anywhere is told here, and not by apt on every host.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers

_ARMOUR = re.compile(
    r"-----BEGIN PGP PUBLIC KEY BLOCK-----\n(?:[A-Za-z]+: .*\n)*\n(?P<body>(?:[A-Za-z0-9+/]+=*\n)+)"
    r"(?:=(?P<sum>[A-Za-z0-9+/]{4})\n)?-----END PGP PUBLIC KEY BLOCK-----"
)
#: Kinds of packet (5): signature, public key, user ID.
_SIGNATURE, _PUBLIC_KEY, _USER = 2, 6, 13
#: Kinds of signature over a key and a user (5.2.1): generic to positive certification.
_CERTIFICATIONS = range(0x10, 0x14)
#: Public-key algorithms (9.1): RSA, and Ed25519 as GnuPG writes it and as RFC 9580 does.
_RSA, _EDDSA, _ED25519 = 1, 22, 27
#: Hash algorithms (9.5).
_HASHES: dict[int, Callable[[], hashes.HashAlgorithm]] = {
    2: hashes.SHA1,
    8: hashes.SHA256,
    9: hashes.SHA384,
    10: hashes.SHA512,
    11: hashes.SHA224,
}


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
    try:
        packets = list(_packets(data))
    except IndexError:
        return "the block was changed or cut off; export it again"
    if not packets or packets[0].kind != _PUBLIC_KEY:
        return "what is in the block is no public key"
    if _vouches(packets) is False:
        return "its signature over itself does not hold: the block was changed or cut off; export it again"
    return None


def _checksum(packets: bytes) -> bytes:
    """The CRC-24 at the end of an ASCII form (6.1)."""
    found = 0xB704CE
    for byte in packets:
        found ^= byte << 16
        for _ in range(8):
            found = found << 1 ^ (0x1864CFB if found & 0x800000 else 0)
    return (found & 0xFFFFFF).to_bytes(3, "big")


@dataclass(frozen=True, slots=True)
class _Packet:
    kind: int
    body: bytes


def _packets(data: bytes) -> Iterator[_Packet]:
    """The packets of *data* (4.2). `IndexError` for a length that goes beyond it, and for packets in parts, which keys have none of."""
    while data:
        head = data[0]
        if not head & 0x80:
            raise IndexError("no packet begins here")
        if head & 0x40:
            kind, (size, start) = head & 0x3F, _new_length(data)
        else:
            octets = (1, 2, 4)[head & 3]
            kind, size, start = head >> 2 & 0xF, int.from_bytes(data[1 : 1 + octets], "big"), 1 + octets
        if start + size > len(data):
            raise IndexError("a packet is cut off")
        yield _Packet(kind, data[start : start + size])
        data = data[start + size :]


def _new_length(data: bytes) -> tuple[int, int]:
    """Length of the first packet's body, and where that begins (4.2.1)."""
    first = data[1]
    if first < 192:
        return first, 2
    if first < 224:
        return (first - 192 << 8) + data[2] + 192, 3
    if first < 255:
        raise IndexError("a packet in parts")
    return int.from_bytes(data[2:6], "big"), 6


def _vouches(packets: list[_Packet]) -> bool | None:
    """Whether one of the key's signatures over itself and its user holds; None when none of them is of a kind that is known here."""
    key, user, answers = packets[0].body, b"", []
    if key[:1] != b"\x04":
        return None
    for packet in packets[1:]:
        if packet.kind == _USER:
            user = packet.body
        elif packet.kind == _SIGNATURE and user:
            try:
                answers.append(_holds(key, user, packet.body))
            except (IndexError, ValueError, OverflowError, UnsupportedAlgorithm):
                answers.append(False)
        elif packet.kind not in {_USER, _SIGNATURE}:
            break
    if not answers:
        return False
    return True if True in answers else None if None in answers else False


def _holds(key: bytes, user: bytes, signature: bytes) -> bool | None:
    """Whether *signature* by *key* over itself and *user* holds (5.2.4); None for one of another kind."""
    version, kind, algorithm, hashed_by = signature[0], signature[1], signature[2], signature[3]
    if version != 4 or kind not in _CERTIFICATIONS or algorithm != key[5] or hashed_by not in _HASHES:
        return None
    end = 6 + int.from_bytes(signature[4:6], "big")
    over = (
        b"\x99" + len(key).to_bytes(2, "big") + key + b"\xb4" + len(user).to_bytes(4, "big") + user
        + signature[:end] + b"\x04\xff" + end.to_bytes(4, "big")
    )  # fmt: skip
    rest = signature[end:]
    values = rest[2 + int.from_bytes(rest[:2], "big") + 2 :]
    try:
        return _verified(key, values, over, _HASHES[hashed_by]())
    except InvalidSignature:
        return False


def _verified(key: bytes, values: bytes, over: bytes, algorithm: hashes.HashAlgorithm) -> bool | None:
    """Verify *values*, a signature's, by the public key's own (5.2.3, 5.5.2). Raises `InvalidSignature`; None for an unknown algorithm."""
    if key[5] == _RSA:
        modulus, exponent = _integers(key[6:])
        (value,) = _integers(values)
        size = (modulus.bit_length() + 7) // 8
        RSAPublicNumbers(exponent, modulus).public_key().verify(
            value.to_bytes(size, "big"), over, PKCS1v15(), algorithm
        )
        return True
    digest = hashes.Hash(algorithm)
    digest.update(over)
    if key[5] == _EDDSA:
        (point,) = _integers(key[7 + key[6] :])
        r, s = _integers(values)
        raw, made = point.to_bytes(33, "big")[1:], r.to_bytes(32, "big") + s.to_bytes(32, "big")
    elif key[5] == _ED25519:
        raw, made = key[6:38], values[:64]
    else:
        return None
    Ed25519PublicKey.from_public_bytes(raw).verify(made, digest.finalize())
    return True


def _integers(data: bytes) -> list[int]:
    """The multiprecision integers that *data* is (3.2). `IndexError` when the last is cut off."""
    found = []
    while data:
        size = (int.from_bytes(data[:2], "big") + 7) // 8
        if len(data) < 2 + size:
            raise IndexError("an integer is cut off")
        found.append(int.from_bytes(data[2 : 2 + size], "big"))
        data = data[2 + size :]
    return found
