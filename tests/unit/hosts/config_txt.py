"""A reader of config.txt and of a kernel command line that knows nothing of how we write them.

After the Raspberry Pi documentation: `key=value` lines, `#` comments, 98 columns, conditional filters (`[pi5]`, `[all]`, `[none]`), several
`dtparam` lines add up and each may hold several parameters.
"""

from __future__ import annotations

from dataclasses import dataclass, field

#: Characters of a line that the firmware reads.
LIMIT = 98


@dataclass(slots=True)
class Config:
    """What one model of board makes of a file: the last value of a key, and the parameters of the base device tree."""

    values: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, str] = field(default_factory=dict)
    overlays: list[str] = field(default_factory=list)


def read(text: str, model: str) -> Config:
    """*text* as a board of *model* (``pi5``, ``pi4``, ``cm5``) reads it. Raises `ValueError` for a line that is none."""
    found, applies = Config(), True
    for number, line in enumerate(text.splitlines(), start=1):
        written = line[:LIMIT].strip()
        if not written or written.startswith("#"):
            continue
        if written.startswith("["):
            name = written.strip("[]").lower()
            applies = name in {"all", model}
            continue
        key, equals, value = written.partition("=")
        if not equals or not key.strip():
            raise ValueError(f"line {number}: {line!r}")
        if not applies:
            continue
        if key == "dtparam":
            for parameter in value.split(","):
                name, given, setting = parameter.partition("=")
                found.parameters[name] = setting if given else "on"
        elif key == "dtoverlay":
            found.overlays.append(value)
        else:
            found.values[key.strip()] = value.strip()
    return found


def command_line(text: str) -> dict[str, list[str | None]]:
    """A kernel command line: each key with its values in order, None for one without a value. Quotes keep spaces together."""
    if "\n" in text.rstrip("\n"):
        raise ValueError("a command line is one line")
    words, word, quoted = [], "", False
    for letter in text.strip():
        quoted ^= letter == '"'
        if letter == " " and not quoted:
            words.append(word)
            word = ""
        elif letter != '"':
            word += letter
    found: dict[str, list[str | None]] = {}
    for entry in [*words, word]:
        if entry:
            key, equals, value = entry.partition("=")
            found.setdefault(key, []).append(value if equals else None)
    return found
