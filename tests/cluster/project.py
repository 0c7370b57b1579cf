"""A project folder of the site `joining` with a stack of the real engine, and the commands that a person runs in it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml
from engine.stack import tools

from pinion.plan.concerns import edge_cluster

REPOSITORY = Path(__file__).parents[2]
SITE, PI, SERVER = "joining", "pi-01", "nv-1"
OFFICIAL, STAND_IN = "official", "stand-in"


def official_plugin() -> Path | None:
    """The folder of Pulumi's own Kubernetes plugin of the version that our library asks for, where Pulumi or PATH has one."""
    home = Path(os.environ.get("PULUMI_HOME") or Path.home() / ".pulumi")
    installed = home / "plugins" / f"resource-kubernetes-v{version('pulumi-kubernetes')}"
    found = shutil.which("pulumi-resource-kubernetes", path=f"{installed}{os.pathsep}{os.environ['PATH']}")
    return Path(found).parent if found else None


def write_project(root: Path) -> None:
    """A project of the site `joining`: the lab with one Pi, which joins by itself, on switches that are files."""
    stated = yaml.safe_load((REPOSITORY / "inventories/lab/site.yml").read_text())
    stated["site"] = SITE
    (group,) = stated["pis"].values()
    group["numbers"] = 1
    stated["concerns"][edge_cluster.NAME] = {}
    site = root / "inventories" / SITE / "site.yml"
    site.parent.mkdir(parents=True)
    site.write_text(yaml.safe_dump(stated, sort_keys=False))
    shutil.copytree(REPOSITORY / "charts", root / "charts")
    provider = root / "bin/pulumi-resource-pinion"
    provider.parent.mkdir()
    provider.write_text(
        f'#!/bin/sh\nPYTHONPATH={REPOSITORY}/tests exec {sys.executable} {REPOSITORY}/tests/engine/file_switch.py "$@"\n'
    )
    provider.chmod(0o755)
    project = yaml.safe_load((REPOSITORY / "Pulumi.yaml").read_text())
    project["main"] = str(REPOSITORY / "infra")
    project["runtime"]["options"]["virtualenv"] = str(Path(sys.prefix))
    for plugin in project["plugins"]["providers"]:
        plugin["path"] = str(root / "bin" if plugin["name"] == "pinion" else REPOSITORY / plugin["path"])
    (root / "Pulumi.yaml").write_text(yaml.safe_dump(project))


class Project:
    """The project folder *root*, and the commands that a person runs in it."""

    def __init__(self, root: Path, settings: dict[str, str], plugin: str = STAND_IN) -> None:
        self.root = root
        self._official = official_plugin()
        write_project(root)
        (root / "state").mkdir()
        self.run("pulumi", "stack", "init", SITE)
        for key, value in settings.items():
            self.set(key, value)
        self.use(plugin)

    def set(self, key: str, value: str) -> None:
        """State one of the stack's settings, as a secret."""
        self.run("pulumi", "config", "set", "--stack", SITE, "--secret", key, given=value)

    def use(self, plugin: str) -> None:
        """Have the stack use one of the Kubernetes plugins."""
        if plugin == STAND_IN:
            self.run("pulumi", "config", "set", "--stack", SITE, "pinion:kubernetesPlugin", STAND_IN)
        else:
            self.run("pulumi", "config", "rm", "--stack", SITE, "pinion:kubernetesPlugin")

    def run(self, *argv: str, given: str = "") -> str:
        """The standard output of a command that must end well."""
        done = self.attempt(*argv, given=given)
        assert done.returncode == 0, f"{argv} ended with {done.returncode}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
        return done.stdout

    def environment(self) -> dict[str, str]:
        """What each command is given."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith("PULUMI_")}
        own = {
            "PATH": os.pathsep.join(
                [
                    str(self.root / "bin"),
                    str(Path(sys.executable).parent),
                    str(tools()),
                    *([str(self._official)] if self._official else []),
                    kept["PATH"],
                ]
            ),
            "PINION_ROOT": str(self.root),
            "PULUMI_HOME": str(self.root / "home"),
            "PULUMI_BACKEND_URL": f"file://{self.root / 'state'}",
            "PULUMI_CONFIG_PASSPHRASE": "only for tests",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_RUN_PROGRAM": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            "ENGINE_TEST_SWITCHES": str(self.root),
        }
        return kept | own

    def attempt(self, *argv: str, given: str = "") -> subprocess.CompletedProcess[str]:
        """A command, however it ends."""
        return subprocess.run(
            argv,
            cwd=self.root,
            env=self.environment(),
            input=given,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )

    def steps(self, *options: str) -> list[dict[str, Any]]:
        """What a preview would change: its steps, without those that leave a resource as it is."""
        said = self.run("pulumi", "preview", "--stack", SITE, "--json", *options)
        found: Sequence[dict[str, Any]] = json.loads(said[said.index("{") :]).get("steps", [])
        return [step for step in found if step["op"] not in ("same", "refresh", "read")]

    def export(self) -> dict[str, Any]:
        """The stack's deployment, secrets encrypted."""
        deployment: dict[str, Any] = json.loads(self.run("pulumi", "stack", "export", "--stack", SITE))["deployment"]
        return deployment

    def decommission(self, name: str) -> None:
        """State in the site file that *name* leaves."""
        site = self.root / "inventories" / SITE / "site.yml"
        site.write_text(f"{site.read_text()}decommissioned: [{name}]\n")

    def up(self) -> dict[str, Any]:
        """`pinion stack up`, as `pinion up` runs it."""
        answer: dict[str, Any] = json.loads(self.run("pinion", "stack", "up", SITE, "--json"))
        return answer
