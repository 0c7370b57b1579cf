"""The plan is a pure function of the site: deterministic, without overlaps, and nothing moves when a node is added."""

from __future__ import annotations

import copy
import json
import os
import random
import subprocess
import sys
from collections.abc import Mapping
from ipaddress import ip_interface, ip_network
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from pinion.checks.claims import checks
from pinion.drivers.netbox import device_record
from pinion.plan import Plan, plan
from pinion.plan.diff import differences
from pinion.plan.leaving import behind, ports, staying
from pinion.plan.model import Concern, DeviceKind, HostFile
from pinion.plan.switch_state import switch_state
from pinion.render.eos import eos_config
from pinion.site.model import Site

ROOT = Path(__file__).parents[3]
#: For whom the authority renews.
AUTHORITY = "hosts.mgmt-1.concerns.site_ca.files./etc/pinion/site-ca/ca.json.materials"
SITES = ("lab", "dc-rack-12")


def stated(name: str) -> dict[str, Any]:
    """The site file of *name* as plain data, for tests that change it."""
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "inventories" / name / "site.yml").read_text())
    return loaded


def planned(data: Mapping[str, Any]) -> Plan:
    return plan(Site.model_validate(data))


def addresses(compiled: Plan) -> dict[tuple[str, str], tuple[str, ...]]:
    """(device, interface) to addresses, for everything that has any."""
    return {
        (device.name, interface.name): interface.addresses
        for device in compiled.devices
        for interface in device.interfaces
        if interface.addresses
    }


@pytest.mark.parametrize("name", SITES)
def test_no_address_is_given_twice_and_each_lies_in_its_vlan(name: str) -> None:
    compiled = planned(stated(name))
    given = [ip_interface(text) for found in addresses(compiled).values() for text in found]
    assert given, "a plan without addresses proves nothing"
    assert len({address.ip for address in given}) == len(given)
    for device in compiled.devices:
        for interface in device.interfaces:
            if interface.untagged_vlan is None:
                continue
            inside = [ip_network(prefix.prefix) for prefix in compiled.vlan(interface.untagged_vlan).prefixes]
            assert all(any(ip_interface(text).ip in prefix for prefix in inside) for text in interface.addresses)


@pytest.mark.parametrize("name", SITES)
def test_every_cable_has_two_ends_that_agree_and_one_owner(name: str) -> None:
    compiled = planned(stated(name))
    cables = 0
    for device in compiled.devices:
        for interface in device.interfaces:
            if interface.cable is None:
                continue
            far = compiled.device(interface.cable.device).interface(interface.cable.interface)
            assert far.cable is not None
            assert (far.cable.device, far.cable.interface) == (device.name, interface.name)
            assert interface.owns_cable != far.owns_cable
            cables += 1
    assert cables > 0
    assert cables % 2 == 0


def test_the_switch_port_of_each_host_carries_the_vlan_of_the_host() -> None:
    compiled = planned(stated("dc-rack-12"))
    seen = 0
    for switch in compiled.switches:
        for port in switch.ports:
            far = compiled.device(switch.name).interface(port.name).cable
            if far is None or far.device in {s.name for s in compiled.switches}:
                continue
            vlan = compiled.device(far.device).interface(far.interface).untagged_vlan
            assert vlan is not None
            assert port.access_vlan == compiled.vlan(vlan).vid
            seen += 1
    assert seen == 8 + 1 + 8


def test_a_fifth_pi_changes_one_device_and_its_port_and_nothing_else() -> None:
    before, after = stated("lab"), stated("lab")
    after["pis"]["pi"]["numbers"] = "1-5"
    paths = {difference.path for difference in differences(planned(before), planned(after))}
    port = "Ethernet5"
    assert paths == {
        "devices.pi-05",
        "hosts.pi-05",
        AUTHORITY,
        "cluster.nodes.pi-05",
        *(
            f"devices.tor-1.interfaces.{port}.{field}"
            for field in ("enabled", "description", "mode", "untagged_vlan", "cable")
        ),
        *(
            f"switches.tor-1.ports.{port}.{field}"
            for field in ("enabled", "description", "mode", "access_vlan", "qos_profile", "origin")
        ),
    }


def test_removing_a_pi_in_the_middle_moves_no_other() -> None:
    data = stated("lab")
    before = addresses(planned(data))
    data["pis"]["pi"]["numbers"] = "1-2,4"
    after = addresses(planned(data))
    assert {key: value for key, value in before.items() if key[0] != "pi-03"} == after


def test_a_plan_survives_json() -> None:
    compiled = planned(stated("dc-rack-12"))
    assert Plan.model_validate_json(compiled.model_dump_json()) == compiled


def test_the_same_bytes_in_every_process_and_hash_seed() -> None:
    program = "from pinion.cli import main; main(['plan', 'dc-rack-12', '--json'])"
    seen = set()
    for seed in ("0", "1", "4242"):
        run = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=ROOT,
            capture_output=True,
            check=True,
        )
        seen.add(run.stdout)
    assert len(seen) == 1
    assert json.loads(seen.pop())["site"] == "dc-rack-12"


def test_an_unmanaged_network_never_reaches_a_fabric_port() -> None:
    compiled = planned(stated("dc-rack-12"))
    outside = {vlan.vid for vlan in compiled.vlans if not vlan.fabric}
    assert outside
    for switch in compiled.switches:
        assert not outside & {vlan.vid for vlan in switch.vlans}
        assert not outside & {port.access_vlan for port in switch.ports}


def test_dual_stack_nodes_have_the_same_host_offset_in_both_families() -> None:
    data = stated("lab")
    edge = data["networks"]["edge-inference"]
    edge["prefixes"] = [edge.pop("prefix"), "fd00:77:101::/64"]
    compiled = planned(data)
    assert compiled.device("pi-01").interfaces[0].addresses == ("10.77.101.10/24", "fd00:77:101::a/64")


@settings(max_examples=60, deadline=None)
@given(
    chosen=st.sets(st.integers(min_value=1, max_value=40), min_size=1, max_size=40),
    extra=st.integers(min_value=1, max_value=40),
    seed=st.integers(min_value=0, max_value=2**16),
)
def test_insertion_and_reordering_move_nothing(chosen: set[int], extra: int, seed: int) -> None:
    data = stated("lab")
    data["pis"]["pi"] |= {"ports": "tor-1 Ethernet100-139", "numbers": ",".join(map(str, sorted(chosen)))}
    first = planned(data)
    shuffled: dict[str, Any] = copy.deepcopy(data)
    numbers = list(chosen)
    random.Random(seed).shuffle(numbers)
    shuffled["pis"]["pi"]["numbers"] = ",".join(map(str, numbers))
    shuffled["networks"] = dict(reversed(list(shuffled["networks"].items())))
    assert planned(shuffled).model_dump_json() == first.model_dump_json()
    grown: dict[str, Any] = copy.deepcopy(data)
    grown["pis"]["pi"]["numbers"] = ",".join(map(str, sorted(chosen | {extra})))
    after = addresses(planned(grown))
    for key, value in addresses(first).items():
        assert after[key] == value
    pis = [device for device in planned(grown).devices if device.kind is DeviceKind.PI]
    assert len({device.primary_address for device in pis}) == len(pis) == len(chosen | {extra})


def test_a_secret_file_s_content_is_in_no_difference() -> None:
    before = planned(stated("lab"))
    host = before.hosts[0]

    def with_file(content: str) -> Plan:
        concern = Concern(name="secret", files=(HostFile(path="/k", content=content, mode="0600", secret=True),))
        changed = host.model_copy(update={"concerns": {**host.concerns, "secret": concern}})
        return before.model_copy(update={"hosts": (changed, *before.hosts[1:])})

    one, two = with_file("sesame-1"), with_file("sesame-2")
    for old, new in ((before, one), (one, two), (one, before)):
        found = differences(old, new)
        assert len(found) == 1
        assert "sesame" not in found[0].model_dump_json() + str(found[0])
    assert differences(one, two)[0].path.endswith("concerns.secret.files./k")


# --- a node that leaves ---------------------------------------------------------------------------------------------------


def test_a_node_that_leaves_shuts_its_port_and_is_no_host_and_no_node_of_the_cluster() -> None:
    before, after = stated("lab"), stated("lab")
    after["decommissioned"] = ["pi-03"]
    paths = {difference.path for difference in differences(planned(before), planned(after))}
    port = "Ethernet3"
    assert paths == {
        "devices.pi-03.status",
        "hosts.pi-03",
        AUTHORITY,
        "cluster.nodes.pi-03",
        *(f"devices.tor-1.interfaces.{port}.{field}" for field in ("enabled", "description", "mode", "untagged_vlan")),
        *(
            f"switches.tor-1.ports.{port}.{field}"
            for field in ("enabled", "description", "mode", "access_vlan", "qos_profile")
        ),
    }
    shut = next(one for one in planned(after).switches[0].ports if one.name == port)
    assert (shut.enabled, shut.access_vlan, shut.description) == (False, None, "pi-03 eth0, decommissioned")
    assert f"interface {port}\n   description pi-03 eth0, decommissioned\n   shutdown\n" in eos_config(
        switch_state(planned(after).switches[0])
    )


def test_a_gpu_server_that_leaves_shuts_its_rdma_ports_on_both_switches() -> None:
    data = stated("dc-rack-12")
    data["decommissioned"] = ["nv-1"]
    compiled = planned(data)
    shut = {
        (switch.name, port.name) for switch in compiled.switches for port in switch.ports if "nv-1" in port.description
    }
    assert len(shut) == 9
    assert not any(port.enabled for switch in compiled.switches for port in switch.ports if "nv-1" in port.description)
    assert set(ports(compiled, "nv-1")) == shut
    assert "nv-1" not in {host.name for host in compiled.hosts}


@settings(max_examples=30, deadline=None)
@given(leaving=st.sets(st.integers(min_value=1, max_value=8), min_size=1, max_size=8))
def test_leaving_moves_no_address_and_going_moves_no_other(leaving: set[int]) -> None:
    data = stated("dc-rack-12")
    before = addresses(planned(data))
    names = [f"pi-{number:02}" for number in sorted(leaving)]
    data["decommissioned"] = names
    assert addresses(planned(data)) == before
    del data["decommissioned"]
    left = set(range(1, 9)) - leaving
    if not left:
        del data["pis"]
        data["concerns"] = {"base": {}}
        data.pop("models")
    else:
        data["pis"]["pi"]["numbers"] = ",".join(map(str, sorted(left)))
    assert addresses(planned(data)) == {key: value for key, value in before.items() if key[0] not in names}


def test_no_claim_is_made_about_a_node_that_leaves_but_its_record_and_its_port() -> None:
    data = stated("lab")
    data["decommissioned"] = ["pi-03"]
    compiled = planned(data)
    about = [check for check in checks(compiled) if "pi-03" in check.model_dump_json()]
    assert [check.id for check in about] == ["records.device.pi-03"]
    port = next(check for check in checks(compiled) if check.id == "fabric.tor-1.port.Ethernet3")
    assert port.expected == "shut"
    assert device_record(compiled, "pi-03").status == "decommissioning"
    assert device_record(compiled, "pi-02").status == "active"


def test_the_plan_with_the_node_still_in_is_that_of_before() -> None:
    data = stated("lab")
    before = planned(data)
    data["decommissioned"] = ["nv-1", "pi-03"]
    assert [host.name for host in staying(Site.model_validate(data), "pi-03").hosts] == [
        host.name for host in before.hosts if host.name != "nv-1"
    ]


def test_what_concerns_keep_is_known_to_the_wipe() -> None:
    """Every folder that a concern states, every state folder of a unit, and every secret file lies under what a wipe names."""
    written = 0
    for name in SITES:
        for host in planned(stated(name)).hosts:
            known = [held.path for held in behind(host).data]
            folders = [folder.path for concern in host.concerns.values() for folder in concern.directories]
            files = [file for concern in host.concerns.values() for file in concern.files]
            folders += [
                f"/var/lib/{line.partition('=')[2]}"
                for file in files
                for line in file.content.splitlines()
                if line.startswith("StateDirectory=")
            ]
            secret = [file.path for file in files if file.secret]
            for path in (*folders, *secret):
                assert any(path == one or path.startswith(f"{one}/") for one in known), f"{host.name}: {path}"
                written += 1
    assert written > 20


@pytest.mark.parametrize("then", ["notify", "restart"])
def test_a_file_that_comes_before_packages_restarts_nothing(then: str) -> None:
    with pytest.raises(ValueError, match=r"/etc/apt/x is for packages and restarts a\.service"):
        HostFile.model_validate({"path": "/etc/apt/x", "content": "", "for_packages": True, then: ["a.service"]})
    assert HostFile(path="/etc/apt/x", content="", for_packages=True, run=("apt-get update",)).for_packages
