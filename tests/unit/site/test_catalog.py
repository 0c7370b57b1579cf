"""The hardware catalogue: every fact has a source, and the entries agree with each other."""

from __future__ import annotations

import pytest

from pinion.site.catalog import Catalog, load

KNOWN = load()


def _entries() -> list[tuple[str, str]]:
    return [(kind, name) for kind in Catalog.model_fields for name in getattr(KNOWN, kind)]


@pytest.mark.parametrize(("kind", "name"), _entries())
def test_every_entry_has_a_source(kind: str, name: str) -> None:
    assert len(getattr(KNOWN, kind)[name].source) > 10


def test_entries_name_only_what_exists() -> None:
    for name, hat in KNOWN.hats.items():
        assert set(hat.boards) <= set(KNOWN.boards), name
        assert all(KNOWN.boards[board].pcie for board in hat.boards), name
    for kind in ("boards", "switches", "servers"):
        for name, hardware in getattr(KNOWN, kind).items():
            assert set(hardware.platforms) <= set(KNOWN.platforms), name
            assert bool(hardware.platforms) is not hardware.lab_only, name


def test_ports_of_a_device_have_names_of_their_own() -> None:
    for name, switch in KNOWN.switches.items():
        ports = [port for group in switch.ports for port in group.each()]
        assert len(ports) == len(set(ports)), name
        assert switch.management_port.name not in ports, name
    for name, server in KNOWN.servers.items():
        ports = [port.name for port in (*server.ports, *server.rdma_ports)]
        assert len(ports) == len(set(ports)), name


def test_models_are_told_apart() -> None:
    models = [
        (entry.manufacturer, entry.model)
        for kind in ("boards", "switches", "servers")
        for entry in getattr(KNOWN, kind).values()
    ]
    assert len(models) == len(set(models))


@pytest.mark.parametrize(
    ("switch", "speed", "can"),
    [
        ("7060CX2-32S", 1000, False),
        ("7050SX3-48YC8", 1000, True),
        ("7050SX3-48YC8", 100000, True),
        ("lab-tor-16", 10000, False),
    ],
)
def test_speeds_that_decide_where_a_pi_can_go(switch: str, speed: int, can: bool) -> None:
    assert any(speed in group.speeds for group in KNOWN.switches[switch].ports) is can


def test_the_largest_mtu_of_a_switch_carries_the_rdma_default() -> None:
    assert all(switch.max_mtu >= 9000 for switch in KNOWN.switches.values())
