"""The `pinion` command: a thin shell over the packages that do the work.

Invariants: every command has ``--help`` with an example and ``--json``; it exits with 0 when all is well, 1 when it found a problem
and 2 when it could not run. Commands are imported only when they are called.
"""

from __future__ import annotations

import click

from pinion.cli.lazy import Commands, LazyGroup

COMMANDS: Commands = {
    "site": ("pinion.cli.site", "site", "Check a site file, start a new one, print its JSON Schema."),
    "plan": ("pinion.cli.plan", "plan", "Print everything that follows from a site file, or what changes between two."),
    "lab": ("pinion.cli.lab", "lab", "The rack in a box: bring it up, take it down, look inside."),
    "stack": ("pinion.cli.stack", "stack", "Prepare the Pulumi stack of a site."),
    "converge": ("pinion.cli.hosts", "converge", "Bring hosts to their planned state, by Ansible or pyinfra."),
    "reboot": ("pinion.cli.reboot", "command", "Reboot the hosts that ask for it, drained and in waves."),
    "upgrade": ("pinion.cli.upgrade", "command", "Newer packages for hosts: drained, in waves, and the way back."),
    "image": ("pinion.cli.image", "image", "Disk images of the Pis: build, start under emulation, write to cards."),
    "artefact": ("pinion.cli.artefact", "artefact", "Sign models for the nodes of a site."),
    "identity": ("pinion.cli.identity", "commands", "The site's certificate authority: make it, tokens, revocation."),
    "decommission": (
        "pinion.cli.decommission",
        "decommission",
        "Take a node out of its site: revoke, wipe, shut, prove.",
    ),
    "verify": ("pinion.cli.verify", "verify", "Prove each claim of the plan on the live site; write the report."),
    "up": ("pinion.cli.up", "up", "Everything in order: lab, Pulumi, hosts, verification."),
    "down": ("pinion.cli.up", "down", "Take a lab site down; leaves no process, mount, namespace or link."),
}


class PinionCommands(LazyGroup):
    """The commands above."""

    table = COMMANDS


@click.group(cls=PinionCommands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="pinion")
def main() -> None:
    """One typed file says what a site is; Pinion makes it so, proves it, and keeps it so.

    \b
    Example:
      pinion site check lab && pinion up lab
    """
