"""What a program that fetches a signed artefact is told of it, and the key that it is checked with. Pure."""

from __future__ import annotations

import base64

from pinion.site.model import ArtefactSource

#: RFC 8410: what stands before the 32 bytes of an Ed25519 key in a SubjectPublicKeyInfo.
_SPKI = bytes.fromhex("302a300506032b6570032100")


def artefact_facts(artefact: str, source: ArtefactSource) -> dict[str, object]:
    """The facts of the artefact called *artefact*, as the program `model_store` takes them."""
    return {
        "artefact": artefact,
        "url": source.url,
        "sha256": source.sha256,
        "size": source.size,
        "signature": source.signature,
        "format": source.format,
        "architecture": source.architecture,
    }


def public_key(raw: str) -> str:
    """A raw Ed25519 key in base64 as PEM, the form that openssl(1) takes."""
    return f"-----BEGIN PUBLIC KEY-----\n{base64.b64encode(_SPKI + base64.b64decode(raw)).decode()}\n-----END PUBLIC KEY-----\n"
