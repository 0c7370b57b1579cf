"""Ansible and pyinfra bring a host what no lab can have: GPUs, a HAT, a divided processor. The whole way, on stand-ins of the right shape.

The concerns are those of `pi-01` and `nv-1` as dc-rack-12 states them, on one machine: what they place does not meet. What this shows is
`emulated`: packages, files, commands and claims are real, and what answers them is not the vendors'.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from unit.hosts.sites import DC, planned
from unit.hosts.stand_ins import BOOT, SNAPSHOT, prepared
from unit.hosts.test_carriers import OTHER, Bench

from pinion.checks.hosts import host_checks
from pinion.checks.model import Check, HostProbe
from pinion.plan.model import Concern

#: What stays: folders for files of ours where nobody else had them, empty; and a package that had to go is nobody's to bring back.
STAYS = (
    "/hailortcli",
    *(
        f"./etc/upper/{name}"
        for name in ("containerd", "default/grub.d", "kubernetes", "kubernetes/kubelet.conf.d", "pinion")
    ),
    "./etc/upper/systemd/system/irqbalance.service.d",
    "./usr/upper/local/lib/pinion",
)
WHERE = {
    "pi-01": ("accelerator",),
    "nv-1": ("cpu_isolation", "gpu_driver", "container_runtime", "kube_node"),
}
PLAN = planned(DC)


def mounts() -> Concern:
    """Of `pi_tuning` the part that is no kernel's: this machine keeps its own parameters."""
    whole = next(host for host in PLAN.hosts if host.name == "pi-01").concerns["pi_tuning"]
    return Concern(
        name="pi_tuning",
        files=tuple(file for file in whole.files if file.path.endswith(".mount")),
        units=tuple(unit for unit in whole.units if unit.name.endswith(".mount")),
        claims=tuple(claim for claim in whole.claims if claim.name.startswith("memory.")),
    )


CONCERNS = [mounts(), *(host.concerns[name] for host in PLAN.hosts for name in WHERE.get(host.name, ()))]
#: Asks the claims in the file argv[1], and writes what it heard to argv[2].
ASK = """import json, subprocess, sys
asked = json.load(open(sys.argv[1]))
def ask(command):
    return subprocess.run(["sh", "-c", command], capture_output=True, text=True).stdout.strip()
json.dump({name: ask(command) for name, command in asked.items()}, open(sys.argv[2], "w"))
"""


def checks() -> list[Check]:
    """Every claim of these concerns."""
    ours = tuple(f"host.{host}.{name}." for host, names in WHERE.items() for name in names)
    found = [check for check in host_checks(PLAN) if check.id.startswith((*ours, "host.pi-01.pi_tuning."))]
    return [check for check in found if ".pi_tuning." not in check.id or ".mount" in check.id or ".memory." in check.id]


def subjects(concerns: list[Concern]) -> set[str]:
    """What they place, and what goes for it."""
    return {
        f"{concern.name} {subject}"
        for concern in concerns
        for subject in (
            *(name for name in concern.packages),
            *(name for name in concern.packages_absent),
            *(file.path for file in concern.files),
            *(module.name for module in concern.modules),
            *(f"/etc/modules-load.d/pinion-{concern.name.replace('_', '-')}.conf" for _ in concern.modules[:1]),
            *(unit.name for unit in concern.units),
        )
    }


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("dpkg-deb") is None, reason="a mount namespace needs root, the packages dpkg"
)
@pytest.mark.parametrize("by", ["ansible", pytest.param("pyinfra", marks=pytest.mark.variant)])
def test_a_host_with_hardware_comes_to_its_plan_and_back(tmp_path: Path, by: str) -> None:
    bench = Bench(tmp_path)
    bench.known += [concern.name for concern in CONCERNS]
    for line in prepared(tmp_path):
        bench.then(line)
    asked = {check.id: check.probe.command for check in checks() if isinstance(check.probe, HostProbe)}
    (tmp_path / "asked.json").write_text(json.dumps(asked))
    (tmp_path / "ask.py").write_text(ASK)
    ask = f"python3 {tmp_path}/ask.py {tmp_path}/asked.json {tmp_path}"
    bench.then(f"{SNAPSHOT} >{tmp_path}/before")
    first = bench.converge(by, *CONCERNS, PINION_RUN="run-1")
    bench.then(f"{ask}/heard.first")
    bench.then(BOOT)
    again = bench.converge(OTHER[by], *CONCERNS, PINION_RUN="run-2")
    bench.then(f"{ask}/heard.booted")
    gone = bench.converge(OTHER[by], PINION_RUN="run-3")
    bench.then(f"{SNAPSHOT} >{tmp_path}/after && ls /run/units >{tmp_path}/units")
    bench.run()
    assert [bench.result(name).errors for name in (first, again, gone)] == [[], [], []]
    assert set(bench.subjects(first)) == subjects(CONCERNS)
    assert bench.subjects(again) == []
    assert bench.result(first).reboot != []
    assert bench.result(again).reboot == []
    heard = {when: json.loads((tmp_path / f"heard.{when}").read_text()) for when in ("first", "booted")}
    wrong = {
        when: {check.id: said[check.id] for check in checks() if said[check.id] != check.expected}
        for when, said in heard.items()
    }
    assert wrong["booted"] == {}
    assert set(wrong["first"]) <= {check.id for check in checks() if check.after_boot}
    before, after = ((tmp_path / name).read_text().splitlines() for name in ("before", "after"))
    assert {line for line in {*before} ^ {*after} if not line.endswith(STAYS)} == set(), "removal leaves nothing"
    marks = [
        "active.irqbalance.service",
        "active.kubelet.service",
        "enabled.irqbalance.service",
        "enabled.kubelet.service",
        "log",
    ]
    assert (tmp_path / "units").read_text().split() == marks
