"""A rack of the tests' own, beside any that the user runs: another site name, other addresses, another instance, another Pulumi backend."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]
SITE = "lab-test"

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
        state = Path(os.environ.get("PINION_STATE", "/var/lib/pinion")) / self.instance
        loaded: dict[str, Any] = json.loads((state / "endpoints.json").read_text())
        return loaded

    def netbox(self, path: str, method: str = "GET", body: object = None) -> Any:
        """Call NetBox as a person with the API would, not through our driver."""
        netbox = self.endpoints()["netbox"]
        program = (
            "import sys,json,requests;a=json.load(sys.stdin);"
            "r=requests.request(a['m'],a['u'],json=a['b'],verify=a['ca'],headers={'Authorization':'Bearer '+a['t']},timeout=60);"
            "r.raise_for_status();print(json.dumps(r.json() if r.content else None))"
        )
        asked = {
            "m": method,
            "u": f"{netbox['url']}/api/{path}",
            "b": body,
            "ca": netbox.get("ca_file") or True,
            "t": Path(netbox["token_file"]).read_text().strip(),
        }
        return json.loads(self.inside(sys.executable, "-c", program, given=json.dumps(asked)).stdout)

    def kubectl(self, *argv: str) -> str:
        """Run kubectl as the cluster's administrator."""
        return self.inside("kubectl", "--kubeconfig", self.endpoints()["kubernetes"]["kubeconfig"], *argv).stdout

    def edit_site(self, before: str, after: str) -> None:
        """Change the site file as a person would: *before* must stand in it exactly once."""
        text = self.site_file.read_text()
        assert text.count(before) == 1, f"{before!r} stands {text.count(before)} times in the site file"
        self.site_file.write_text(text.replace(before, after))


def write_project(root: Path) -> None:
    """A project folder of the tests' own: parts of the repository by link, the lab's site file with another name and other addresses."""
    for part in PARTS:
        if (REPOSITORY / part).exists():
            (root / part).symlink_to(REPOSITORY / part)
    stated = (REPOSITORY / "inventories/lab/site.yml").read_text()
    changed = re.sub(r"^site: lab$", f"site: {SITE}", stated, flags=re.MULTILINE).replace("10.77.", "10.78.")
    assert f"site: {SITE}" in changed
    target = root / "inventories" / SITE / "site.yml"
    target.parent.mkdir(parents=True)
    target.write_text(changed)
    state = root / ".pulumi-state"
    state.mkdir(mode=0o700)
    (state / "passphrase").write_text("only for tests")
