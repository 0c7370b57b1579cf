"""A terminal of one login: echo, line editing, history, help on ``?``, pages. Bytes in, bytes out; it knows nothing of SSH."""

from __future__ import annotations

import codecs

from .shell import Shell

_BACKSPACE = "\x7f\x08"
_MORE = " --More-- "
#: Longest line that is taken; more is cut off with a bell.
_LONGEST = 4096
_MOST_HISTORY = 100


class Terminal:
    """Feeds what a person or a program types to a `Shell`. `feed` returns what to send back; afterwards look at `shell.closed`.

    *pages* is false where nobody reads along (no pseudo-terminal): then nothing is echoed and nothing is paged.
    """

    def __init__(self, shell: Shell, *, pages: bool = True) -> None:
        self.shell = shell
        self._interactive = pages
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._line = ""
        self._escape = ""
        self._history: list[str] = []
        self._place = 0
        self._waiting: list[str] = []
        self._after_return = False

    def greeting(self) -> str:
        """What a login sees first."""
        return self.shell.prompt if self._interactive else ""

    def feed(self, data: bytes) -> str:
        """Take *data* and return what to print."""
        return "".join(self._key(key) for key in self._decoder.decode(data))

    def _key(self, key: str) -> str:
        if self.shell.closed:
            return ""
        if self._waiting:
            return self._page(key)
        if self._escape:
            return self._escaped(key)
        # "\r\n" is one line end, as a terminal that sends both means it.
        if key == "\n" and self._after_return:
            self._after_return = False
            return ""
        self._after_return = key == "\r"
        if key in "\r\n":
            return self._enter()
        if key == "\x1b":
            self._escape = key
            return ""
        if key < " " or key in _BACKSPACE:
            return self._control(key)
        if key == "?" and self.shell.asks is None and self._interactive:
            return self._help()
        if len(self._line) >= _LONGEST:
            return "\a"
        self._line += key
        return key if self._echoes else ""

    @property
    def _echoes(self) -> bool:
        return self._interactive and self.shell.asks is None

    def _enter(self) -> str:
        line, self._line = self._line, ""
        if self.shell.asks is None and line.strip():
            self._history = [*self._history[-_MOST_HISTORY + 1 :], line]
        self._place = len(self._history)
        output = self.shell.execute(line)
        text = "\r\n" if self._interactive else ""
        if self.shell.closed:
            return text
        return text + self._shown(output)

    def _shown(self, output: str) -> str:
        lines = output.splitlines()
        size = self.shell.length - 1
        if self._interactive and self.shell.length > 0 and len(lines) > size:
            self._waiting = lines[size:]
            return "".join(f"{line}\r\n" for line in lines[:size]) + _MORE
        return "".join(f"{line}\r\n" for line in lines) + (self.shell.prompt if self._interactive else "")

    def _page(self, key: str) -> str:
        wiped = "\r" + " " * len(_MORE) + "\r"
        if key in "qQ\x03\x1a":
            self._waiting = []
            return f"{wiped}{self.shell.prompt}"
        size = {" ": max(self.shell.length - 1, 1), "\r": 1, "\n": 1}.get(key)
        if size is None:
            return ""
        lines, self._waiting = self._waiting[:size], self._waiting[size:]
        return wiped + "".join(f"{line}\r\n" for line in lines) + (_MORE if self._waiting else self.shell.prompt)

    def _control(self, key: str) -> str:
        match key:
            case "\x7f" | "\x08":
                shown = "\b \b" if self._line and self._echoes else ""
                self._line = self._line[:-1]
                return shown
            case "\x03":  # Control-C
                self._line = ""
                self.shell.interrupt()
                return f"^C\r\n{self.shell.prompt}"
            case "\x04":  # Control-D
                if not self._line:
                    self.shell.close()
                return ""
            case "\x15":  # Control-U
                return self._replace("")
            case "\x17":  # Control-W
                kept, space, _ = self._line.rstrip().rpartition(" ")
                return self._replace(kept + space)
            case "\x1a":  # Control-Z
                self._line = ""
                return f"\r\n{self._shown(self.shell.execute('end') if self.shell.editor is not None else '')}"
            case "\t":
                return self._complete()
        return ""

    def _replace(self, line: str) -> str:
        shown = "\b \b" * len(self._line) + line if self._echoes else ""
        self._line = line
        return shown

    def _complete(self) -> str:
        words = [line.split()[0] for line in self.shell.help(self._line).splitlines() if line.startswith("  ")]
        partial = "" if self._line.endswith(" ") else self._line.rpartition(" ")[2]
        if len(words) != 1 or not partial or not words[0].startswith(partial.lower()):
            return ""
        return self._replace(self._line[: len(self._line) - len(partial)] + words[0] + " ")

    def _help(self) -> str:
        lines = "".join(f"{line}\r\n" for line in self.shell.help(self._line).splitlines())
        return f"?\r\n{lines}{self.shell.prompt}{self._line}"

    def _escaped(self, key: str) -> str:
        self._escape += key
        if self._escape in {"\x1b[", "\x1bO"} or not key.isalpha():
            return ""
        last, self._escape = self._escape[-1], ""
        if last == "A" and self._place > 0:
            self._place -= 1
            return self._replace(self._history[self._place])
        if last == "B" and self._place < len(self._history):
            self._place += 1
            return self._replace(self._history[self._place] if self._place < len(self._history) else "")
        return ""
