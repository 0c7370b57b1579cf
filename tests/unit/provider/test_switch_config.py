"""`pinion:switch:Config` over a real channel, with switches in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
import yaml
from doubles.plugin_engine import Client, started
from doubles.switch import MemorySwitch

from pinion.drivers.switch import (
    CommandRefusedError,
    HostKeyError,
    SwitchDriver,
    SwitchState,
    SwitchUnreachableError,
    VlanState,
)
from pinion.drivers.switch.eos_qos_parser import DEFAULTS
from pinion.drivers.switch.qos import canonical
from pinion.plan import plan
from pinion.plan.model import SwitchPlan
from pinion.provider.main import SWITCH_CONFIG, PinionPlugin
from pinion.provider.plugin import Value
from pinion.provider.plugin.values import decode
from pinion.provider.sdk.switch import _SHAPE
from pinion.site.loader import load
from pinion.site.model import Site

REPOSITORY = Path(__file__).parents[3]


@dataclass
class Fabric(PinionPlugin):
    """The provider, with one switch in memory instead of a login."""

    memory: MemorySwitch

    def __post_init__(self) -> None:
        super().__init__()

    def switch_driver(self, plan: SwitchPlan) -> SwitchDriver:
        assert plan.name == self.memory.name
        return self.memory.driver()


@pytest.fixture(scope="module")
def switch_plan() -> SwitchPlan:
    return plan(load(REPOSITORY / "inventories/lab/site.yml")).switches[0]


@pytest.fixture
def switch(switch_plan: SwitchPlan) -> MemorySwitch:
    return MemorySwitch("tor-1", [port.name for port in switch_plan.ports])


@pytest.fixture
def client(switch: MemorySwitch) -> Iterator[Client]:
    with started(Fabric(switch)) as client:
        yield client


@pytest.fixture
def inputs(client: Client, switch_plan: SwitchPlan) -> dict[str, Value]:
    checked = client.check(SWITCH_CONFIG, "tor-1", _SHAPE.properties(switch_plan))
    assert not checked.failures
    return decode(checked.inputs)


def _ports(properties: dict[str, Value]) -> dict[str, dict[str, Value]]:
    ports = properties["ports"]
    assert isinstance(ports, dict)
    return ports


def _rewire(inputs: dict[str, Value], port: str, vid: int) -> dict[str, Value]:
    return {**inputs, "ports": {**_ports(inputs), port: {**_ports(inputs)[port], "access_vlan": vid}}}


def _edit_port(state: SwitchState, name: str, **fields: object) -> SwitchState:
    ports = tuple(port.model_copy(update=fields) if port.name == name else port for port in state.ports)
    return state.model_copy(update={"ports": ports})


def test_the_preview_shows_the_lines_and_changes_nothing(
    client: Client, switch: MemorySwitch, inputs: dict[str, Value]
) -> None:
    before = switch.state
    resource_id, outputs = client.create(SWITCH_CONFIG, "tor-1", inputs, preview=True)
    assert (resource_id, outputs) == ("", inputs)
    assert switch.state == before
    told = client.engine.text("INFO")
    assert told.startswith("tor-1 (10.77.99.2/24) will be configured:")
    assert "+vlan 101" in told
    assert "+   switchport access vlan 101" in told
    assert "+qos profile pinion-lossy" in told
    assert "+      bandwidth percent 60" in told


def test_another_share_is_two_lines_of_the_preview(
    client: Client, switch: MemorySwitch, inputs: dict[str, Value], switch_plan: SwitchPlan
) -> None:
    _, outputs = client.create(SWITCH_CONFIG, "tor-1", inputs)
    site = yaml.safe_load((REPOSITORY / "inventories/lab/site.yml").read_text(encoding="utf-8"))
    site["traffic_classes"]["rdma"]["share"] = "65%"
    site["traffic_classes"]["control"]["share"] = "15%"
    (other,) = plan(Site.model_validate(site)).switches
    news = decode(client.check(SWITCH_CONFIG, "tor-1", _SHAPE.properties(other)).inputs)
    changes = client.diff(SWITCH_CONFIG, "tor-1", "tor-1", old_inputs=inputs, olds=outputs, news=news)
    assert changes == {
        'qos.profiles["pinion-lossy"].queues["2"].share': "UPDATE",
        'qos.profiles["pinion-lossy"].queues["3"].share': "UPDATE",
    }
    client.update(SWITCH_CONFIG, "tor-1", "tor-1", old_inputs=inputs, olds=outputs, news=news, preview=True)
    assert client.engine.lines[-1].message.splitlines()[1:] == [
        " qos profile pinion-lossy",
        "    uc-tx-queue 2",
        "-      bandwidth percent 20",
        "+      bandwidth percent 15",
        " qos profile pinion-lossy",
        "    uc-tx-queue 3",
        "-      bandwidth percent 60",
        "+      bandwidth percent 65",
    ]
    client.update(SWITCH_CONFIG, "tor-1", "tor-1", old_inputs=inputs, olds=outputs, news=news)
    assert switch.state.qos == canonical(other.qos, DEFAULTS)
    assert switch.state.qos != canonical(switch_plan.qos, DEFAULTS)


def test_create_configures_and_a_second_look_finds_nothing(
    client: Client, switch: MemorySwitch, inputs: dict[str, Value]
) -> None:
    resource_id, outputs = client.create(SWITCH_CONFIG, "tor-1", inputs)
    assert resource_id == "tor-1"
    assert outputs == {**inputs, "drift": {}, "left": []}
    assert switch.state.vlan(101) == VlanState(vid=101, name="edge-inference")
    assert client.read(SWITCH_CONFIG, "tor-1", "tor-1", inputs=inputs, olds=outputs) == (inputs, outputs)
    assert client.diff(SWITCH_CONFIG, "tor-1", "tor-1", old_inputs=inputs, olds=outputs, news=inputs) == {}
    client.create(SWITCH_CONFIG, "tor-1", inputs, preview=True)
    assert client.engine.lines[-1].message == "tor-1 holds this configuration already"


def test_one_port_is_one_path_and_its_lines(client: Client, switch: MemorySwitch, inputs: dict[str, Value]) -> None:
    _, outputs = client.create(SWITCH_CONFIG, "tor-1", inputs)
    news = _rewire(inputs, "Ethernet3", 102)
    changes = client.diff(SWITCH_CONFIG, "tor-1", "tor-1", old_inputs=inputs, olds=outputs, news=news)
    assert changes == {"ports.Ethernet3.access_vlan": "UPDATE"}
    client.update(SWITCH_CONFIG, "tor-1", "tor-1", old_inputs=inputs, olds=outputs, news=news, preview=True)
    assert client.engine.lines[-1].message.splitlines()[1:] == [
        " interface Ethernet3",
        "-   switchport access vlan 101",
        "+   switchport access vlan 102",
    ]
    assert switch.state.port("Ethernet3").access_vlan == 101  # type: ignore[union-attr]
    client.update(SWITCH_CONFIG, "tor-1", "tor-1", old_inputs=inputs, olds=outputs, news=news)
    assert switch.state.port("Ethernet3").access_vlan == 102  # type: ignore[union-attr]


def test_another_name_is_another_switch_and_words_about_the_site_are_no_change(
    client: Client, inputs: dict[str, Value]
) -> None:
    def diff(news: dict[str, Value]) -> dict[str, str]:
        return client.diff(SWITCH_CONFIG, "tor-1", "tor-1", old_inputs=inputs, olds=inputs, news=news)

    assert diff({**inputs, "name": "tor-2"}) == {"name": "UPDATE_REPLACE"}
    port = {**_ports(inputs)["Ethernet1"], "origin": "pis.other 1"}
    assert diff({**inputs, "origin": "switches.x", "ports": {**_ports(inputs), "Ethernet1": port}}) == {}


def test_a_refresh_tells_drift_by_property_and_the_rest_in_words(
    client: Client, switch: MemorySwitch, inputs: dict[str, Value]
) -> None:
    _, outputs = client.create(SWITCH_CONFIG, "tor-1", inputs)
    switch.edit(lambda state: _edit_port(state, "Ethernet3", access_vlan=102, native_vlan=7))
    switch.edit(
        lambda state: _edit_port(state, "Ethernet4", enabled=False, description="by hand", other=("no lldp transmit",))
    )
    switch.edit(
        lambda state: state.model_copy(
            update={
                "vlans": (
                    *(vlan for vlan in state.vlans if vlan.vid != 102),
                    VlanState(vid=400, name="guest"),
                ),
                "saved": False,
            }
        )
    )
    found = client.read(SWITCH_CONFIG, "tor-1", "tor-1", inputs=inputs, olds=outputs)
    assert found is not None
    actual, state = found
    assert state["left"] == ["VLAN 400 (guest)"]
    assert state["drift"] == {
        "port Ethernet3 (pis.pi 3): native VLAN": "7; the site file says 1",
        "port Ethernet4 (pis.pi 4): other lines": "no lldp transmit; the site file says (none)",
        "start-up configuration": "out of date; the site file says saved",
    }
    changes = client.diff(SWITCH_CONFIG, "tor-1", "tor-1", old_inputs=actual, olds=state, news=inputs)
    assert set(changes) == {
        'drift["port Ethernet3 (pis.pi 3): native VLAN"]',
        'drift["port Ethernet4 (pis.pi 4): other lines"]',
        'drift["start-up configuration"]',
        "ports.Ethernet3.access_vlan",
        "ports.Ethernet4.description",
        "ports.Ethernet4.enabled",
        'vlans["102"]',
    }
    repaired = client.update(SWITCH_CONFIG, "tor-1", "tor-1", old_inputs=actual, olds=state, news=inputs)
    assert repaired["drift"] == {}
    assert client.read(SWITCH_CONFIG, "tor-1", "tor-1", inputs=inputs, olds=repaired) == (inputs, repaired)
    assert switch.state.vlan(400) is not None


def test_a_vlan_that_left_the_site_file_leaves_the_switch(
    client: Client, switch: MemorySwitch, inputs: dict[str, Value]
) -> None:
    _, outputs = client.create(SWITCH_CONFIG, "tor-1", inputs)
    vlans = inputs["vlans"]
    assert isinstance(vlans, dict)
    svis = [svi for svi in inputs["svis"] if svi["vid"] != 102]  # type: ignore[union-attr,index,call-overload]
    ports = {
        name: {
            key: value
            for key, value in port.items()
            if value != 102 and not (key == "mode" and port.get("access_vlan") == 102)
        }
        for name, port in _ports(inputs).items()
    }
    news = {**inputs, "vlans": {vid: vlan for vid, vlan in vlans.items() if vid != "102"}, "svis": svis, "ports": ports}
    client.update(SWITCH_CONFIG, "tor-1", "tor-1", old_inputs=inputs, olds=outputs, news=news)
    assert switch.state.vlan(102) is None
    assert switch.state.vlan(101) is not None


def test_delete_leaves_factory_settings_and_foreign_things(
    client: Client, switch: MemorySwitch, inputs: dict[str, Value]
) -> None:
    factory = switch.state.ports
    _, outputs = client.create(SWITCH_CONFIG, "tor-1", inputs)
    switch.edit(lambda state: state.model_copy(update={"vlans": (*state.vlans, VlanState(vid=400, name="guest"))}))
    client.delete(SWITCH_CONFIG, "tor-1", "tor-1", old_inputs=inputs, olds=outputs)
    assert switch.state.ports == factory
    assert [vlan.vid for vlan in switch.state.vlans] == [400]
    assert "VLAN 400 (guest)" in client.engine.text("WARNING")
    client.delete(SWITCH_CONFIG, "tor-1", "tor-1", old_inputs=inputs, olds=outputs)


def test_mistakes_are_told_by_path(client: Client, inputs: dict[str, Value]) -> None:
    bad = {
        **inputs,
        "ports": {"Ethernet1": {"description": "x", "enabled": "maybe", "mode": "hybrid"}},
        "colour": "red",
    }
    reasons = [failure.reason for failure in client.check(SWITCH_CONFIG, "tor-1", bad).failures]
    assert [reason.partition(": ")[0] for reason in reasons] == [
        "colour",
        "ports.Ethernet1.enabled",
        "ports.Ethernet1.mode",
        "ports.Ethernet1.origin",
    ]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (SwitchUnreachableError("tor-1 (10.77.99.2:22)", "connection refused"), grpc.StatusCode.UNAVAILABLE),
        (
            HostKeyError("tor-1 (10.77.99.2:22)", "host key changed", hint="accept it"),
            grpc.StatusCode.PERMISSION_DENIED,
        ),
        (
            CommandRefusedError("tor-1 (10.77.99.2:22)", "% Invalid input", command="vlan x"),
            grpc.StatusCode.FAILED_PRECONDITION,
        ),
    ],
)
def test_a_failure_names_switch_command_and_reason_and_can_be_repeated(
    client: Client, switch: MemorySwitch, inputs: dict[str, Value], error: Exception, code: grpc.StatusCode
) -> None:
    switch.fail_next(error)  # type: ignore[arg-type]
    with pytest.raises(grpc.RpcError) as caught:
        client.create(SWITCH_CONFIG, "tor-1", inputs)
    assert caught.value.code() is code
    assert caught.value.details() == str(error)
    assert client.create(SWITCH_CONFIG, "tor-1", inputs)[0] == "tor-1"


def test_an_import_says_what_to_do_instead(client: Client) -> None:
    with pytest.raises(grpc.RpcError, match="cannot be imported: its plan says how to reach it"):
        client.read(SWITCH_CONFIG, "tor-1", "tor-1")
