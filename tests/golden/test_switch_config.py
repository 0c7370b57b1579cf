"""The switch configuration of every site in `inventories/`, against the texts in `tests/golden/switch`."""

from __future__ import annotations

from pathlib import Path

import pytest

from pinion.plan import plan
from pinion.plan.model import SwitchPlan
from pinion.plan.switch_state import switch_state
from pinion.render.eos import eos_config
from pinion.site.loader import load

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).parent / "switch"


def _switches() -> list[tuple[str, SwitchPlan]]:
    sites = sorted((ROOT / "inventories").glob("*/site.yml"))
    return [(site.parent.name, switch) for site in sites for switch in plan(load(site)).switches]


SWITCHES = _switches()


def test_there_are_switches_to_compare() -> None:
    assert {"lab", "dc-rack-12"} <= {site for site, _ in SWITCHES}


@pytest.mark.parametrize(("site", "switch"), SWITCHES, ids=[f"{site}/{switch.name}" for site, switch in SWITCHES])
def test_golden(site: str, switch: SwitchPlan, regenerate: bool) -> None:
    path = GOLDEN / site / f"{switch.name}.cfg"
    text = eos_config(switch_state(switch))
    if regenerate:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), "run with --regenerate, then look at the difference"


def test_no_golden_without_a_switch() -> None:
    known = {GOLDEN / site / f"{switch.name}.cfg" for site, switch in SWITCHES}
    assert set(GOLDEN.glob("*/*.cfg")) == known
