"""Waves: a canary, a few, the rest, within the limits of groups; each host once."""

from __future__ import annotations

import math
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from pinion.plan.model import DeviceKind, HostPlan, RolloutPlan
from pinion.plan.rollout import waves
from pinion.site.catalog import Evidence

GROUPS = {DeviceKind.PI: "pis", DeviceKind.GPU_SERVER: "gpu_servers", DeviceKind.MANAGEMENT_HOST: "management_hosts"}


def host(number: int, kind: DeviceKind, group: str = "") -> HostPlan:
    """A host of *kind*."""
    groups = (GROUPS[kind], group) if group else (GROUPS[kind],)
    return HostPlan(
        name=f"h-{number}",
        kind=kind,
        address="192.0.2.1",
        user="u",
        groups=groups,
        concerns={},
        evidence=Evidence.EMULATED,
        origin="o",
    )


def fleet(pis: int, servers: int = 0, management: int = 0) -> list[HostPlan]:
    """A site of so many hosts, in the plan's order: management hosts, servers, Pis."""
    kinds = [DeviceKind.MANAGEMENT_HOST] * management + [DeviceKind.GPU_SERVER] * servers + [DeviceKind.PI] * pis
    return [host(number, kind) for number, kind in enumerate(kinds)]


hosts = st.lists(st.tuples(st.sampled_from(list(GROUPS)), st.sampled_from(["", "left", "right"])), max_size=120).map(
    lambda entries: [host(number, kind, group) for number, (kind, group) in enumerate(entries)]
)
rollouts = st.builds(
    RolloutPlan,
    canary=st.integers(1, 5),
    second=st.floats(0, 1),
    limits=st.dictionaries(st.sampled_from([*GROUPS.values(), "left", "right"]), st.integers(1, 40), max_size=4),
)


@given(hosts, rollouts)
def test_each_host_is_in_one_wave_and_no_wave_is_empty(given_hosts: list[HostPlan], rollout: RolloutPlan) -> None:
    found = waves(given_hosts, rollout)
    assert sorted(name for wave in found for name in wave) == sorted(host.name for host in given_hosts)
    assert all(found)


@given(hosts, rollouts)
def test_no_wave_has_more_hosts_of_a_group_than_its_limit(given_hosts: list[HostPlan], rollout: RolloutPlan) -> None:
    groups = {host.name: host.groups for host in given_hosts}
    for wave in waves(given_hosts, rollout):
        count = Counter(group for name in wave for group in groups[name])
        assert all(count[group] <= most for group, most in rollout.limits.items())


@given(hosts, rollouts)
def test_the_first_waves_are_small(given_hosts: list[HostPlan], rollout: RolloutPlan) -> None:
    found = waves(given_hosts, rollout)
    early = rollout.canary + math.ceil(len(given_hosts) * rollout.second)
    seen = 0
    for wave in found:
        if seen < rollout.canary:
            assert seen + len(wave) <= rollout.canary
        elif seen < early:
            assert seen + len(wave) <= early
        seen += len(wave)


@given(hosts, rollouts)
def test_a_limit_that_binds_nobody_changes_nothing(given_hosts: list[HostPlan], rollout: RolloutPlan) -> None:
    free = rollout.model_copy(update={"limits": {}})
    wide = rollout.model_copy(update={"limits": {"pis": 1000, "nobody": 1}})
    assert waves(given_hosts, free) == waves(given_hosts, wide)
    assert len(waves(given_hosts, free)) <= 3


def test_by_default_one_then_a_tenth_then_the_rest() -> None:
    assert [len(wave) for wave in waves(fleet(1000), RolloutPlan())] == [1, 100, 899]
    assert [len(wave) for wave in waves(fleet(8), RolloutPlan())] == [1, 1, 6]
    assert [len(wave) for wave in waves(fleet(1), RolloutPlan())] == [1]
    assert waves([], RolloutPlan()) == ()


def test_a_pi_goes_first_and_the_second_wave_tries_every_kind() -> None:
    site = fleet(pis=900, servers=90, management=10)
    kinds = {host.name: host.kind for host in site}
    first, second, _ = waves(site, RolloutPlan())
    assert [kinds[name] for name in first] == [DeviceKind.PI]
    found = Counter(kinds[name] for name in second)
    assert set(found) == set(DeviceKind) - {DeviceKind.SWITCH}
    assert abs(found[DeviceKind.PI] - 90) <= 2
    assert abs(found[DeviceKind.GPU_SERVER] - 9) <= 2


def test_a_limit_makes_several_waves_of_one() -> None:
    site = fleet(pis=20, servers=4)
    found = waves(site, RolloutPlan(limits={"gpu_servers": 1, "pis": 10}))
    kinds = {host.name: host.kind for host in site}
    servers = [sum(kinds[name] is DeviceKind.GPU_SERVER for name in wave) for wave in found]
    assert servers == [0, 1, 1, 1, 1]
    assert [len(wave) - count for wave, count in zip(found, servers, strict=True)] == [1, 2, 10, 7, 0]
