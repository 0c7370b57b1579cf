"""Concerns that the site no longer has leave nothing, whoever takes them away."""

from __future__ import annotations

from concerns.rack import COMMON, GPUS, IMAGE, PIS, ConcernsRack
from pinion.plan.concerns.firewall import UNIT as FIREWALL
from pinion.plan.concerns.identity import FOLDER
from pinion.plan.concerns.node_metrics import EXPORTER
from pinion.plan.concerns.pi_boot import CONFIG_FILE
from pinion.plan.concerns.power_thermal import SERVICE as POWER_THERMAL
from pinion.plan.concerns.site_ca import FOLDER as CA_FOLDER
from pinion.plan.concerns.site_ca import UNIT as CA_UNIT
from pinion.plan.context import PI_COMMAND_LINE
from pinion.plan.programs import program_path

#: Conffiles of packages that go, what the image had before, and the name that it gave.
OTHERS = {"/etc/chrony/chrony.conf", "/etc/default/prometheus-node-exporter", "/etc/hostname", CONFIG_FILE}
PACKAGES = ("chrony", "prometheus-node-exporter")


def test_concerns_that_the_site_no_longer_has_leave_nothing(rack: ConcernsRack) -> None:
    gone = (*COMMON, *PIS, *GPUS, "site_ca", "identity")
    placed = {
        name: {
            file.path
            for concern in gone
            if concern in (stated := rack.host(name).concerns)
            for file in stated[concern].files
        }
        - OTHERS
        for name in ("mgmt-1", "pi-01", "pi-02", "nv-1")
    }
    assert sum(map(len, placed.values())) > 60
    rack.without(*gone)
    for by, names in (("ansible", ("mgmt-1", "pi-01")), ("pyinfra", ("pi-02", "nv-1"))):
        limits = [word for name in names for word in ("--limit", name)]
        assert rack.converge(by, *limits)["failed"] == []
        for name in names:
            paths = " ".join(sorted(placed[name]))
            assert rack.on(name, f"for file in {paths}; do [ -e $file ] && echo $file; done; true").split() == []
            _common_are_gone(rack, name)
        assert rack.converge(by, *limits)["changed"] == 0
    for name in ("pi-01", "pi-02"):
        assert rack.on(name, f"cat {CONFIG_FILE}") == "dtparam=spi=on\n"
        assert rack.on(name, f"cat {PI_COMMAND_LINE}").strip() == IMAGE
        assert rack.on(name, f"systemctl is-active {POWER_THERMAL}; true").strip() == "inactive"
        logs = rack.on(name, "findmnt -n --mountpoint /var/log || ls /var/log").split()
        assert "apt" in logs, "the card's own logs are back"
    shown = rack.on("nv-1", "sysctl -n net.ipv4.tcp_rmem").split()
    assert shown[2] != "268435456", "the kernel's own is back"
    for name in ("pi-01", "pi-02", "nv-1"):
        assert rack.on(name, f"ls -d {FOLDER} {program_path('identity')} 2>/dev/null; true") == ""
    assert (
        rack.on("mgmt-1", f"ls -d {CA_FOLDER} 2>/dev/null; systemctl is-active {CA_UNIT}; true").strip() == "inactive"
    )


def _common_are_gone(rack: ConcernsRack, name: str) -> None:
    assert rack.on(name, "nft list tables").strip() == ""
    assert rack.on(name, "readlink /etc/localtime").strip() == "/usr/share/zoneinfo/Etc/UTC"
    units = rack.on(name, f"systemctl is-active {FIREWALL} {EXPORTER} pinion-node-metrics.timer; true").split()
    assert set(units) == {"inactive"}
    states = rack.on(name, f"dpkg-query -W -f '${{db:Status-Status}} ' {' '.join(PACKAGES)}; true").split()
    assert states == ["config-files"] * len(PACKAGES)
