"""A rack for tests of hosts: a configured switch, a management host and four Pis, and the ways to look at them and to disturb them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

import psutil
from lab.small_rack import SITE, SmallRack

from pinion.drivers.hosts.bundle import COMMAND, standard_input
from pinion.drivers.hosts.inventory import plan_of
from pinion.lab import namespaces
from pinion.plan.model import HostPlan

REPOSITORY = Path(__file__).parents[2]
#: A public key that nobody has the private half of.
ADMIN = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILM+rvN+ot98qgEN796jTiQfZfG1KaT0PtFDJ/XFSqti ops@example"

#: Prints all that the concerns could have touched, one thing a line: packages, accounts, files of /etc and of Pinion with owner, mode and
#: content, parameters of the network namespace, units. Left out: what makes a host itself (name, keys, addresses), caches, backups (``-``),
#: names of runs, people who are logged in.
SNAPSHOT = r"""
dpkg-query -W -f 'package ${Package} ${Version} ${db:Status-Abbrev}\n' | sort
for f in passwd group gshadow; do sed "s/^/$f /" /etc/$f; done
cut -d: -f1,2,4- /etc/shadow | sed 's/^/shadow /'
own='/etc/ssh/ssh_host_|/var/lib/pinion/history.json|/etc/systemd/network|/etc/(hostname|hosts|machine-id|resolv.conf|ld.so.cache|pinion-contract|.updated)|-[[:space:]]?$'
find /etc /home /var/lib/pinion -xdev -printf '%y %M %U:%G %p %l\n' | sort | grep -v -E "$own"
find /etc /home /var/lib/pinion -xdev -type f -exec sha256sum {} + | sort -k2 | grep -v -E "$own|/etc/g?shadow$"
sysctl -a 2>/dev/null | grep -E '^net[.](core|ipv4[.](tcp|ip_|conf[.](all|default)))' | grep -v -E 'tcp_fastopen_key|tcp_mem|mc_forwarding'
systemctl list-unit-files --no-legend --no-pager | grep -v '^session-' | sed 's/^/unitfile /'
systemctl show -p Id,ActiveState ssh.service
"""


@dataclass(frozen=True)
class HostsRack(SmallRack):
    """One instance, converged through the command line as a user does."""

    #: Its hosts have to install the packages of their concerns themselves.
    BARE: ClassVar[bool] = True
    #: What of the lab it runs.
    PARTS: ClassVar[str] = "switch"

    @classmethod
    def make(cls, folder: Path, name: str) -> HostsRack:
        made = super().make(folder, name)
        text = SITE.replace("numbers: 1-2", "numbers: 1-4") + f"access: {{admins: [{ADMIN}]}}\n"
        made.site.write_text(text)
        return cls(made.instance, made.folder)

    def up(self) -> dict[str, object]:
        """Bring it up with its switch, and configure that; the report."""
        bare = ["--bare"] if self.BARE else []
        report: dict[str, object] = json.loads(self.run("up", "--parts", self.PARTS, "--json", *bare).stdout)
        self.inside(sys.executable, str(REPOSITORY / "tests/lab/fabric.py"), str(self.site))
        return report

    def cut(self, name: str) -> None:
        """Cut the power of *name* and give it back: its processes die at once, and what only a kernel remembers is gone."""
        machine = self.machine(name)
        leader, nspawn = machine.leader, machine.process
        assert leader is not None
        assert nspawn is not None
        os.kill(leader, signal.SIGKILL)
        assert nspawn.wait(30), f"{name} still runs"
        # a lab machine's network namespace outlives it
        subprocess.run(namespaces.command(machine.namespace, ["nft", "flush", "ruleset"]), check=True)
        self.run("up", "--parts", self.PARTS)

    def inside_command(self, *argv: str) -> list[str]:
        """The command line that runs *argv* in the operator's position."""
        return self.command("exec", "--", *argv)

    def inside(
        self, *argv: str, expect: int | None = 0, given: str = "", timeout: float = 280
    ) -> subprocess.CompletedProcess[str]:
        """Run *argv* in the operator's position and check its exit code."""
        done = subprocess.run(
            self.inside_command(*argv),
            env=self.environment,
            cwd=REPOSITORY,
            input=given,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if expect is not None:
            assert done.returncode == expect, f"{argv}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def converge_command(self, by: str, *arguments: str) -> list[str]:
        """The command line of `pinion converge` in the operator's position."""
        return self.inside_command(*self._converge(by, *arguments))

    def converge(self, by: str, *arguments: str, expect: int | None = 0) -> dict[str, Any]:
        """Converge; the answer."""
        answer: dict[str, Any] = json.loads(self.inside(*self._converge(by, *arguments), expect=expect).stdout)
        return answer

    def _converge(self, by: str, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "pinion", "converge", str(self.site), "--by", by, "--json", *arguments]

    def checks(self, *names: str, expect: int = 0) -> str:
        """What testinfra says of the plan's checks for hosts *names*, run as a user does."""
        argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(REPOSITORY / "tests/hosts")]
        return self.inside(*argv, "--site", str(self.site), "--hosts", ",".join(names), expect=expect).stdout

    def checks_hold(self, *names: str) -> None:
        """All checks of the plan for hosts *names* hold."""
        said = self.checks(*names)
        assert " passed" in said
        assert "skipped" not in said

    def host(self, name: str) -> HostPlan:
        """The plan of one host."""
        return next(host for host in plan_of(self.site).hosts if host.name == name)

    def concerns(self, name: str) -> dict[str, dict[str, Any]]:
        """The concerns of one host, as they are sent."""
        return {concern: stated.model_dump(mode="json") for concern, stated in self.host(name).concerns.items()}

    def ssh_command(self, name: str, *argv: str) -> list[str]:
        """A fresh login to *name* from the operator's network position."""
        host, keys = self.host(name), self.store.ssh
        options = ["-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", f"UserKnownHostsFile={keys / 'known_hosts'}"]
        login = [*options, "-o", "ControlPath=none", "-i", str(keys / "id_ed25519"), f"{host.user}@{host.address}"]
        return namespaces.command(self.store.namespace("mgmt-1"), ["ssh", *login, *argv])

    def logs_in(self, name: str) -> bool:
        """Whether a fresh login to *name* succeeds."""
        command = self.ssh_command(name, "true")
        return subprocess.run(command, env=self.environment, capture_output=True, check=False).returncode == 0

    def ask(self, name: str, action: str, *concerns: Mapping[str, Any], wait: float = 60) -> dict[str, Any]:
        """One request to the on-host program over SSH, without Ansible or pyinfra."""
        given = standard_input({"action": action, "concerns": concerns, "wait": wait, "who": "the test"})
        done = subprocess.run(
            self.ssh_command(name, f"sudo -n {COMMAND}"),
            env=self.environment,
            input=given,
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
        assert done.returncode in {0, 2}, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def reset(self, name: str) -> None:
        """Take back all that the concerns placed on *name*, and confirm that."""
        stated = reversed(self.concerns(name).values())
        answer = self.ask(name, "undo", *stated)
        assert "error" not in answer, answer
        if answer["confirm"]:
            assert "error" not in self.ask(name, "confirm", *({"name": armed} for armed in answer["confirm"]))

    def on(self, name: str, script: str, *, check: bool = True, timeout: float = 200) -> str:
        """What the shell *script* says on *name*, as root, by the console and not by SSH."""
        return self.machine(name).run(["/bin/sh", "-c", script], check=check, timeout=timeout).stdout

    def snapshot(self, name: str) -> list[str]:
        """All that a concern could have touched on *name*."""
        return self.on(name, SNAPSHOT).splitlines()


@dataclass
class Watch:
    """Logs in to a host again and again, from a thread; *outages* are times of two failures in a row."""

    rack: HostsRack
    name: str
    logins: int = 0
    outages: list[str] = field(default_factory=list)
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        assert self._thread is not None
        self._thread.join(timeout=60)

    def _login(self) -> str | None:
        done = subprocess.run(
            self.rack.ssh_command(self.name, "true"),
            env=self.rack.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        self.logins += done.returncode == 0
        return None if done.returncode == 0 else done.stderr.strip()

    def _watch(self) -> None:
        while not self._ended.is_set():
            if self._login() is not None:
                time.sleep(0.3)  # sshd reads its configuration again: its socket is closed for a moment
                if (reason := self._login()) is not None:
                    self.outages.append(f"{time.strftime('%X')} {reason}")
            self._ended.wait(0.5)


def kill_tree(process: subprocess.Popen[str]) -> None:
    """SIGKILL for *process* and all that it started, as when the operator's machine loses power."""
    family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    for member in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            member.kill()
    process.wait()
