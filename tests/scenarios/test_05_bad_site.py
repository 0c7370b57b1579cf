"""Scenario 5: twelve mistakes are twelve errors in one run, and nothing is touched."""

from __future__ import annotations

import re
import shutil

from scenarios.rack import REPOSITORY, SITE, Rack

TWELVE = REPOSITORY / "tests/errors/twelve-mistakes/site.yml"


def touched(rack: Rack) -> dict[str, str]:
    """When each record was last written; NetBox moves it at every write, even one that changes nothing."""
    kinds = (
        "dcim/sites/",
        "dcim/devices/",
        "dcim/interfaces/",
        "dcim/cables/",
        "ipam/vlans/",
        "ipam/prefixes/",
        "ipam/ip-addresses/",
    )
    return {
        entry["url"]: entry["last_updated"] for kind in kinds for entry in rack.netbox(f"{kind}?limit=1000")["results"]
    }


def test_twelve_mistakes_stop_check_and_pulumi_alike(rack: Rack) -> None:
    good = rack.site_file.read_bytes()
    before = touched(rack)
    try:
        shutil.copy(TWELVE, rack.site_file)
        checked = rack.pinion("site", "check", str(rack.site_file), check=False)
        assert checked.returncode == 1
        place = re.compile(r"^\S*site\.yml:\d+:\d+ [A-Z0-9]+-\d+ ")
        errors = [line for line in (checked.stdout + checked.stderr).splitlines() if place.match(line)]
        assert len(errors) == 12
        ran = rack.inside("pulumi", "up", "--yes", "--non-interactive", "--stack", SITE, check=False)
        assert ran.returncode != 0
        assert ran.stdout.count("site.yml:") >= 12
    finally:
        rack.site_file.write_bytes(good)
    assert touched(rack) == before
