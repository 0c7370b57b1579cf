"""A real Pulumi stack in a folder of its own: file backend, our provider, a program that declares what a JSON file says."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psutil
import yaml

STACK: Final = "test"
PROJECT: Final = "engine-test"
PASSPHRASE: Final = "correct horse battery staple"
_STATE_FILE: Final = f"state/.pulumi/stacks/{PROJECT}/{STACK}.json"
_CONFIG_FILE: Final = f"Pulumi.{STACK}.yaml"
#: What `pulumi stack init` and the secrets of a stack leave in its folder, by those secrets: half a second of CPU for each command, once.
_INITIAL: Final[dict[tuple[tuple[str, str], ...], dict[str, bytes]]] = {}

_PROGRAM: Final = '''
"""Declares what wishes.json says. A device waits for those that its cables lead to."""
import json
from pathlib import Path

import pulumi
from pinion.drivers.netbox.wanted.records import DeviceRecord, SiteRecords, VlanRecord
from pinion.plan.model import SwitchPlan
from pinion.provider import sdk

wishes = json.loads(Path(__file__).with_name("wishes.json").read_text())


def options(kind, name, depends_on=()):
    return pulumi.ResourceOptions(import_=wishes.get("import", {}).get(f"{kind}/{name}"), depends_on=list(depends_on))


sites = [
    sdk.netbox.Site(one["site"], SiteRecords.model_validate(one), origin="site", opts=options("site", one["site"]))
    for one in wishes.get("sites", [])
]
vlans = [
    sdk.netbox.Vlan(
        one["name"], VlanRecord.model_validate(one), origin=f"networks.{one['name']}", opts=options("vlan", one["name"], sites)
    )
    for one in wishes.get("vlans", [])
]
devices = {}
for one in wishes.get("devices", []):
    record = DeviceRecord.model_validate(one)
    far = {interface.cable.device for interface in record.interfaces if interface.cable} & devices.keys()
    devices[record.name] = sdk.netbox.Device(
        record.name,
        record,
        origin=f"devices.{record.name}",
        opts=options("device", record.name, [*vlans, *sites, *(devices[name] for name in sorted(far))]),
    )
for one in wishes.get("switches", []):
    plan = SwitchPlan.model_validate(one)
    sdk.switch.Config(plan.name, plan, opts=options("switch", plan.name))
'''


@dataclass(frozen=True)
class Run:
    """A finished command. *text* is stdout and stderr in one."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        """All that was printed."""
        return f"{self.out}\n{self.err}"


@dataclass
class Stack:
    """A project folder with one stack, in *folder*. *config* are its plain values, *secrets* the others."""

    folder: Path
    config: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    wishes: dict[str, Any] = field(default_factory=dict)
    _pristine: bytes = b""

    def __post_init__(self) -> None:
        for name in ("state", "home", "bin"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        plugin = Path(sys.executable).parent
        if (self.folder / "bin" / "pulumi-resource-pinion").exists():
            plugin = self.folder / "bin"
        (self.folder / "Pulumi.yaml").write_text(
            f"name: {PROJECT}\nruntime: python\nplugins:\n  providers:\n    - name: pinion\n      path: {plugin}\n"
        )
        (self.folder / "__main__.py").write_text(_PROGRAM)
        secrets = tuple(self.secrets.items())
        if secrets not in _INITIAL:
            self.pulumi("stack", "init", STACK, check=True)
            for key, value in secrets:
                self.pulumi("config", "set", "--stack", STACK, "--secret", key, given=value, check=True)
            _INITIAL[secrets] = {path: (self.folder / path).read_bytes() for path in (_STATE_FILE, _CONFIG_FILE)}
        for path, content in _INITIAL[secrets].items():
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / path).write_bytes(content)
        self._pristine = _INITIAL[secrets][_STATE_FILE]
        for key, value in self.config.items():
            self.set(key, value)

    def env(self) -> dict[str, str]:
        """The environment of every command."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("PULUMI_", "PYTHON"))}
        path = [str(self.folder / "bin"), str(Path(sys.executable).parent), str(tools()), os.environ["PATH"]]
        return {
            **kept,
            "PATH": os.pathsep.join(path),
            "PULUMI_HOME": str(self.folder / "home"),
            "PULUMI_BACKEND_URL": f"file://{self.folder / 'state'}",
            "PULUMI_CONFIG_PASSPHRASE": PASSPHRASE,
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            **self.environment,
        }

    def set(self, key: str, value: str) -> None:
        """Set a plain configuration value, as a person with an editor does."""
        file = self.folder / _CONFIG_FILE
        stated = yaml.safe_load(file.read_text()) or {}
        stated.setdefault("config", {})[key] = value
        file.write_text(yaml.safe_dump(stated))

    def command(self, *arguments: str) -> list[str]:
        """The command line of ``pulumi *arguments*``."""
        return [shutil.which("pulumi", path=self.env()["PATH"]) or "pulumi", "--non-interactive", *arguments]

    def write_wishes(self) -> None:
        """Put *wishes* where the program reads them."""
        (self.folder / "wishes.json").write_text(json.dumps(self.wishes))

    def pulumi(self, *arguments: str, given: str = "", check: bool = False, timeout: float = 240) -> Run:
        """Run ``pulumi *arguments*``."""
        self.write_wishes()
        done = subprocess.run(
            self.command(*arguments),
            cwd=self.folder,
            env=self.env(),
            input=given,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        run = Run(done.returncode, done.stdout, done.stderr)
        assert not check or run.code == 0, f"pulumi {' '.join(arguments)} ended with {run.code}\n{run.text[-6000:]}"
        return run

    def up(self, *arguments: str, check: bool = True) -> Run:
        """`pulumi up`, without a preview."""
        return self.pulumi("up", "--stack", STACK, "--yes", "--skip-preview", "--diff", *arguments, check=check)

    def preview(self, *arguments: str, check: bool = True) -> Run:
        """`pulumi preview --diff`."""
        return self.pulumi("preview", "--stack", STACK, "--diff", *arguments, check=check)

    def steps(self, *arguments: str) -> dict[str, str]:
        """`pulumi preview --json`: the operation by resource name, without those that stay the same."""
        run = self.pulumi("preview", "--stack", STACK, "--json", *arguments, check=True)
        steps = json.loads(run.out).get("steps", [])
        ours = [step for step in steps if "::pinion:" in step["urn"]]
        return {step["urn"].rpartition("::")[2]: step["op"] for step in ours if step["op"] not in {"same", "refresh"}}

    def refresh(self, *arguments: str, check: bool = True) -> Run:
        """`pulumi refresh`."""
        return self.pulumi("refresh", "--stack", STACK, "--yes", "--skip-preview", "--diff", *arguments, check=check)

    def destroy(self, *arguments: str, check: bool = True) -> Run:
        """`pulumi destroy`."""
        return self.pulumi("destroy", "--stack", STACK, "--yes", "--skip-preview", *arguments, check=check)

    def state(self) -> dict[str, dict[str, Any]]:
        """The resources of our package in the state, by ``type name``."""
        ours = [one for one in self._held().get("resources", []) if one["type"].startswith("pinion:")]
        return {f"{one['type']} {one['urn'].rpartition('::')[2]}": one for one in ours}

    def pending(self) -> list[str]:
        """The names (URNs) of resources whose operation a killed run left pending."""
        return [one["resource"]["urn"] for one in self._held().get("pending_operations") or []]

    def _held(self) -> dict[str, Any]:
        latest: dict[str, Any] | None = json.loads(self._state_file().read_text())["checkpoint"]["latest"]
        return latest or {}

    def rename_pending(self, name: str) -> None:
        """Write into the state that what a killed run was at is a resource called *name*. (An import would forget what is pending.)"""
        held = json.loads(self._state_file().read_text())
        for operation in held["checkpoint"]["latest"]["pending_operations"]:
            operation["resource"]["urn"] = f"{operation['resource']['urn'].rpartition('::')[0]}::{name}"
        self._state_file().write_text(json.dumps(held))

    def forget(self) -> None:
        """The stack as it was made: with no resource."""
        self._state_file().write_bytes(self._pristine)

    def _state_file(self) -> Path:
        return self.folder / _STATE_FILE

    def recover(self) -> None:
        """After a kill: let go of the lock that the dead run holds."""
        self.pulumi("cancel", "--stack", STACK, "--yes", check=True)

    def files(self) -> Iterator[Path]:
        """Every file of the project, the state and Pulumi's own folder."""
        return (path for path in self.folder.rglob("*") if path.is_file())


def tools() -> Path:
    """Where outside programs are."""
    return Path(os.environ.get("PINION_CACHE", "/var/cache/pinion")) / "bin"


def missing_tool() -> str | None:
    """Why a real engine cannot be used here; None when it can."""
    path = os.pathsep.join([str(Path(sys.executable).parent), str(tools()), os.environ["PATH"]])
    for name in ("pulumi", "pulumi-language-python", "pulumi-resource-pinion"):
        if shutil.which(name, path=path) is None:
            return f"{name} is neither on PATH nor in {tools()}"
    return None


def providers_of(folder: Path) -> list[psutil.Process]:
    """The running provider processes of the stack in *folder*."""
    found = []
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
            if any("pulumi-resource-pinion" in word for word in words) and process.cwd().startswith(str(folder)):
                found.append(process)
        except psutil.Error:
            continue
    return found


def program(text: str) -> str:
    """*text* of a program, without its indentation."""
    return textwrap.dedent(text).lstrip()
