"""Ansible and pyinfra as programs: the command that converges some hosts, and what each of these answered while it ran."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from pinion.drivers.hosts.answers import VARIABLE, HostResult, Listener, collect
from pinion.drivers.hosts.requests import RUN_VARIABLE, UNDO_VARIABLE

#: How often the answers are counted, in seconds.
_POLL = 0.3


class ProgramError(Exception):
    """The program could not do its work, for a reason that is no host's."""


@dataclass(frozen=True, slots=True)
class Program:
    """How to converge hosts of the site file *site*: *by* Ansible or pyinfra, from the repository *root*.

    *run* names the run for the hosts, *undo* a run to take back instead. *concerns* limits it to some. *output* takes all that it says.
    """

    by: str
    root: Path
    site: Path
    output: TextIO
    check: bool = False
    run: str = ""
    undo: str = ""
    concerns: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)

    def command(self, hosts: Sequence[str]) -> list[str]:
        """The command line for *hosts*."""
        return (ansible if self.by == "ansible" else pyinfra)(
            self.site, hosts, check=self.check, concerns=self.concerns
        )

    def converge(self, hosts: Sequence[str], tick: Callable[[int], None] = lambda _: None) -> dict[str, HostResult]:
        """Converge *hosts*; *tick* hears how many have answered so far. Raises `ProgramError`."""
        with tempfile.TemporaryDirectory(prefix="pinion-converge-") as folder:
            answers = Path(folder) / "answers"
            listener = Listener(answers)
            environment = {
                **os.environ,
                "ANSIBLE_CONFIG": str(self.root / "ansible.cfg"),
                VARIABLE: str(answers),
                RUN_VARIABLE: self.run,
                UNDO_VARIABLE: self.undo,
                **self.options,
            }
            code = self._run(self.command(hosts), environment, lambda: tick(len(listener.heard() & set(hosts))))
            results = collect(answers, tuple(hosts))
        if code != 0 and not any(result.errors for result in results.values()):
            raise ProgramError(f"{self.by} ended with exit code {code}")
        return results

    def _run(self, command: Sequence[str], environment: Mapping[str, str], tick: Callable[[], None]) -> int:
        self.output.flush()
        try:
            process = subprocess.Popen(
                command,
                cwd=self.root,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=self.output,
                stderr=self.output,
            )
        except OSError as error:
            raise ProgramError(f"{self.by} could not be started: {error}") from error
        try:
            while process.poll() is None:
                time.sleep(_POLL)
                tick()
        finally:
            if process.poll() is None:  # we were interrupted, so is the program
                process.terminate()
                process.wait()
        return process.returncode


def ansible(path: Path, hosts: Sequence[str], *, check: bool, concerns: Sequence[str] = ()) -> list[str]:
    """The ansible-playbook command for *hosts* of the site file *path*."""
    command = [
        sys.executable,
        "-m",
        "ansible",
        "playbook",
        "-i",
        str(path),
        "-l",
        ",".join(hosts),
        "playbooks/site.yml",
    ]
    command += ["--tags", ",".join(concerns)] if concerns else []
    return [*command, "--check", "--diff"] if check else command


def pyinfra(path: Path, hosts: Sequence[str], *, check: bool, concerns: Sequence[str] = ()) -> list[str]:
    """The pyinfra command for *hosts* of the site file *path*."""
    limits = [part for host in hosts for part in ("--limit", host)]
    deploys = [f"deploys/{concern}.py" for concern in concerns] or ["deploys/site.py"]
    command = [sys.executable, "-m", "pyinfra", f"@pinion/{path}", *deploys, *limits]
    return [*command, "--dry", "--diff"] if check else [*command, "-y"]
