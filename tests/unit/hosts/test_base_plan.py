"""What the plan says of the concern base."""

from __future__ import annotations

import subprocess

import pytest
from unit.hosts.nodes import concern, file, first
from unit.hosts.sites import DC, LAB, planned

from pinion.plan.concerns.base import CHRONY_FILE, HOSTNAME_KEY, JOURNAL_FILE, TIMER, TIMER_FILE, UPDATES_FILE, calendar
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
    assert "allow 10.77.101.0/24" in served
    assert "allow 10.77.102.0/24" not in served, "nobody asks for the time over RDMA"
    assert "local stratum 10 orphan" in served


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
