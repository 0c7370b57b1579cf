"""What a refused write means for the record that was written: look again, or an error in the words of that record."""

from __future__ import annotations

from pinion.drivers.netbox.errors import ChangedError, NetBoxError, RefusedError, StaleError, UnreachableError
from pinion.drivers.netbox.wants import Want


def is_passing(error: Exception) -> bool:
    """Whether looking again may help."""
    return isinstance(error, (ChangedError, UnreachableError))


def looks_taken(error: Exception) -> bool:
    """Whether a refusal may mean that another record has by now, or still has, what this one is to get: then a look-up finds it."""
    if not isinstance(error, RefusedError):
        return False
    text = error.reason.lower()
    return any(word in text for word in ("already", "duplicate", "unique", "overlap", "cannot reassign"))


def given_up(want: Want, reason: Exception) -> NetBoxError:
    """The error after the last attempt."""
    if isinstance(reason, UnreachableError):
        return UnreachableError(want.label, reason.reason, reason.url, maybe_applied=reason.maybe_applied)
    if isinstance(reason, NetBoxError):
        return RefusedError(want.label, reason.reason, reason.url)
    text = reason.reason if isinstance(reason, ChangedError) else str(reason)
    return StaleError(want.label, f"kept changing while we worked on it: {text}")


def as_error(answer: Exception, label: str, url: str | None) -> NetBoxError:
    """An answer about a list as the error of one record in it."""
    if isinstance(answer, NetBoxError):
        copy = type(answer)(label, answer.reason, url or answer.url)
        for name in ("token", "maybe_applied"):
            if hasattr(answer, name):
                setattr(copy, name, getattr(answer, name))
        return copy
    return StaleError(label, str(answer), url)
