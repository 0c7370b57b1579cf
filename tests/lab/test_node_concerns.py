"""The concerns of Pis and GPU servers on hosts of the lab: Ansible and pyinfra do the same, the checks hold, and all of it goes again."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from lab.hosts_rack import HostsRack

from pinion.plan.concerns.gpu_tuning import SYSCTL_FILE
from pinion.plan.concerns.pi_boot import CONFIG_FILE
from pinion.plan.concerns.power_thermal import METRICS_FILE, SERVICE, STATE_FILE
from pinion.plan.context import PI_COMMAND_LINE

pytestmark = [
    pytest.mark.lab,
    pytest.mark.timeout(900),
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces and mounts need root"),
]

SERVER = """\
gpu_servers:
  nv-1:
    platform: lab
    profile: lab-gpu-server
    rack: r1
    unit: 8
    network: control
    port: tor-1 Ethernet9
    rdma: {network: gpu-rdma, ports: {tor-1: Ethernet10-11}}
"""
CONCERNS = """\
concerns:
  pi_boot: {}
  pi_tuning: {}
  power_thermal: {}
  gpu_tuning: {}
  nic_tuning: {}
"""
PIS, GPUS = ("pi_boot", "pi_tuning", "power_thermal"), ("gpu_tuning", "nic_tuning")
#: What the image of a Raspberry Pi has on its boot partition.
IMAGE = "console=serial0,115200 root=PARTUUID=0a1b2c3d-02 rootwait quiet"


@dataclass(frozen=True)
class NodesRack(HostsRack):
    """Two Pis and a GPU server, whose site states these concerns."""

    BARE = False

    @classmethod
    def make(cls, folder: Path, name: str) -> NodesRack:
        made = super().make(folder, name)
        rack = cls(made.instance, made.folder)
        text = rack.site.read_text().replace("numbers: 1-4", "numbers: 1-2")
        text = text.replace(
            "switches:", "  gpu-rdma: {vid: 102, purpose: rdma, prefix: 10.77.102.0/24, mtu: 9000}\nswitches:"
        )
        rack.site.write_text(text + SERVER + CONCERNS)
        return rack

    def without(self, *names: str) -> None:
        """Take concerns out of the site file."""
        lines = self.site.read_text().splitlines(keepends=True)
        self.site.write_text("".join(line for line in lines if line.strip().partition(":")[0] not in names))


@pytest.fixture(scope="module")
def rack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodesRack]:
    """One running instance: pi-01 and nv-1 converged by Ansible, pi-02 by pyinfra."""
    made = NodesRack.make(tmp_path_factory.mktemp("nodes"), "t-nodes")
    try:
        made.up()
        for name in ("pi-01", "pi-02"):
            made.on(
                name, f"mkdir -p /boot/firmware; echo '{IMAGE}' >{PI_COMMAND_LINE}; echo dtparam=spi=on >{CONFIG_FILE}"
            )
        for by, name in (("ansible", "pi-01"), ("ansible", "nv-1"), ("pyinfra", "pi-02")):
            assert made.converge(by, "--limit", name)["failed"] == []
        yield made
    finally:
        made.run("down", "--purge", expect=None)


def test_either_makes_the_same_pi_and_neither_finds_more_to_do(rack: NodesRack) -> None:
    assert rack.snapshot("pi-01") == rack.snapshot("pi-02")
    for by, name in (("pyinfra", "pi-01"), ("pyinfra", "nv-1"), ("ansible", "pi-02"), ("ansible", "nv-1")):
        answer = rack.converge(by, "--limit", name)
        assert answer["failed"] == []
        assert answer["changed"] == 0, answer


def test_the_checks_of_the_plan_hold(rack: NodesRack) -> None:
    rack.checks_hold("pi-01", "nv-1")


def test_the_gpu_server_has_the_parameters_that_a_namespace_has(rack: NodesRack) -> None:
    shown = rack.on("nv-1", "sysctl -n net.ipv4.tcp_rmem net.ipv4.tcp_wmem net.ipv4.tcp_mtu_probing").split()
    assert shown == ["4096", "87380", "268435456", "4096", "65536", "268435456", "1"]
    assert "net.core.netdev_max_backlog = 250000" in rack.on("nv-1", f"cat {SYSCTL_FILE}")


def test_the_image_keeps_its_command_line_and_gets_one_argument(rack: NodesRack) -> None:
    assert rack.on("pi-01", f"cat {PI_COMMAND_LINE}").split() == [*IMAGE.split(), "cgroup_enable=memory"]
    assert "dtparam=pciex1" not in rack.on("pi-01", f"cat {CONFIG_FILE}"), "no HAT, no PCIe"
    assert "usb_max_current_enable=1" in rack.on("pi-01", f"cat {CONFIG_FILE}")


def test_a_pi_says_how_it_is_again_and_again(rack: NodesRack) -> None:
    first = json.loads(rack.on("pi-01", f"cat {STATE_FILE}"))
    assert first["state"] in {"ok", "warm", "unknown"}
    deadline = time.monotonic() + 60
    while json.loads(rack.on("pi-01", f"cat {STATE_FILE}"))["at"] == first["at"]:
        assert time.monotonic() < deadline, rack.on("pi-01", f"systemctl status {SERVICE}; true")
        time.sleep(2)
    assert f'pinion_power_thermal_state{{state="{first["state"]}"}} 1' in rack.on("pi-01", f"cat {METRICS_FILE}")


def test_an_rdma_nic_that_somebody_changed_comes_back_by_itself(rack: NodesRack) -> None:
    timer = "pinion-nic-tuning.timer"
    # A run that the timer has begun goes on without it, and would put things right before they are looked at.
    rack.on(
        "nv-1",
        f"systemctl stop {timer}; systemctl start pinion-nic-tuning.service; ip link set rdma0 mtu 1500; ethtool -K rdma1 gro off",
    )
    assert rack.on("nv-1", "/usr/local/lib/pinion/nic-tuning --check; true").splitlines() == [
        "rdma0: MTU is 1500, not 9000",
        "rdma1: generic-receive-offload is off, not on",
    ]
    whole = "/usr/local/lib/pinion/nic-tuning --check >/dev/null"
    rack.on("nv-1", f"systemctl start {timer}; for i in $(seq 60); do {whole} && break; sleep 1; done")
    assert rack.on("nv-1", "cat /sys/class/net/rdma0/mtu; ethtool -k rdma1 | grep ^generic-receive").split() == [
        "9000",
        "generic-receive-offload:",
        "on",
    ]


def test_who_asks_for_a_reboot_gets_one_and_nobody_else(rack: NodesRack) -> None:
    def boots() -> dict[str, str]:
        return {name: rack.on(name, "cut -d' ' -f22 /proc/1/stat") for name in ("pi-01", "pi-02", "nv-1", "mgmt-1")}

    command = (sys.executable, "-m", "pinion", "reboot", str(rack.site))
    before = boots()
    # as Debian's packages ask for it
    rack.on("nv-1", "touch /run/reboot-required; echo linux-image-amd64 >/run/reboot-required.pkgs")
    said = rack.inside(*command, "--check", expect=1).stderr
    assert f"pi-01: to be rebooted for: {PI_COMMAND_LINE}" in said
    assert f"pi-02: to be rebooted for: {PI_COMMAND_LINE}" in said
    assert "nv-1: to be rebooted for: packages: linux-image-amd64" in said
    assert "mgmt-1" not in said
    refused = rack.inside(*command, expect=2)
    assert "nobody to ask: say --yes" in refused.stderr
    assert boots() == before

    command = (*command, "--limit", "pi-01", "--limit", "nv-1")
    answer = json.loads(rack.inside(*command, "--yes", "--json").stdout)
    assert answer["rebooted"] == ["pi-01", "nv-1"]
    assert answer["stopped"] == []
    assert [wave["hosts"] for wave in answer["waves"]] == [["pi-01"], ["nv-1"]]
    assert all(wave["proved"] > 10 for wave in answer["waves"])
    after = boots()
    assert {name for name, boot in after.items() if boot != before[name]} == {"pi-01", "nv-1"}
    assert "nothing waits for a reboot" in rack.inside(*command, "--check").stderr
    assert rack.converge("pyinfra", "--limit", "pi-01", "--limit", "nv-1")["changed"] == 0


def test_the_backlog_changes_its_owner_and_stays(rack: NodesRack) -> None:
    rack.without("pi_tuning")
    assert rack.converge("ansible", "--limit", "pi-02")["failed"] == []
    files = "grep -l '^net.core.netdev_max_backlog = 5000$' /etc/sysctl.d/*.conf"
    assert rack.on("pi-02", files).split() == ["/etc/sysctl.d/80-pinion-os-tuning.conf"]
    assert rack.on("pi-01", files).split() == ["/etc/sysctl.d/82-pinion-pi-tuning.conf"]


def test_concerns_that_the_site_no_longer_has_leave_nothing(rack: NodesRack) -> None:
    placed = {
        (name, file.path)
        for name, concerns in (("pi-01", PIS), ("nv-1", GPUS))
        for concern in concerns
        if concern in rack.host(name).concerns
        for file in rack.host(name).concerns[concern].files
    } - {("pi-01", CONFIG_FILE)}
    assert len(placed) > 8
    rack.without(*PIS, *GPUS, "concerns")
    for by, name in (("ansible", "pi-01"), ("pyinfra", "nv-1")):
        assert rack.converge(by, "--limit", name)["failed"] == []
        paths = " ".join(sorted(path for host, path in placed if host == name))
        assert rack.on(name, f"for file in {paths}; do [ -e $file ] && echo $file; done; true").split() == []
        assert rack.converge(by, "--limit", name)["changed"] == 0
    assert rack.on("pi-01", f"cat {CONFIG_FILE}") == "dtparam=spi=on\n"
    assert rack.on("pi-01", f"cat {PI_COMMAND_LINE}").strip() == IMAGE
    assert rack.on("pi-01", f"systemctl is-active {SERVICE}; true").strip() == "inactive"
    assert "apt" in rack.on("pi-01", "findmnt -n --mountpoint /var/log || ls /var/log").split(), (
        "the card's own logs are back"
    )
    shown = rack.on("nv-1", "sysctl -n net.ipv4.tcp_rmem").split()
    assert shown[2] != "268435456", "the kernel's own is back"
