"""The programs that concerns place on hosts, as text. They run there and are never imported here."""

from __future__ import annotations

from functools import cache
from importlib import resources

from pinion.plan.model import HostClaim, HostFile

#: Where they lie on a host.
FOLDER = "/usr/local/lib/pinion"
#: What a claim says when a program's ``--check`` finds nothing. Silence would also be the answer of a program that is not there.
AS_PLANNED = "as-planned"


@cache
def _text(module: str) -> str:
    return (resources.files("pinion.services.node_programs") / f"{module}.py").read_text(encoding="utf-8")


def program_path(module: str) -> str:
    """Where the program *module* (``irq_pinning``) lies on a host: /usr/local/lib/pinion/irq-pinning."""
    return f"{FOLDER}/{module.replace('_', '-')}"


def program_file(module: str, restart: tuple[str, ...] = ()) -> HostFile:
    """The program *module* as a file of a host; *restart* names the units that run it."""
    return HostFile(path=program_path(module), mode="0755", content=_text(module), restart=restart)


def as_planned(
    module: str, name: str, claim: str, *arguments: str, after_boot: tuple[str, ...] = (), settles: bool = False
) -> HostClaim:
    """The claim called *name* that the program *module*, asked with ``--check`` and *arguments*, finds nothing to change."""
    asked = " ".join((program_path(module), "--check", *arguments))
    return HostClaim(
        name=name,
        claim=claim,
        command=f"{asked} 2>&1 && echo {AS_PLANNED}",
        expected=AS_PLANNED,
        after_boot=after_boot,
        settles=settles,
    )


def run_once(module: str) -> str:
    """A command that runs the program *module* where it is still there; 1, what it could not bring about, is the checks' to tell."""
    path = program_path(module)
    return f"! test -x {path} || {path} || test $? -eq 1"
