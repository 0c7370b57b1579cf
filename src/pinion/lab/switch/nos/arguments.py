"""The types of arguments in commands."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .config import LARGEST_MTU, LARGEST_VID
from .grammar import Argument, Word

_INTERFACE = re.compile(r"([A-Za-z]+)([\d/,-]*)")
_KINDS = ("Ethernet", "Management", "Vlan")


@dataclass(frozen=True)
class OneWord:
    """One word that *read* understands: it returns the value, or raises `ValueError`."""

    shown: str
    read: Callable[[str], object]

    def match(self, line: str, words: Sequence[Word], index: int) -> tuple[object, int] | None:  # noqa: ARG002
        """See `Argument.match`."""
        try:
            return self.read(words[index].text), 1
        except ValueError:
            return None


@dataclass(frozen=True)
class Rest:
    """The rest of the line, spaces included."""

    shown: str

    def match(self, line: str, words: Sequence[Word], index: int) -> tuple[object, int] | None:
        """See `Argument.match`."""
        return line[words[index].start :].rstrip(), len(words) - index


@dataclass(frozen=True)
class Interfaces:
    """One or more interfaces of a kind: ``Ethernet1``, ``et 1-4,7``, ``vlan 101``. The value is their full names."""

    shown: str

    def match(self, line: str, words: Sequence[Word], index: int) -> tuple[object, int] | None:  # noqa: ARG002
        """See `Argument.match`."""
        found = _INTERFACE.fullmatch(words[index].text)
        if found is None:
            return None
        kinds = [kind for kind in _KINDS if kind.lower().startswith(found[1].lower())]
        if len(kinds) != 1:
            return None
        numbers, taken = found[2], 1
        if not numbers:
            if index + 1 == len(words):
                return None
            numbers, taken = words[index + 1].text, 2
        try:
            return tuple(f"{kinds[0]}{number}" for number in _numbers(numbers)), taken
        except ValueError:
            return None


def _numbers(text: str) -> list[str]:
    if "/" in text and "-" not in text:
        return text.split(",")
    return [str(number) for number in sorted(vids(text, largest=100_000))]


def vids(text: str, largest: int = LARGEST_VID) -> frozenset[int]:
    """``100-102,200`` as numbers from 1 to *largest*. `ValueError` for anything else."""
    if not re.fullmatch(r"\d{1,6}(-\d{1,6})?(,\d{1,6}(-\d{1,6})?)*", text):
        raise ValueError(text)
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        low, high = int(first), int(last if dash else first)
        if not 1 <= low <= high <= largest:
            raise ValueError(text)
        found.update(range(low, high + 1))
    return frozenset(found)


def number(low: int, high: int) -> Callable[[str], int]:
    """A reader of whole numbers from *low* to *high*."""

    def read(text: str) -> int:
        if not re.fullmatch(r"\d{1,6}", text) or not low <= int(text) <= high:
            raise ValueError(text)
        return int(text)

    return read


def _matching(pattern: str) -> Callable[[str], str]:
    compiled = re.compile(pattern)

    def read(text: str) -> str:
        if not compiled.fullmatch(text):
            raise ValueError(text)
        return text

    return read


def _prefix4(text: str) -> str:
    return _prefix(ipaddress.IPv4Interface(text), text)


def _prefix6(text: str) -> str:
    return _prefix(ipaddress.IPv6Interface(text), text)


def _prefix(interface: ipaddress.IPv4Interface | ipaddress.IPv6Interface, text: str) -> str:
    if "/" not in text or interface.is_multicast or interface.is_unspecified:
        raise ValueError(text)
    return str(interface)


def _mac(text: str) -> str:
    digits = re.sub(r"[.:]", "", text).lower()
    if not re.fullmatch(r"[0-9a-f]{12}", digits) or int(digits[1], 16) & 1:
        raise ValueError(text)
    return ":".join(digits[place : place + 2] for place in range(0, 12, 2))


def _seconds(text: str) -> int:
    found = re.fullmatch(r"(\d{1,2}):(\d{2}):(\d{2})", text)
    if found is None or int(found[2]) > 59 or int(found[3]) > 59:
        raise ValueError(text)
    seconds = int(found[1]) * 3600 + int(found[2]) * 60 + int(found[3])
    if seconds == 0:
        raise ValueError(text)
    return seconds


@dataclass(frozen=True)
class Numbers:
    """One or more whole numbers up to *largest*, each a word; a range counts as one. The value is a tuple in ascending order."""

    shown: str
    largest: int

    def match(self, line: str, words: Sequence[Word], index: int) -> tuple[object, int] | None:  # noqa: ARG002
        """See `Argument.match`."""
        found: set[int] = set()
        taken = 0
        for word in words[index:]:
            span = re.fullmatch(r"(\d{1,3})(?:-(\d{1,3}))?", word.text)
            if span is None:
                break
            first, last = int(span[1]), int(span[2] or span[1])
            if not first <= last <= self.largest:
                return None
            found.update(range(first, last + 1))
            taken += 1
        return (tuple(sorted(found)), taken) if taken else None


def _milliseconds(low: int, high: int) -> Callable[[str], int]:
    """A reader of seconds with decimals, from *low* to *high* ms; the value is in ms."""

    def read(text: str) -> int:
        if not re.fullmatch(r"\d{1,2}(\.\d{1,3})?", text) or not low <= round(float(text) * 1000) <= high:
            raise ValueError(text)
        return round(float(text) * 1000)

    return read


TYPES: dict[str, Argument] = {
    "vid": OneWord("<1-4094>", number(1, LARGEST_VID)),
    "vids": OneWord("VLAN_SET", vids),
    "vlan-name": OneWord("WORD", _matching(r"[!-~]{1,32}")),
    "session": OneWord("WORD", _matching(r"[A-Za-z0-9_.-]{1,64}")),
    "list": OneWord("WORD", _matching(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")),
    "rule": OneWord("<1-999999>", number(1, 999999)),
    "source4": OneWord("A.B.C.D/E", lambda text: str(ipaddress.IPv4Network(text))),
    "source6": OneWord("A:B:C:D:E:F:G:H/I", lambda text: str(ipaddress.IPv6Network(text))),
    "host": OneWord("WORD", _matching(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,62}[A-Za-z0-9])?")),
    "text": Rest("LINE"),
    "interfaces": Interfaces("INTERFACE"),
    "lines": OneWord("<0-32767>", number(0, 32767)),
    "columns": OneWord("<10-32767>", number(10, 32767)),
    "mtu": OneWord(f"<68-{LARGEST_MTU}>", number(68, LARGEST_MTU)),
    "prefix4": OneWord("A.B.C.D/E", _prefix4),
    "prefix6": OneWord("A:B:C:D:E:F:G:H/I", _prefix6),
    "mac": OneWord("H.H.H", _mac),
    "dscp-list": Numbers("<0-63>", 63),
    "cos-list": Numbers("<0-7>", 7),
    "cos": OneWord("<0-7>", number(0, 7)),
    "traffic-class": OneWord("<0-7>", number(0, 7)),
    "queue": OneWord("<0-7>", number(0, 7)),
    "percent": OneWord("<1-100>", number(1, 100)),
    "weight": OneWord("<0-15>", number(0, 15)),
    "threshold": OneWord("<1-999999>", number(1, 999_999)),
    "stuck": OneWord("<0.01-60>", _milliseconds(10, 60_000)),
    "polling": OneWord("<0.005-30>", _milliseconds(5, 30_000)),
    "timer": OneWord("hh:mm:ss", _seconds),
}
