"""NetBox records through the real engine: create, nothing to do, change, drift, adopt, import, destroy, secrets."""

from __future__ import annotations

import copy
import subprocess
from pathlib import Path
from typing import Any

import pytest
from engine.conftest import REPOSITORY, small
from engine.kill import doubles
from engine.netbox_server import TOKEN, Server
from engine.stack import PASSPHRASE, STACK, Stack

from pinion.drivers.netbox.kinds import DEVICE, INTERFACE, IP_ADDRESS, SITE, VLAN, VLAN_GROUP
from pinion.drivers.netbox.kinds.values import Record, identity
from pinion.plan import Plan


def _find(netbox: Server, kind: Any, **fields: object) -> Record:
    found = [one for one in netbox.store.find(kind, {}) if all(one.get(key) == value for key, value in fields.items())]
    assert len(found) == 1, f"{len(found)} with {fields}"
    return found[0]


@pytest.mark.variant
def test_up_again_one_more_and_away(netbox_stack: Stack, netbox: Server) -> None:
    with netbox.watching() as calls:
        preview = netbox_stack.preview()
    assert "+ 14 to create" in preview.text
    assert set(calls) == {"GET"}
    assert "error" not in preview.text

    netbox_stack.up()
    assert len(netbox_stack.state()) == 12
    assert not doubles(netbox)

    with netbox.watching() as calls:
        assert "14 unchanged" in netbox_stack.up().text
    assert not calls, "nothing to do needs no call"

    more = copy.deepcopy(next(one for one in netbox_stack.wishes["devices"] if one["name"] == "pi-04"))
    more["name"] = "pi-05"
    more["interfaces"][0] |= {"addresses": ["10.77.101.14/24"], "cable": {"device": "tor-1", "interface": "Ethernet5"}}
    more["primary_address"] = "10.77.101.14/24"
    netbox_stack.wishes["devices"].append(more)
    assert netbox_stack.steps() == {"pi-05": "create"}
    netbox_stack.up()
    assert netbox.objects()["device"] == 8

    netbox_stack.wishes["devices"].pop()
    assert netbox_stack.steps() == {"pi-05": "delete"}
    netbox_stack.up()
    assert netbox.objects()["device"] == 7
    netbox_stack.destroy()
    assert {kind: count for kind, count in netbox.objects().items() if count} == {"tag": 1, "custom field": 2}


def test_destroy_and_up_keep_what_others_hung_on_a_device_and_go_on_when_it_is_gone(
    netbox_stack: Stack, netbox: Server
) -> None:
    """A device leaves the site file, then all goes: each time somebody's item keeps its device, and is named with its page."""
    netbox_stack.up()
    pi = _find(netbox, DEVICE, name="pi-04")
    item = netbox.store.hang("dcim/inventory-items", {"device": identity(pi), "name": "spare fan"})
    leaving = [one for one in netbox_stack.wishes["devices"] if one["name"] == "pi-04"]
    netbox_stack.wishes["devices"].remove(leaving[0])
    for run in (netbox_stack.up, netbox_stack.destroy):
        failed = run(check=False)
        assert failed.code != 0
        assert f"inventory item spare fan hangs on it and was not made by Pinion ({item['display_url']})" in failed.text
        assert "Move or delete what is not Pinion's, or take the tag pinion off" in failed.text
        assert netbox.store.dependents.rows("dcim/inventory-items") == [item]
        assert identity(_find(netbox, DEVICE, name="pi-04")) == identity(pi)
    assert _find(netbox, SITE, slug="lab")
    netbox.store.dependents.take("dcim/inventory-items", identity(item))
    netbox_stack.destroy()
    assert {kind: count for kind, count in netbox.objects().items() if count} == {"tag": 1, "custom field": 2}


def test_a_change_is_shown_by_its_property(netbox_stack: Stack, netbox: Server) -> None:
    netbox_stack.up()
    pi = next(one for one in netbox_stack.wishes["devices"] if one["name"] == "pi-01")
    pi["serial"] = "X1"
    pi["interfaces"][0]["mtu"] = 9000
    shown = netbox_stack.preview().text
    assert "~ mtu: 1500 => 9000" in shown
    assert '+ serial    : "X1"' in shown
    assert netbox_stack.steps() == {"pi-01": "update"}
    netbox_stack.up()
    assert _find(netbox, DEVICE, name="pi-01")["serial"] == "X1"
    assert "14 unchanged" in netbox_stack.up("--refresh").text


@pytest.mark.variant
def test_drift_is_shown_by_refresh_and_repaired_by_up(netbox_stack: Stack, netbox: Server) -> None:
    netbox_stack.up()
    store = netbox.store
    store.update(VLAN, [{"id": identity(_find(netbox, VLAN, vid=101)), "name": "renamed"}], [])
    address = next(one for one in store.find(IP_ADDRESS, {}) if str(one["address"]).startswith("10.77.101.12/"))
    store.delete(IP_ADDRESS, [identity(address)], [])
    device = identity(_find(netbox, DEVICE, name="pi-02"))
    interface = next(one for one in store.find(INTERFACE, {"device_id": str(device)}))
    store.update(INTERFACE, [{"id": identity(interface), "mtu": 1400, "description": "by hand"}], [])
    store.delete(DEVICE, [identity(_find(netbox, DEVICE, name="pi-04"))], [])

    shown = netbox_stack.pulumi("refresh", "--stack", STACK, "--preview-only", "--diff", check=True).text
    assert '~ name: "edge-inference" => "renamed"' in shown
    assert "~ mtu        : 1500 => 1400" in shown
    assert '+ description: "by hand"' in shown
    assert '- primary_address: "10.77.101.12/24"' in shown
    assert "- pinion:netbox:Device: (delete)" in shown
    assert netbox_stack.steps("--refresh") == {
        "edge-inference": "update",
        "pi-02": "update",
        "pi-03": "update",
        "pi-04": "create",
    }
    netbox_stack.up("--refresh")
    assert _find(netbox, VLAN, vid=101)["name"] == "edge-inference"
    assert not doubles(netbox)
    with netbox.watching() as calls:
        assert netbox_stack.steps("--refresh") == {}
    assert calls["GET"] <= 20


@pytest.mark.variant
def test_what_exists_is_told_then_adopted_and_outlives_destroy(netbox_stack: Stack, netbox: Server) -> None:
    site = netbox.store.create(SITE, [{"name": "lab", "slug": "lab"}])[0]
    group = netbox.store.create(
        VLAN_GROUP, [{"name": "lab", "slug": "lab", "scope_type": "dcim.site", "scope_id": identity(site)}]
    )[0]
    netbox.store.create(
        VLAN, [{"vid": 101, "name": "edge-inference", "group": identity(group), "site": identity(site)}]
    )
    before = netbox.writes
    told = netbox_stack.preview().text
    assert "error: site lab (memory://netbox/dcim/sites/1/): exists already and is not Pinion's" in told
    assert "VLAN edge-inference (lab)" in told
    assert netbox.writes == before
    failed = netbox_stack.up(check=False)
    assert failed.code != 0
    assert "site lab" in failed.text
    assert netbox_stack.state() == {}

    netbox_stack.set("pinion:adopt", "true")
    assert "exists in NetBox; up will change:" in netbox_stack.preview().text
    told = netbox_stack.up().text
    assert "adopted from NetBox: memory://netbox/dcim/sites/1/" in told
    assert netbox_stack.state()["pinion:netbox:Site lab"]["outputs"]["owner"] == "adopted"
    assert not doubles(netbox)
    assert "14 unchanged" in netbox_stack.up("--refresh").text

    told = netbox_stack.destroy().text
    assert "site lab stays in NetBox" in told
    assert "VLAN edge-inference" in told
    assert netbox.objects()["device"] == 0
    assert _find(netbox, SITE, slug="lab")["tags"] == []
    assert _find(netbox, VLAN, vid=101)["tags"] == []


def test_import_takes_what_exists_into_a_new_stack(netbox_stack: Stack, netbox: Server, tmp_path: Path) -> None:
    netbox_stack.up()
    other = Stack(tmp_path / "other", config={"netbox:url": netbox.url}, secrets={"netbox:token": TOKEN})
    other.wishes = copy.deepcopy(netbox_stack.wishes)
    other.wishes["import"] = {
        "site/lab": "lab",
        **{f"vlan/{one['name']}": f"lab/{one['name']}" for one in other.wishes["vlans"]},
        **{f"device/{one['name']}": f"lab/{one['name']}" for one in other.wishes["devices"]},
    }
    before = netbox.writes
    told = other.up()
    assert "12 imported" in told.text, told.text
    assert netbox.writes == before
    assert other.steps("--refresh") == {}
    other.wishes["import"] = {"site/lab": "lab"}
    other.wishes["devices"].append(
        {**other.wishes["devices"][1], "name": "ghost", "interfaces": [], "primary_address": None}
    )
    other.wishes["import"]["device/ghost"] = "lab/ghost"
    failed = other.up(check=False)
    assert "resource 'lab/ghost' does not exist" in failed.text


def test_secrets_are_nowhere_in_the_clear(netbox_stack: Stack, netbox: Server) -> None:
    secret = TOKEN.partition(".")[2]
    texts = [
        netbox_stack.preview("--debug").text,
        netbox_stack.up("--logtostderr", "-v=9").text,
        netbox_stack.refresh("--debug").text,
    ]
    netbox_stack.wishes["vlans"][0]["vid"] = 4094
    netbox_stack.pulumi("config", "set", "--stack", STACK, "--secret", "netbox:token", given=f"{TOKEN}x", check=True)
    denied = netbox_stack.up("--refresh", check=False)
    assert denied.code != 0
    assert "NetBox does not accept the token (Invalid v2 token)" in denied.text
    texts.append(denied.text)
    assert not [text for text in texts if secret in text]
    holding = [
        path
        for path in netbox_stack.files()
        if secret.encode() in path.read_bytes() or PASSPHRASE.encode() in path.read_bytes()
    ]
    assert not holding
    state = netbox_stack.pulumi("stack", "export", "--stack", STACK, check=True).out
    assert '"ciphertext"' in state
    assert secret not in state


@pytest.mark.variant
def test_a_refresh_uses_a_token_that_has_changed(netbox_stack: Stack, netbox: Server, lab_plan: Plan) -> None:
    netbox_stack.wishes = small(lab_plan)
    netbox_stack.up()
    netbox.token = TOKEN.replace("0123", "4567", 1)
    argv = ("config", "set", "--stack", STACK, "--secret", "netbox:token")
    netbox_stack.pulumi(*argv, given=netbox.token, check=True)
    assert netbox_stack.up("--refresh", check=False).code != 0, "then bin/pinion-env need not say more"
    said = subprocess.run([REPOSITORY / "bin/pinion-env"], capture_output=True, text=True, check=True).stdout
    ours = dict(line.removeprefix("export ").split("=", 1) for line in said.splitlines())
    netbox_stack.environment = {**netbox_stack.environment, "PULUMI_RUN_PROGRAM": ours["PULUMI_RUN_PROGRAM"]}
    netbox_stack.up("--refresh")
    assert len(netbox_stack.state()) == 7


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        pytest.param("http://127.0.0.1:9", "connection refused: is NetBox running there?", marks=pytest.mark.variant),
        ("https://127.0.0.1:{port}", "certificate is not accepted"),
    ],
)
def test_a_netbox_that_is_not_there_is_named_with_url_object_and_reason(
    netbox_stack: Stack, netbox: Server, url: str, reason: str
) -> None:
    netbox_stack.set("netbox:url", url.format(port=netbox.url.rpartition(":")[2]))
    netbox_stack.set("netbox:totalTime", "3")
    failed = netbox_stack.up(check=False)
    assert failed.code != 0
    assert "site lab (site): " in failed.text
    assert url.partition(":{")[0] in failed.text
    assert reason in failed.text or "TLS" in failed.text or "SSL" in failed.text
