"""Texts of files that many concerns place: the first line, parameters of the kernel, systemd units."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pinion.plan.model import HostSysctl


def kept_by(concern: str) -> str:
    """The first line of a file that *concern* owns."""
    return f"# Kept by Pinion (concern {concern}); changes made here are undone by the next run."


def sysctl_lines(concern: str, sysctls: Iterable[HostSysctl]) -> str:
    """A file for /etc/sysctl.d: every parameter below its source."""
    lines = [kept_by(concern), ""]
    for sysctl in sysctls:
        lines += [f"# {sysctl.source}", f"{sysctl.key} = {sysctl.value}"]
    return "\n".join(lines) + "\n"


def unit_text(concern: str, **sections: Sequence[str]) -> str:
    """A systemd unit, or a drop-in of one, that *concern* owns: its *sections* by name (``Unit``, ``Service`` …), with their lines."""
    lines = [kept_by(concern)]
    for name, stated in sections.items():
        lines += [f"[{name}]", *stated, ""]
    return "\n".join(lines)
