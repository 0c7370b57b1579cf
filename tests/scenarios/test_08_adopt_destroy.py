"""Scenario 8: what others hang on a device keeps it; what exists already is named, adopted only when told so, and left by destroy.

The last of the scenarios: it leaves the rack with an empty stack.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from scenarios.rack import PIS, SITE, Rack

#: The Pi that leaves the site file, and the file without it.
LEAVES = "pi-02"
PIS_WITHOUT_IT = "numbers: 1"


@pytest.fixture
def destroyed(rack: Rack) -> str:
    """The rack with an empty stack: everything that we created is gone. Returns what `pulumi destroy` said."""
    done = rack.inside("pulumi", "destroy", "--yes", "--skip-preview", "--non-interactive", "--stack", SITE)
    return done.stdout + done.stderr


def pulumi(rack: Rack, *argv: str, check: bool = True) -> str:
    done = rack.inside("pulumi", *argv, "--non-interactive", "--stack", SITE, check=check)
    return done.stdout + done.stderr


class Colleague:
    """Somebody with rights of their own in NetBox, and what they hung on the Pi that leaves, by its list."""

    def __init__(self, rack: Rack) -> None:
        account = rack.endpoints()["netbox"]
        who = {"username": account["admin_user"], "password": Path(account["admin_password_file"]).read_text().strip()}
        made = rack.netbox("users/tokens/provision/", "POST", who)
        self._netbox = partial(rack.netbox, token=f"nbt_{made['key']}.{made['token']}")
        self.hung: dict[str, dict[str, Any]] = {}

    def hang(self) -> None:
        """An item, a service, a note, and a port with a cable to the switch."""
        pi = self._netbox(f"dcim/devices/?name={LEAVES}")["results"][0]["id"]
        free = self._netbox("dcim/interfaces/?device=tor-1&cabled=false&limit=1")["results"][0]["id"]
        on_it = {"parent_object_type": "dcim.device", "parent_object_id": pi}
        about_it = {"assigned_object_type": "dcim.device", "assigned_object_id": pi}
        self._add("dcim/inventory-items/", {"device": pi, "name": "camera"})
        self._add("ipam/services/", {**on_it, "name": "ntp", "protocol": "udp", "ports": [123]})
        self._add("extras/journal-entries/", {**about_it, "comments": "fan replaced"})
        self._add("dcim/interfaces/", {"device": pi, "name": "usb0", "type": "other"})
        ends = [
            [{"object_type": "dcim.interface", "object_id": one}] for one in (self.hung["dcim/interfaces/"]["id"], free)
        ]
        self._add("dcim/cables/", {"a_terminations": ends[0], "b_terminations": ends[1]})

    def _add(self, path: str, body: dict[str, Any]) -> None:
        self.hung[path] = self._netbox(path, "POST", body)

    def take_off(self) -> None:
        """All of it, the last first."""
        while self.hung:
            path, one = self.hung.popitem()
            self._netbox(f"{path}{one['id']}/", "DELETE")


@pytest.fixture
def colleague(rack: Rack) -> Iterator[Colleague]:
    """A colleague who hung things on the Pi that leaves, and who takes off at the end what is still there."""
    one = Colleague(rack)
    try:
        one.hang()
        yield one
    finally:
        one.take_off()


def test_a_device_that_leaves_stays_with_what_others_hung_on_it(rack: Rack, colleague: Colleague) -> None:
    device = f"dcim/devices/?name={LEAVES}"
    before = rack.netbox(device)["results"][0]["id"]
    rack.edit_site(PIS, PIS_WITHOUT_IT)
    try:
        up = ("pulumi", "up", "--yes", "--skip-preview", "--non-interactive", "--stack", SITE)
        kept = rack.inside(*up, check=False)
        said = kept.stdout + kept.stderr
        assert kept.returncode != 0, said
        assert f"device {LEAVES} stays in NetBox" in said
        assert (
            "Move or delete what is not Pinion's, or take the tag pinion off what it hangs on; then run again" in said
        )
        for path, one in colleague.hung.items():
            assert one["display_url"] in said, f"{path}: {said}"
            assert rack.netbox(f"{path}?id={one['id']}")["count"] == 1, path
        assert [one["id"] for one in rack.netbox(device)["results"]] == [before]

        colleague.take_off()
        rack.inside(*up)
        assert rack.netbox(device)["count"] == 0
    finally:
        rack.edit_site(PIS_WITHOUT_IT, PIS)


def test_destroy_leaves_what_others_made_and_adoption_keeps_its_id(rack: Rack, destroyed: str) -> None:
    assert rack.netbox("dcim/devices/?limit=1000")["count"] == 0
    assert rack.netbox("ipam/vlans/?limit=1000")["count"] == 0
    assert rack.netbox("ipam/ip-addresses/?limit=1000")["count"] == 0

    site = rack.netbox("dcim/sites/", "POST", {"name": SITE, "slug": SITE, "status": "active"})
    try:
        said = pulumi(rack, "preview", check=False)
        assert "exists" in said
        assert SITE in said
        argv = ("pulumi", "up", "--yes", "--skip-preview", "--non-interactive", "--stack", SITE)
        refused = rack.inside(*argv, check=False)
        assert refused.returncode != 0
        assert rack.netbox(f"dcim/sites/{site['id']}/")["name"] == SITE

        pulumi(rack, "config", "set", "pinion:adopt", "true")
        pulumi(rack, "up", "--yes", "--skip-preview")
        assert rack.netbox("dcim/devices/?limit=1000")["count"] == 5
        assert rack.netbox(f"dcim/sites/?slug={SITE}")["results"][0]["id"] == site["id"]

        said = pulumi(rack, "destroy", "--yes", "--skip-preview")
        assert rack.netbox(f"dcim/sites/{site['id']}/")["id"] == site["id"], "adopted, so it stays"
        assert "left" in said
        assert rack.netbox("dcim/devices/?limit=1000")["count"] == 0
    finally:
        pulumi(rack, "config", "rm", "pinion:adopt", check=False)
        if rack.netbox("dcim/devices/?limit=1")["count"] == 0:
            rack.netbox(f"dcim/sites/{site['id']}/", "DELETE")
