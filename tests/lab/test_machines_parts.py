"""What a part may ask of the lab and gets: files, data, binds, units, a port for the browser, a reboot when its content changes."""

from __future__ import annotations

import io
import json
import os
import stat
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from lab.small_rack import SmallRack, traces

from pinion.lab.down import down
from pinion.lab.errors import LabError
from pinion.lab.instance import Lab
from pinion.lab.machine import Machine
from pinion.lab.parts import Bind, Forward, JsonValue, MachineNeeds
from pinion.lab.progress import Progress
from pinion.lab.state import InstanceState
from pinion.lab.status import status
from pinion.lab.up import up
from pinion.plan import Plan, plan
from pinion.site.loader import load

pytestmark = [pytest.mark.lab, pytest.mark.skipif(os.geteuid() != 0, reason="namespaces and mounts need root")]

UNIT = """\
[Unit]
Description=A web page
[Service]
ExecStart=/usr/bin/python3 -m http.server --bind 127.0.0.1 --directory /srv/page 8088
Restart=always
[Install]
WantedBy=multi-user.target
"""


@dataclass
class Web:
    """A part with a page on the management host. It keeps a journal of what the lab asked of it."""

    code: Path
    page: str = "one"
    fails: bool = False
    asked: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return "web"

    def needs(self, lab: Lab) -> Mapping[str, MachineNeeds]:
        return {
            "mgmt-1": MachineNeeds(
                binds=(Bind(self.code, "/opt/code"),),
                data=("/var/lib/web",),
                units=("page.service",),
                masks=("nftables.service",),
                revision=self.page,
            )
        }

    def prepare(self, lab: Lab) -> None:
        self.asked.append("prepare")
        if self.fails:
            raise LabError("the page cannot be had; look for another")

    def provision(self, lab: Lab, machine: Machine) -> None:
        self.asked.append(f"provision {machine.name}")
        machine.write("/srv/page/index.html", self.page)
        machine.write("/etc/systemd/system/page.service", UNIT)
        machine.write("/srv/secret", lab.secret("web").read_text(), 0o600)

    def ready(self, lab: Lab, machine: Machine) -> str | None:
        self.asked.append(f"ready {machine.name}")
        try:
            with machine.connect("127.0.0.1", 8088, 1):
                return None
        except OSError:
            return "the page"

    def forwards(self, lab: Lab) -> Sequence[Forward]:
        return (Forward("page", "mgmt-1", "127.0.0.1", 8088),)

    def endpoints(self, lab: Lab) -> Mapping[str, JsonValue]:
        return {"web": {"browser_url": f"http://127.0.0.1:{lab.forward_port('page')}/"}}


@dataclass(frozen=True)
class Bench:
    """A state folder and the plan of the small rack."""

    store: InstanceState
    plan: Plan
    code: Path

    def lab(self, *parts: Web) -> Lab:
        return Lab(self.plan, self.store, parts, Progress(io.StringIO()))


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    rack = SmallRack.make(tmp_path_factory.mktemp("parts"), "t-parts")
    code = rack.folder / "code"
    code.mkdir()
    (code / "version").write_text("7")
    made = Bench(rack.store, plan(load(rack.site)), code)
    try:
        yield made
    finally:
        down(made.store, Progress(io.StringIO()), purge=True)
        assert traces([rack]) == []


def browse(bench: Bench) -> str:
    """Read the page as the user's browser does, from the root namespace over loopback."""
    url = json.loads(bench.store.endpoints.read_text())["web"]["browser_url"]
    with urllib.request.urlopen(url, timeout=10) as answer:
        text: str = answer.read().decode()
    return text


def test_a_part_gets_what_it_asked_for(bench: Bench) -> None:
    web = Web(bench.code)
    report = up(bench.lab(web))
    assert report.machines["mgmt-1"] == "booted"
    assert web.asked[:2] == ["prepare", "provision mgmt-1"]
    assert web.asked[-1] == "ready mgmt-1"
    assert browse(bench) == "one"
    machine = Machine(bench.store, "mgmt-1")
    assert machine.run(["cat", "/opt/code/version"]).stdout == "7"
    assert machine.run(["touch", "/opt/code/new"], check=False).returncode != 0, "code is shown read-only"
    assert machine.run(["systemctl", "is-enabled", "nftables.service"], check=False).stdout.strip() == "masked"
    secret = bench.store.secrets / "web"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert machine.run(["cat", "/srv/secret"]).stdout == secret.read_text()
    assert secret.read_text() not in bench.store.endpoints.read_text()
    assert all(piece.well for piece in status(bench.lab(web)))


def test_data_lies_outside_the_overlay_and_survives(bench: Bench) -> None:
    machine = Machine(bench.store, "mgmt-1")
    machine.run(["sh", "-c", "echo rows >/var/lib/web/table; chown 1000 /var/lib/web/table"])
    assert machine.data_path("/var/lib/web").joinpath("table").read_text() == "rows\n"
    # outside the overlay: another overlay may be made there, as containerd does
    kind = machine.run(["findmnt", "-no", "FSTYPE", "--target", "/var/lib/web"]).stdout.strip()
    assert kind != "overlay"


def test_again_nothing_is_provisioned(bench: Bench) -> None:
    web = Web(bench.code)
    assert up(bench.lab(web)).changes == 0
    assert web.asked == ["prepare", "ready mgmt-1"]


def test_changed_content_boots_its_machine_again_and_no_other(bench: Bench) -> None:
    web = Web(bench.code, page="two")
    report = up(bench.lab(web))
    assert [name for name, done in report.machines.items() if done != "unchanged"] == ["mgmt-1"]
    assert browse(bench) == "two"
    assert Machine(bench.store, "mgmt-1").run(["cat", "/var/lib/web/table"]).stdout == "rows\n"


def test_a_part_that_fails_is_told_and_the_rest_goes_on(bench: Bench) -> None:
    down(bench.store, Progress(io.StringIO()))
    with pytest.raises(LabError, match=r"^prepare web: the page cannot be had; look for another$"):
        up(bench.lab(Web(bench.code, page="two", fails=True)))
    running = {name for name in bench.store.machine_names() if Machine(bench.store, name).process}
    assert running == {"pi-01", "pi-02", "tor-1"}
    assert up(bench.lab(Web(bench.code, page="two"))).machines["mgmt-1"] == "booted"
    assert browse(bench) == "two"


def test_without_the_part_its_units_are_gone(bench: Bench) -> None:
    up(bench.lab())
    machine = Machine(bench.store, "mgmt-1")
    assert machine.run(["systemctl", "is-enabled", "page.service"], check=False).stdout.strip() == "disabled"
    assert machine.run(["systemctl", "is-active", "page.service"], check=False).returncode != 0
    assert machine.run(["systemctl", "is-enabled", "nftables.service"], check=False).stdout.strip() == "disabled"


def test_a_bind_that_is_missing_is_named(bench: Bench) -> None:
    with pytest.raises(LabError, match=r"mgmt-1: /no/such/code \(shown as /opt/code\) is not there"):
        up(bench.lab(Web(Path("/no/such/code"), page="three")))


def test_an_unknown_machine_is_refused_before_anything_happens(bench: Bench) -> None:
    class Elsewhere(Web):
        def needs(self, lab: Lab) -> Mapping[str, MachineNeeds]:
            return {"gw-9": MachineNeeds()}

    with pytest.raises(LabError, match="part web: no lab machine gw-9"):
        up(bench.lab(Elsewhere(bench.code)))
