"""The concerns of Pis and GPU servers: parameters, boot files, what a board says of itself, NICs kept as planned, reboots."""

from __future__ import annotations

import json
import sys
import time

from concerns.rack import IMAGE, ConcernsRack
from pinion.plan.concerns.gpu_tuning import SYSCTL_FILE
from pinion.plan.concerns.pi_boot import CONFIG_FILE
from pinion.plan.concerns.power_thermal import METRICS_FILE, SERVICE, STATE_FILE
from pinion.plan.context import PI_COMMAND_LINE


def test_the_gpu_server_has_the_parameters_that_a_namespace_has(rack: ConcernsRack) -> None:
    shown = rack.on("nv-1", "sysctl -n net.ipv4.tcp_rmem net.ipv4.tcp_wmem net.ipv4.tcp_mtu_probing").split()
    assert shown == ["4096", "87380", "268435456", "4096", "65536", "268435456", "1"]
    assert "net.core.netdev_max_backlog = 250000" in rack.on("nv-1", f"cat {SYSCTL_FILE}")


def test_the_image_keeps_its_command_line_and_gets_one_argument(rack: ConcernsRack) -> None:
    assert rack.on("pi-01", f"cat {PI_COMMAND_LINE}").split() == [*IMAGE.split(), "cgroup_enable=memory"]
    assert "dtparam=pciex1" not in rack.on("pi-01", f"cat {CONFIG_FILE}"), "no HAT, no PCIe"
    assert "usb_max_current_enable=1" in rack.on("pi-01", f"cat {CONFIG_FILE}")


def test_a_pi_says_how_it_is_again_and_again(rack: ConcernsRack) -> None:
    first = json.loads(rack.on("pi-01", f"cat {STATE_FILE}"))
    assert first["state"] in {"ok", "warm", "unknown"}
    deadline = time.monotonic() + 60
    while json.loads(rack.on("pi-01", f"cat {STATE_FILE}"))["at"] == first["at"]:
        assert time.monotonic() < deadline, rack.on("pi-01", f"systemctl status {SERVICE}; true")
        time.sleep(2)
    assert f'pinion_power_thermal_state{{state="{first["state"]}"}} 1' in rack.on("pi-01", f"cat {METRICS_FILE}")


def test_an_rdma_nic_that_somebody_changed_comes_back_by_itself(rack: ConcernsRack) -> None:
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


def test_who_asks_for_a_reboot_gets_one_and_nobody_else(rack: ConcernsRack) -> None:
    def boots() -> dict[str, str]:
        return {name: rack.on(name, "cut -d' ' -f22 /proc/1/stat") for name in ("pi-01", "pi-02", "nv-1", "mgmt-1")}

    command = (sys.executable, "-m", "pinion", "reboot", str(rack.site))
    before = boots()
    # as Debian's packages ask for it
    rack.on("nv-1", "touch /run/reboot-required; echo linux-image-amd64 >/run/reboot-required.pkgs")
    said = rack.inside(*command, "--check", expect=1).stderr
    assert f"pi-01: to be rebooted for: {PI_COMMAND_LINE}" in said
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


#: A small archive on the host itself; Debian's own packages stay as they are, whatever its archive has got meanwhile.
OWN_ARCHIVE = """
mkdir -p /srv/own /srv/make/DEBIAN && cd /srv/own && rm -f ./*
control() { printf 'Package: pinion-trial\\nVersion: %s\\nArchitecture: all\\nMaintainer: nobody\\nDescription: a trial\\n' $1; }
build() { control $1 >/srv/make/DEBIAN/control; dpkg-deb -Znone --build /srv/make . >/dev/null; }
build 1.0; dpkg -i pinion-trial_1.0_all.deb >/dev/null; rm pinion-trial*; build 1.1
size=$(stat -c %s *.deb) digest=$(sha256sum *.deb | cut -d' ' -f1)
{ control 1.1; echo "Filename: ./pinion-trial_1.1_all.deb"; echo "Size: $size"; echo "SHA256: $digest"; } >Packages
echo 'deb [trusted=yes] file:/srv/own ./' >/etc/apt/sources.list.d/trial.list
printf 'Package: *\\nPin: release o=Debian\\nPin-Priority: 50\\n' >/etc/apt/preferences.d/trial
"""


def test_packages_become_newer_and_go_back(rack: ConcernsRack) -> None:
    version = "dpkg-query -W -f '${Version}' pinion-trial"
    rack.on("pi-01", OWN_ARCHIVE)
    command = (sys.executable, "-m", "pinion", "upgrade", str(rack.site), "--limit", "pi-01")
    try:
        checked = rack.inside(*command, "--check", expect=1)
        assert "  pinion-trial 1.0 -> 1.1" in checked.stderr.splitlines()
        assert rack.on("pi-01", version) == "1.0"
        answer = json.loads(rack.inside(*command, "--yes", "--json").stdout)
        assert [entry["name"] for entry in answer["changed"]["pi-01"]] == ["pinion-trial"]
        assert answer["stopped"] == []
        assert answer["waves"][0]["proved"] > 10
        assert rack.on("pi-01", version) == "1.1"
        assert rack.on("pi-01", "ls /var/lib/pinion/upgrades").split() == [answer["run"]]
        back = json.loads(rack.inside(*command, "--back", answer["run"], "--yes", "--json").stdout)
        assert back["stopped"] == []
        assert rack.on("pi-01", version) == "1.0", "packed again by dpkg-repack: no archive has it any more"
    finally:
        rack.on(
            "pi-01",
            "rm -r /etc/apt/sources.list.d/trial.list /etc/apt/preferences.d/trial /srv/own /srv/make; dpkg -r pinion-trial >/dev/null",
        )


def test_the_backlog_changes_its_owner_and_stays(rack: ConcernsRack) -> None:
    rack.without("pi_tuning")
    assert rack.converge("ansible", "--limit", "pi-02")["failed"] == []
    files = "grep -l '^net.core.netdev_max_backlog = 5000$' /etc/sysctl.d/*.conf"
    assert rack.on("pi-02", files).split() == ["/etc/sysctl.d/80-pinion-os-tuning.conf"]
    assert rack.on("pi-01", files).split() == ["/etc/sysctl.d/82-pinion-pi-tuning.conf"]
