"""What the plan says of the concern base."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from unit.hosts.nodes import concern, file, first
from unit.hosts.sites import DC, LAB, plan_of_file, planned

from pinion.plan import flows, package_sources
from pinion.plan.concerns.base import (
    CHRONY_FILE,
    HOSTNAME_KEY,
    JOURNAL_FILE,
    NAMES_FILE,
    NETWORK_MANAGER_FILE,
    TIMER,
    TIMER_FILE,
    UPDATES_FILE,
    calendar,
)
from pinion.plan.model import Concern, DeviceKind
from pinion.site.catalog import Evidence
from pinion.site.concerns import Base

PI, SERVER, MANAGEMENT = DeviceKind.PI, DeviceKind.GPU_SERVER, DeviceKind.MANAGEMENT_HOST


def lab(kind: DeviceKind = PI, **settings: object) -> Concern:
    """The concern of a host of the lab with *settings*."""
    return concern(planned(LAB, concerns={"base": settings}), kind, "base")


def clock(found: Concern) -> list[str]:
    """chrony's directives."""
    return [line for line in file(found, CHRONY_FILE).content.splitlines() if not line.startswith("#")]


def test_every_host_has_it_when_the_site_says_so_and_none_otherwise() -> None:
    assert all("base" in host.concerns for host in planned(DC, concerns={"base": {}}).hosts)
    assert not any("base" in host.concerns for host in planned(DC, concerns={}).hosts)


def test_each_host_has_its_own_name_also_at_once_where_the_kernel_is_its_own() -> None:
    for site, live in ((LAB, False), (DC, True)):
        for host in planned(site, concerns={"base": {}}).hosts:
            found = host.concerns["base"]
            assert file(found, "/etc/hostname").content == f"{host.name}\n"
            assert [sysctl.value for sysctl in found.sysctls] == ([host.name] if live else [])
            assert all(sysctl.key == HOSTNAME_KEY for sysctl in found.sysctls)


def test_hosts_take_the_time_from_the_management_hosts_fabric_leg() -> None:
    assert "server 10.77.100.10 iburst" in clock(lab(PI))
    assert not any(line.startswith(("pool", "allow", "local")) for line in clock(lab(PI)))
    served = clock(lab(MANAGEMENT))
    assert "pool 2.debian.pool.ntp.org iburst" in served
    assert "allow 10.77.101.10/31" in served
    assert "local stratum 10 orphan" in served


def test_the_clock_answers_those_whom_the_firewall_lets_in_and_no_others() -> None:
    """Also on a network that is not routed."""
    networks = yaml.safe_load(LAB.read_text())["networks"]
    networks["control"]["gateway"] = "none"
    plan = planned(LAB, networks=networks, concerns={"base": {}, "firewall": {}})
    (flow,) = (flow for flow in plan.flows if flow.name == flows.TIME)
    allowed = [line.split()[1] for line in clock(concern(plan, MANAGEMENT, "base")) if line.startswith("allow ")]
    assert flows.collapse(allowed) == flow.sources, "a span is several prefixes, and nothing else differs"
    server = first(plan, SERVER)
    assert flows.lets(flow, server.address), "a server of the network without a gateway"
    assert not flows.lets(flow, "10.77.102.16"), "nobody asks for the time over RDMA"


def test_stated_servers_are_everybodys() -> None:
    for kind in (PI, SERVER, MANAGEMENT):
        found = clock(lab(kind, time_servers=["ntp.example.net", "192.0.2.1"]))
        assert found[:2] == ["server ntp.example.net iburst", "server 192.0.2.1 iburst"]
        assert not any(line.startswith(("pool", "allow", "local")) for line in found)


def test_without_management_hosts_debian_gives_the_time() -> None:
    assert "pool 2.debian.pool.ntp.org iburst" in clock(concern(planned(DC, concerns={"base": {}}), PI, "base"))


@pytest.mark.parametrize(("stated", "directive"), [("1000s", "1000"), ("5min", "300"), ("1.5s", "1.5"), ("1h", "3600")])
def test_the_step_limit_is_in_seconds_and_never_ends_the_program(stated: str, directive: str) -> None:
    found = clock(lab(step_limit=stated))
    assert f"maxchange {directive} 3 -1" in found
    assert "makestep 1 3" in found


@pytest.mark.parametrize(
    ("stated", "start", "spread"),
    [
        ("daily 02:00-05:00", "*-*-* 02:00:00", "150min"),
        ("sun 23:00-02:00", "Sun *-*-* 23:00:00", "150min"),
        ("mon 04:30-05:30", "Mon *-*-* 04:30:00", "30min"),
    ],
)
def test_no_update_begins_outside_the_window(stated: str, start: str, spread: str) -> None:
    settings = Base.model_validate({"update_window": stated})
    assert calendar(settings) == start
    lines = file(lab(update_window=stated), TIMER_FILE).content.splitlines()
    at = lines.index("OnCalendar=")  # an empty one forgets Debian's own
    assert lines[at + 1 :] == [
        f"OnCalendar={start}",
        f"RandomizedDelaySec={spread}",
        "FixedRandomDelay=true",
        "Persistent=false",
    ]


def test_only_security_updates_install_themselves_and_nothing_reboots() -> None:
    text = file(lab(), UPDATES_FILE).content
    assert "#clear Unattended-Upgrade::Origins-Pattern;" in text
    assert text.count("origin=") == 1
    assert "Debian-Security" in text
    assert 'Automatic-Reboot "false"' in text


def test_the_journal_has_its_limit() -> None:
    assert "SystemMaxUse=128M" in file(lab(journal_mib=128), JOURNAL_FILE).content.splitlines()


def test_a_locale_that_libc_does_not_bring_brings_its_package() -> None:
    assert "locales-all" not in lab().packages
    german = lab(locale="de_DE.UTF-8")
    assert "locales-all" in german.packages
    assert file(german, "/etc/locale.conf").content == "LANG=de_DE.UTF-8\n"


def test_the_link_of_the_time_zone_follows_the_file() -> None:
    stated = file(lab(time_zone="Europe/Berlin"), "/etc/timezone")
    assert stated.content == "Europe/Berlin\n"
    assert stated.run == (
        'ln -sfn "/usr/share/zoneinfo/$(cat /etc/timezone 2>/dev/null || echo Etc/UTC)" /etc/localtime',
    )


def test_what_a_container_cannot_hold_is_not_claimed_there() -> None:
    (unit,) = lab().units
    assert (unit.name, unit.active, unit.evidence) == ("chrony.service", False, Evidence.RENDERED)
    real = first(planned(DC, concerns={"base": {}}), PI).concerns["base"]
    assert {unit.name: unit.active for unit in real.units} == {"chrony.service": True, TIMER: True}
    assert "clock.synchronised" in {claim.name for claim in real.claims} - {claim.name for claim in lab().claims}
    parsed = {claim.name for claim in lab().claims if claim.evidence is Evidence.PARSED}
    assert parsed == {"updates.origins", "updates.window", "clock.configuration"}


@pytest.mark.parametrize(
    ("listed", "found"),
    [
        ("", "none"),
        ("systemd-zram-setup@zram0.service loaded failed failed Create swap on /dev/zram0\\n", "systemd-zram-setup@zram0.service"),
        ("a.service loaded failed failed A\\nb.timer loaded failed failed B\\n", "a.service b.timer"),
    ],
    ids=["none", "one", "two"],
)  # fmt: skip
def test_what_systemd_has_given_up_on_is_claimed_by_name(listed: str, found: str) -> None:
    (claim,) = [claim for claim in lab().claims if claim.name == "units"]
    command = claim.command.replace("systemctl list-units --state=failed --no-legend --plain", f"printf '{listed}'")
    said = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=True).stdout
    assert said.strip() == found
    assert (claim.expected == found) == (listed == "")


# --- names and packages -----------------------------------------------------------------------------------------------


MIRROR: dict[str, Any] = {"uri": "https://packages.example/debian", "suites": ["trixie", "trixie-updates"]}


def test_what_the_site_does_not_state_stays_as_the_host_has_it() -> None:
    for site in (LAB, DC):
        for host in planned(site, concerns={"base": {}}).hosts:
            paths = [file.path for file in host.concerns["base"].files]
            assert not [path for path in paths if path.startswith("/etc/apt/sources") or "resolv" in path]


def test_stated_name_servers_are_asked_in_their_order() -> None:
    found = lab(name_servers=["192.0.2.53", "2001:db8::53"])
    lines = [line for line in file(found, NAMES_FILE).content.splitlines() if not line.startswith("#")]
    assert lines == ["nameserver 192.0.2.53", "nameserver 2001:db8::53", "options timeout:2 attempts:2"]


def test_network_manager_leaves_them_alone_where_there_is_one() -> None:
    plan = planned(DC, concerns={"base": {"name_servers": ["192.0.2.53"]}})
    assert "\ndns=none\n" in file(concern(plan, PI, "base"), NETWORK_MANAGER_FILE).content
    assert NETWORK_MANAGER_FILE not in {file.path for file in concern(plan, SERVER, "base").files}


def test_each_archive_is_one_file_and_its_key_counts_for_it_alone() -> None:
    key = yaml.safe_load(DC.read_text())["concerns"]["base"]["package_sources"]["nvidia"]["key"]
    flat = {"uri": "http://packages.example/cuda/", "suites": ["/"], "key": key, "hosts": ["gpu_servers"]}
    more = {**MIRROR, "components": ["contrib"], "keyring": "/usr/share/keyrings/own.pgp", "hosts": ["pi-01"]}
    plan = planned(DC, concerns={"base": {"package_sources": {"debian": MIRROR, "cuda": flat, "more": more}}})
    server, pi = (concern(plan, kind, "base") for kind in (SERVER, PI))
    assert file(server, "/etc/apt/sources.list.d/cuda.sources").content.splitlines()[1:] == [
        "Types: deb",
        "URIs: http://packages.example/cuda/",
        "Suites: /",
        "Signed-By: /etc/apt/keyrings/pinion-cuda.asc",
    ]
    assert file(server, "/etc/apt/keyrings/pinion-cuda.asc").content == key
    assert file(server, "/etc/apt/sources.list.d/debian.sources").content.splitlines()[1:] == [
        "Types: deb",
        "URIs: https://packages.example/debian",
        "Suites: trixie trixie-updates",
        "Components: main",
        "Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg",
    ]
    assert "Signed-By: /usr/share/keyrings/own.pgp\n" in file(pi, "/etc/apt/sources.list.d/more.sources").content
    having = {
        name: {host.name for host in plan.hosts if any(name in file.path for file in host.concerns["base"].files)}
        for name in ("cuda", "more")
    }
    assert having == {"cuda": {"nv-1"}, "more": {"pi-01"}}


def test_debians_own_list_gives_way_to_a_source_called_debian_and_to_no_other() -> None:
    for name, gives_way in (("debian", True), ("nvidia", False)):
        paths = [file.path for file in lab(package_sources={name: MIRROR}).files]
        assert (package_sources.OLD_FILE in paths) is gives_way


def test_names_of_archives_are_looked_up_on_the_host() -> None:
    claims = {claim.name: claim for claim in lab(name_servers=["192.0.2.53"], package_sources={"m": MIRROR}).claims}
    assert claims["names.resolved"].expected == "packages.example"
    assert "names.resolved" not in {claim.name for claim in lab(package_sources={"m": MIRROR}).claims}


def test_every_host_of_the_example_is_told_where_names_and_packages_are() -> None:
    for host in plan_of_file(DC).hosts:
        paths = {file.path for file in host.concerns["base"].files}
        assert {NAMES_FILE, "/etc/apt/sources.list.d/debian.sources"} <= paths
        brought = "raspi" if host.kind is PI else "nvidia"
        assert f"/etc/apt/sources.list.d/{brought}.sources" in paths
        assert f"/etc/apt/keyrings/pinion-{brought}.asc" in paths


# --- a clock that is far off ------------------------------------------------------------------------------------------

#: What chronyc -c says, of a chronyd that heard a server two years ahead and refused the step; then of one that hears nobody.
FAR = "^,*,127.0.0.1,1,6,17,1,-63072000.000000000,-63072000.000000000,0.000156385"
SILENT = "^,?,192.0.2.123,0,6,0,4294967295,0.000000000,0.000000000,0.000000000"
NEAR = "^,*,192.0.2.123,2,6,377,34,-0.000123000,-0.000120000,0.000400000"


@pytest.mark.parametrize(
    ("leap", "heard", "said"),
    [
        ("Normal", NEAR, "synchronised"),
        (
            "Not synchronised",
            f"{SILENT}\n{FAR}",
            "63072000 s off, more than step_limit allows by itself: `chronyc makestep` sets it",
        ),
        ("Not synchronised", NEAR, "not set yet"),
        ("Not synchronised", SILENT, "not set: no time server answers"),
        ("", "", "not set: no time server answers"),
    ],
    ids=["good", "two years off", "just started", "nobody answers", "no chronyd"],
)
def test_a_clock_that_is_not_set_says_why_and_what_sets_it(tmp_path: Path, leap: str, heard: str, said: str) -> None:
    plan = planned(DC, concerns={"base": {}})
    (claim,) = (claim for claim in concern(plan, PI, "base").claims if claim.name == "clock.synchronised")
    chronyc = tmp_path / "chronyc"
    chronyc.write_text(f'#!/bin/sh\nif [ "$2" = tracking ]; then echo "{",0" * 12},{leap}"; else echo "{heard}"; fi\n')
    chronyc.chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["sh", "-c", claim.command], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == f"{said}\n"
    assert claim.expected == "synchronised"
