"""What the concerns of Pis and GPU servers need: nodes that they are for, hardware that can do it, and settings that go together."""

from __future__ import annotations

from collections.abc import Iterator

from pinion.site.catalog import Board, NumaMap, Platform
from pinion.site.errors import Path
from pinion.site.model import GpuServer, PiGroup
from pinion.site.node_concerns import EVICTED_BELOW, CpuIsolation, EdgeCluster, Joining, KubeNode, PiBoot
from pinion.site.pool_models import pooled
from pinion.site.quantities import fraction
from pinion.site.rules import mig, serving
from pinion.site.rules.bounds import bounded
from pinion.site.rules.facts import Facts
from pinion.site.rules.hardware import FIRMWARE_PLATFORM

PI_CONCERNS = ("pi_boot", "pi_tuning", "power_thermal", "accelerator", "model_store", "edge_runtime", "edge_cluster")
GPU_CONCERNS = ("gpu_tuning", "cpu_isolation", "nic_tuning", "gpu_driver", "container_runtime", "kube_node")
#: The least that a pod network, a proxy and one small pod can do with, in MiB.
_LEAST_FOR_PODS = 128
#: Oftener, and the board is busy with watching itself; less often, and a router learns of heat when the node is slow already.
_INTERVAL = ("5s", "5min")


def check(facts: Facts) -> None:
    """All rules about the concerns of Pis and GPU servers."""
    stated = facts.site.concerns
    for name in PI_CONCERNS:
        # pods of the pool check their models by the key that is stated there
        elsewhere = name == "model_store" and bool(pooled(facts.site))
        if getattr(stated, name) is not None and facts.lacks("pis") and not elsewhere:
            facts.report.on_key("NODE-001", ("concerns", name), concern=name, kind="Pis")
    for name in GPU_CONCERNS:
        if getattr(stated, name) is not None and facts.lacks("gpu_servers"):
            facts.report.on_key("NODE-001", ("concerns", name), concern=name, kind="GPU servers")
    if stated.pi_boot is not None:
        _pi_boot(facts, stated.pi_boot)
    if stated.pi_tuning is not None and stated.pi_tuning.zram is not None:
        cluster = facts.site.kubernetes
        if cluster is not None and cluster.pis_join and fraction(stated.pi_tuning.zram) > 0:
            facts.report.on("NODE-012", ("concerns", "pi_tuning", "zram"))
    if stated.power_thermal is not None:
        low, high = _INTERVAL
        bounded(facts, ("concerns", "power_thermal", "interval"), stated.power_thermal.interval, low, high)
    if stated.accelerator is not None:
        _accelerator(facts)
    if stated.cpu_isolation is not None:
        _cpu_isolation(facts, stated.cpu_isolation)
    if stated.nic_tuning is not None and stated.nic_tuning.ring is not None:
        _rings(facts, stated.nic_tuning.ring)
    if stated.gpu_driver is not None and stated.gpu_driver.mig and stated.gpu_driver.mps is not None:
        facts.report.on("NODE-014", ("concerns", "gpu_driver", "mps"))
    if stated.gpu_driver is not None and stated.gpu_driver.mps is not None and not fraction(stated.gpu_driver.mps):
        facts.report.on("NODE-025", ("concerns", "gpu_driver", "mps"))
    if stated.gpu_driver is not None:
        mig.check(facts, stated.gpu_driver)
    if stated.kube_node is not None:
        _kube_node(facts, stated.kube_node)
    if stated.edge_cluster is not None:
        _edge_cluster(facts, stated.edge_cluster)


def _kube_node(facts: Facts, stated: KubeNode) -> None:
    where: Path = ("concerns", "kube_node")
    if stated.join is None:
        if not facts.has(("concerns", "cpu_isolation")):
            facts.report.on_key("NODE-007", where)
        return
    _joining(facts, (*where, "join"), stated.join, "GPU servers")
    if not facts.has(("concerns", "container_runtime")):
        facts.report.on_key("NODE-021", (*where, "join"))


def _joining(facts: Facts, where: Path, stated: Joining, kind: str) -> None:
    """What holds for every kubelet that joins."""
    if not facts.has(("kubernetes",)):
        facts.report.on_key("NODE-015", where, what=where[-1], kind=kind)
    if stated.program is not None and stated.source is not None:
        facts.report.on_key("NODE-018", (*where, "source"))


def _edge_cluster(facts: Facts, stated: EdgeCluster) -> None:
    where: Path = ("concerns", "edge_cluster")
    cluster = facts.site.kubernetes
    _joining(facts, where, stated, "Pis")
    if cluster is not None and not cluster.pis_join:
        facts.report.on("NODE-016", ("kubernetes", "pis_join"))
    runtime = facts.site.concerns.edge_runtime
    if runtime is not None and runtime.engine == "hailo-ollama":
        facts.report.on("NODE-020", ("concerns", "edge_runtime", "engine"))
    told = runtime is not None and not serving.memory_is_sound(runtime)
    for name, group, board in _boards(facts):
        if group.platform == FIRMWARE_PLATFORM and not facts.has(("concerns", "pi_boot")):
            facts.report.on_key("NODE-017", where, group=name)
        kept = stated.system_memory_mib + (runtime.memory_mib(board.memory_mib) if runtime is not None else 0)
        left = board.memory_mib * (100 - EVICTED_BELOW) // 100 - kept
        if left < _LEAST_FOR_PODS and not told:
            told = True
            facts.report.on_key(
                "NODE-019", where, group=name, board=group.board, memory=board.memory_mib, kept=kept, left=max(left, 0)
            )


def _boards(facts: Facts) -> Iterator[tuple[str, PiGroup, Board]]:
    """Every group of Pis whose board is known."""
    for name, group in facts.site.pis.items():
        if group.board in facts.catalog.boards:
            yield name, group, facts.catalog.boards[group.board]


def _platform(facts: Facts, name: str) -> Platform | None:
    return facts.catalog.platforms.get(name)


def _pi_boot(facts: Facts, stated: PiBoot) -> None:
    for name, group, board in _boards(facts):
        platform = _platform(facts, group.platform)
        if platform is not None and not platform.lab and group.platform != FIRMWARE_PLATFORM:
            facts.report.on("NODE-002", ("pis", name, "platform"), group=name, platform=group.platform)
        for index, device in enumerate(stated.boot_order or ()):
            if device not in board.boot_devices:
                where = ("concerns", "pi_boot", "boot_order", index)
                facts.report.on("NODE-003", where, device=device, group=name, board=group.board)
        if stated.fan_curve and not board.fan_curve:
            facts.report.on_key("NODE-011", ("concerns", "pi_boot", "fan_curve"), group=name, board=group.board)
    first: dict[str, int] = {}
    for index, device in enumerate(stated.boot_order or ()):
        if first.setdefault(device, index) != index:
            where = ("concerns", "pi_boot", "boot_order", index)
            facts.report.on("NODE-004", where, device=device, position=first[device] + 1)
    for index, (lower, higher) in enumerate(zip(stated.fan_curve, stated.fan_curve[1:], strict=False), start=1):
        where = ("concerns", "pi_boot", "fan_curve", index)
        if any(facts.guessed((*where[:-1], at, key)) for at in (index - 1, index) for key in ("celsius", "speed")):
            continue
        if higher.celsius <= lower.celsius or fraction(higher.speed) < fraction(lower.speed):
            facts.report.on("NODE-010", where, position=index + 1)


def _accelerator(facts: Facts) -> None:
    if facts.site.pis and not any(facts.has(("pis", name, "hat")) for name in facts.site.pis):
        facts.report.on_key("NODE-009", ("concerns", "accelerator"))
    for name, group in facts.site.pis.items():
        hat = facts.catalog.hats.get(group.hat) if group.hat is not None else None
        platform = _platform(facts, group.platform)
        if hat is not None and platform is not None and not platform.lab and group.platform != hat.packages_from:
            facts.report.on(
                "NODE-008", ("pis", name, "platform"), group=name, platform=group.platform, wanted=hat.packages_from
            )


def _servers(facts: Facts) -> Iterator[tuple[str, GpuServer, NumaMap | None]]:
    """Every GPU server whose profile is known and is one, with its NUMA map."""
    for name, server in facts.site.gpu_servers.items():
        profile = facts.catalog.servers.get(server.profile)
        if profile is not None and profile.nvlink:
            yield name, server, profile.numa


def _cpu_isolation(facts: Facts, stated: CpuIsolation) -> None:
    for name, server, numa in _servers(facts):
        if numa is None:
            facts.report.on("NODE-005", ("gpu_servers", name, "profile"), name=name, profile=server.profile)
            continue
        cores = min(_count(node.cpus) // numa.threads for node in numa.nodes)
        kept = stated.system_cores + stated.interrupt_cores
        if kept >= cores:
            facts.report.on_key(
                "NODE-006", ("concerns", "cpu_isolation"), name=name, profile=server.profile, kept=kept, cores=cores
            )
            return  # one is enough to say what to lower


def _count(cpus: str) -> int:
    """How many CPUs a kernel list of the catalogue names."""
    spans = (part.partition("-") for part in cpus.split(","))
    return sum(int(last or first) - int(first) + 1 for first, _, last in spans)


def _rings(facts: Facts, ring: int) -> None:
    for name, server, _ in _servers(facts):
        nic = facts.catalog.nics.get(facts.catalog.servers[server.profile].rdma_nic or "")
        if nic is not None and nic.ring is not None and ring > nic.ring:
            facts.report.on("NODE-013", ("concerns", "nic_tuning", "ring"), ring=ring, name=name, largest=nic.ring)
            return
    if ring & (ring - 1):  # Linux, mlx5e_ethtool_set_ringparam: the driver takes the next power of two
        higher = 1 << ring.bit_length()
        facts.report.on("NODE-026", ("concerns", "nic_tuning", "ring"), ring=ring, higher=higher, lower=higher // 2)
