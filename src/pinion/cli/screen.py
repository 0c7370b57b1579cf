"""What leaves the process: its two streams, made safe for any terminal.

Invariants, for every command, while `guarded` is in force:

* No text ends a command: what the stream's encoding has no letter for is written as an escape, which inside JSON means the same letter.
* Nothing that a name or a text of somebody else holds is obeyed by a terminal: control characters are shown, not sent. Colours and bold
  type pass where they are drawn, which is on a terminal that takes them and where neither NO_COLOR nor TERM=dumb speaks against it.
"""

from __future__ import annotations

import codecs
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TextIO, cast

#: Errors handler of the streams: JSON's own escapes, so that JSON stays JSON in any encoding.
_ESCAPES = "pinion-escapes"
#: ECMA-48, Select Graphic Rendition: colours and bold type, and nothing that moves, erases or answers.
_STYLE = re.compile("(\x1b\\[[0-9;]*m)")
#: Control characters but for tab and line feed, and those that reorder or hide text.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def _escaped(text: str) -> str:
    r"""*text* as JSON writes it in ASCII: ``é`` is ``\u00e9``, and what lies beyond the first plane two of those."""
    units = text.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def _cannot_be_written(error: UnicodeError) -> tuple[str | bytes, int]:
    assert isinstance(error, UnicodeEncodeError)
    return _escaped(error.object[error.start : error.end]), error.end


codecs.register_error(_ESCAPES, _cannot_be_written)


def harmless(text: str) -> str:
    """*text* with every character that a terminal would obey shown as an escape."""
    return _UNSAFE.sub(lambda found: _escaped(found[0]), text)


def plain() -> bool:
    """Whether nothing may be drawn in colour or bold: NO_COLOR is set to anything (no-color.org), or the terminal is dumb."""
    return bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"


class UnwritableError(Exception):
    """Standard output takes no more: a full device, or a reader that went away (*unheard*).

    No `OSError`, so that nobody takes it for a failure of what the command is about.
    """

    def __init__(self, why: str, *, unheard: bool) -> None:
        super().__init__(why)
        self.unheard = unheard


class GuardedStream:
    """A text stream that sends no terminal what it would obey, and remembers what it was given last.

    Attributes:
        stream: the stream itself.
        needed: whether a command has failed when this cannot be written. What cannot be written of another one is lost.
        last: the last text that was written in one piece.
        used: whether anything was written.
        styled: whether colours and bold type may pass, where they are drawn.
    """

    #: Nobody writes bytes past this (click would, where the stream's encoding is ASCII).
    buffer = None

    def __init__(self, stream: TextIO, *, needed: bool) -> None:
        self.stream = stream
        self.needed = needed
        self.styled = True
        self.last = ""
        self.used = False

    def write(self, text: str) -> int:
        """Write *text*, harmless; its length. Raises `UnwritableError`, and `TypeError` for bytes."""
        if not isinstance(text, str):
            raise TypeError(f"text is written here, not {type(text).__name__}")
        if not text:  # click asks so what kind of stream this is; a full device would refuse even that
            return 0
        self.used, self.last = True, text if text.strip() else self.last
        with self._failing():
            if plain() or not self.styled or not self.stream.isatty():
                self.stream.write(harmless(text))
            else:
                parts = _STYLE.split(text)  # every second one is a style
                self.stream.write("".join(part if at % 2 else harmless(part) for at, part in enumerate(parts)))
        return len(text)

    def flush(self) -> None:
        """Hand on what was written. Raises `UnwritableError`."""
        with self._failing():
            self.stream.flush()

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except OSError as failed:
            self._give_up()
            if self.needed:
                raise UnwritableError(
                    failed.strerror or str(failed), unheard=isinstance(failed, BrokenPipeError)
                ) from None

    def _give_up(self) -> None:
        """Throw away what the stream still holds and cannot write, or the interpreter would try again at its end and fail aloud."""
        with suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.stream.fileno())
            os.close(nowhere)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write *lines*, harmless."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> object:
        return getattr(self.stream, name)


def _nowhere() -> TextIO:
    """A stream for what nobody wants to hear (``>&-``)."""
    return open(os.devnull, "w")  # noqa: PTH123 - as long as the process


@contextmanager
def guarded() -> Iterator[tuple[GuardedStream, GuardedStream]]:
    """Standard output and standard error, guarded until the end of the block."""
    out, err = (stream if stream is not None else _nowhere() for stream in (sys.stdout, sys.stderr))
    before = out, err
    guards = GuardedStream(out, needed=True), GuardedStream(err, needed=False)
    handlers = [getattr(stream, "errors", None) for stream in before]
    for stream in before:
        with suppress(AttributeError, ValueError, OSError):  # a stream of somebody else's need not have one
            stream.reconfigure(errors=_ESCAPES)  # type: ignore[union-attr]
    sys.stdout, sys.stderr = cast("TextIO", guards[0]), cast("TextIO", guards[1])
    try:
        yield guards
    finally:
        sys.stdout, sys.stderr = before
        for stream, handler in zip(before, handlers, strict=True):
            with suppress(AttributeError, ValueError, OSError):
                stream.reconfigure(errors=handler)  # type: ignore[union-attr]
