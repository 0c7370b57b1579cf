"""What the plan says of the concern nic_tuning: the traffic classes, on the NIC."""

from __future__ import annotations

import json
from typing import Any

import pytest
from unit.hosts.nodes import concern, file, stated
from unit.hosts.sites import DC, LAB, with_pfc

from pinion.plan import Plan
from pinion.plan.concerns.nic_tuning import CONFIG_FILE, UDEV_FILE, type_of_service
from pinion.plan.model import DeviceKind
from pinion.plan.traffic import priority
from pinion.services.node_programs.nic_tuning import OFFLOADS, Machine, knobs
from pinion.site.catalog import load

GPU = DeviceKind.GPU_SERVER
CLASSES = {
    "control": {"share": "20%", "dscp": 16},
    "rdma": {"share": "60%", "dscp": 26, "delivery": "lossless"},
    "edge_http": {"share": "20%", "dscp": 0},
}


@pytest.fixture
def switches_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """The switches get PFC from us, too."""
    known = with_pfc(*load().platforms)
    monkeypatch.setattr("pinion.plan.compile.hardware.load", lambda: known)


def plan(classes: dict[str, Any] | None = None, **settings: Any) -> Plan:
    changes = {} if classes is None else {"traffic_classes": classes}
    return stated(DC, {"nic_tuning": settings}, **changes)


def nic(found: Plan, name: str = "rdma0") -> dict[str, Any]:
    entries: dict[str, dict[str, Any]] = json.loads(file(concern(found, GPU, "nic_tuning"), CONFIG_FILE).content)
    return entries[name]


@pytest.mark.usefixtures("switches_pause")
def test_a_lossless_class_on_a_card_that_can() -> None:
    found = nic(plan())
    assert found["mtu"] == 9000
    assert found["ring"] == 8192
    assert found["moderation"] == {"rx": None, "tx": None}
    assert found["priorities"] == {"26": 3, "48": 6}
    assert found["pfc"] == [3]
    assert found["pause"] is False
    assert found["tos"] == 106


def test_while_the_switch_does_not_pause_the_nic_does_not_either(monkeypatch: pytest.MonkeyPatch) -> None:
    known = with_pfc()
    monkeypatch.setattr("pinion.plan.compile.hardware.load", lambda: known)
    found = nic(plan())
    assert found["pfc"] == []
    assert found["pause"] is False
    assert found["priorities"] == {"26": 3, "48": 6}, "marks and queues are as on the switch, lossless or not"


@pytest.mark.usefixtures("switches_pause")
def test_a_lossy_class_pauses_nothing() -> None:
    classes = CLASSES | {"rdma": {"share": "60%", "dscp": 26}}
    assert nic(plan(classes))["pfc"] == []
    assert nic(plan(classes))["priorities"]["26"] == 3


@pytest.mark.usefixtures("switches_pause")
@pytest.mark.parametrize("dscp", [8, 10, 18, 24, 26, 34, 46])
def test_the_pfc_priority_is_the_one_that_the_packets_have(dscp: int) -> None:
    found = nic(plan(CLASSES | {"rdma": {"share": "60%", "dscp": dscp, "delivery": "lossless"}}))
    assert found["pfc"] == [found["priorities"][str(dscp)]]
    assert found["tos"] >> 2 == dscp
    assert found["tos"] & 3 == 2, "the sender understands congestion marks"
    assert found["priorities"]["48"] not in found["pfc"], "congestion notifications must pass a paused class"


def test_dscp_to_priority_and_type_of_service() -> None:
    assert [priority(dscp) for dscp in (0, 7, 8, 26, 48, 63)] == [0, 0, 1, 3, 6, 7]
    assert type_of_service(26) == 106


def test_settings_arrive() -> None:
    found = nic(plan(ring=2048, rx_usecs=0, offloads=False))
    assert found["ring"] == 2048
    assert found["moderation"] == {"rx": 0, "tx": None}
    assert set(found["offloads"].values()) == {False}


def test_a_card_has_its_name_by_its_place() -> None:
    found = concern(plan(), GPU, "nic_tuning")
    links = {entry.path: entry for entry in found.files if entry.path.endswith(".link")}
    assert len(links) == 8
    ports = load().servers["dgx-h100"].rdma_ports
    for port in ports:
        link = links[f"/etc/systemd/network/10-pinion-{port.name}.link"]
        assert link.content.splitlines()[1:] == [
            "[Match]",
            f"Path=pci-{port.pci}",
            "Type=ether",
            "",
            "[Link]",
            f"Name={port.name}",
            "MTUBytes=9000",
        ]
        assert link.needs_reboot
    assert 'ENV{ID_NET_DRIVER}=="mlx5_core"' in file(found, UDEV_FILE).content


def test_the_lab_states_what_a_virtual_link_has() -> None:
    found = concern(stated(LAB, {"nic_tuning": {}}), GPU, "nic_tuning")
    assert {entry.path for entry in found.files if "link" in entry.path or "udev" in entry.path} == set()
    assert found.modules == ()
    entries = json.loads(file(found, CONFIG_FILE).content)
    assert set(entries) == {"rdma0", "rdma1"}
    for entry in entries.values():
        assert entry["mtu"] == 9000
        assert entry["offloads"] == {"generic-receive-offload": True}
        assert {key: entry[key] for key in ("ring", "pause", "priorities", "pfc", "tos")} == dict.fromkeys(
            ("ring", "pause", "priorities", "pfc", "tos")
        )


@pytest.mark.parametrize("site", [DC, LAB])
def test_the_program_understands_every_file(site: Any, tmp_path: Any) -> None:
    entries = json.loads(file(concern(stated(site, {"nic_tuning": {}}), GPU, "nic_tuning"), CONFIG_FILE).content)
    for name, wanted in entries.items():
        names = [knob.name for knob in knobs(Machine(tmp_path, tmp_path), name, wanted)]
        assert names[0] == "MTU"
        assert len(names) == len(set(names))
        assert len(names) >= (10 if site == DC else 2)
    assert all(set(entry.offloads) <= set(OFFLOADS) for entry in load().nics.values())


def test_only_gpu_servers_with_rdma_links() -> None:
    assert {host.kind for host in plan().hosts if "nic_tuning" in host.concerns} == {GPU}
    server = {"profile": "dgx-h100", "rack": "r12", "unit": 20, "network": "control", "port": "tor-1 Ethernet17"}
    without = stated(DC, {"nic_tuning": {}}, gpu_servers={"nv-1": server})
    assert not any("nic_tuning" in host.concerns for host in without.hosts)
