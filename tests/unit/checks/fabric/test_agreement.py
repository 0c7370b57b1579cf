"""`pinion fabric check`: one number of one file changed is found and named, and the files of the sites agree as they are."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from unit.checks.fabric.mutations import Mutation, mutations
from unit.checks.fabric.pages import PAGE, section, table
from unit.hosts.sites import DC, LAB, REPOSITORY

from pinion.checks.fabric.agreement import contradictions
from pinion.checks.fabric.artefacts import Artefact, rendered
from pinion.checks.fabric.contract import Contradiction
from pinion.plan import Plan, plan
from pinion.site import catalog
from pinion.site.loader import read
from pinion.site.model import Site

MARK = "tests/unit/checks/fabric/test_agreement.py"
SEED = 15


def lossy(stated: dict[str, Any]) -> None:
    stated["traffic_classes"]["rdma"]["delivery"] = "lossy"


def other_marks(stated: dict[str, Any]) -> None:
    stated["traffic_classes"] = {
        "control": {"share": "33.4%", "dscp": 10},
        "rdma": {"share": "66.2%", "dscp": 34, "delivery": "lossless"},
        "edge_http": {"share": "0.4%", "dscp": 0},
    }


def one_switch(stated: dict[str, Any]) -> None:
    tor = stated["switches"].pop("tor-2")
    assert tor["pair"] == "tor-1"
    for key in ("pair", "pair_ports"):
        del stated["switches"]["tor-1"][key]
    stated["gpu_servers"]["nv-1"]["rdma"]["ports"] = {"tor-1": "Ethernet49/1-56/1"}


def no_classes(stated: dict[str, Any]) -> None:
    del stated["traffic_classes"]


def as_it_is(_: dict[str, Any]) -> None:
    pass


SITES: dict[str, tuple[Path, Callable[[dict[str, Any]], None]]] = {
    "lab": (LAB, as_it_is),
    "dc-rack-12": (DC, as_it_is),
    "dc-rack-12, lossy": (DC, lossy),
    "dc-rack-12, other marks and shares": (DC, other_marks),
    "dc-rack-12, one switch": (DC, one_switch),
    "dc-rack-12, no classes": (DC, no_classes),
}


@cache
def loaded(name: str) -> tuple[Site, Plan, tuple[Artefact, ...]]:
    path, change = SITES[name]
    stated = yaml.safe_load(path.read_text(encoding="utf-8"))
    change(stated)
    site, problems = read(yaml.safe_dump(stated).encode(), "site.yml", charts=REPOSITORY / "charts")
    assert site is not None, problems
    compiled = plan(site)
    return site, compiled, rendered(compiled)


def found(name: str, artefacts: tuple[Artefact, ...]) -> tuple[Contradiction, ...]:
    site, compiled, _ = loaded(name)
    return contradictions(site, catalog.load(), compiled, artefacts)


@pytest.mark.parametrize("name", SITES)
def test_the_files_of_a_site_agree(name: str) -> None:
    assert found(name, loaded(name)[2]) == ()


@cache
def tried(name: str) -> tuple[tuple[Mutation, tuple[Contradiction, ...]], ...]:
    """Each mutation of the site *name*, and what is found of it."""
    return tuple((one, found(name, one.artefacts)) for one in mutations(loaded(name)[2], Random(SEED)))


MUTATED = ("lab", "dc-rack-12", "dc-rack-12, other marks and shares")


@pytest.mark.parametrize("name", MUTATED)
def test_one_changed_number_is_found_and_named(name: str) -> None:
    results = tried(name)
    assert len(results) >= 40
    missed = [
        f"{one.path}:{one.line} {one.before.strip()} -> {one.after.strip()}: {[str(each) for each in told]}"
        for one, told in results
        if (one.path, one.line) not in {(each.file, each.line) for each in told}
    ]
    assert missed == []


@pytest.mark.parametrize("name", MUTATED)
def test_nothing_else_than_the_changed_file_is_blamed(name: str) -> None:
    for one, told in tried(name):
        assert {each.file for each in told} == {one.path}, one.after


def test_the_page_has_the_table(regenerate: bool) -> None:
    text = PAGE.read_text(encoding="utf-8")
    made = section(text, MARK, table([result for name in ("lab", "dc-rack-12") for result in tried(name)]))
    if regenerate:
        PAGE.write_text(made, encoding="utf-8")
    assert made == text or regenerate, "run with --regenerate, then look at the difference"


# --- what one number does not tell ----------------------------------------------------------------------------------------


def replaced(name: str, path: str, old: str, new: str) -> list[str]:
    """What is found when *old* is *new* in the file *path*."""
    site_files = loaded(name)[2]
    (text,) = (one.text for one in site_files if one.path == path)
    assert old in text
    changed = tuple(Artefact(one.path, text.replace(old, new) if one.path == path else one.text) for one in site_files)
    return [str(one) for one in found(name, changed)]


TOR, NIC = "switches/tor-1.cfg", "hosts/nv-1/etc/pinion/nic-tuning.json"


@pytest.mark.parametrize(
    ("path", "old", "new", "said"),
    [
        (TOR, "   priority-flow-control on\n", "", "pinion-lossless has PFC off, and names what it pauses"),
        (TOR, "   priority-flow-control pause watchdog\n", "", "pinion-lossless pauses without a watchdog"),
        (TOR, "   qos trust dscp\n", "   qos trust cos\n", "does not trust DSCP"),
        (TOR, "512 kbytes", "64000 kbytes", "above the 32000 kB of memory that it has"),
        (TOR, "service-profile pinion-lossless", "service-profile pinion-lossy", "lossy, which does not pause, and its other end does"),
        (TOR, "service-profile pinion-lossy", "service-profile pinion-lossless", "which pauses, and its other end does not"),
        (TOR, "service-profile pinion-lossy", "service-profile other", "takes QoS profile other, which is not there"),
        (TOR, "      priority strict\n", "      no priority\n", "congestion notifications wait in turn"),
        (TOR, "interface Ethernet49/1\n", "interface Ethernet57/1\n", "this switch has no port Ethernet57/1"),
        (TOR, "pause watchdog action drop", "pause watchdog action errdisable", "does not drop what is stuck"),
        (TOR, "qos map dscp 26 to traffic-class 3", "qos map dscp 26 to traffic-class 6", "class rdma (DSCP 26) gets traffic class 6"),
        (NIC, '"pause": false', '"pause": true', "nv-1 rdma0 pauses its whole link"),
        (NIC, '"tos": 106', '"tos": 0', "marks its packets with type of service 0 (DSCP 0)"),
        (NIC, '"tos": 106', '"tos": null', "marks its packets with no type of service"),
        (NIC, "3\n  ]", "\n  ]", "does not pause priority 3, and its switch does"),
        (NIC, '"rdma0"', '"rdma9"', "nv-1 has no cabled NIC rdma9"),
        (NIC, "{", "[", "is no JSON"),
    ],
)  # fmt: skip
def test_other_contradictions_are_named(path: str, old: str, new: str, said: str) -> None:
    told = replaced("dc-rack-12", path, old, new)
    assert any(said in line for line in told), told
    assert all(line.startswith(path) for line in told)


def test_the_defaults_of_nvidias_operator_do_not_agree_with_a_switch() -> None:
    """Type of service 0, notifications with DSCP 4: what roceOptimized of its NIC Configuration Operator sets."""
    told = replaced("dc-rack-12", NIC, '"48": 6', '"4": 6')
    assert any("gives DSCP 4 a priority, and no switch treats it as a class of this card" in line for line in told)
    assert any("gives congestion notifications (DSCP 48) no priority" in line for line in told)


def test_an_empty_switch_file_agrees_with_nothing() -> None:
    site_files = loaded("dc-rack-12")[2]
    emptied = tuple(Artefact(one.path, "" if one.path == TOR else one.text) for one in site_files)
    told = [str(one) for one in found("dc-rack-12", emptied)]
    assert any("port Ethernet49/1 is not there" in line for line in told)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("   description pi-01 eth0\n", "", "port Ethernet1 (pis.pi 1): description (none) -> pi-01 eth0"),
        ("interface Ethernet1\n", "interface Ethernet1\n   shutdown\n", "port Ethernet1 (pis.pi 1): state shut -> up"),
        ("   name control\n", "   name typo\n", "VLAN 100 (networks.control): name typo -> control"),
        ("192.168.101.1/24", "192.168.101.9/24", "shared addresses 192.168.101.9/24 -> 192.168.101.1/24"),
        ("   20 permit 192.168.100.0/24\n", "", "SSH to the switch over IPv4: let in 192.168.99.0/24 -> 192.168.99.0/24, 192.168.100.0/24"),
        ("ip routing\n", "", "routing between VLANs: IPv4 off -> on"),
        ("00:1c:73:00:00:99", "00:1c:73:00:00:98", "shared gateways: MAC address 00:1c:73:00:00:98 -> 00:1c:73:00:00:99"),
    ],
)  # fmt: skip
def test_what_has_nothing_to_do_with_classes_is_compared_too(old: str, new: str, said: str) -> None:
    """By the comparison that `pinion verify` and the preview ask."""
    told = replaced("dc-rack-12", TOR, old, new)
    assert any(said in line for line in told), told
    assert all(line.startswith(TOR) for line in told)
