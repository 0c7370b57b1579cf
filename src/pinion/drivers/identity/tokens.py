"""One-time tokens for step-ca: JSON Web Tokens (RFC 7519) that the operator's machine signs with the provisioner's key (ES256)."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Sequence

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from pinion.drivers.identity.authority import PROVISIONER, Authority, encoded

#: How long an enrolment token counts, in seconds: a slow run over many hosts, and no longer.
ENROLMENT_SECONDS = 900
#: A revocation is asked for at once.
_REVOCATION_SECONDS = 60


def enrolment(authority: Authority, url: str, names: Sequence[str], seconds: int = ENROLMENT_SECONDS) -> str:
    """A token for one certificate with exactly *names*, the first of them the subject, from step-ca at *url*. A secret."""
    return _signed(authority, f"{url}/1.0/sign", names[0], seconds, {"sans": list(names), "sha": authority.fingerprint})


def revocation(authority: Authority, url: str, serial: int) -> str:
    """A token to revoke the certificate *serial* at step-ca at *url*. A secret."""
    return _signed(authority, f"{url}/1.0/revoke", str(serial), _REVOCATION_SECONDS, {})


def _signed(authority: Authority, audience: str, subject: str, seconds: int, more: dict[str, object]) -> str:
    now = int(time.time())
    header = {"alg": "ES256", "typ": "JWT", "kid": authority.provisioner["kid"]}
    claims = {
        "iss": PROVISIONER,
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
