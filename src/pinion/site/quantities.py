"""Quantities as a person writes them in a site file: the unit is part of the value (``80ms``, ``60%``, ``9000``).

Each function turns one written value into a number in one fixed unit, or raises `NotAQuantity` (a `ValueError`), which says what is
wrong and how to write it. They are used as pydantic validators, so the loader can attach file, line and column.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pinion.site.fixes import Fix, write
from pinion.site.internet import is_server, is_this_host
from pinion.site.scalars import written as as_yaml

_NUMBER = r"(?P<number>[0-9]{1,12}(?:\.[0-9]{1,12})?)"
_DURATION = re.compile(rf"{_NUMBER} ?(?P<unit>ms|s|min|h)")
_SECONDS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0}
_PERCENT = re.compile(rf"{_NUMBER} ?%")
_NUMBERS_PART = re.compile(r"(?P<first>[0-9]{1,9})(?: ?- ?(?P<last>[0-9]{1,9}))?")
_PORTS_PART = re.compile(
    r"(?P<stem>[A-Za-z]+)?(?P<first>[0-9]{1,6})(?P<suffix>/[0-9]{1,3})?"
    r"(?: ?- ?(?P<last_stem>[A-Za-z]+)?(?P<last>[0-9]{1,6})(?P<last_suffix>/[0-9]{1,3})?)?"
)

_WINDOW = re.compile(
    r"(?P<day>daily|mon|tue|wed|thu|fri|sat|sun) (?P<start>[0-2][0-9]:[0-5][0-9])-(?P<end>[0-2][0-9]:[0-5][0-9])"
)

#: Shorter, and what begins in a window cannot end in it; longer, and it is no window.
WINDOW_MINUTES = (60, 720)
#: A group of nodes or ports larger than this is a typing mistake, not a rack.
MAXIMUM_EXPANSION = 100_000

Kind = Literal[
    "duration", "percentage", "numbers", "ports", "window", "artefact_url", "archive_url", "authority_url", "image"
]


class NotAQuantity(ValueError):  # noqa: N818 - says what the text is not
    """A text that is not the quantity it should be.

    *kind* is that quantity, *wrong* what is wrong, *how* how to write it, with ``{}`` for the text to write: *meant*, where that is plain.
    """

    def __init__(self, kind: Kind, wrong: str, how: str, meant: str | None = None) -> None:
        self.kind, self.wrong, self._how, self._meant = kind, wrong, how, meant
        super().__init__(f"{wrong}; {how.format(meant or '…')}")

    def behind(self, word: str) -> NotAQuantity:
        """The same of a longer text, in which this one stands behind *word*."""
        return NotAQuantity(self.kind, self.wrong, self._how, f"{word} {self._meant}" if self._meant else None)

    def fix(self, example: str) -> Fix:
        """What to do; the text to write is *example* (YAML) where what was meant is not plain."""
        return write(self._how, as_yaml(self._meant) if self._meant is not None else example)


def seconds(written: str) -> float:
    """A duration such as ``80ms``, ``5s``, ``2min`` or ``1h`` in seconds."""
    match = _DURATION.fullmatch(written)
    if match is None:
        raise NotAQuantity(
            "duration",
            f"'{written[:40]}' is not a duration",
            "write a number with its unit (ms, s, min or h), such as {}",
        )
    return float(match["number"]) * _SECONDS[match["unit"]]


def fraction(written: str) -> float:
    """A percentage such as ``60%`` as a number from 0 to 1."""
    match = _PERCENT.fullmatch(written)
    if match is None:
        raise NotAQuantity(
            "percentage",
            f"'{written[:40]}' is not a percentage",
            "write a number with its sign, such as {}",
            _per_cent(written),
        )
    value = float(match["number"]) / 100.0
    if value > 1.0:
        raise NotAQuantity(
            "percentage", f"'{written}' is more than 100%", "write a percentage from 0% to 100%, such as {}"
        )
    return value


def _per_cent(text: str) -> str | None:
    """The percentage that *text* probably is: ``20``, ``20 percent`` and ``0.2`` are 20%; None where it is something else."""
    found = re.fullmatch(rf"{_NUMBER} ?(%|percent|per cent)?", text.strip())
    if found is None or float(found["number"]) > 100:
        return None
    part = float(found["number"])
    return f"{part * 100:g}%" if found[2] is None and 0 < part < 1 else f"{part:g}%"


def _bare(part: str) -> str:
    """*part* of a list without the spaces around it. Those inside stay: "1 4" is not 14."""
    return part.strip(" ")


def numbers(written: str | int) -> tuple[int, ...]:
    """Node numbers such as ``1-8`` or ``1-4,7`` in ascending order. Zero, a repeat or a backward span is refused."""
    found: list[int] = []
    for part in map(_bare, str(written).split(",")):
        match = _NUMBERS_PART.fullmatch(part)
        if match is None:
            raise NotAQuantity(
                "numbers", f"'{part[:40]}' is not a number or a span of numbers", "write numbers and spans, such as {}"
            )
        first, last = int(match["first"]), int(match["last"] or match["first"])
        if last < first:
            turned = str(written).replace(part, f"{last}-{first}", 1)
            raise NotAQuantity("numbers", f"'{part}' runs backwards", "write {}", turned)
        if first < 1:
            how = "start at 1, such as {}: a node's number is its identity"
            raise NotAQuantity("numbers", f"'{part}' contains 0", how, _from_one(str(written), part, last))
        if len(found) + last - first >= MAXIMUM_EXPANSION:
            raise NotAQuantity(
                "numbers",
                f"'{part}' makes more than {MAXIMUM_EXPANSION:,} numbers",
                "write the numbers that are really there, such as {}",
            )
        found.extend(range(first, last + 1))
    repeated = sorted(number for number, times in Counter(found).items() if times > 1)
    if repeated:
        named = ", ".join(map(str, repeated[:5]))
        once = _spans(sorted(set(found)))
        raise NotAQuantity("numbers", f"{named} stands there more than once", "write every number once: {}", once)
    return tuple(sorted(found))


def _from_one(text: str, part: str, last: int) -> str | None:
    """*text* with the span *part*, which goes from 0 to *last*, begun at 1; None where nothing is left of it."""
    return text.replace(part, f"1-{last}" if last > 1 else "1", 1) if last >= 1 else None


def _spans(found: Sequence[int]) -> str:
    """Ascending numbers as a person writes them: ``1-4,7``."""
    first = [number for index, number in enumerate(found) if not index or found[index - 1] != number - 1]
    last = [number for index, number in enumerate(found) if index == len(found) - 1 or found[index + 1] != number + 1]
    return ",".join(f"{one}-{other}" if one != other else f"{one}" for one, other in zip(first, last, strict=True))


def port_names(written: str) -> tuple[str, ...]:
    """Switch ports such as ``Ethernet1-8``, ``Ethernet1,3`` or ``Ethernet49/1-52/1`` as single names, in written order.

    A text that is no port list, a backward span and a span over different sub-ports are refused.
    """
    names: list[str] = []
    stem = ""
    for part in map(_bare, written.split(",")):
        match = _PORTS_PART.fullmatch(part)
        if match is None or not (match["stem"] or stem):
            raise NotAQuantity(
                "ports",
                f"'{part[:40]}' is not a port or a span of ports",
                "write ports and spans of ports, such as {}",
            )
        stem = match["stem"] or stem
        suffix = match["suffix"] or ""
        first, last = int(match["first"]), int(match["last"] or match["first"])
        if (match["last_stem"] or stem) != stem:
            raise NotAQuantity(
                "ports", f"'{part}' mixes two kinds of port", "write one span for each kind of port, such as {}"
            )
        if match["last"] and (match["last_suffix"] or suffix) != suffix:
            raise NotAQuantity("ports", f"'{part}' mixes sub-ports", "write one span for each sub-port, such as {}")
        if last < first:
            turned = written.replace(part, f"{stem}{last}{suffix}-{first}{suffix}", 1)
            raise NotAQuantity("ports", f"'{part}' runs backwards", "write {}", turned)
        if len(names) + last - first >= MAXIMUM_EXPANSION:
            raise NotAQuantity(
                "ports",
                f"'{part}' makes more than {MAXIMUM_EXPANSION:,} ports",
                "write the ports that are really there, such as {}",
            )
        names.extend(f"{stem}{number}{suffix}" for number in range(first, last + 1))
    return tuple(names)


@dataclass(frozen=True, slots=True)
class SwitchPorts:
    """Some ports of one switch, in the order in which they are handed out.

    Attributes:
        switch: the switch's name in the site file.
        ports: interface names as the switch spells them.
    """

    switch: str
    ports: tuple[str, ...]


def switch_ports(written: str) -> SwitchPorts:
    """``tor-1 Ethernet1-8`` as a `SwitchPorts`."""
    switch, separator, ports = written.strip().partition(" ")
    if not separator:
        raise NotAQuantity("ports", f"'{written[:40]}' does not name a switch and its ports", "write both, such as {}")
    try:
        return SwitchPorts(switch=switch, ports=port_names(ports))
    except NotAQuantity as refused:
        raise refused.behind(switch) from None


@dataclass(frozen=True, slots=True)
class Window:
    """A time of the week in which hosts may change by themselves. *day* is None for every day; *start* is ``HH:MM``, local time.

    *minutes* is its length; it may run past midnight.
    """

    day: str | None
    start: str
    minutes: int


def window(written: str) -> Window:
    """``daily 02:00-05:00`` or ``sun 23:00-02:00`` as a `Window`."""
    match = _WINDOW.fullmatch(written.strip().lower())
    clock = [text.split(":") for text in (match["start"], match["end"])] if match is not None else []
    if match is None or any(int(hours) > 23 for hours, _ in clock):
        raise NotAQuantity(
            "window",
            f"'{written[:40]}' is not a window of time",
            "write a day and two times, such as {}",
        )
    first, last = (int(hours) * 60 + int(minutes) for hours, minutes in clock)
    length = (last - first) % (24 * 60)
    if not WINDOW_MINUTES[0] <= length <= WINDOW_MINUTES[1]:
        raise NotAQuantity(
            "window", f"'{written}' is {length} minutes long", "write a window of one to twelve hours, such as {}"
        )
    day = match["day"]
    return Window(day=None if day == "daily" else day, start=match["start"], minutes=length)


#: What is no escape of RFC 3986, 2.1.
_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
#: Characters of an address as RFC 3986 has them, without those that quote, that separate user and host, or that a shell minds.
_ADDRESS = re.compile(r"https?://[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?(/[A-Za-z0-9._~%+=-]+)+")


def _without_user(written: str) -> str:
    """*written* as a message may repeat it: a user and a password in it are nobody's business."""
    return re.sub("//[^/]*@", "//…@", written[:80])


def artefact_url(written: str) -> str:
    """The address of an artefact, over HTTP or HTTPS, without a user, a query or a step up."""
    steps = [re.sub(r"%2[eE]", ".", step) for step in written.split("/")]
    if (
        not _ADDRESS.fullmatch(written)
        or len(written) > 2000
        or {".", ".."} & set(steps)
        or re.search("%(2[fF]|5[cC]|0|1)", written)
        or _ESCAPE.search(written)
        or not is_server(written.split("/")[2])
        or is_this_host(written.split("/")[2])
    ):
        raise NotAQuantity(
            "artefact_url",
            f"'{_without_user(written)}' is no address of an artefact that a node could fetch",
            "write for example {}",
        )
    return written


#: As above, with IPv6 addresses too; the address of an archive may end in a slash, and need not have a path.
_ARCHIVE = re.compile(
    r"https?://([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9a-f:]+\])(:[0-9]{1,5})?(/[A-Za-z0-9._~%+=-]+)*/?"
)


def archive_url(written: str) -> str:
    """The address of a Debian archive, over HTTP or HTTPS, without a user, a query or a step up."""
    steps = [re.sub(r"%2[eE]", ".", step) for step in written.split("/")]
    if (
        not _ARCHIVE.fullmatch(written)
        or len(written) > 2000
        or {".", ".."} & set(steps)
        or _ESCAPE.search(written)
        or not is_server(written.split("/")[2])
    ):
        raise NotAQuantity(
            "archive_url",
            f"'{_without_user(written)}' is no address of a package archive",
            "write for example {}",
        )
    return written


_AUTHORITY = re.compile(r"https://([a-z0-9.-]+|\[[0-9a-f:]+\])(:[0-9]{1,5})?")


def authority_url(written: str) -> str:
    """The address of a certificate authority: https, a host name or an address, perhaps a port; no path."""
    server = written.removeprefix("https://")
    if not _AUTHORITY.fullmatch(written) or len(written) > 253 or not is_server(server) or is_this_host(server):
        raise NotAQuantity(
            "authority_url",
            f"'{_without_user(written)}' is no address of a certificate authority",
            "write https, the host in lower case and its port, without a path, such as {}",
        )
    return written


#: registry/repository:tag, or @sha256:digest (OCI distribution specification), all of it stated.
_IMAGE = re.compile(
    r"(?P<registry>[a-z0-9][a-z0-9.-]*(:[0-9]{1,5})?)(/[a-z0-9][a-z0-9._-]*)+"
    r"(:[A-Za-z0-9_][A-Za-z0-9._-]{0,127}|@sha256:[0-9a-f]{64})"
)


def image(written: str) -> str:
    """A container image with its registry and its tag or digest."""
    match = _IMAGE.fullmatch(written)
    if match is None or len(written) > 255 or not is_server(match["registry"]):
        raise NotAQuantity(
            "image",
            f"'{written[:80]}' is no whole name of an image",
            "write registry, repository and tag or digest, such as {}",
        )
    return written
