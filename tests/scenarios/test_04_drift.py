"""Scenario 4: what people change by hand in three systems is seen in words of the site file, and repaired."""

from __future__ import annotations

from pathlib import Path

from scenarios.rack import SITE, Rack


def move_port(rack: Rack, port: str, vlan: int) -> None:
    """Change a port on the switch itself, as someone with a terminal would."""
    switch = rack.endpoints()["switches"]["tor-1"]
    program = f"""
import netmiko
c = netmiko.ConnectHandler(device_type="arista_eos", host="{switch["host"]}", username="{switch["user"]}",
    password=open("{switch["password_file"]}").read().strip())
c.enable()
print(c.send_config_set(["interface {port}", "switchport access vlan {vlan}"]))
c.disconnect()
"""
    rack.inside("python", "-", given=program)


def test_three_drifts_are_seen_and_repaired(rack: Rack) -> None:
    vlan = rack.netbox("ipam/vlans/?vid=101")["results"][0]
    rack.netbox(f"ipam/vlans/{vlan['id']}/", "PATCH", {"name": "renamed-by-hand"})
    move_port(rack, "Ethernet2", 102)
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

    stages = {stage["stage"]: stage["changes"] for stage in rack.up()}
    assert stages["pulumi"] == 3
    assert rack.netbox(f"ipam/vlans/{vlan['id']}/")["name"] == "edge-inference"
    assert "pi-01" in rack.kubectl("get", "nodes", "-l", "edge=pi")
