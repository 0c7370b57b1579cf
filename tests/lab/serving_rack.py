"""A rack whose Pis serve a real model: a key, a signed file on the management host, and the ways to ask and to look."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from lab.hosts_rack import HostsRack

from pinion.checks.hosts import host_checks
from pinion.drivers.hosts.inventory import plan_of
from pinion.lab.models.artefacts import Artefacts, default_cache, intact, obtain, place
from pinion.plan.concerns.model_store import SERVICE as STORE
from pinion.plan.edge_units import SERVICE
from pinion.site.catalog import Evidence

CONCERNS = ("model_store", "edge_runtime")
PORT = 8090
#: What the model is trained for where nobody has trained it whole: an answer all the same.
STEPS = 8


@dataclass(frozen=True)
class ServingRack(HostsRack):
    """Two Pis that serve, and the management host that has the model's file."""

    BARE = False
    PARTS = "switch,models"

    @classmethod
    def make(cls, folder: Path, name: str) -> ServingRack:
        made = super().make(folder, name)
        rack = cls(made.instance, made.folder)
        # The operator's half of the key: it is in no machine of the lab.
        (folder / "operator").mkdir(mode=0o700)
        key = rack.pinion("artefact", "key", str(rack.key))["key"]
        model = rack.pinion(
            "artefact", "sign", str(rack.model.gguf), "--key", str(rack.key), "--name", "pinion-tiny",
            "--url", f"http://mgmt-1:{PORT}/tiny/pinion-tiny.gguf",
        )  # fmt: skip
        stated = {
            "models": {"tiny": {"edge": model}},
            "concerns": {"firewall": {}, "model_store": {"key": key}, "edge_runtime": {"context": 256}},
        }
        text = rack.site.read_text().replace("numbers: 1-4", "numbers: 1-2")
        rack.site.write_text(text + yaml.safe_dump(stated, sort_keys=False))
        return rack

    @property
    def key(self) -> Path:
        return self.folder / "operator/signing.pem"

    @property
    def model(self) -> Artefacts:
        whole = place(default_cache())
        return whole if intact(whole) else obtain(steps=STEPS)

    @staticmethod
    def pinion(*arguments: str) -> dict[str, Any]:
        """What `pinion ... --json` says."""
        command = [sys.executable, "-m", "pinion", *arguments, "--json"]
        answer: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        return answer

    def without(self, *names: str) -> None:
        """Take concerns out of the site file."""
        stated = yaml.safe_load(self.site.read_text())
        stated["concerns"] = {name: said for name, said in stated["concerns"].items() if name not in names}
        self.site.write_text(yaml.safe_dump(stated, sort_keys=False))

    def changed(self, by: str, *names: str) -> int:
        """Converge what this is about on hosts *names*, in one wave whose checks hold; how many things changed."""
        words = [word for name in names for word in ("--limit", name)]
        words += [word for name in ("firewall", *CONCERNS) for word in ("--concern", name)]
        answer = self.converge(by, "--at-once", *words)
        assert (answer["failed"], answer["stopped"]) == ([], [])
        assert [wave["proved"] for wave in answer["waves"]] == [len(self.claims(*names))]
        return int(answer["changed"])

    def claims(self, *names: str) -> dict[str, Evidence]:
        """What the plan claims of this on hosts *names*, and the best evidence that the lab gives for it."""
        plan = plan_of(self.site)
        starts = tuple(f"host.{host}.{concern}." for host in names for concern in ("firewall", *CONCERNS))
        return {check.id: check.best for check in host_checks(plan) if check.id.startswith(starts)}

    def url(self, name: str, path: str) -> str:
        return f"http://{self.host(name).address}:8080{path}"

    def completion(self, source: str, name: str) -> dict[str, Any]:
        """What *name* answers to the fixed prompt when *source* asks it over the fabric."""
        wanted = reference(self)
        body = {"prompt": wanted["prompt"], "n_predict": len(wanted["tokens"]), "temperature": 0, "return_tokens": True}
        command = ["curl", "--silent", "--show-error", "--fail", "--max-time", "60", "--data", json.dumps(body)]
        answer: dict[str, Any] = json.loads(self.on(source, shlex.join([*command, self.url(name, "/completion")])))
        return answer

    def serves(self, name: str) -> bool:
        """Whether *name* answers its neighbour."""
        command = f"curl --silent --fail --max-time 5 --output /dev/null {self.url(name, '/health')}"
        return self.machine("mgmt-1").run(["sh", "-c", command], check=False).returncode == 0

    def process(self, name: str) -> int:
        """The engine's process id on *name*; 0 when there is none, which is no process to be killed (kill(1): our own group)."""
        return int(self.on(name, f"systemctl show --property=MainPID --value {SERVICE}"))


def reference(rack: ServingRack) -> dict[str, Any]:
    found = rack.model.manifest["reference"]
    assert isinstance(found, dict)
    return found


def until(true: Callable[[], bool], what: str, rack: ServingRack, name: str = "pi-01", seconds: float = 120) -> None:
    """Wait until *true*; tell the journal when it never is."""
    deadline = time.monotonic() + seconds
    while not true():
        said = (
            "" if time.monotonic() < deadline else rack.on(name, f"journalctl -n 60 -u {SERVICE} -u {STORE} --no-pager")
        )
        assert time.monotonic() < deadline, f"{what}: not after {seconds} s\n{said}"
        time.sleep(0.3)
