"""What the plan says of the concern os_tuning."""

from __future__ import annotations

import pytest
from unit.hosts.nodes import concern
from unit.hosts.sites import DC, LAB, planned

from pinion.plan.concerns.os_tuning import SYSCTL_FILE
from pinion.plan.model import DeviceKind, Plan


@pytest.fixture(scope="module")
def lab() -> Plan:
    return planned(LAB, concerns=None)


@pytest.fixture(scope="module")
def real() -> Plan:
    return planned(DC, concerns=None)


def test_every_host_has_it(lab: Plan, real: Plan) -> None:
    for plan in (lab, real):
        assert plan.hosts
        assert all("os_tuning" in host.concerns for host in plan.hosts)


def test_the_backlog_of_a_pi_and_of_nobody_else(lab: Plan) -> None:
    backlog = {
        kind: {sysctl.key: sysctl.value for sysctl in concern(lab, kind, "os_tuning").sysctls}.get(
            "net.core.netdev_max_backlog"
        )
        for kind in (DeviceKind.PI, DeviceKind.GPU_SERVER, DeviceKind.MANAGEMENT_HOST)
    }
    assert backlog == {DeviceKind.PI: "5000", DeviceKind.GPU_SERVER: None, DeviceKind.MANAGEMENT_HOST: None}


def test_what_a_container_cannot_hold_is_not_live_there_and_is_live_on_hardware(lab: Plan, real: Plan) -> None:
    in_lab = {sysctl.key: sysctl for sysctl in concern(lab, DeviceKind.PI, "os_tuning").sysctls}
    on_hardware = {sysctl.key: sysctl for sysctl in concern(real, DeviceKind.PI, "os_tuning").sysctls}
    assert not in_lab["net.core.netdev_max_backlog"].live
    assert in_lab["net.core.somaxconn"].live
    assert all(sysctl.live == sysctl.namespaced for sysctl in in_lab.values())
    assert all(sysctl.live for sysctl in on_hardware.values())


def test_the_sysctl_file_states_every_parameter_with_its_source(lab: Plan) -> None:
    stated = concern(lab, DeviceKind.PI, "os_tuning")
    (file,) = [file for file in stated.files if file.path == SYSCTL_FILE]
    lines = file.content.splitlines()
    assert len(stated.sysctls) > 10
    for sysctl in stated.sysctls:
        assert sysctl.source
        at = lines.index(f"{sysctl.key} = {sysctl.value}")
        assert lines[at - 1] == f"# {sysctl.source}"


def test_what_the_kubelet_wants_only_where_there_is_one() -> None:
    alone = planned(LAB, kubernetes=None, services=None)
    keys = {sysctl.key for sysctl in concern(alone, DeviceKind.PI, "os_tuning").sysctls}
    assert "vm.overcommit_memory" not in keys
    assert "vm.overcommit_memory" in {
        sysctl.key for sysctl in concern(planned(LAB), DeviceKind.GPU_SERVER, "os_tuning").sysctls
    }


def test_names_are_unique_within_a_concern(lab: Plan, real: Plan) -> None:
    for host in (*lab.hosts, *real.hosts):
        stated = host.concerns["os_tuning"]
        for names in (
            [sysctl.key for sysctl in stated.sysctls],
            [file.path for file in stated.files],
            [*stated.packages, *stated.packages_absent],
        ):
            assert len(names) == len(set(names))
