"""The policy as a signed document, and the place where a service keeps the last good one.

A document is JSON with the policy's own JSON, as text, and an Ed25519 signature (RFC 8032) over exactly that text, which is checked before
the text is read. The policy's JSON is canonical: keys sorted, no spaces, ASCII, numbers in their shortest form; any other is refused, so
that one policy has one text.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from pydantic import TypeAdapter, ValidationError

from pinion.routing.policy import FORMAT, STRICT, RoutingPolicy

#: Stands before what is signed, so that a signature over anything else by the same key is none over a policy.
CONTEXT = b"pinion routing policy 1\n"
#: A policy takes some hundred bytes and some more for each model.
MAXIMUM_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class _Envelope:
    """A document: the canonical JSON of a policy, and the signature over it in base64."""

    policy: str
    signature: str

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT


_ENVELOPE: TypeAdapter[_Envelope] = TypeAdapter(_Envelope)
_POLICY: TypeAdapter[RoutingPolicy] = TypeAdapter(RoutingPolicy)


class PolicyRefusedError(ValueError):
    """Why a document is not taken, in one line with the fix."""


def canonical(policy: RoutingPolicy) -> str:
    """The one JSON form of *policy*."""
    return json.dumps(_POLICY.dump_python(policy, mode="json"), sort_keys=True, separators=(",", ":"))


def signed(policy: RoutingPolicy, key: Ed25519PrivateKey) -> bytes:
    """The document of *policy*, signed with *key*. `ValueError` for a policy without a version: it is not to be published."""
    if policy.version < 1:
        raise ValueError("version: a policy that is published has a version from 1 up; give it the next one")
    text = canonical(policy)
    signature = base64.b64encode(key.sign(CONTEXT + text.encode())).decode()
    return json.dumps({"policy": text, "signature": signature}).encode()


def verified(document: bytes, key: str) -> RoutingPolicy:
    """The policy in *document*, whose signature holds for the public *key* (32 bytes in base64). Raises `PolicyRefusedError`."""
    text = _signed_text(document, key)
    try:
        stated = json.loads(text)
    except (ValueError, RecursionError) as broken:
        raise PolicyRefusedError(f"the policy is signed and is no JSON ({broken}); sign it anew") from None
    found = stated.get("format") if isinstance(stated, dict) else None
    if found != FORMAT:
        raise PolicyRefusedError(
            f"the policy has format {found}, and this program knows {FORMAT}; upgrade the older of the two"
        )
    try:
        policy = _POLICY.validate_python(stated)
    except ValidationError as wrong:
        first = wrong.errors()[0]
        where = ".".join(map(str, first["loc"])) or "policy"
        raise PolicyRefusedError(f"{where}: {first['msg']}; publish a policy of this site's plan") from None
    if policy.version < 1 or canonical(policy) != text:
        raise PolicyRefusedError("the policy is not in its canonical form, or has no version; sign it with Pinion")
    return policy


def _signed_text(document: bytes, key: str) -> str:
    """The text in *document* that *key* has signed."""
    if len(document) > MAXIMUM_BYTES:
        raise PolicyRefusedError(f"the document has {len(document)} bytes, and a policy at most {MAXIMUM_BYTES}")
    try:
        envelope = _ENVELOPE.validate_json(document)
        signature = base64.b64decode(envelope.signature, validate=True)
        public = Ed25519PublicKey.from_public_bytes(base64.b64decode(key, validate=True))
        public.verify(signature, CONTEXT + envelope.policy.encode())
    except ValidationError as broken:
        raise PolicyRefusedError(f"no signed policy: {broken.errors()[0]['msg']}; publish it again") from None
    except ValueError as broken:
        raise PolicyRefusedError(f"no signed policy: {broken}; publish it again") from None
    except InvalidSignature:
        raise PolicyRefusedError(
            "the signature does not hold: the policy was changed, or another key has signed it"
        ) from None
    return envelope.policy


class PolicyStore:
    """The last good policy of *site*, kept in *file*: what replaces it is signed by *key* and newer, or refused and nothing changes.

    A service that starts again goes on with the policy of the file, checked anew; without a good one `policy` is None, and `complaint` says
    why where there was a file.
    """

    def __init__(self, file: Path, key: str, site: str) -> None:
        self._file, self._key, self._site = file, key, site
        self.policy: RoutingPolicy | None = None
        self.complaint: str | None = None
        try:
            self.policy = self._checked(file.read_bytes())
        except FileNotFoundError:
            pass
        except PolicyRefusedError as refused:
            self.complaint = f"{file}: {refused}"

    def offer(self, document: bytes) -> RoutingPolicy:
        """Take *document* when it is good and newer; the policy that holds then. Raises `PolicyRefusedError`, and `OSError` of the disk.

        The policy that holds already is taken again without a word. The file is replaced by rename before the policy counts.
        """
        policy = self._checked(document)
        if self.policy is not None and policy.version <= self.policy.version:
            if policy == self.policy:
                return policy
            raise PolicyRefusedError(
                f"version {policy.version} is not newer than {self.policy.version}, which holds; publish with a higher version"
            )
        self._write(document)
        self.policy, self.complaint = policy, None
        return policy

    def _checked(self, document: bytes) -> RoutingPolicy:
        policy = verified(document, self._key)
        if policy.site != self._site:
            raise PolicyRefusedError(f"the policy is for site {policy.site!r}, and this is {self._site!r}")
        return policy

    def _write(self, document: bytes) -> None:
        handle, temporary = tempfile.mkstemp(dir=self._file.parent, prefix=f".{self._file.name}.")
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(document)
                stream.flush()
                os.fsync(stream.fileno())
            Path(temporary).replace(self._file)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                Path(temporary).unlink()
            raise
