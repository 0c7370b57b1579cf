"""What every switch driver does, with the switch in memory and with the real command line over SSH."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from unit.drivers.switch.bench import Bench, MemoryBench
from unit.drivers.switch.plans import PORTS, access_port, plan_with_classes, small_plan

from pinion.drivers.switch import NotConfirmedError, PortState, SwitchError, SwitchState, compare
from pinion.drivers.switch.state import wanted

FACTORY = SwitchState(ports=tuple(PortState(name=name, enabled=False) for name in PORTS))


@pytest.fixture(params=["memory", "eos"])
def bench(request: pytest.FixtureRequest) -> Bench:
    makers: dict[str, Callable[[], Bench]] = {"memory": MemoryBench, "eos": lambda: request.getfixturevalue("eos")}
    return makers[request.param]()


def test_a_new_switch_carries_nothing(bench: Bench) -> None:
    assert bench.driver().read() == FACTORY


def test_apply_converges_and_a_second_time_touches_nothing(bench: Bench) -> None:
    driver, plan = bench.driver(), small_plan()
    before = driver.diff(plan)
    assert not before.empty
    assert driver.read() == FACTORY, "diff changes nothing"
    assert driver.apply(plan) == before, "the preview is the truth"
    assert driver.read() == wanted(plan)
    assert driver.apply(plan).empty
    assert driver.diff(plan).empty
    assert bench.reboot() == wanted(plan), "what was applied is saved"


def test_a_port_moved_by_hand_is_found_and_repaired(bench: Bench) -> None:
    driver, plan = bench.driver(), small_plan()
    driver.apply(plan)
    bench.move_port("Ethernet2", 100)
    said = ["port Ethernet2 (pis.pi 2): access VLAN 100 -> 101"]
    assert [str(change) for change in driver.diff(plan).changes] == said
    assert [str(change) for change in driver.apply(plan).changes] == said
    assert driver.read() == wanted(plan)


def test_a_vlan_renamed_or_removed_by_hand_is_found_and_repaired(bench: Bench) -> None:
    driver, plan = bench.driver(), small_plan()
    driver.apply(plan)
    bench.add_vlan(101, "typo")
    bench.remove_vlan(100)
    assert [str(change) for change in driver.apply(plan).changes] == [
        "VLAN 100 (networks.control) added control",
        "VLAN 101 (networks.edge-inference): name typo -> edge-inference",
    ]
    assert driver.read() == wanted(plan)


def test_a_foreign_vlan_is_told_and_left(bench: Bench) -> None:
    driver, plan = bench.driver(), small_plan()
    bench.add_vlan(400, "guest")
    done = driver.apply(plan)
    assert done.left == ("VLAN 400 (guest)",)
    vlan = driver.read().vlan(400)
    assert vlan is not None
    assert vlan.name == "guest"
    assert driver.apply(plan).empty
    gone = driver.undo(plan)
    assert gone.left == ("VLAN 400 (guest)", "IPv4 routing")
    assert driver.read().vlan(400) == vlan


def test_what_the_plan_no_longer_has_is_removed(bench: Bench) -> None:
    driver, before = bench.driver(), small_plan()
    driver.apply(before)
    after = small_plan(
        vlans=before.vlans[1:],
        svis=before.svis[1:],
        ports=(*before.ports[:2], *(access_port(name, 101, "pis.pi 3") for name in PORTS[2:])),
    )
    done = driver.apply(after, before)
    assert done.left == ()
    assert driver.read() == wanted(after)
    assert driver.apply(after, before).empty


def test_undo_leaves_ports_shut_and_twice_is_fine(bench: Bench) -> None:
    driver, plan = bench.driver(), small_plan()
    driver.apply(plan)
    assert not driver.undo(plan).empty
    assert driver.read() == FACTORY.model_copy(update={"ip_routing": True})
    assert driver.undo(plan).empty


def test_a_plan_with_a_port_that_the_switch_lacks_changes_nothing(bench: Bench) -> None:
    driver, plan = bench.driver(), small_plan()
    wrong = small_plan(ports=(*plan.ports, access_port("Ethernet99", 101, "pis.pi 9")))
    with pytest.raises(SwitchError, match="Ethernet99"):
        driver.apply(wrong)
    assert driver.read() == FACTORY
    driver.apply(plan)
    assert compare(driver.read(), plan).empty


def test_a_change_that_the_switch_undoes_before_its_confirmation_is_no_success(bench: Bench) -> None:
    driver, plan = bench.driver(), small_plan()
    with bench.going_back(), pytest.raises(NotConfirmedError, match=r"undid the change .*VLAN 100 .*run again"):
        driver.apply(plan)
    assert driver.read() == FACTORY
    assert bench.reboot() == FACTORY, "what came of it was not saved either"
    assert not driver.apply(plan).empty
    assert driver.read() == wanted(plan)


GUARDED = small_plan(ssh_sources=("10.77.99.0/24", "10.77.100.10/32", "fd00:99::/64"))


def test_who_may_open_ssh_is_held_found_and_repaired(bench: Bench) -> None:
    driver = bench.driver()
    said = {str(change) for change in driver.apply(GUARDED).changes}
    assert "SSH to the switch over IPv4: let in added 10.77.99.0/24, 10.77.100.10/32" in said
    assert "SSH to the switch over IPv6: access list added pinion-ssh" in said
    assert driver.read() == wanted(GUARDED)
    assert driver.apply(GUARDED).empty
    bench.ask(None)
    assert [str(change) for change in driver.apply(GUARDED).changes] == [
        "SSH to the switch over IPv4: access list added pinion-ssh"
    ]
    fewer = small_plan(ssh_sources=("10.77.99.0/24",))
    assert [str(change) for change in driver.apply(fewer, GUARDED).changes] == [
        "SSH to the switch over IPv4: let in 10.77.99.0/24, 10.77.100.10/32 -> 10.77.99.0/24",
        "SSH to the switch over IPv6: let in fd00:99::/64 -> nobody",
    ]
    assert bench.reboot() == wanted(fewer)


def test_a_plan_that_holds_nobody_back_takes_our_list_away_and_leaves_somebodys(bench: Bench) -> None:
    driver = bench.driver()
    driver.apply(GUARDED)
    driver.apply(small_plan(), GUARDED)
    assert driver.read() == wanted(small_plan())
    bench.ask("corporate")
    assert driver.diff(small_plan()).empty
    assert driver.diff(small_plan()).left == ("SSH over IPv4 asks access list corporate",)
    driver.apply(GUARDED)
    assert driver.read() == wanted(GUARDED), "a plan that says who may log in is asked"
    driver.undo(GUARDED)
    assert driver.read() == FACTORY.model_copy(update={"ip_routing": True})


CLASSES = plan_with_classes()


def test_traffic_classes_are_held_found_and_repaired(bench: Bench) -> None:
    driver = bench.driver()
    before = driver.diff(CLASSES)
    assert driver.apply(CLASSES) == before
    assert driver.read() == wanted(CLASSES)
    assert driver.apply(CLASSES).empty
    bench.give_share("pinion-lossy", 3, 10)
    bench.map_dscp(26, 5)
    said = [str(change) for change in driver.diff(CLASSES).changes]
    rest = "guaranteed 1 %, ECN from 256 to 512 kB with 100 %"
    old, new = (f"share {share} %, {rest}" for share in (10, 60))
    assert said == [
        "DSCP 26 (traffic_classes.rdma): traffic class 5 -> 3",
        f"QoS profile pinion-lossy: queue 3 {old} -> {new}",
    ]
    assert driver.diff(CLASSES).lines == (
        " qos profile pinion-lossy",
        "    uc-tx-queue 3",
        "-      bandwidth percent 10",
        "+      bandwidth percent 60",
        "-qos map dscp 26 to traffic-class 5",
    ), "what is as the switch has it anyway is no line of its configuration"
    assert [str(change) for change in driver.apply(CLASSES).changes] == said
    assert bench.reboot() == wanted(CLASSES)


def test_classes_of_somebodys_are_told_and_left(bench: Bench) -> None:
    driver = bench.driver()
    bench.map_dscp(46, 4)
    bench.add_profile("by-hand")
    bench.add_profile("pinion-old")
    done = driver.apply(CLASSES)
    assert done.left == ("DSCP 46 to traffic class 4", "QoS profile by-hand")
    assert "QoS profile pinion-old trust cos removed" in list(map(str, done.changes)), "its name says that it is ours"
    held = driver.read().qos
    assert [profile.name for profile in held.profiles] == ["by-hand", "pinion-lossless", "pinion-lossy"]
    assert driver.apply(CLASSES).empty
    driver.undo(CLASSES)
    assert [profile.name for profile in driver.read().qos.profiles] == ["by-hand"]
    assert [(entry.source, entry.to) for entry in driver.read().qos.maps] == [(46, 4)]


def test_classes_that_the_plan_no_longer_has_are_taken_back(bench: Bench) -> None:
    driver = bench.driver()
    driver.apply(CLASSES)
    fewer = plan_with_classes(rdma=70)
    assert fewer.qos is not None
    maps = tuple(entry for entry in fewer.qos.maps if entry.source != 16)
    fewer = fewer.model_copy(update={"qos": fewer.qos.model_copy(update={"maps": maps, "watchdog": None})})
    done = [str(change) for change in driver.apply(fewer, CLASSES).changes]
    assert "DSCP 16 (traffic_classes.control): traffic class 4 -> 2" in done
    assert "PFC watchdog: timers timeout 200 ms, polling 100 ms, recovery 200 ms, action drop removed" in done
    assert driver.read() == wanted(fewer)
    driver.undo(fewer)
    assert driver.read() == FACTORY.model_copy(update={"ip_routing": True})
