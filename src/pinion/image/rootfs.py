"""An ext4 file system in a file, read and altered by debugfs(8): nothing is mounted, and what is not altered stays as it is to the byte."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from pinion.image.disk import tool
from pinion.image.errors import ImageError

#: debugfs takes a command line a line, in words: a path that is one word needs no quoting.
_PATH = re.compile(r"/[A-Za-z0-9@._/+-]*")
_TYPES = {"10": "file", "04": "folder", "12": "link"}


@dataclass(frozen=True, slots=True)
class Placed:
    """A file to be placed, whole. *owner* is user and group number."""

    content: bytes
    mode: int = 0o644
    owner: int = 0


@dataclass(frozen=True, slots=True)
class Alterations:
    """What is to be other than it is, by absolute path: done in the order *gone*, *moved*, *folders*, *files*, *links*.

    What is *gone* need not be there; *moved* leads from where a folder is to where it shall be; folders of root's above a path are made
    where there are none. *folders* are mode and owner.
    """

    gone: tuple[str, ...] = ()
    moved: Mapping[str, str] = field(default_factory=dict)
    folders: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    files: Mapping[str, Placed] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RootFs:
    """The file system in *file*; *epoch* is every time that an alteration sets."""

    file: Path
    epoch: int

    def entries(self, folder: str) -> dict[str, str]:
        """The names in *folder* with their kinds: file, folder, link or other; empty when there is no such folder."""
        found = {}
        # /INODE/MODE/UID/GID/NAME/SIZE/
        for line in self._ask(f"ls -p {_word(folder)}").splitlines():
            parts = line.split("/")
            if len(parts) == 8 and parts[5] not in {"", ".", ".."}:
                found[parts[5]] = _TYPES.get(parts[2][:2], "other")
        return found

    def kind(self, path: str) -> str | None:
        """What *path* is, without following a link at its end: file, folder, link or other; None when it is not there."""
        whole = PurePosixPath(path)
        return self.entries(str(whole.parent)).get(whole.name)

    def text(self, path: str) -> str:
        """The content of the file *path*. Raises `ImageError` when there is none, or it is no UTF-8."""
        if self.kind(path) != "file":
            raise ImageError(f"{self.file.name}: no file {path} in it")
        content = self._ask(f"cat {_word(path)}")
        if "\ufffd" in content:
            raise ImageError(f"{self.file.name}: {path} is no text")
        return content

    def alter(self, wanted: Alterations, work: Path) -> None:
        """Bring *wanted* about; *work* is a folder for what debugfs reads. Raises `ImageError` when something is not so afterwards."""
        commands: list[str] = []
        for path in wanted.gone:
            if (kind := self.kind(path)) == "folder":
                raise ImageError(f"{self.file.name}: {path} is a folder, expected a file")
            commands += [f"rm {_word(path)}"] if kind is not None else []
        for old, new in wanted.moved.items():
            if self.kind(old) != "folder" or self.kind(new) is not None:
                raise ImageError(f"{self.file.name}: {old} cannot become {new}: it is no folder, or {new} is there")
            commands += [f"link {_word(old)} {_word(new)}", f"unlink {_word(old)}"]
        there = set(wanted.moved.values())
        for path in (*wanted.folders, *wanted.files, *wanted.links):
            commands += self._folders_above(path, there)
        for path, (mode, owner) in wanted.folders.items():
            if path not in there and self.kind(path) != "folder":
                commands.append(f"mkdir {_word(path)}")
                there.add(path)
            commands += _access(path, 0o040000 | mode, owner)
        for number, (path, placed) in enumerate(wanted.files.items()):
            given = work / f"placed-{number}"
            given.write_bytes(placed.content)
            commands += self._away(path, wanted.gone)
            commands += [f"write {given} {_word(path)}", *_access(path, 0o100000 | placed.mode, placed.owner)]
        for path, target in wanted.links.items():
            commands += [*self._away(path, wanted.gone), f"symlink {_word(path)} {_word(target)}"]
        script = work / "alterations.debugfs"
        script.write_text("\n".join(commands) + "\n")
        tool(["debugfs", "-w", "-f", script, self.file], epoch=self.epoch)
        tool(["e2fsck", "-f", "-n", self.file], epoch=self.epoch)
        self._prove(wanted)

    def _prove(self, wanted: Alterations) -> None:
        """debugfs tells its errors to nobody: look at each thing that was to become so."""
        wrong = [path for path in wanted.gone if path not in wanted.files and self.kind(path) is not None]
        wrong += [path for path in wanted.folders if self.kind(path) != "folder"]
        wrong += [path for path, placed in wanted.files.items() if not self._is(path, placed)]
        for path, target in wanted.links.items():
            said = self._ask(f"stat {_word(path)}")
            if f'Fast link dest: "{target}"' not in said:
                wrong.append(path)
        if wrong:
            raise ImageError(f"{self.file.name}: debugfs did not alter {', '.join(wrong)}; is the file system full?")

    def _is(self, path: str, placed: Placed) -> bool:
        said = self._ask(f"stat {_word(path)}")
        found = re.search(r"Mode:\s+(\d+) .*?^User:\s+(\d+)\s+Group:\s+(\d+)", said, re.MULTILINE | re.DOTALL)
        access = f"{placed.mode:04o}", str(placed.owner), str(placed.owner)
        return found is not None and found.groups() == access and self.text(path).encode() == placed.content

    def _folders_above(self, path: str, there: set[str]) -> Iterable[str]:
        """Commands that make the folders above *path*; those that are now *there* are noted."""
        found = []
        for above in reversed(PurePosixPath(path).parents):
            name = str(above)
            if name != "/" and name not in there and self.kind(name) is None:
                found.append(f"mkdir {_word(name)}")
            there.add(name)
        return found

    def _away(self, path: str, gone: tuple[str, ...]) -> list[str]:
        """The command that removes what lies at *path*, unless it is gone by then."""
        return [f"rm {_word(path)}"] if path not in gone and self.kind(path) is not None else []

    def _ask(self, request: str) -> str:
        return tool(["debugfs", "-R", request, self.file])


def _access(path: str, mode: int, owner: int) -> list[str]:
    changes = (("mode", f"0{mode:o}"), ("uid", str(owner)), ("gid", str(owner)))
    return [f"set_inode_field {_word(path)} {name} {value}" for name, value in changes]


def _word(path: str) -> str:
    if not _PATH.fullmatch(path):
        raise ImageError(f"{path!r}: debugfs cannot be told of such a path")
    return path
