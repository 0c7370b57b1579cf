"""A secret file that only a passphrase opens: scrypt (RFC 7914) makes the key of a Fernet token (AES-128-CBC with HMAC-SHA256).

A first line says what the file is, a second has the salt, the third is the token. From a file that was changed, or with a wrong passphrase,
nothing is read.
"""

from __future__ import annotations

import base64
import os
import stat
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from pinion.drivers.identity.place import AuthorityError

_FIRST = b"pinion sealed file 1: scrypt, fernet"
#: OWASP Password Storage Cheat Sheet: scrypt with N=2^17, r=8, p=1, which takes 128 MiB and some tenths of a second a guess.
_N, _R, _P = 2**17, 8, 1
_SALT_BYTES = 16
#: Characters. NIST SP 800-63B asks for 15 where a passphrase is all there is.
SHORTEST = 15


def passphrase_in(path: Path) -> bytes:
    """The passphrase in *path*, without the end of its line. Raises `AuthorityError` for one that others may read, or that is too short."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            said = file.read().rstrip(b"\r\n")
    except OSError as error:
        raise AuthorityError(f"{path}: {error.strerror or error}") from error
    if stat.S_ISREG(mode) and mode & 0o077:
        raise AuthorityError(f"{path}: others may read this passphrase; make another, or chmod 0600 if nobody did")
    if len(said) < SHORTEST:
        raise AuthorityError(
            f"{path}: a passphrase of {len(said)} characters, and {SHORTEST} are the least: (umask 077; openssl rand -base64 32 >{path})"
        )
    return said


def seal(content: bytes, passphrase: bytes) -> bytes:
    """*content*, for who has *passphrase*."""
    salt = os.urandom(_SALT_BYTES)
    token = Fernet(_key(passphrase, salt)).encrypt(content)
    return b"\n".join((_FIRST, base64.b64encode(salt), token, b""))


def unseal(sealed: bytes, passphrase: bytes) -> bytes:
    """What was sealed. Raises `AuthorityError`."""
    first, *rest = sealed.split(b"\n")
    if first != _FIRST:
        raise AuthorityError("it is no sealed file of Pinion's")
    try:
        stated, token, end = rest
        salt = base64.b64decode(stated, validate=True)
        # the last character of Base64 has bits that mean nothing, and would be read whatever they are
        written = base64.b64encode(salt), base64.urlsafe_b64encode(base64.urlsafe_b64decode(token)), b""
        if written != (stated, token, end):
            raise ValueError("it is not as it was written")
        return Fernet(_key(passphrase, salt)).decrypt(token)
    except (ValueError, InvalidToken) as error:
        raise AuthorityError("it was sealed with another passphrase, or it is damaged or cut off") from error


def _key(passphrase: bytes, salt: bytes) -> bytes:
    return base64.urlsafe_b64encode(Scrypt(salt=salt, length=32, n=_N, r=_R, p=_P).derive(passphrase))
