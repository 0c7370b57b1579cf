"""What the plan says of the concern pi_tuning."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from unit.hosts.nodes import concern, file, first, stated, sysctls
from unit.hosts.sites import DC, LAB

from pinion.plan.concerns.pi_tuning import (
    BACKLOG_KEY,
    JOURNAL_FILE,
    LOGS_MOUNT,
    SYSCTL_FILE,
    TEXTFILES,
    TEXTFILES_MOUNT,
    UNIT,
    UNIT_FILE,
    ZRAM_FILE,
    ZRAM_PACKAGE,
    ZRAM_RESET_FILE,
    steering_mask,
)
from pinion.plan.model import DeviceKind

PI = DeviceKind.PI


def test_only_pis_have_it_and_only_when_the_site_says_so() -> None:
    plan = stated(DC, {"pi_tuning": {}})
    assert {host.kind for host in plan.hosts if "pi_tuning" in host.concerns} == {PI}
    assert not any("pi_tuning" in host.concerns for host in stated(DC, {}).hosts)


def test_the_backlog_has_one_owner_whoever_that_is() -> None:
    for concerns, owner in (({}, "os_tuning"), ({"pi_tuning": {}}, "pi_tuning")):
        pi = first(stated(DC, concerns), PI)
        owners = [name for name, entry in pi.concerns.items() if BACKLOG_KEY in {s.key for s in entry.sysctls}]
        assert owners == [owner]
        assert sysctls(pi)[BACKLOG_KEY] == "5000"


def test_the_backlog_counts_because_packets_are_steered_to_other_cores() -> None:
    unit = file(concern(stated(DC, {"pi_tuning": {}}), PI, "pi_tuning"), UNIT_FILE).content
    assert "echo e >/sys/class/net/eth0/queues/rx-0/rps_cpus" in unit
    assert steering_mask(4) == "e"
    assert steering_mask(1) == "0"


@pytest.mark.parametrize(
    ("settings", "kubernetes", "expected"),
    [
        ({}, None, "ram * 0.5"),
        ({}, {"control_plane": "mgmt-1"}, None),
        ({}, {"control_plane": "mgmt-1", "pis_join": False}, "ram * 0.5"),
        ({"zram": "25%"}, None, "ram * 0.25"),
        ({"zram": "0%"}, None, None),
    ],
)
def test_compressed_swap_where_no_kubelet_refuses_it(
    settings: dict[str, str], kubernetes: dict[str, object] | None, expected: str | None
) -> None:
    found = concern(stated(LAB, {"pi_tuning": settings}, kubernetes=kubernetes, services=None), PI, "pi_tuning")
    sizes = [entry.content for entry in found.files if entry.path == ZRAM_FILE]
    keys = {sysctl.key for sysctl in found.sysctls}
    if expected is None:
        assert not sizes
        assert ZRAM_PACKAGE not in found.packages
        assert "vm.swappiness" not in keys
    else:
        assert f"zram-size = {expected}" in sizes[0].splitlines()
        assert ZRAM_PACKAGE in found.packages
        assert {"vm.swappiness", "vm.page-cluster"} <= keys


def test_swap_on_the_card_is_off_in_any_case() -> None:
    found = concern(stated(DC, {"pi_tuning": {}}), PI, "pi_tuning")
    assert "dphys-swapfile" in found.packages_absent
    assert "Mechanism=none" in file(found, "/etc/rpi/swap.conf.d/60-pinion.conf").content


def test_settings_arrive() -> None:
    found = concern(stated(DC, {"pi_tuning": {"governor": "schedutil", "journal": "persistent"}}), PI, "pi_tuning")
    assert "echo schedutil >" in file(found, UNIT_FILE).content
    assert "Storage=persistent" in file(found, JOURNAL_FILE).content
    assert {claim.name: claim.expected for claim in found.claims}["governor"] == "schedutil"


@pytest.mark.parametrize(
    ("concerns", "mounted"),
    [
        ({"pi_tuning": {}}, {LOGS_MOUNT: "/var/log"}),
        ({"pi_tuning": {}, "node_metrics": {}}, {LOGS_MOUNT: "/var/log", TEXTFILES_MOUNT: TEXTFILES}),
        ({"pi_tuning": {"journal": "persistent"}, "node_metrics": {}}, {TEXTFILES_MOUNT: TEXTFILES}),
        ({"pi_tuning": {"journal": "persistent"}}, {}),
    ],
)
def test_what_is_written_all_the_time_lies_in_memory(concerns: dict[str, Any], mounted: dict[str, str]) -> None:
    """Nothing of /var/log is lost at a boot where the journal is kept, and all of it where that is not."""
    found = concern(stated(DC, concerns), PI, "pi_tuning")
    assert [unit.name for unit in found.units if unit.name.endswith(".mount")] == list(mounted)
    assert {
        claim.name.removeprefix("memory."): claim.expected for claim in found.claims if "memory." in claim.name
    } == dict.fromkeys(mounted.values(), "tmpfs")
    for name, folder in mounted.items():
        entry = file(found, f"/etc/systemd/system/{name}")
        lines = entry.content.splitlines()
        assert {"Type=tmpfs", f"Where={folder}", "WantedBy=local-fs.target"} <= set(lines)
        assert entry.notify == (name,), "a remount, and no empty folder"
        own = folder != "/var/log"
        assert entry.restart == (("pinion-power-thermal.service",) if own else ()), "who holds it open"
        assert ("Wants=pinion-node-metrics.service\nBefore=pinion-node-metrics.service\n" in entry.content) is own
        said = subprocess.run(
            ["systemd-escape", "--path", "--suffix=mount", folder], capture_output=True, text=True, check=True
        )
        assert said.stdout.strip() == name


def test_a_container_is_asked_for_nothing_that_it_cannot_hold() -> None:
    found = concern(stated(LAB, {"pi_tuning": {}}), PI, "pi_tuning")
    assert not any(sysctl.live for sysctl in found.sysctls)
    assert [(unit.name, unit.active) for unit in found.units] == [(LOGS_MOUNT, True), (UNIT, False)]
    assert [claim.name for claim in found.claims] == ["memory./var/log"], "that it can hold"
    assert all(sysctl.live for sysctl in concern(stated(DC, {"pi_tuning": {}}), PI, "pi_tuning").sysctls)


@pytest.mark.parametrize("there", [True, False])
def test_zram_is_stopped_and_started_and_never_restarted(there: bool, tmp_path: Path) -> None:
    """The command as a host's shell runs it, with a systemctl that has the first stop cancelled."""
    found = concern(stated(DC, {"pi_tuning": {}}), PI, "pi_tuning")
    reload, anew = file(found, ZRAM_FILE).run
    assert reload == "systemctl daemon-reload"
    assert file(found, ZRAM_RESET_FILE).run == (reload, anew), (
        "a host that was left with a failed unit is put right too"
    )
    asked, cancelled, configuration = tmp_path / "asked", tmp_path / "cancelled", tmp_path / "zram.conf"
    for name in ("systemctl", "udevadm"):
        once = f'[ "$1" != stop ] || [ -e {cancelled} ] || {{ : >{cancelled}; exit 1; }}'
        (tmp_path / name).write_text(f'#!/bin/sh\necho {name} "$@" >>{asked}\n{once}\n')
        (tmp_path / name).chmod(0o755)
    if there:
        configuration.touch()
    command = anew.replace(ZRAM_FILE, str(configuration))
    subprocess.run(["/bin/sh", "-c", command], env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, check=True)
    stop = "systemctl stop dev-zram0.swap systemd-zram-setup@zram0.service"
    before = [stop, stop, "udevadm settle", stop.replace("stop", "reset-failed")]
    assert asked.read_text().splitlines() == [*before, *(["systemctl start dev-zram0.swap"] if there else [])]


def test_the_claim_of_zram_reads_the_one_in_use(tmp_path: Path) -> None:
    (claim,) = [
        claim for claim in concern(stated(DC, {"pi_tuning": {}}), PI, "pi_tuning").claims if claim.name == "zram"
    ]
    kernels = tmp_path / "comp_algorithm"
    for text, found in (("lzo-rle lzo [lz4] zstd \n", "lz4"), ("[lzo-rle] lzo lz4 zstd\n", "lzo-rle")):
        kernels.write_text(text)
        command = claim.command.replace("/sys/block/zram0/comp_algorithm", str(kernels))
        said = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=True).stdout
        assert said.strip() == found
    assert claim.expected == "lz4"
    none = concern(stated(DC, {"pi_tuning": {"zram": "0%"}}), PI, "pi_tuning")
    assert "zram" not in {claim.name for claim in none.claims}


def test_the_sysctl_file_states_every_parameter_with_its_source() -> None:
    found = concern(stated(DC, {"pi_tuning": {}}), PI, "pi_tuning")
    lines = file(found, SYSCTL_FILE).content.splitlines()
    assert len(found.sysctls) >= 7
    for sysctl in found.sysctls:
        assert lines[lines.index(f"{sysctl.key} = {sysctl.value}") - 1] == f"# {sysctl.source}"
