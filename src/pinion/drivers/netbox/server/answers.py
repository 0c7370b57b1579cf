"""Reading NetBox's answers: seven shapes of error body, told apart by status and text.

Pure functions over status and parsed body; no I/O.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from pinion.drivers.netbox.errors import (
    BulkRefusedError,
    ChangedError,
    DeniedError,
    NetBoxError,
    RefusedError,
    UnreachableError,
)

#: Texts by which NetBox says that the token itself is no good. There is no 401.
_TOKEN_TEXTS = (
    "credentials were not provided",
    "invalid v1 token",
    "invalid v2 token",
    "invalid token",
    "token expired",
    "token disabled",
)
#: Texts by which NetBox refuses a good token because of where it is used from.
_SOURCE_TEXTS = ("is not permitted to authenticate using this token", "client ip address could not be determined")
_LONGEST_REASON = 600


def sentence(body: JsonValue) -> str:
    """An error body in one line: `field: text; field: text`."""
    text = _flat(body)
    return text if len(text) <= _LONGEST_REASON else text[: _LONGEST_REASON - 1] + "…"


def _flat(body: JsonValue) -> str:
    if isinstance(body, Mapping):
        parts = []
        for name, value in body.items():
            text = _flat(value)
            parts.append(text if name in ("__all__", "non_field_errors", "detail", "error") else f"{name}: {text}")
        return "; ".join(part for part in parts if part)
    if isinstance(body, Sequence) and not isinstance(body, str):
        return "; ".join(filter(None, (_flat(item) for item in body)))
    return "" if body is None else " ".join(str(body).split())


def _indexed(body: JsonValue, ids: Sequence[int]) -> dict[int, str]:
    """Reasons by position from a 4.7 envelope (`index` or `id`) or a 4.6 list of one dict an item; empty when neither."""
    reasons: dict[int, str] = {}
    if isinstance(body, Mapping) and isinstance(entries := body.get("errors"), list):
        places = {identifier: place for place, identifier in enumerate(ids)}
        for entry in entries:
            if not isinstance(entry, Mapping):
                continue
            place = entry.get("index")
            if place is None and isinstance(identifier := entry.get("id"), int):
                place = places.get(identifier)
            if isinstance(place, int):
                reasons[place] = sentence(entry.get("errors"))
    elif isinstance(body, list) and all(isinstance(entry, Mapping) for entry in body):
        reasons = {place: sentence(entry) for place, entry in enumerate(body) if entry}
    return reasons


def is_denied_token(body: JsonValue) -> bool:
    """Whether a 403 is about the token and not about a permission."""
    text = sentence(body).lower()
    return any(known in text for known in _TOKEN_TEXTS)


def is_denied_source(body: JsonValue) -> bool:
    """Whether a 403 is about the address that the request came from: the token lists allowed ones, and this is none of them."""
    text = sentence(body).lower()
    return any(known in text for known in _SOURCE_TEXTS)


def write_error(status: int, body: JsonValue, what: str, url: str, ids: Sequence[int] = ()) -> NetBoxError:
    """The exception for a refused write of a list. *ids*: of the items of a PATCH or DELETE, in order of the request."""
    reason = sentence(body) or f"HTTP {status} without a reason"
    if status == 412:
        return ChangedError("changed by someone else meanwhile", url)
    if status == 400 and ids and "does not exist" in reason and "Object with ID" in reason:
        return ChangedError("some of the objects are gone", url)
    if status == 500 and isinstance(body, Mapping):
        exception = str(body.get("exception", ""))
        if exception == "IntegrityError" or "deadlock detected" in reason:
            return ChangedError(reason, url)
        if exception in ("DoesNotExist", "DataError", "ValidationError"):  # NetBox's way to say 400 in these places
            return BulkRefusedError(reason, {}, url, status)
    if status in (400, 409):
        return BulkRefusedError(reason, _indexed(body, ids), url, status)
    if status == 403 and not is_denied_token(body) and (places := _indexed(body, ids)):
        return BulkRefusedError(reason, places, url, status)
    return plain_error(status, body, what, url)


def plain_error(status: int, body: JsonValue, what: str, url: str) -> NetBoxError:
    """The error for an answer that concerns the whole call."""
    reason = sentence(body) or f"HTTP {status} without a reason"
    if status == 403:
        if is_denied_token(body):
            return DeniedError(what, f"NetBox does not accept the token ({reason})", url, token=True)
        if is_denied_source(body):
            why = "the token may not be used from this machine's address: see its allowed IPs in NetBox"
            return DeniedError(what, f"{why} ({reason})", url, token=True)
        return DeniedError(what, f"the token's user lacks the permission for this ({reason})", url)
    if status == 404:
        return RefusedError(what, "no such page: is this the address of a NetBox of version 4.6 or 4.7?", url)
    if status >= 500 or status == 429:
        return UnreachableError(what, f"NetBox answers {status}: {reason}", url, maybe_applied=status >= 500)
    return RefusedError(what, f"NetBox answers {status}: {reason}", url)
