"""The `pinion` command: a thin shell over the packages that do the work.

Invariants: every command has ``--help`` with an example and ``--json``; it ends as `pinion.cli.ending` says. Commands are imported only
when they are called.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from pinion.cli.completing import VARIABLE, asked
from pinion.cli.ending import colour, need_working_folder, run
from pinion.cli.lazy import Commands, LazyGroup

COMMANDS: Commands = {
    "site": ("pinion.cli.site", "site", "Check a site file, start a new one, print its JSON Schema."),
    "plan": ("pinion.cli.plan", "plan", "Print everything that follows from a site file, or what changes between two."),
    "render": ("pinion.cli.render", "render", "Write a site's cluster as files for Flux or Argo CD."),
    "sim": ("pinion.cli.sim", "sim", "Simulate a site under a load: latency, hit rate, GPU need, cost."),
    "capacity": ("pinion.cli.capacity", "capacity", "How many GPUs and which link a load needs, by queueing formulas."),
    "fabric": ("pinion.cli.fabric", "fabric", "The traffic classes hop by hop, and whether switches and NICs agree."),
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
    "explain": ("pinion.cli.explain", "explain", "What an error code of the site file means, and how it is mended."),
    "completion": ("pinion.cli.completion", "completion", "Let the Tab key complete commands, sites, hosts and codes."),
    "up": ("pinion.cli.up", "up", "Everything in order: lab, Pulumi, hosts, verification."),
    "down": ("pinion.cli.up", "down", "Take a lab site down; leaves no process, mount, namespace or link."),
}


class PinionCommands(LazyGroup):
    """The commands above; whatever happens in one, the process ends as `pinion.cli.ending` says."""

    table = COMMANDS

    def main(  # type: ignore[override]
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: object,
    ) -> object:
        """Run the command that *args* name (click's signature) and end the process, unless *standalone_mode* is false."""
        words = list(sys.argv[1:] if args is None else args)
        extra.setdefault("color", colour())

        def call() -> object:
            return super(PinionCommands, self).main(words, prog_name, complete_var, standalone_mode=False, **extra)

        if not standalone_mode:
            return call()
        if asked():  # a shell reads the answer, byte by byte
            return super().main(words, prog_name, VARIABLE, standalone_mode=True, **extra)
        sys.exit(run(self, words, call))


@click.group(cls=PinionCommands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="pinion")
def main() -> None:
    """One typed file says what a site is; Pinion makes it so, proves it, and keeps it so.

    \b
    Example:
      pinion site check lab && pinion up lab
    """
    need_working_folder()
