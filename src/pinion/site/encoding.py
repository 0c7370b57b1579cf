"""The bytes of a site file to text: UTF-8 without byte order mark, invisible characters or tabs in the indentation."""

from __future__ import annotations

import re
import unicodedata

from pinion.site.errors import Report
from pinion.site.fixes import Fix

#: A site file beyond this is not one: 5,000 nodes with serial numbers and MAC addresses take about 0.3 MB.
MAXIMUM_BYTES = 2 * 1024 * 1024

#: Control characters, other line ends, spaces that are none, and marks that reorder or hide text (Unicode categories Cc, Cf, Zl, Zp).
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xa0\xad\u061c\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff\ufffe\uffff]"
)
_TAB_INDENT = re.compile(r"^[ ]*\t[ \t]*(?=[^\s#])", re.MULTILINE)


def decode(data: bytes, report: Report) -> str | None:
    """The text of a file, without byte order mark and invisible characters (each reported); None when it is not UTF-8 or is too large."""
    if len(data) > MAXIMUM_BYTES:
        report.at("FILE-002", 1, 1, limit=f"{MAXIMUM_BYTES} bytes")
        return None
    if data.startswith(b"\xef\xbb\xbf"):
        report.at("YAML-004", 1, 1)
        data = data[3:]
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as broken:
        good = data[: broken.start].decode("utf-8", errors="replace")
        line, column = _position(good, len(good))
        report.at("YAML-003", line, column, byte=f"0x{data[broken.start]:02x}")
        return None
    for found in _INVISIBLE.finditer(text):
        if report.full:
            break
        line, column = _position(text, found.start())
        report.at("YAML-006", line, column, character=f"U+{ord(found[0]):04X}", fix=_visible(found[0], line, column))
    text = _INVISIBLE.sub(" ", text)
    tabs = list(_TAB_INDENT.finditer(text))
    for found in tabs:
        if report.full:
            break
        report.at("YAML-005", *_position(text, text.index("\t", found.start())))
    return None if tabs else text


def _visible(letter: str, line: int, column: int) -> Fix:
    """What to do about an invisible character."""
    span = (line, column, line, column + 1)
    if unicodedata.category(letter) == "Zs":
        return Fix("write an ordinary space", (" ",), span=span)
    return Fix("delete it", ("",), span=span)


def _position(text: str, offset: int) -> tuple[int, int]:
    """Line and column, both from 1, of *offset* in *text*."""
    before = text[:offset]
    line = before.count("\n") + 1
    return line, offset - (before.rfind("\n") + 1) + 1
