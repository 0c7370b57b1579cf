"""What the plan says of the concern gpu_tuning."""

from __future__ import annotations

from unit.hosts.nodes import concern, file, first, stated
from unit.hosts.sites import DC, LAB

from pinion.plan.concerns.gpu_tuning import SYSCTL_FILE
from pinion.plan.model import DeviceKind

GPU = DeviceKind.GPU_SERVER
#: Exactly these: part of the specification of the site.
EXACTLY = {
    "net.core.rmem_max": "268435456",
    "net.core.wmem_max": "268435456",
    "net.ipv4.tcp_rmem": "4096 87380 268435456",
    "net.ipv4.tcp_wmem": "4096 65536 268435456",
    "net.core.netdev_max_backlog": "250000",
    "net.ipv4.tcp_mtu_probing": "1",
}


def test_the_file_has_exactly_these_values() -> None:
    found = concern(stated(DC, {"gpu_tuning": {}}), GPU, "gpu_tuning")
    assert SYSCTL_FILE == "/etc/sysctl.d/99-gpu-tuning.conf"
    lines = [line for line in file(found, SYSCTL_FILE).content.splitlines() if line and not line.startswith("#")]
    assert dict(line.split(" = ") for line in lines) == EXACTLY
    assert {sysctl.key: sysctl.value for sysctl in found.sysctls} == EXACTLY


def test_only_gpu_servers_have_it_and_only_when_the_site_says_so() -> None:
    assert {host.kind for host in stated(DC, {"gpu_tuning": {}}).hosts if "gpu_tuning" in host.concerns} == {GPU}
    assert not any("gpu_tuning" in host.concerns for host in stated(DC, {}).hosts)


def test_os_tuning_leaves_it_what_it_states() -> None:
    for concerns, owner in (({}, "os_tuning"), ({"gpu_tuning": {}}, "gpu_tuning")):
        server = first(stated(DC, concerns), GPU)
        owners = [
            name
            for name, entry in server.concerns.items()
            if "net.ipv4.tcp_mtu_probing" in {sysctl.key for sysctl in entry.sysctls}
        ]
        assert owners == [owner]
    assert "net.ipv4.tcp_mtu_probing" in {
        sysctl.key for sysctl in concern(stated(DC, {"gpu_tuning": {}}), DeviceKind.PI, "os_tuning").sysctls
    }


def test_what_a_network_namespace_has_of_its_own_is_live_in_the_lab() -> None:
    found = concern(stated(LAB, {"gpu_tuning": {}}), GPU, "gpu_tuning")
    assert {sysctl.key for sysctl in found.sysctls if sysctl.live} == {
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_wmem",
        "net.ipv4.tcp_mtu_probing",
    }
