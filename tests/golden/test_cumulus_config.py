"""The NVUE configuration of switches, as if those of `inventories/` ran Cumulus Linux, and of odd sites, against `tests/golden/cumulus`."""

from __future__ import annotations

from pathlib import Path

import pytest
from unit.drivers.switch.cumulus_sites import SITES, loaded

from pinion.plan.model import SwitchPlan
from pinion.plan.switch_state import switch_state
from pinion.render.cumulus import cumulus_config

GOLDEN = Path(__file__).parent / "cumulus"
#: Of sites that ship with Pinion all switches; of odd ones the first.
SWITCHES = [
    (name.replace(", ", "-").replace(" ", "-"), switch)
    for name in SITES
    for switch in loaded(name)[1].switches[: 1 if "," in name else None]
]


@pytest.mark.parametrize(("site", "switch"), SWITCHES, ids=[f"{site}/{switch.name}" for site, switch in SWITCHES])
def test_golden(site: str, switch: SwitchPlan, regenerate: bool) -> None:
    path = GOLDEN / f"{site}-{switch.name}.yaml"
    text = cumulus_config(switch_state(switch))
    if regenerate:
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), "run with --regenerate, then look at the difference"


def test_no_golden_without_a_switch() -> None:
    assert {path.stem for path in GOLDEN.glob("*.yaml")} == {f"{site}-{switch.name}" for site, switch in SWITCHES}
