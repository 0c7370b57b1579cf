"""The concerns that any host may have, as texts in `tests/golden/common_concerns`: each kind of host of the lab, a Pi of dc-rack-12."""

from __future__ import annotations

from pathlib import Path

import pytest
from golden.test_node_concerns import _text
from unit.hosts.sites import ADMIN, DC, LAB, planned
from unit.hosts.test_common_docs import STATED

from pinion.plan.model import HostPlan

GOLDEN = Path(__file__).parent / "common_concerns"
HOSTS = {"lab": (LAB, ("mgmt-1", "pi-01", "nv-1")), "dc-rack-12": (DC, ("pi-01",))}
#: Those that a site file has no key for.
ALWAYS = ("access", "os_tuning")
CASES = [
    (site, host, concern) for site, (_, hosts) in HOSTS.items() for host in hosts for concern in (*ALWAYS, *STATED)
]


def host(site: str, name: str) -> HostPlan:
    """The host *name* of *site* with all of these concerns, an administrator's key and an authority."""
    plan = planned(HOSTS[site][0], concerns=STATED, access={"admins": [ADMIN], "authorities": [ADMIN]})
    return next(host for host in plan.hosts if host.name == name)


@pytest.mark.parametrize(("site", "name", "concern"), CASES)
def test_golden(site: str, name: str, concern: str, regenerate: bool) -> None:
    path = GOLDEN / site / name / f"{concern}.txt"
    text = _text(name, host(site, name).concerns[concern])
    # the program is a file of its own in the repository
    lines = text.splitlines(keepends=True)
    at = next((index for index, line in enumerate(lines) if "#!/usr/bin/python3" in line), len(lines))
    until = next((index for index in range(at, len(lines)) if lines[index].startswith("file ")), len(lines))
    text = "".join([*lines[:at], *lines[until:]])
    if regenerate:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), "run with --regenerate, then look at the difference"


def test_no_golden_without_a_case() -> None:
    found = {path.relative_to(GOLDEN).with_suffix("").parts for path in GOLDEN.glob("*/*/*.txt")}
    assert found == set(CASES)
