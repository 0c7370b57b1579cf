"""Scenario 8: what exists already is named, adopted only when the stack says so, and left behind by destroy.

The last of the scenarios: it leaves the rack with an empty stack.
"""

from __future__ import annotations

import pytest

from scenarios.rack import SITE, Rack


@pytest.fixture
def destroyed(rack: Rack) -> str:
    """The rack with an empty stack: everything that we created is gone. Returns what `pulumi destroy` said."""
    done = rack.inside("pulumi", "destroy", "--yes", "--skip-preview", "--non-interactive", "--stack", SITE)
    return done.stdout + done.stderr


def pulumi(rack: Rack, *argv: str, check: bool = True) -> str:
    done = rack.inside("pulumi", *argv, "--non-interactive", "--stack", SITE, check=check)
    return done.stdout + done.stderr


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
