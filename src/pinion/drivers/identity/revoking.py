"""Revoke a certificate at step-ca. Passive: the certificate is not renewed any more, and ends by itself."""

from __future__ import annotations

import http.client
import json
import ssl
from urllib.parse import urlsplit

from pinion.drivers.identity.authority import Authority
from pinion.drivers.identity.place import AuthorityError
from pinion.drivers.identity.tokens import revocation

_SECONDS = 20


def revoke(authority: Authority, url: str, serial: int, reason: str) -> bool:
    """Have step-ca at *url* refuse to renew the certificate *serial*; False when it did so already. Raises `AuthorityError`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=authority.root)
    asked = {"serial": str(serial), "ott": revocation(authority, url, serial), "reason": reason, "passive": True}
    parts = urlsplit(url)
    connection = http.client.HTTPSConnection(parts.hostname or "", parts.port or 443, timeout=_SECONDS, context=context)
    try:
        connection.request("POST", "/1.0/revoke", json.dumps(asked), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        said = answer.read(1 << 16).decode(errors="replace")
    except (OSError, http.client.HTTPException) as error:
        raise AuthorityError(f"the authority {url} does not answer: {error}") from error
    finally:
        connection.close()
    if answer.status >= 300 and "already revoked" not in said:
        raise AuthorityError(f"the authority {url} refuses to revoke {serial:x}: {answer.status} {said.strip()}")
    return answer.status < 300
