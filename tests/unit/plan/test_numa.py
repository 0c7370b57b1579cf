"""CPU sets: the kernel's lists, and the division of a server's cores."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinion.plan import numa
from pinion.site.catalog import NumaMap, NumaNode, load

DGX = load().servers["dgx-h100"].numa
CPUS = st.frozensets(st.integers(0, 1023), max_size=64)


@given(CPUS)
def test_a_list_says_its_set(cpus: frozenset[int]) -> None:
    assert numa.parse(numa.text(cpus)) == cpus


@pytest.mark.parametrize(
    ("written", "shortest"),
    [("", ""), ("3", "3"), ("0-3", "0-3"), ("2,1,0", "0-2"), ("7, 5-6 ,5", "5-7"), ("0-55,112-167", "0-55,112-167")],
)
def test_lists_as_the_kernel_writes_them(written: str, shortest: str) -> None:
    assert numa.text(numa.parse(written)) == shortest


@pytest.mark.parametrize("written", ["a", "1-", "-1", "3-1", "1,,2", "1-2-3", "0x4"])
def test_what_is_no_list_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match="of"):
        numa.parse(written)


def test_the_eight_gpu_server() -> None:
    assert DGX is not None
    found = numa.divide(DGX, system_cores=2, interrupt_cores=2)
    assert numa.text(found.system) == "0-1,56-57,112-113,168-169"
    assert numa.text(found.interrupts) == "2-3,58-59,114-115,170-171"
    assert numa.text(found.isolated) == "4-55,60-111,116-167,172-223"
    assert {node: numa.text(cpus) for node, cpus in found.interrupts_of.items()} == {
        0: "2-3,114-115",
        1: "58-59,170-171",
    }


@st.composite
def maps(draw: st.DrawFn) -> NumaMap:
    """Servers as Linux numbers them: the first threads of all cores, then the second ones."""
    threads, nodes, cores = draw(st.sampled_from([1, 2])), draw(st.integers(1, 8)), draw(st.integers(3, 16))
    total = nodes * cores
    return NumaMap(
        threads=threads,  # type: ignore[arg-type]  # one of the two
        nodes=tuple(
            NumaNode(
                cpus=",".join(
                    f"{thread * total + node * cores}-{thread * total + (node + 1) * cores - 1}"
                    for thread in range(threads)
                )
            )
            for node in range(nodes)
        ),
    )


@given(maps(), st.integers(1, 8), st.integers(0, 8))
def test_every_cpu_has_one_use_and_cores_stay_whole(numa_map: NumaMap, system: int, interrupts: int) -> None:
    everything = frozenset().union(*(numa.parse(node.cpus) for node in numa_map.nodes))
    try:
        found = numa.divide(numa_map, system, interrupts)
    except ValueError:
        assert any(system + interrupts >= len(numa.parse(node.cpus)) // numa_map.threads for node in numa_map.nodes)
        return
    uses = (found.system, found.interrupts, found.isolated)
    assert sum(map(len, uses)) == len(everything)
    assert frozenset().union(*uses) == everything
    assert 0 in found.system, "CPU 0 boots and cannot be tickless"
    for number, node in enumerate(numa_map.nodes):
        own = numa.parse(node.cpus)
        assert found.interrupts_of[number] <= own
        assert own & found.isolated, "every node keeps cores for workloads"
        for core in numa.physical_cores(own, numa_map.threads):
            assert any(set(core) <= use for use in uses), "two threads of one core have two uses"


def test_a_count_that_is_no_whole_number_of_cores_is_refused() -> None:
    with pytest.raises(ValueError, match="no whole number"):
        numa.physical_cores(frozenset(range(7)), 2)
