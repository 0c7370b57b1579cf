"""The concerns that every host has, on hosts of the lab: Ansible, then pyinfra; what the firewall lets in; nobody locked out; gone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from lab.hosts_rack import HostsRack

from pinion.lab.apt import machine_mirrors
from pinion.plan.concerns.firewall import RULES_FILE, TABLE, UNIT
from pinion.plan.concerns.node_metrics import EXPORTER
from pinion.plan.flows import NODE_METRICS as PORT

pytestmark = [
    pytest.mark.lab,
    pytest.mark.timeout(900),
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces and mounts need root"),
]

CONCERNS = """\
concerns:
  base:
    time_zone: Europe/Berlin
    update_window: "sun 02:00-05:00"
    package_sources: {own: {uri: "@uri@", suites: [trixie, trixie-updates]}}
  watchdog: {}
  node_metrics: {interval: 15s}
  firewall:
    allow:
      package-mirror: {sources: [edge-inference, control], hosts: [mgmt-1], ports: [3142], why: the lab's apt}
"""
NAMES = ("base", "watchdog", "node_metrics", "firewall")
#: Beside the lab's own, which each start of a machine writes anew.
SOURCE = "/etc/apt/sources.list.d/own.sources"
#: Says whether a TCP port of somebody else answers within two seconds.
REACHES = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 2); print('yes')"


@dataclass(frozen=True)
class CommonRack(HostsRack):
    """A rack whose site states these concerns."""

    @classmethod
    def make(cls, folder: Path, name: str) -> CommonRack:
        made = super().make(folder, name)
        rack = cls(made.instance, made.folder)
        for key in ("authority", "stranger", "person"):
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", key, "-f", str(folder / key)], check=True
            )
        public = (folder / "authority.pub").read_text().strip()
        text = rack.site.read_text().replace("numbers: 1-4", "numbers: 1-2")
        rack.site.write_text(text.replace("access: {", f"access: {{authorities: [{public}], "))
        # the mirror of this machine, as the lab's own file names it
        (uri, *_) = re.findall(r"^URIs: (\S+)", machine_mirrors().proxied_sources(), re.MULTILINE)
        rack.state_concerns(CONCERNS.replace("@uri@", uri))
        return rack

    def logs_in_by_certificate(self, name: str, signer: str, principal: str, valid: str = "-1m:+5m") -> bool:
        """Whether a certificate of *signer* for *principal* logs a person in as administrator."""
        key, certificate = self.folder / "person", self.folder / "person-cert.pub"
        sign = [
            "ssh-keygen",
            "-q",
            "-s",
            str(self.folder / signer),
            "-I",
            "test",
            "-n",
            principal,
            "-V",
            valid,
            f"{key}.pub",
        ]
        subprocess.run(sign, check=True)
        options = [
            "-o",
            "BatchMode=yes",
            "-o",
            "IdentitiesOnly=yes",
            "-o",
            f"CertificateFile={certificate}",
            "-i",
            str(key),
        ]
        known = ["-o", f"UserKnownHostsFile={self.store.ssh / 'known_hosts'}"]
        login = self.inside_command("ssh", *options, *known, f"ops@{self.host(name).address}", "sudo -n id -u")
        done = subprocess.run(login, env=self.environment, capture_output=True, text=True, check=False)
        return done.stdout.strip() == "0"

    def state_concerns(self, text: str) -> None:
        """Write *text* as the site's section `concerns`."""
        self.site.write_text(self.site.read_text().partition("concerns:")[0] + text)

    def reaches(self, source: str, target: str, port: int) -> bool:
        """Whether *source* can open *port* of *target*."""
        asked = f'python3 -c "{REACHES}" {self.host(target).address} {port} 2>/dev/null || echo no'
        return self.on(source, asked).strip() == "yes"

    def logs_in(self, name: str) -> bool:
        """Whether a fresh login works."""
        done = subprocess.run(self.ssh_command(name, "true"), env=self.environment, capture_output=True, check=False)
        return done.returncode == 0

    def locking_out(self, name: str) -> dict[str, Any]:
        """The firewall of *name* without its way in: valid, and nobody gets in who is not in already."""
        stated = self.host(name).concerns["firewall"].model_dump(mode="json")
        for file in stated["files"]:
            if file["path"] == RULES_FILE:
                lines = file["content"].splitlines(keepends=True)
                file["content"] = "".join(line for line in lines if '"ssh: ' not in line)
        return stated


@pytest.fixture(scope="module")
def rack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommonRack]:
    """One running instance, converged by Ansible."""
    made = CommonRack.make(tmp_path_factory.mktemp("common"), "t-common")
    try:
        made.up()
        answer = made.converge("ansible")
        assert answer["failed"] == []
        yield made
    finally:
        made.run("down", "--purge", expect=None)


def test_pyinfra_finds_nothing_to_do_after_ansible(rack: CommonRack) -> None:
    for by in ("pyinfra", "ansible"):
        answer = rack.converge(by)
        assert answer["failed"] == []
        assert answer["changed"] == 0, answer


def test_the_checks_of_the_plan_hold(rack: CommonRack) -> None:
    rack.checks_hold("pi-01", "mgmt-1")


def test_packages_come_from_the_stated_source(rack: CommonRack) -> None:
    assert "concern base" in rack.on("pi-01", f"cat {SOURCE}")
    rack.on("pi-01", "apt-get -q -o APT::Update::Error-Mode=any update")
    assert "hello" in rack.on("pi-01", "apt-cache madison hello")


def test_a_certificate_of_the_sites_authority_logs_an_administrator_in(rack: CommonRack) -> None:
    assert rack.logs_in_by_certificate("pi-01", "authority", "ops")
    assert not rack.logs_in_by_certificate("pi-01", "authority", "somebody-else")
    assert not rack.logs_in_by_certificate("pi-01", "stranger", "ops")
    assert not rack.logs_in_by_certificate("pi-01", "authority", "ops", "-2h:-1h")


def test_the_flows_work_and_others_do_not(rack: CommonRack) -> None:
    rack.on("pi-01", "systemd-run --quiet --unit=stranger python3 -m http.server 8123")
    try:
        assert rack.on(
            "pi-01",
            "sleep 1; python3 -c \"import socket; socket.create_connection(('127.0.0.1', 8123), 2)\" && echo yes",
        )
        seen = {
            (source, port): rack.reaches(source, "pi-01", port)
            for source in ("mgmt-1", "pi-02")
            for port in (22, PORT, 8123)
        }
    finally:
        rack.on("pi-01", "systemctl stop stranger")
    assert seen == {
        ("mgmt-1", 22): True,
        ("mgmt-1", PORT): True,
        ("mgmt-1", 8123): False,
        ("pi-02", 22): False,
        ("pi-02", PORT): False,
        ("pi-02", 8123): False,
    }
    assert (
        rack.on("pi-02", f"ping -c1 -W3 {rack.host('pi-01').address} >/dev/null && echo reachable").strip()
        == "reachable"
    )


def test_the_metrics_are_pinions_too(rack: CommonRack) -> None:
    url = f"http://{rack.host('pi-01').address}:{PORT}/metrics"
    fetch = f"import urllib.request as u; print(u.urlopen('{url}', timeout=10).read().decode())"
    text = rack.inside(sys.executable, "-c", fetch).stdout
    for name in NAMES:
        assert f'pinion_concern_changed_seconds{{concern="{name}"}}' in text
    assert "pinion_unconfirmed_changes 0\n" in text
    assert "node_cpu_seconds_total" in text


@pytest.mark.variant
def test_rules_that_lock_us_out_are_taken_back_by_the_host_itself(rack: CommonRack) -> None:
    before = rack.on("pi-02", f"nft --stateless list table {TABLE}")
    answer = rack.ask("pi-02", "apply", rack.locking_out("pi-02"))
    assert answer["confirm"] == ["firewall"]
    assert not rack.logs_in("pi-02")
    rack.on("pi-02", "systemctl start pinion-undo-firewall.service; systemctl stop pinion-undo-firewall.timer")
    assert rack.logs_in("pi-02")
    assert rack.on("pi-02", f"nft --stateless list table {TABLE}") == before
    assert rack.converge("pyinfra", "--limit", "pi-02")["changed"] == 0


def test_rules_that_nobody_confirmed_do_not_outlive_a_power_cut(rack: CommonRack) -> None:
    before = rack.on("pi-02", f"nft --stateless list table {TABLE}")
    assert rack.ask("pi-02", "apply", rack.locking_out("pi-02"))["confirm"] == ["firewall"]
    assert not rack.logs_in("pi-02")
    rack.cut("pi-02")
    assert rack.logs_in("pi-02")
    assert rack.on("pi-02", f"nft --stateless list table {TABLE}") == before
    assert rack.on("pi-02", f"systemctl is-active {UNIT}").strip() == "active"
    assert rack.converge("ansible", "--limit", "pi-02")["changed"] == 0


def test_concerns_that_the_site_no_longer_has_leave_nothing(rack: CommonRack) -> None:
    # conffiles of packages that go, and the name that the image gave
    others = {"/etc/chrony/chrony.conf", "/etc/default/prometheus-node-exporter", "/etc/hostname"}
    placed = {file.path for name in NAMES for file in rack.host("pi-01").concerns[name].files} - others
    rack.state_concerns("")
    for by, name in (("ansible", "pi-01"), ("pyinfra", "pi-02")):
        assert rack.converge(by, "--limit", name)["failed"] == []
        left = rack.on(
            name, f"for file in {' '.join(sorted(placed))}; do [ -e $file ] && echo $file; done; true"
        ).split()
        assert left == []
        assert rack.on(name, "nft list tables").strip() == ""
        assert rack.on(name, "readlink /etc/localtime").strip() == "/usr/share/zoneinfo/Etc/UTC"
        units = rack.on(name, f"systemctl is-active {UNIT} {EXPORTER} pinion-node-metrics.timer; true").split()
        assert set(units) == {"inactive"}
        assert (
            rack.on(name, "dpkg-query -W -f '${db:Status-Status} ' chrony prometheus-node-exporter; true").split()
            == ["config-files"] * 2
        )
        assert rack.converge(by, "--limit", name)["changed"] == 0
