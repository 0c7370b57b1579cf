"""A class is lossless at NICs and switches, or at neither."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from unit.hosts.sites import DC, LAB, with_pfc

from pinion.plan import plan
from pinion.render.switch import eos_config
from pinion.site import catalog as hardware
from pinion.site.model import Delivery, Site


def applied(platforms: dict[str, str], *pausing: str) -> dict[str, tuple[Delivery, Delivery]]:
    """What dc-rack-12 states of each class and what is applied, with its switches on *platforms*, where those of *pausing* get PFC."""
    data: dict[str, Any] = yaml.safe_load(DC.read_text())
    for name, platform in platforms.items():
        data["switches"][name]["platform"] = platform
    found = plan(Site.model_validate(data), with_pfc(*pausing)).traffic_classes
    return {one.name: (one.delivery, one.applied) for one in found}


BOTH = {"tor-1": "arista-eos", "tor-2": "arista-eos"}


@pytest.mark.parametrize(
    ("platforms", "pausing", "expected"),
    [
        (BOTH, (), Delivery.LOSSY),
        (BOTH, ("arista-eos",), Delivery.LOSSLESS),
        (BOTH | {"tor-2": "lab"}, ("arista-eos",), Delivery.LOSSY),
        (BOTH | {"tor-2": "lab"}, ("arista-eos", "lab"), Delivery.LOSSLESS),
    ],
)
def test_a_lossless_class_is_one_where_every_switch_pauses(
    platforms: dict[str, str], pausing: tuple[str, ...], expected: Delivery
) -> None:
    found = applied(platforms, *pausing)
    assert found["rdma"] == (Delivery.LOSSLESS, expected)
    assert {name: both for name, both in found.items() if name != "rdma"} == {
        "control": (Delivery.LOSSY, Delivery.LOSSY),
        "edge_http": (Delivery.LOSSY, Delivery.LOSSY),
    }


@pytest.mark.parametrize("path", [LAB, DC])
def test_what_the_catalogue_says_of_our_switches_is_what_is_rendered_for_them(path: Any) -> None:
    compiled = plan(Site.model_validate(yaml.safe_load(path.read_text())))
    platforms = hardware.load().platforms
    for switch in compiled.switches:
        rendered = "priority-flow-control" in eos_config(switch)
        lossless = any(one.delivery is Delivery.LOSSLESS for one in compiled.traffic_classes)
        assert rendered == (platforms[switch.platform].pfc and lossless)
