"""What the plan says of the concern cpu_isolation: one division of the cores, the same in every file."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from unit.hosts.config_txt import command_line
from unit.hosts.nodes import concern, file, stated
from unit.hosts.sites import DC, LAB

from pinion.plan import numa
from pinion.plan.concerns.cpu_isolation import BALANCE_ENVIRONMENT, CONFIG_FILE
from pinion.plan.model import Concern, DeviceKind
from pinion.services.node_programs.irq_pinning import read
from pinion.site.catalog import load

GPU = DeviceKind.GPU_SERVER
GRUB = "/etc/default/grub.d/80-pinion-cpu-isolation.cfg"


def found(**settings: Any) -> Concern:
    return concern(stated(DC, {"cpu_isolation": settings}), GPU, "cpu_isolation")


def boot(entry: Concern) -> dict[str, list[str | None]]:
    """The command line that GRUB makes of the concern's file, by the shell that GRUB uses."""
    script = 'GRUB_CMDLINE_LINUX="console=tty0"\n' + file(entry, GRUB).content + 'printf %s "$GRUB_CMDLINE_LINUX"'
    said = subprocess.run(["/bin/sh", "-euc", script], capture_output=True, text=True, check=True)
    return command_line(said.stdout)


def test_the_kernel_is_told_by_the_numa_map() -> None:
    line = boot(found())
    isolated = "4-55,60-111,116-167,172-223"
    assert line["console"] == ["tty0"], "what the image says stays"
    assert line["isolcpus"] == [f"managed_irq,domain,{isolated}"]
    assert line["nohz_full"] == line["rcu_nocbs"] == [isolated]
    assert line["irqaffinity"] == ["0-1,56-57,112-113,168-169"]
    assert "hugepages" not in line


@pytest.mark.parametrize(("system", "interrupts"), [(1, 1), (2, 2), (4, 8), (50, 5)])
def test_system_interrupts_and_workloads_share_no_core_and_leave_none_out(
    tmp_path: Path, system: int, interrupts: int
) -> None:
    entry = found(system_cores=system, interrupt_cores=interrupts)
    line = boot(entry)
    isolated = numa.parse(str(line["nohz_full"][0]))
    kept = numa.parse(str(line["irqaffinity"][0]))
    path = tmp_path / "irq.json"
    path.write_text(file(entry, CONFIG_FILE).content)
    served = frozenset(cpu for cpus in read(path).cpus.values() for cpu in cpus)
    assert isolated | kept | served == frozenset(range(224))
    assert len(isolated) + len(kept) + len(served) == 224
    assert (len(kept), len(served)) == (4 * system, 4 * interrupts)


def test_nics_by_address_on_the_node_that_the_catalogue_says(tmp_path: Path) -> None:
    path = tmp_path / "irq.json"
    path.write_text(file(found(), CONFIG_FILE).content)
    wanted = read(path)
    ports = load().servers["dgx-h100"].rdma_ports
    assert wanted.devices == tuple((port.name, port.pci, port.numa_node) for port in ports)
    assert len(wanted.devices) == 8
    assert wanted.cpus == {0: (2, 3, 114, 115), 1: (58, 59, 170, 171)}


def test_only_nics_that_the_site_uses_are_looked_for() -> None:
    plan = stated(DC, {"cpu_isolation": {}})
    servers = json.loads(json.dumps({"nv-1": _server()}))
    servers["nv-1"].pop("rdma")
    without = stated(DC, {"cpu_isolation": {}}, gpu_servers=servers)
    assert json.loads(file(concern(without, GPU, "cpu_isolation"), CONFIG_FILE).content)["devices"] == []
    assert json.loads(file(concern(plan, GPU, "cpu_isolation"), CONFIG_FILE).content)["devices"] != []


def _server() -> dict[str, Any]:
    return {
        "profile": "dgx-h100",
        "rack": "r12",
        "unit": 20,
        "network": "control",
        "port": "tor-1 Ethernet17",
        "rdma": None,
    }


def test_pages_by_numa_node() -> None:
    line = boot(found(hugepages_2m=1024, hugepages_1g=64))
    assert line["hugepagesz"] == ["2M", "1G"]
    assert line["hugepages"] == ["0:1024,1:1024", "0:64,1:64"]


def test_irqbalance_keeps_off_all_but_the_systems_cores() -> None:
    lines = dict(
        entry.split("=", 1)
        for entry in file(found(), BALANCE_ENVIRONMENT).content.splitlines()
        if not entry.startswith("#")
    )
    everything = frozenset(range(224))
    assert everything - numa.parse(lines["IRQBALANCE_BANNED_CPULIST"]) == numa.parse("0-1,56-57,112-113,168-169")


def test_it_asks_for_a_reboot_and_its_claims_are_of_the_running_kernel() -> None:
    entry = found()
    assert [each.path for each in entry.files if each.needs_reboot] == [GRUB]
    assert "update-grub" in file(entry, GRUB).run
    claimed = {claim.name: claim.expected for claim in entry.claims}
    assert claimed == {
        "node.0": "0-55,112-167",
        "node.1": "56-111,168-223",
        "isolated": "4-55,60-111,116-167,172-223",
        "tickless": "4-55,60-111,116-167,172-223",
        "interrupts": "as-planned",
        "rcu_nocbs": "4-55,60-111,116-167,172-223",
        "irqaffinity": "0-1,56-57,112-113,168-169",
    }


def test_every_argument_and_every_page_is_claimed_of_the_running_kernel() -> None:
    entry = found(hugepages_2m=1024, hugepages_1g=64)
    claims = {claim.name: claim for claim in entry.claims}
    assert set(boot(entry)) - {"console"} == {
        "isolcpus",
        "nohz_full",
        "rcu_nocbs",
        "irqaffinity",
        "hugepagesz",
        "hugepages",
    }
    pages = {name: claim.expected for name, claim in claims.items() if name.startswith("hugepages.")}
    assert pages == {
        f"hugepages.{size}kB.{node}": count for size, count in ((2048, "1024"), (1048576, "64")) for node in (0, 1)
    }
    told = file(entry, GRUB).content.rpartition("$GRUB_CMDLINE_LINUX ")[2].rstrip('"\n')
    for name in ("rcu_nocbs", "irqaffinity"):
        command = claims[name].command.replace("/proc/cmdline", "/dev/stdin")
        for line, right in ((f"quiet {told} ro\n", True), ("quiet ro\n", False), (f"quiet {told} {name}=0\n", False)):
            said = subprocess.run(["/bin/sh", "-c", command], input=line, capture_output=True, text=True, check=True)
            assert (said.stdout.strip() == claims[name].expected) is right
    assert all(claims[name].after_boot for name in (*pages, "rcu_nocbs", "irqaffinity"))


def test_only_gpu_servers_whose_numa_map_is_known() -> None:
    assert {host.kind for host in stated(DC, {"cpu_isolation": {}}).hosts if "cpu_isolation" in host.concerns} == {GPU}
    assert not any("cpu_isolation" in host.concerns for host in stated(LAB, {"cpu_isolation": {}}).hosts)
