"""What the plan says of the concern power_thermal."""

from __future__ import annotations

import json

import pytest
from unit.hosts.nodes import concern, file, stated
from unit.hosts.sites import DC, LAB

from pinion.plan.concerns.node_metrics import FOLDER
from pinion.plan.concerns.power_thermal import CONFIG_FILE, METRICS_FILE, STATE_FILE
from pinion.plan.model import DeviceKind

PI = DeviceKind.PI


def test_only_pis_have_it() -> None:
    plan = stated(DC, {"power_thermal": {}})
    assert {host.kind for host in plan.hosts if "power_thermal" in host.concerns} == {PI}


@pytest.mark.parametrize(("interval", "every", "good"), [("10s", 10, 30), ("1min", 60, 180), ("7500ms", 7.5, 22.5)])
def test_a_state_is_good_for_three_looks(interval: str, every: float, good: float) -> None:
    found = concern(stated(DC, {"power_thermal": {"interval": interval, "warm_at": 70}}), PI, "power_thermal")
    told = json.loads(file(found, CONFIG_FILE).content)
    times = {"interval": every, "good_for": good}
    assert told == {"warm_at": 70, "hysteresis": 5, **times, "metrics": METRICS_FILE, "state": STATE_FILE}


def test_metrics_lie_where_the_exporter_looks_and_somebody_makes_that_folder() -> None:
    assert METRICS_FILE.startswith(f"{FOLDER}/")
    assert METRICS_FILE.endswith(".prom")
    alone = concern(stated(DC, {"power_thermal": {}}), PI, "power_thermal")
    assert [entry.path for entry in alone.directories] == [FOLDER]
    beside = concern(stated(DC, {"power_thermal": {}, "node_metrics": {}}), PI, "power_thermal")
    assert beside.directories == ()


def test_a_container_claims_a_state_and_not_what_it_is() -> None:
    real, lab = (concern(stated(site, {"power_thermal": {}}), PI, "power_thermal") for site in (DC, LAB))
    assert [claim.name for claim in real.claims] == ["state", "known"]
    assert [claim.name for claim in lab.claims] == ["state"]
    assert real.files == lab.files
