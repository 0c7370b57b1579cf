"""What a base image can be made of, and what whoever makes one hands over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from pinion.image.layout import Layout
from pinion.image.packages import Say
from pinion.image.sbom import Json


class Kind(StrEnum):
    """What a base is made of: Debian's packages, or the image archive of Raspberry Pi OS Lite."""

    DEBIAN = "debian"
    RASPIOS = "raspios"


@dataclass(frozen=True, slots=True)
class Made:
    """The file systems of a base, one a partition of *disk*, each in ``<partition>.fs`` of the work folder.

    *inputs* go into the manifest; *bill* makes the bill of materials of the image with the SHA-256 that it is given.
    """

    disk: Layout
    inputs: dict[str, Json]
    bill: Callable[[str], dict[str, Json]]


class Builder(Protocol):
    """One way to a base. *key* follows from all that shapes it; *epoch* is every time that we set in it; *contents* is it in words."""

    @property
    def kind(self) -> Kind: ...

    @property
    def key(self) -> str: ...

    @property
    def epoch(self) -> int: ...

    @property
    def contents(self) -> str: ...

    def make(self, work: Path, held: int, say: Say, *, afresh: bool) -> Made:
        """Make the file systems in the empty folder *work*; *afresh* keeps nothing of an earlier run. Raises `ImageError`.

        *held* is the builders' lock, which a child process inherits.
        """
        ...

    def done(self) -> None:
        """The image is whole: let go of what was kept for the case that it would not become so."""
        ...
