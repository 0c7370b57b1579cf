"""Ansible and pyinfra make the same hosts, neither finds more to do, and what the plan claims of them is seen."""

from __future__ import annotations

from concerns.rack import ConcernsRack
from pinion.plan.concerns.identity import CONFIG_FILE
from pinion.plan.edge_units import HEALTH_SERVICE, SERVICE
from pinion.site.catalog import Evidence

#: Each listens at its own address, has its health asked there, and asks for a certificate with its own name.
OWN = (f"/{SERVICE}", f"/{HEALTH_SERVICE}", CONFIG_FILE)
HOSTS = ("mgmt-1", "pi-01", "pi-02", "nv-1")


def test_either_makes_the_same_pi(rack: ConcernsRack) -> None:
    first, second = ([line for line in rack.snapshot(name) if not line.endswith(OWN)] for name in ("pi-01", "pi-02"))
    assert sorted(set(first) ^ set(second)) == []


def test_neither_finds_more_to_do(rack: ConcernsRack) -> None:
    before = [rack.serial(name) for name in HOSTS]
    for by in ("pyinfra", "ansible"):
        answer = rack.converge(by)
        assert answer["failed"] == []
        assert answer["changed"] == 0, answer
    assert [rack.serial(name) for name in HOSTS] == before, "a good certificate is kept"


def test_the_checks_of_the_plan_hold(rack: ConcernsRack) -> None:
    rack.checks_hold(*HOSTS)


def test_what_the_plan_claims_of_a_served_model_is_seen_here(rack: ConcernsRack) -> None:
    """Every run that converges proves the claims; none of them is only rendered or parsed."""
    found = {
        name: best for name, best in rack.claims("pi-01").items() if ".claim." in name and ".firewall." not in name
    }
    assert len(found) == 4
    assert set(found.values()) == {Evidence.EMULATED}
