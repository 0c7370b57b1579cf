"""A rack of the tests' own, beside any that the user runs: another site name, other addresses, another instance, another Pulumi backend."""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import requests

from pinion.lab import namespaces
from pinion.lab.machine import Machine
from pinion.lab.state import InstanceState

REPOSITORY = Path(__file__).parents[2]
SITE = "lab-test"
#: The Pis that the site file states.
PIS = "numbers: 1-2"
#: One more of them.
PIS_AND_ONE = "numbers: 1-3"

#: What a project folder holds besides its inventories.
PARTS = (
    ".venv",
    "Pulumi.yaml",
    "ansible.cfg",
    "bin",
    "charts",
    "deploys",
    "infra",
    "playbooks",
    "plugins",
    "roles",
    "src",
    "stand-ins",
    "tools",
)


@dataclass(frozen=True, slots=True)
class Rack:
    """One lab instance and the project folder that describes it."""

    root: Path
    instance: str

    @property
    def site_file(self) -> Path:
        """The site file that the tests may change."""
        return self.root / "inventories" / SITE / "site.yml"

    def environment(self) -> dict[str, str]:
        """The environment of every command: this project folder and a Pulumi backend inside it."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith("PULUMI_")}
        state = self.root / ".pulumi-state"
        return kept | {
            "PINION_ROOT": str(self.root),
            "PULUMI_BACKEND_URL": f"file://{state}",
            "PULUMI_CONFIG_PASSPHRASE_FILE": str(state / "passphrase"),
        }

    def run(
        self, *argv: str, check: bool = True, timeout: float = 900, given: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run a command with the project's tools on PATH."""
        done = subprocess.run(
            [str(REPOSITORY / "bin/pinion-env"), *argv],
            cwd=self.root,
            env=self.environment(),
            input=given,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if check and done.returncode != 0:
            raise AssertionError(
                f"{' '.join(argv)} ended with {done.returncode}\n{done.stdout[-6000:]}\n{done.stderr[-6000:]}"
            )
        return done

    def pinion(self, *argv: str, check: bool = True, timeout: float = 900) -> subprocess.CompletedProcess[str]:
        """Run a `pinion` command."""
        return self.run("pinion", *argv, check=check, timeout=timeout)

    def inside(
        self, *argv: str, check: bool = True, timeout: float = 600, given: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run a command at the management host's place in the network, as `make shell` does."""
        return self.run(
            "pinion",
            "lab",
            "exec",
            "--site",
            str(self.site_file),
            "--instance",
            self.instance,
            "--",
            *argv,
            check=check,
            timeout=timeout,
            given=given,
        )

    def up(self, *argv: str, check: bool = True) -> list[dict[str, Any]]:
        """`pinion up`; returns its stages."""
        done = self.pinion("up", str(self.site_file), "--instance", self.instance, "--json", *argv, check=check)
        stages: list[dict[str, Any]] = json.loads(done.stdout) if done.stdout.strip() else []
        return stages

    def preview(self, *argv: str) -> list[dict[str, Any]]:
        """`pulumi preview --json`: the steps that would change something."""
        done = self.inside("pulumi", "preview", "--non-interactive", "--stack", SITE, "--json", *argv)
        steps = json.loads(done.stdout[done.stdout.index("{") :]).get("steps", [])
        return [step for step in steps if step["op"] not in {"same", "read", "refresh"}]

    def endpoints(self) -> dict[str, Any]:
        """Where the rack's services are."""
        loaded: dict[str, Any] = json.loads(self.store.endpoints.read_text())
        return loaded

    @property
    def store(self) -> InstanceState:
        """The instance as the lab keeps it."""
        return InstanceState(self.instance, Path(os.environ.get("PINION_STATE", "/var/lib/pinion")) / self.instance)

    def netbox(self, path: str, method: str = "GET", body: object = None, token: str | None = None) -> Any:
        """Call NetBox as a person with the API would, not through our driver; with the token of another user than the stack's if given."""
        netbox = self.endpoints()["netbox"]
        session = requests.Session()
        session.trust_env = False
        session.headers["Authorization"] = f"Bearer {token or Path(netbox['token_file']).read_text().strip()}"
        with namespaces.inside(self.store.namespace("mgmt-1")), session:
            answer = session.request(
                method, f"{netbox['url']}/api/{path}", json=body, verify=netbox.get("ca_file") or True, timeout=60
            )
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def kubectl(self, *argv: str) -> str:
        """Run kubectl as the cluster's administrator."""
        command = ["kubectl", "--kubeconfig", self.endpoints()["kubernetes"]["kubeconfig"], *argv]
        done = subprocess.run(
            namespaces.command(self.store.namespace("mgmt-1"), command),
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def machine(self, name: str) -> Machine:
        """One machine, to look inside and to disturb it."""
        return Machine(self.store, name)

    def edit_site(self, before: str, after: str) -> None:
        """Change the site file as a person would: *before* must stand in it exactly once."""
        text = self.site_file.read_text()
        assert text.count(before) == 1, f"{before!r} stands {text.count(before)} times in the site file"
        self.site_file.write_text(text.replace(before, after))


def write_project(root: Path, site: str = SITE, network: str = "10.78.", pis: str = PIS) -> Path:
    """A project folder of the tests' own: parts of the repository by link, the lab's site file with another name and other addresses,
    and fewer Pis. Its site file."""
    for part in PARTS:
        if (REPOSITORY / part).exists():
            (root / part).symlink_to(REPOSITORY / part)
    stated = (REPOSITORY / "inventories/lab/site.yml").read_text()
    changed = re.sub(r"^site: lab$", f"site: {site}", stated, flags=re.MULTILINE).replace("10.77.", network)
    # half of the lab's Pis: each takes its share of every step, and two are enough for a canary and the rest
    changed = changed.replace("numbers: 1-4", pis)
    assert f"site: {site}" in changed
    assert pis in changed
    target = root / "inventories" / site / "site.yml"
    target.parent.mkdir(parents=True)
    target.write_text(changed)
    state = root / ".pulumi-state"
    state.mkdir(mode=0o700)
    (state / "passphrase").write_text(secrets.token_hex(16))
    return target


def sweep(before: str = "t") -> None:
    """Take down instances, called *before* and a process id, whose test run died without doing so."""
    state = Path(os.environ.get("PINION_STATE", "/var/lib/pinion"))
    for folder in state.iterdir() if state.is_dir() else ():
        found = re.fullmatch(rf"{before}(\d+)", folder.name)
        if found and not psutil.pid_exists(int(found[1])):
            subprocess.run(
                [str(REPOSITORY / "bin/pinion-env"), "pinion", "lab", "down", "--instance", folder.name, "--purge"],
                check=False,
                timeout=300,
            )
