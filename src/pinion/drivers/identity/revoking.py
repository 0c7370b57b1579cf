"""Revoke a certificate at step-ca, and ask it for whom it renews. Both are passive: a certificate that is not renewed ends by itself."""

from __future__ import annotations

import http.client
import json
import ssl
from urllib.parse import quote, urlsplit

from pinion.drivers.identity.authority import Authority
from pinion.drivers.identity.place import AuthorityError
from pinion.drivers.identity.tokens import revocation

_SECONDS = 20
#: The most that step-ca lists at once (authority/provisioner/collection.go).
_PAGE = 100


def revoke(authority: Authority, url: str, serial: int, reason: str) -> bool:
    """Have step-ca at *url* refuse to renew the certificate *serial*; False when it did so already. Raises `AuthorityError`.

    Who has that certificate may have renewed it before, under another number: for a thief, see `issuers.retire`.
    """
    asked = {"serial": str(serial), "ott": revocation(authority, url, serial), "reason": reason, "passive": True}
    code, said = _asked(authority, url, "POST", "/1.0/revoke", json.dumps(asked))
    if code >= 300 and "already revoked" not in said:
        raise AuthorityError(f"the authority {url} refuses to revoke {serial:x}: {code} {said.strip()}")
    return code < 300


def issuers_at(authority: Authority, url: str) -> dict[str, str]:
    """The provisioners that step-ca at *url* has now, with the id of the key for their tokens. Of these alone it renews certificates.

    Raises `AuthorityError`.
    """
    found: dict[str, str] = {}
    cursor = ""
    while True:
        path = f"/provisioners?limit={_PAGE}" + (f"&cursor={quote(cursor)}" if cursor else "")
        code, said = _asked(authority, url, "GET", path, None)
        try:
            data = json.loads(said)
            found |= {str(entry["name"]): str(entry["key"]["kid"]) for entry in data["provisioners"]}
            cursor = str(data.get("nextCursor") or "")
        except (ValueError, KeyError, TypeError) as error:
            raise AuthorityError(f"the authority {url} does not list its provisioners: {code} {said[:200]}") from error
        if not cursor:
            return found


def _asked(authority: Authority, url: str, method: str, path: str, body: str | None) -> tuple[int, str]:
    """step-ca's answer, its code and its text. Raises `AuthorityError`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=authority.root)
    parts = urlsplit(url)
    connection = http.client.HTTPSConnection(parts.hostname or "", parts.port or 443, timeout=_SECONDS, context=context)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read(1 << 20).decode(errors="replace")
    except (OSError, http.client.HTTPException) as error:
        raise AuthorityError(f"the authority {url} does not answer: {error}") from error
    finally:
        connection.close()
