"""`pinion lab`: the rack in a box."""

from __future__ import annotations

import click

from pinion.cli.lazy import Commands, LazyGroup

COMMANDS: Commands = {
    "up": ("pinion.cli.lab_power", "up", "Bring the lab up, or bring it on from wherever it is."),
    "down": ("pinion.cli.lab_power", "down", "Power the lab off: nothing is left running."),
    "status": ("pinion.cli.lab_power", "show_status", "Show what runs and answers."),
    "exec": ("pinion.cli.lab_inside", "execute", "Run a command where the management host is in the network."),
    "ssh": ("pinion.cli.lab_inside", "ssh", "Log in to a machine, as at its console."),
    "logs": ("pinion.cli.lab_power", "logs", "Print the log of a machine."),
}


class LabCommands(LazyGroup):
    """The commands above."""

    table = COMMANDS


@click.group(
    cls=LabCommands,
    epilog="""\b
Examples:
  pinion lab up                          bring up the lab of inventories/lab
  pinion lab exec -- ping -c1 pi-01      from the management host's network position
  pinion lab down                        leave nothing but the disks
""",
)
def lab() -> None:
    """The rack in a box: bring it up, take it down, look inside. Needs root."""
