"""What the plan says of the concern accelerator: the packages of the right chip, and the refusal of the others."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from unit.hosts.nodes import concern, stated
from unit.hosts.sites import DC, LAB

from pinion.plan.concerns.accelerator import ARCHITECTURES
from pinion.plan.model import DeviceKind
from pinion.site.catalog import load

PI = DeviceKind.PI


def groups(**changes: Any) -> dict[str, Any]:
    """The Pis of dc-rack-12 with some keys replaced; None removes one."""
    group = yaml.safe_load(DC.read_text())["pis"]["pi"] | changes
    return {"pi": {key: value for key, value in group.items() if value is not None}}


@pytest.mark.parametrize(
    ("hat", "packages", "absent", "chip"),
    [
        ("ai-hat-plus-13", ("dkms", "hailo-all"), ("hailo-h10-all",), "HAILO8L"),
        ("ai-hat-plus-26", ("dkms", "hailo-all"), ("hailo-h10-all",), "HAILO8"),
        ("ai-hat-plus-2", ("dkms", "hailo-h10-all"), ("hailo-all",), "HAILO10H"),
    ],
)
def test_the_chips_packages_and_never_the_others(
    hat: str, packages: tuple[str, ...], absent: tuple[str, ...], chip: str
) -> None:
    found = concern(stated(DC, {"accelerator": {}}, pis=groups(hat=hat)), PI, "accelerator")
    assert (found.packages, found.packages_absent) == (packages, absent)
    assert found.packages_need_reboot == packages[1:], "their driver"
    claimed = {claim.name: claim.expected for claim in found.claims}
    assert claimed == {"link": "8.0 GT/s PCIe", "chip": chip}


def test_no_package_is_wanted_and_refused_at_once() -> None:
    for hat in load().hats.values():
        assert not set(hat.packages) & set(hat.conflicts)
        assert hat.chip in ARCHITECTURES
    chips = {frozenset(hat.packages): hat.chip.partition("-")[2][:2] for hat in load().hats.values()}
    assert len(chips) == 2


def test_a_pi_without_a_hat_or_without_that_archive_gets_nothing() -> None:
    for changes in ({"hat": None}, {"platform": "debian-13"}):
        plan = stated(DC, {"accelerator": {}}, pis=groups(**changes))
        assert not any("accelerator" in host.concerns for host in plan.hosts)
    assert not any("accelerator" in host.concerns for host in stated(LAB, {"accelerator": {}}).hosts)
