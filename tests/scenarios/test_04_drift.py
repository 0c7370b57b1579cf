"""Scenario 4: what people change by hand in three systems is seen in words of the site file, and repaired."""

from __future__ import annotations

import json
from pathlib import Path

from scenarios.rack import SITE, Rack


def change_port(rack: Rack, port: str, *lines: str) -> None:
    """Change a port on the switch itself, as someone with a terminal would."""
    switch = rack.endpoints()["switches"]["tor-1"]
    program = f"""
import netmiko
c = netmiko.ConnectHandler(device_type="arista_eos", host="{switch["host"]}", username="{switch["user"]}",
    password=open("{switch["password_file"]}").read().strip())
c.enable()
print(c.send_config_set({["interface " + port, *lines]!r}))
c.disconnect()
"""
    rack.inside("python", "-", given=program)


def test_three_drifts_are_seen_and_repaired(rack: Rack) -> None:
    vlan = rack.netbox("ipam/vlans/?vid=101")["results"][0]
    rack.netbox(f"ipam/vlans/{vlan['id']}/", "PATCH", {"name": "renamed-by-hand"})
    change_port(rack, "Ethernet2", "switchport access vlan 102")
    change_port(rack, "Ethernet1", "description somebody's", "l2 mtu 2000", "switchport trunk native vlan 102")
    rack.kubectl("label", "node", "pi-01", "edge-")

    argv = ("pulumi", "preview", "--non-interactive", "--stack", SITE, "--refresh", "--diff", "--color", "never")
    done = rack.inside(*argv, "--logtostderr", "-v", "3")
    secret = Path(rack.endpoints()["switches"]["tor-1"]["password_file"]).read_text().strip()
    assert secret not in done.stdout + done.stderr
    text = done.stdout
    assert "renamed-by-hand" in text
    assert "Ethernet2" in text
    assert "pis.pi 2" in text, "the switch's drift is told in words of the site file"
    assert "edge" in text

    seen = rack.inside("pinion", "verify", str(rack.site_file), "--topic", "fabric", "--json", check=False)
    assert seen.returncode == 1
    findings = {finding["check"]["id"]: finding for finding in json.loads(seen.stdout)["findings"]}
    failed = {name for name, finding in findings.items() if finding["outcome"] != "proved"}
    first, rest = "fabric.tor-1.port.Ethernet1", "fabric.tor-1.rest.configuration"
    assert failed == {first, "fabric.tor-1.port.Ethernet2", rest}
    for difference in ("description: somebody's", "MTU: 2000, planned default", "native VLAN: 102, planned 1"):
        assert difference in findings[first]["found"]
    assert "start-up configuration" in findings[rest]["found"], "nobody saved what was typed"
    assert "pinion up" in findings[first]["check"]["remedy"]

    stages = {stage["stage"]: stage["changes"] for stage in rack.up()}
    assert stages["pulumi"] == 3
    assert rack.netbox(f"ipam/vlans/{vlan['id']}/")["name"] == "edge-inference"
    assert "pi-01" in rack.kubectl("get", "nodes", "-l", "edge=pi")
