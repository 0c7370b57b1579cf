"""What can go wrong with NetBox, by what the reader can do about it.

Every message is one line, `object: reason (URL)`. None ever holds a token: headers are not part of any message.
"""

from __future__ import annotations

from collections.abc import Mapping


class NetBoxError(Exception):
    """Base of all. *object* in words (`VLAN edge-inference (lab)`), *reason*, *url* of the page or end point, *unit*: key of the unit."""

    def __init__(
        self,
        object: str,  # noqa: A002 - the word of the interface
        reason: str,
        url: str | None = None,
        unit: str | None = None,
        *,
        token: bool = False,
        maybe_applied: bool = False,
    ) -> None:
        self.object = object
        self.reason = reason
        self.url = url
        self.unit = unit
        self.token = token
        self.maybe_applied = maybe_applied
        super().__init__(object, reason, url, unit)

    def __str__(self) -> str:
        return f"{self.object}: {self.reason}" + (f" ({self.url})" if self.url else "")

    def about(self, object: str, url: str | None = None) -> NetBoxError:  # noqa: A002 - as above
        """The same error of another object, such as one of the records of a list."""
        more = {"token": self.token, "maybe_applied": self.maybe_applied}
        return type(self)(object, self.reason, url or self.url, self.unit, **more)


class ExistsError(NetBoxError):
    """The object exists: not Pinion's, and adopting it was not asked for; or another site's; or wanted by two units at once."""


class MissingError(NetBoxError):
    """Something that the object refers to does not exist."""


class RefusedError(NetBoxError):
    """NetBox refused the content (400) or the deletion (409)."""


class DeniedError(NetBoxError):
    """403: the token is wrong (*token* is true), or it lacks a permission."""


class UnreachableError(NetBoxError):
    """No usable answer after bounded retries. *maybe_applied*: the last write may have happened; the next apply finds out."""


class StaleError(NetBoxError):
    """Somebody changed the object each time that we were about to."""


class BulkRefusedError(NetBoxError):
    """A list was refused as a whole and nothing was written. *reasons* by position in the request, as far as NetBox names them.

    Never leaves the driver: it becomes one error for each object.
    """

    def __init__(self, reason: str, reasons: Mapping[int, str], url: str, status: int) -> None:
        self.reasons = dict(reasons)
        self.status = status
        super().__init__("a list", reason, url)


class ChangedError(NetBoxError):
    """The world is not as we saw it (412, unknown id, a lost race, a deadlock): look again, then decide again.

    Never leaves the driver: where there is no time to look again it becomes a `StaleError`.
    """

    def __init__(self, reason: str, url: str) -> None:
        super().__init__("a list", reason, url)

    def about(self, object: str, url: str | None = None) -> NetBoxError:  # noqa: A002 - as above
        """See `NetBoxError.about`."""
        return StaleError(object, self.reason, url or self.url)
