"""`pinion fabric check` of switches that run Cumulus Linux: numbers changed are found and named, and the files agree as they are."""

from __future__ import annotations

from functools import cache
from random import Random

import pytest
from unit.checks.fabric.mutations import Mutation, mutations
from unit.checks.fabric.pages import PAGE, section, table
from unit.drivers.switch.cumulus_sites import SITES, loaded

from pinion.checks.fabric.agreement import contradictions, read
from pinion.checks.fabric.artefacts import Artefact, rendered
from pinion.checks.fabric.contract import Contradiction
from pinion.checks.fabric.hops import hops
from pinion.site import catalog

SEED = 15
MARK = "tests/unit/checks/fabric/test_cumulus.py"
#: Of the site with two switches; the other one has few ports in use.
MUTATED = ("lab", "dc-rack-12, one switch")


def found(name: str, artefacts: tuple[Artefact, ...]) -> tuple[Contradiction, ...]:
    site, compiled = loaded(name)
    return contradictions(site, catalog.load(), compiled, artefacts)


@pytest.mark.parametrize("name", SITES)
def test_the_files_of_a_site_agree(name: str) -> None:
    assert found(name, rendered(loaded(name)[1])) == ()


@cache
def tried(name: str) -> tuple[tuple[Mutation, tuple[Contradiction, ...]], ...]:
    """Each mutation of the switches' files of the site *name*, and what is found of it."""
    files = rendered(loaded(name)[1])
    return tuple(
        (one, found(name, one.artefacts)) for one in mutations(files, Random(SEED)) if one.path.endswith(".yaml")
    )


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
    assert {each.file for one, told in results for each in told} == {one.path for one, _ in results}


def test_the_page_has_the_table(regenerate: bool) -> None:
    text = PAGE.read_text(encoding="utf-8")
    made = section(text, MARK, table([result for name in MUTATED for result in tried(name)]))
    if regenerate:
        PAGE.write_text(made, encoding="utf-8")
    assert made == text or regenerate, "run with --regenerate, then look at the difference"


TOR = "switches/tor-1.yaml"


def replaced(old: str, new: str) -> list[str]:
    """What is found when the first *old* is *new* in the file of dc-rack-12's first switch."""
    files = rendered(loaded("dc-rack-12")[1])
    (text,) = (one.text for one in files if one.path == TOR)
    assert old in text
    changed = tuple(Artefact(one.path, text.replace(old, new, 1) if one.path == TOR else one.text) for one in files)
    return [str(one) for one in found("dc-rack-12", changed)]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("trust: l3", "trust: l2", "pinion-lossless does not trust DSCP"),
        ("mode: strict", "mode: dwrr", "congestion notifications wait in turn"),
        ("max-threshold: 1500000", "max-threshold: 64000000", "above the 42000 kB of memory that it has"),
        ("ecn: enable", "ecn: disable", "nothing marks congestion in queue 3"),
        ("profile: pinion-lossless", "profile: other", "other lines"),
        ("        default-lossless:\n          memory-percent: 50\n", "", "no packet memory is lossless"),
        ("        polling-interval: 100\n", "", "the PFC watchdog has no timeout"),
        ("          pfc-watchdog:\n            state: enable\n", "", "qos pfc-watchdog off"),
        ("            '3': {}\n", "", "does not pause priority 3, and the other end does"),
        ("      swp1:\n", "      swp99:\n", "this switch has no port swp99"),
        ("access: 101", "access: edge", "`access` is no number"),
        ("      congestion-control:\n        pinion", "      roce: {}\n      congestion-control:\n        pinion", "the RoCE preset is on"),
        ("- set:", "- unset:", "says `unset`"),
    ],
)  # fmt: skip
def test_other_contradictions_are_named(old: str, new: str, said: str) -> None:
    told = replaced(old, new)
    assert any(said in line for line in told), told
    assert all(line.startswith(TOR) for line in told)


def test_the_defaults_of_the_nic_operator_do_not_agree_with_a_cumulus_switch() -> None:
    """Data with DSCP 0 and notifications with DSCP 4: both land in switch priority 0, which is lossy."""
    files = rendered(loaded("dc-rack-12")[1])
    nic = "hosts/nv-1/etc/pinion/nic-tuning.json"
    changed = tuple(
        Artefact(one.path, one.text.replace('"tos": 106', '"tos": 0').replace('"48": 6', '"4": 6'))
        if one.path == nic
        else one
        for one in files
    )
    told = [str(one) for one in found("dc-rack-12", changed)]
    assert any("gives DSCP 4 a priority, and no switch treats it as a class of this card" in line for line in told)
    assert any("marks its packets with type of service 0 (DSCP 0)" in line for line in told)


def test_a_packet_of_each_class_hop_by_hop() -> None:
    site, compiled = loaded("dc-rack-12")
    found_hops = hops(site, catalog.load(), compiled, read(compiled, rendered(compiled)))
    (leaf,) = {
        (hop.queue, hop.share, hop.pfc, hop.ecn, hop.mtu)
        for hop in found_hops
        if hop.traffic_class == "rdma" and hop.place.startswith("leaf")
    }
    assert leaf == (3, 60, (3,), "150-1500 kB, 100 %", 9216)
    assert {hop.priority for hop in found_hops if hop.traffic_class == "rdma" and hop.place == "leaf tor-1"} == {3}
