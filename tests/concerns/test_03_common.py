"""The concerns that every host has: who gets in, what the firewall lets in, nobody locked out."""

from __future__ import annotations

import sys

import pytest

from concerns.rack import COMMON, SOURCE, ConcernsRack
from pinion.plan.concerns.access import KEYS_FOLDER
from pinion.plan.concerns.firewall import TABLE, UNIT
from pinion.plan.flows import NODE_METRICS as PORT


def test_packages_come_from_the_stated_source(rack: ConcernsRack) -> None:
    assert "concern base" in rack.on("pi-01", f"cat {SOURCE}")
    rack.on("pi-01", "apt-get -q -o APT::Update::Error-Mode=any update")
    assert "hello" in rack.on("pi-01", "apt-cache madison hello")


def test_a_certificate_of_the_sites_authority_logs_an_administrator_in(rack: ConcernsRack) -> None:
    assert rack.logs_in_by_certificate("pi-01", "authority", "ops")
    assert not rack.logs_in_by_certificate("pi-01", "authority", "somebody-else")
    assert not rack.logs_in_by_certificate("pi-01", "stranger", "ops")
    assert not rack.logs_in_by_certificate("pi-01", "authority", "ops", "-2h:-1h")


def test_a_key_that_an_administrator_left_in_his_home_opens_nothing(rack: ConcernsRack) -> None:
    home = "/home/ops/.ssh"
    claims = {claim.name: claim for claim in rack.host("pi-01").concerns["access"].claims}
    keys = claims["administrators.keys"]
    left = (rack.folder / "person.pub").read_text().strip()
    rack.on(
        "pi-01",
        f"install -d -o ops -g ops -m 0700 {home} && echo '{left}' >{home}/authorized_keys && chown ops {home}/*",
    )
    try:
        assert not rack.logs_in_by_key("pi-01", "person", "ops")
        rack.on("pi-01", f"cp -p {KEYS_FOLDER}/ops /run/keys-of-ops; cat {home}/authorized_keys >>{KEYS_FOLDER}/ops")
        assert rack.logs_in_by_key("pi-01", "person", "ops"), "the key itself is good"
        assert rack.on("pi-01", keys.command).strip() != keys.expected, "a claim notices a key beside those of the site"
    finally:
        rack.on("pi-01", f"rm -rf {home}; test ! -e /run/keys-of-ops || mv /run/keys-of-ops {KEYS_FOLDER}/ops")
    assert not rack.logs_in_by_key("pi-01", "person", "ops")
    for name in ("administrators.keys", "administrators.authorizedkeysfile", "administrators.authorizedkeyscommand"):
        assert rack.on("pi-01", claims[name].command).strip() == claims[name].expected


def test_the_flows_work_and_others_do_not(rack: ConcernsRack) -> None:
    rack.on("pi-01", "systemd-run --quiet --unit=stranger python3 -m http.server 8123")
    try:
        assert rack.on(
            "pi-01",
            "sleep 1; python3 -c \"import socket; socket.create_connection(('127.0.0.1', 8123), 2)\" && echo yes",
        )
        seen = {
            (source, port): rack.reaches_port(source, "pi-01", port)
            for source in ("mgmt-1", "pi-02")
            for port in (22, PORT, 8123)
        }
    finally:
        rack.on("pi-01", "systemctl stop stranger")
    assert seen == {
        ("mgmt-1", 22): True,
        ("mgmt-1", PORT): True,
        ("mgmt-1", 8123): False,
        ("pi-02", 22): False,
        ("pi-02", PORT): False,
        ("pi-02", 8123): False,
    }
    assert (
        rack.on("pi-02", f"ping -c1 -W3 {rack.host('pi-01').address} >/dev/null && echo reachable").strip()
        == "reachable"
    )


def test_the_metrics_are_pinions_too(rack: ConcernsRack) -> None:
    url = f"http://{rack.host('pi-01').address}:{PORT}/metrics"
    fetch = f"import urllib.request as u; print(u.urlopen('{url}', timeout=10).read().decode())"
    text = rack.inside(sys.executable, "-c", fetch).stdout
    for name in COMMON:
        assert f'pinion_concern_changed_seconds{{concern="{name}"}}' in text
    assert "pinion_unconfirmed_changes 0\n" in text
    assert "node_cpu_seconds_total" in text


@pytest.mark.variant
def test_rules_that_lock_us_out_are_taken_back_by_the_host_itself(rack: ConcernsRack) -> None:
    before = rack.on("pi-02", f"nft --stateless list table {TABLE}")
    answer = rack.ask("pi-02", "apply", rack.locking_out("pi-02"))
    assert answer["confirm"] == ["firewall"]
    assert not rack.logs_in("pi-02")
    rack.on("pi-02", "systemctl start pinion-undo-firewall.service; systemctl stop pinion-undo-firewall.timer")
    assert rack.logs_in("pi-02")
    assert rack.on("pi-02", f"nft --stateless list table {TABLE}") == before
    assert rack.converge("pyinfra", "--limit", "pi-02")["changed"] == 0


def test_rules_that_nobody_confirmed_do_not_outlive_a_power_cut(rack: ConcernsRack) -> None:
    before = rack.on("pi-02", f"nft --stateless list table {TABLE}")
    assert rack.ask("pi-02", "apply", rack.locking_out("pi-02"))["confirm"] == ["firewall"]
    assert not rack.logs_in("pi-02")
    rack.cut("pi-02")
    assert rack.logs_in("pi-02")
    assert rack.on("pi-02", f"nft --stateless list table {TABLE}") == before
    assert rack.on("pi-02", f"systemctl is-active {UNIT}").strip() == "active"
    assert rack.converge("ansible", "--limit", "pi-02")["changed"] == 0
