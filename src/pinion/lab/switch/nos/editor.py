"""Configuration mode: one line after the other changes a configuration value. Used by people, by sessions and to load saved text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .arguments import TYPES
from .config import (
    Config,
    short_name,
    vid_list,
)
from .grammar import Grammar

GLOBAL = Grammar(TYPES)
VLAN = Grammar(TYPES)
ETHERNET = Grammar(TYPES)
SVI = Grammar(TYPES)
MANAGEMENT = Grammar(TYPES)
ACCESS_LIST = {False: Grammar(TYPES), True: Grammar(TYPES)}  # by family: IPv6 or not
SSH = Grammar(TYPES)
QOS_PROFILE = Grammar(TYPES)
QOS_QUEUE = Grammar(TYPES)


@dataclass
class Editor:
    """A configuration being edited, and where in it: *mode* is the grammar of the innermost mode, *targets* what its commands change."""

    config: Config
    mode: Grammar = GLOBAL
    targets: tuple[str, ...] = ()
    vids: tuple[int, ...] = field(default=())

    @property
    def grammars(self) -> list[Grammar]:
        """The grammars whose commands are understood here, the innermost first."""
        if self.mode is QOS_QUEUE:
            return [QOS_QUEUE, QOS_PROFILE, GLOBAL]
        return [GLOBAL] if self.mode is GLOBAL else [self.mode, GLOBAL]

    @property
    def suffix(self) -> str:
        """What the prompt shows of the mode: ``-if-Et1``, ``-vlan-101``, or nothing."""
        if self.mode is GLOBAL:
            return ""
        if self.mode in ACCESS_LIST.values():
            return f"-std-acl-{self.targets[0]}"
        if self.mode is SSH:
            return "-mgmt-ssh"
        if self.mode in {QOS_PROFILE, QOS_QUEUE}:
            return f"-qos-profile-{self.targets[0]}" + (f"-uc-txq-{self.vids[0]}" if self.vids else "")
        if self.mode is VLAN:
            return f"-vlan-{vid_list(self.vids)}"
        first = short_name(self.targets[0])
        kind = first[:2]
        rest = ",".join(short_name(name)[2:] for name in self.targets)
        return f"-if-{first}" if len(self.targets) == 1 else f"-if-{kind}{vid_list(map(int, rest.split(',')))}"

    def leave(self) -> bool:
        """Leave the innermost mode; False when this is the outermost."""
        left = self.mode is not GLOBAL
        if self.mode is QOS_QUEUE:
            self.mode, self.vids = QOS_PROFILE, ()
            return left
        self.mode, self.targets, self.vids = GLOBAL, (), ()
        return left


def svi_vids(names: Sequence[str]) -> list[int]:
    """The VLANs of the interfaces *names* (``Vlan101``)."""
    return [int(name.removeprefix("Vlan")) for name in names]
