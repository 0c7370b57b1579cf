"""One-time tokens for step-ca: JSON Web Tokens (RFC 7519) that the operator's machine signs with the provisioner's key (ES256)."""

from __future__ import annotations

import base64
import json
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from pinion.drivers.identity.authority import PROVISIONER, Authority, encoded

#: How long an enrolment token counts, in seconds: a slow run over many hosts, and no longer.
ENROLMENT_SECONDS = 900
#: The longest that an enrolment token may count. step-ca sets no bound of its own (authority/provisioner/jwk.go: it looks at ``exp``
#: alone), so this is ours: who finds a card in a drawer later than this has nothing.
LONGEST_SECONDS = 30 * 86400
#: A revocation is asked for at once.
_REVOCATION_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Token:
    """What an enrolment token says; nobody has verified it. Times are Unix times, *key* is the signer's ``kid``."""

    key: str
    issuer: str
    audience: str
    names: tuple[str, ...]
    root: str
    begins: int
    ends: int


def enrolment(
    authority: Authority,
    url: str,
    names: Sequence[str],
    seconds: int = ENROLMENT_SECONDS,
    *,
    issuer: str = PROVISIONER,
    now: float | None = None,
) -> str:
    """A token for one certificate with exactly *names*, the first of them the subject, from step-ca at *url*. A secret.

    It counts for *seconds* from *now*, by default this moment. *issuer* is the provisioner that renews the certificate (`issuers.issuer`).
    """
    more: dict[str, object] = {"sans": list(names), "sha": authority.fingerprint}
    return _signed(authority, f"{url}/1.0/sign", names[0], seconds, more, now, issuer)


def read(text: str) -> Token:
    """What the enrolment token *text* says. Raises `ValueError` for anything else; its text holds nothing of the token."""
    try:
        header, claims, _ = (_decoded(part) for part in text.strip().split("."))
        head, said = json.loads(header), json.loads(claims)
        names = tuple(str(name) for name in said.get("sans") or [said["sub"]])
        return Token(
            key=str(head.get("kid", "")),
            issuer=str(said.get("iss", "")),
            audience=str(said["aud"]),
            names=names if said["sub"] in names else (str(said["sub"]), *names),
            root=str(said.get("sha", "")),
            begins=int(said.get("nbf", 0)),
            ends=int(said["exp"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError("no enrolment token of step-ca's (a JSON Web Token)") from None


def serves(token: Token, authority: Authority, url: str, names: Sequence[str], issuer: str) -> bool:
    """Whether *token* is what `enrolment` would make for *names* now, but for its time. Raises `AuthorityError`."""
    wanted = (authority.provisioner["kid"], issuer, f"{url}/1.0/sign", tuple(names), authority.fingerprint)
    return (token.key, token.issuer, token.audience, token.names, token.root) == wanted


def revocation(authority: Authority, url: str, serial: int) -> str:
    """A token to revoke the certificate *serial* at step-ca at *url*. A secret."""
    return _signed(authority, f"{url}/1.0/revoke", str(serial), _REVOCATION_SECONDS, {}, None, PROVISIONER)


def _decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def _signed(
    authority: Authority,
    audience: str,
    subject: str,
    seconds: int,
    more: dict[str, object],
    at: float | None,
    issuer: str,
) -> str:
    now = int(time.time() if at is None else at)
    header = {"alg": "ES256", "typ": "JWT", "kid": authority.provisioner["kid"]}
    claims = {
        "iss": issuer,
        "aud": audience,
        "sub": subject,
        "iat": now,
        "nbf": now,
        "exp": now + seconds,
        "jti": secrets.token_hex(16),
        **more,
    }
    said = ".".join(encoded(json.dumps(part).encode()) for part in (header, claims))
    r, s = decode_dss_signature(authority.token_key.sign(said.encode(), ec.ECDSA(hashes.SHA256())))
    return f"{said}.{encoded(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"
