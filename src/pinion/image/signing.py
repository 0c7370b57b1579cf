"""Signatures of images and manifests: Ed25519, in minisign's format, so that `minisign -V` can check them and no program of ours is needed.

Format: https://jedisct1.github.io/minisign/ (prehashed signatures: BLAKE2b-512 of the file is what is signed).
"""

from __future__ import annotations

import base64
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from pinion.image.errors import ImageError
from pinion.lab.state import write_file

_SIGNATURE, _PREHASHED = b"Ed", b"ED"
_CHUNK = 4 << 20
_KEY_BYTES, _SIGNATURE_BYTES, _ID_BYTES = 32, 64, 8


@dataclass(frozen=True)
class Signer:
    """The operator's signing key in *path* (PEM, PKCS #8, 0600), made at the first use; its public half lies beside it (``.pub``)."""

    path: Path

    @property
    def public_path(self) -> Path:
        """The public key in minisign's format, to be handed out."""
        return self.path.with_suffix(".pub")

    def key(self) -> Ed25519PrivateKey:
        """The key. Raises `ImageError` when the file is no such key, or readable by others."""
        if not self.path.exists():
            self._make()
        if self.path.stat().st_mode & 0o077:
            raise ImageError(
                f"{self.path}: others may read this signing key; make a new one, or chmod 0600 if nobody did"
            )
        try:
            key = serialization.load_pem_private_key(self.path.read_bytes(), password=None)
        except (ValueError, TypeError) as error:
            raise ImageError(f"{self.path}: no private key in PEM: {error}") from None
        if not isinstance(key, Ed25519PrivateKey):
            raise ImageError(f"{self.path}: not an Ed25519 key")
        write_file(self.public_path, public_text(key.public_key()), 0o644)
        return key

    def _make(self) -> None:
        """By link, so that of two who make one at once both use the same."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        made = Ed25519PrivateKey.generate().private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        new = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        write_file(new, made, 0o600)
        try:
            self.path.hardlink_to(new)
        except FileExistsError:
            pass
        finally:
            new.unlink()

    def sign(self, file: Path) -> Path:
        """Write the signature of *file* beside it (``.minisig``); its path."""
        target = file.with_name(f"{file.name}.minisig")
        write_file(target, signature(self.key(), prehash(file), file.name), 0o644)
        return target

    def signed(self, file: Path) -> bool:
        """Whether a signature by this key lies beside *file*, by the key's name; whether it holds is `verify`'s to say."""
        try:
            body = base64.b64decode(file.with_name(f"{file.name}.minisig").read_text().splitlines()[1], validate=True)
        except (FileNotFoundError, IndexError, ValueError):
            return False
        return body[2 : 2 + _ID_BYTES] == key_id(self.key().public_key())


def raw(key: Ed25519PublicKey) -> bytes:
    """The 32 bytes of a public key."""
    return key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)


def key_id(key: Ed25519PublicKey) -> bytes:
    """minisign names keys by 8 bytes that mean nothing; ours follow from the key."""
    return hashlib.sha256(raw(key)).digest()[:_ID_BYTES]


def public_text(key: Ed25519PublicKey) -> str:
    """A public key as minisign reads it."""
    encoded = base64.b64encode(_SIGNATURE + key_id(key) + raw(key)).decode()
    # minisign prints an identifier as a little-endian number
    return f"untrusted comment: minisign public key {int.from_bytes(key_id(key), 'little'):X}\n{encoded}\n"


def prehash(file: Path) -> bytes:
    """BLAKE2b-512 of a file."""
    found = hashlib.blake2b()
    with file.open("rb") as stream:
        while block := stream.read(_CHUNK):
            found.update(block)
    return found.digest()


def signature(key: Ed25519PrivateKey, hashed: bytes, name: str) -> str:
    """The signature file over a prehash; the trusted comment, which is signed too, says the file's *name*."""
    over = key.sign(hashed)
    comment = f"file:{name}"
    whole = key.sign(over + comment.encode())
    first = base64.b64encode(_PREHASHED + key_id(key.public_key()) + over).decode()
    return f"untrusted comment: Pinion image\n{first}\ntrusted comment: {comment}\n{base64.b64encode(whole).decode()}\n"


def verify(public: str, hashed: bytes, signed: str, name: str) -> None:
    """Check a signature file over a prehash against a public key in minisign's format. Raises `ImageError` when it does not hold."""
    try:
        blob = base64.b64decode(public.splitlines()[1], validate=True)
        lines = signed.splitlines()
        body, comment, whole = (
            base64.b64decode(lines[1], validate=True),
            lines[2].removeprefix("trusted comment: "),
            base64.b64decode(lines[3]),
        )
        if len(blob) != 2 + _ID_BYTES + _KEY_BYTES or len(body) != 2 + _ID_BYTES + _SIGNATURE_BYTES:
            raise ValueError("wrong length")
        key = Ed25519PublicKey.from_public_bytes(blob[-_KEY_BYTES:])
    except (IndexError, ValueError) as error:
        raise ImageError(f"{name}: its signature or the key is not in minisign's format ({error})") from None
    if body[:2] != _PREHASHED or body[2 : 2 + _ID_BYTES] != blob[2 : 2 + _ID_BYTES]:
        raise ImageError(f"{name}: signed with another key")
    try:
        key.verify(body[-_SIGNATURE_BYTES:], hashed)
        key.verify(whole, body[-_SIGNATURE_BYTES:] + comment.encode())
    except InvalidSignature:
        raise ImageError(f"{name}: the signature does not hold: the file is not what was signed") from None
    if comment != f"file:{name}":
        raise ImageError(f"{name}: the signature is that of {comment!r}")
