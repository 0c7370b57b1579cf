"""A small rack with a real cluster: the ways to ask it and to wait for its nodes."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any, ClassVar

from lab.small_rack import SmallRack

from pinion.lab.state import cache_root

#: The site's machines that are nodes.
NODES = {"nv-1", "pi-01", "pi-02"}


class ClusterRack(SmallRack):
    """A small rack with a GPU server and a cluster."""

    #: What of the lab it runs.
    PARTS: ClassVar[str] = "switch,cluster"

    def up(self) -> dict[str, object]:
        """Bring it up; the report."""
        report: dict[str, object] = json.loads(self.run("up", "--parts", self.PARTS, "--json").stdout)
        return report

    def join(self) -> None:
        """Configure the switch, as `pulumi up` would; until all nodes are Ready."""
        self.inside(sys.executable, str(Path(__file__).with_name("fabric.py")), str(self.site))
        self.await_nodes()

    def inside(self, *argv: str, expect: int | None = 0) -> str:
        """Run a command in the operator's position; what it printed."""
        done = self.run("exec", "--", *argv, expect=expect)
        return done.stdout if expect is not None else done.stdout + done.stderr

    def kubeconfig(self, who: str = "admin_kubeconfig") -> str:
        """A kubeconfig's path."""
        return str(json.loads(self.store.endpoints.read_text())["kubernetes"][who])

    def kubectl(self, *argv: str, who: str = "admin_kubeconfig", expect: int | None = 0) -> str:
        """Run kubectl."""
        return self.inside(
            str(cache_root() / "bin" / "kubectl"), "--kubeconfig", self.kubeconfig(who), *argv, expect=expect
        )

    def ready(self) -> set[str]:
        """Nodes that are Ready."""
        items = json.loads(self.kubectl("get", "nodes", "-o", "json"))["items"]
        return {
            item["metadata"]["name"]
            for item in items
            if {"type": "Ready", "status": "True"}.items() <= _ready(item).items()
        }

    def await_nodes(self, seconds: float = 120) -> None:
        """Wait until all nodes are Ready."""
        deadline = time.monotonic() + seconds
        while (found := self.ready()) != NODES:
            assert time.monotonic() < deadline, f"only {found} are Ready after {seconds} s"
            time.sleep(1)


def _ready(item: dict[str, Any]) -> dict[str, Any]:
    conditions = item.get("status", {}).get("conditions", ())
    return next((condition for condition in conditions if condition["type"] == "Ready"), {})
