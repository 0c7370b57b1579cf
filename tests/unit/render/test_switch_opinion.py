"""Traffic classes as EOS text, against an opinion that is not ours: the schema and the renderer of Arista's own `pyavd`."""

from __future__ import annotations

from typing import Any

import pytest
from pyavd import get_device_config, validate_structured_config
from unit.hosts.sites import DC, LAB

from pinion.plan import plan
from pinion.plan.model import QosMap, QosProfile, QosQueue, SwitchPlan, SwitchQos
from pinion.plan.switch_state import switch_state
from pinion.render.eos import eos_config
from pinion.site.loader import load

SWITCHES = [switch for site in (DC, LAB) for switch in plan(load(site)).switches]
#: The lines that are about traffic classes, where they stand on the left.
BEGINNINGS = ("qos ", "priority-flow-control")


def structured(switch: SwitchPlan) -> dict[str, Any]:
    """The traffic classes of *switch* in the words of Arista's data model."""
    qos = switch.qos
    assert qos is not None
    return {
        "qos": {"map": _maps(qos.maps)},
        "qos_profiles": [_profile(profile) for profile in qos.profiles],
        "priority_flow_control": _watchdog(qos),
        "ethernet_interfaces": [
            {"name": port.name, "service_profile": port.qos_profile} for port in switch.ports if port.qos_profile
        ],
    }


def _maps(maps: tuple[QosMap, ...]) -> dict[str, list[str]]:
    return {
        "dscp": [f"{one.source} to traffic-class {one.to}" for one in maps if one.target == "traffic-class"],
        "traffic_class": [f"{one.source} to {one.target} {one.to}" for one in maps if one.target != "traffic-class"],
    }


def _profile(profile: QosProfile) -> dict[str, Any]:
    flow_control = {
        "enabled": True,
        "priorities": [{"priority": number, "no_drop": True} for number in profile.no_drop],
        "watchdog": {"enabled": profile.watchdog},
    }
    return {
        "name": profile.name,
        "trust": profile.trust,
        "uc_tx_queues": [_queue(queue) for queue in profile.queues],
        **({"priority_flow_control": flow_control} if profile.pfc else {}),
    }


def _queue(queue: QosQueue) -> dict[str, Any]:
    told: dict[str, Any] = {"id": queue.queue, "priority": "no priority" if queue.share else "priority strict"}
    if queue.share is not None:
        told["bandwidth_percent"] = queue.share
    if queue.guaranteed is not None:
        told["bandwidth_guaranteed_percent"] = queue.guaranteed
    if queue.ecn is not None:
        told["random_detect"] = {
            "ecn": {
                "threshold": {
                    "units": "kbytes",
                    "min": queue.ecn.minimum_kbytes,
                    "max": queue.ecn.maximum_kbytes,
                    "max_probability": queue.ecn.probability,
                    "weight": 0,
                }
            }
        }
    return told


def _watchdog(qos: SwitchQos) -> dict[str, Any]:
    if qos.watchdog is None:
        return {}
    times = {
        "timeout": qos.watchdog.timeout_ms,
        "polling_interval": qos.watchdog.polling_ms,
        "recovery_time": qos.watchdog.recovery_ms,
    }
    told = {name: f"{(milliseconds or 0) / 1000:.2f}" for name, milliseconds in times.items()}
    return {"watchdog": {**told, "action": qos.watchdog.action}}


def about_classes(text: str) -> list[str]:
    """The blocks of *text* that are about traffic classes, and the profiles of ports, in order."""
    kept: list[str] = []
    inside = False
    port = ""
    for line in text.splitlines():
        if not line.startswith(" "):
            inside = line.startswith(BEGINNINGS)
            port = line
        if inside:
            kept.append(line)
        elif line.startswith("   service-profile "):
            kept.append(f"{port}{line}")
    return kept


@pytest.mark.parametrize("switch", SWITCHES, ids=[f"{switch.model} {switch.name}" for switch in SWITCHES])
def test_arista_renders_the_same_lines(switch: SwitchPlan) -> None:
    checked = validate_structured_config(structured(switch))
    assert checked.validated_data is not None, checked.validation_result.violations
    theirs, ours = (
        about_classes(get_device_config(checked.validated_data)),
        about_classes(eos_config(switch_state(switch))),
    )
    assert len(ours) > 30
    assert sorted(ours) == sorted(theirs), "in an order of their own, which within a profile is ours"
    profiles = [[line for line in lines if line.startswith((" ", "qos profile"))] for lines in (ours, theirs)]
    assert profiles[0] == profiles[1]


def test_the_opinion_is_one() -> None:
    """A value that EOS does not take is refused by Arista's schema."""
    wanted = structured(SWITCHES[0])
    wanted["qos_profiles"][0]["uc_tx_queues"][2]["random_detect"]["ecn"]["threshold"]["max_probability"] = 101
    assert validate_structured_config(wanted).validated_data is None
