"""Scenario: a Pi leaves: revoked, wiped, out of the cluster, its port shut; `decommissioning` in NetBox, then gone."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from pinion.drivers.hosts.inventory import plan_of
from pinion.lab import namespaces
from pinion.plan.concerns.identity import FOLDER
from scenarios.rack import PIS, PIS_AND_ONE, SITE, Rack

NODE = "pi-03"


def renewal(rack: Rack, folder: Path) -> int:
    """The authority's answer (HTTP status) to a renewal with the certificate and key that are kept in *folder*."""
    authority = plan_of(rack.site_file).authority
    assert authority is not None
    context = ssl.create_default_context(cafile=str(folder / "root.pem"))
    context.load_cert_chain(folder / "chain.pem", folder / "key.pem")
    ask = urllib.request.Request(f"{authority.url}/1.0/renew", method="POST")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    with namespaces.inside(rack.store.namespace("mgmt-1")):
        try:
            with opener.open(ask, timeout=20) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as refused:
            return refused.code


def status(rack: Rack) -> str | None:
    """What NetBox says of the node; None when it has none."""
    found = rack.netbox(f"dcim/devices/?name={NODE}")["results"]
    return found[0]["status"]["value"] if found else None


@pytest.fixture
def text(rack: Rack) -> Iterator[str]:
    """The site file with the node, which the scenario of one more Pi has brought; without it at the end."""
    if PIS in rack.site_file.read_text():
        rack.edit_site(PIS, PIS_AND_ONE)
        rack.up()
    stated = rack.site_file.read_text()
    try:
        yield stated
    finally:
        rack.site_file.write_text(stated.replace(PIS_AND_ONE, PIS))


def test_a_pi_leaves(rack: Rack, text: str, tmp_path: Path) -> None:
    command = ("pinion", "decommission", str(rack.site_file), NODE, "--wipe", "--yes", "--json")
    refused = rack.inside(*command, check=False)
    assert refused.returncode == 1
    assert f"write there: decommissioned: [{NODE}]" in refused.stderr
    assert status(rack) == "active"

    machine = rack.machine(NODE)
    for name, files in (("root", "root.pem"), ("chain", "cert.pem chain.pem"), ("key", "key.pem")):
        said = machine.run(["/bin/sh", "-c", f"cd {FOLDER}/current && cat {files}"]).stdout
        (tmp_path / f"{name}.pem").write_text(said)
    assert renewal(rack, tmp_path) == 201, "a certificate that nobody has revoked is renewed"
    other = machine.run(["/bin/sh", "-c", "cat /etc/hostname"]).stdout
    assert other.strip() == NODE

    rack.site_file.write_text(f"{text}\ndecommissioned: [{NODE}]\n")
    done = json.loads(rack.inside(*command).stdout)
    assert done["problems"] == []
    steps = [step["step"] for step in done["steps"]]
    assert [step for step in steps if step != "drain"] == ["renewal", "certificate", "wipe", "stack", "verify"]
    assert {one["outcome"] for one in done["findings"]} == {"proved"}
    assert len(done["findings"]) == 2
    wiped = {entry["path"]: entry for entry in done["wiped"]["wiped"]}
    assert wiped[FOLDER]["overwritten"] is True
    assert wiped[FOLDER]["files"] > 3
    assert any("SSH host key" in line for line in done["stays"])

    assert renewal(rack, tmp_path) == 401
    assert status(rack) == "decommissioning"
    left = machine.run(["/bin/sh", "-c", f"ls -d {FOLDER} /var/lib/pinion 2>/dev/null; true"]).stdout
    assert left == ""
    assert machine.run(["/bin/sh", "-c", "ping -n -c 1 -W 2 10.78.101.1"], check=False).returncode != 0
    assert any("kubectl delete node" in line for line in done["stays"]), "the stack's user may deploy and no more"
    node = json.loads(rack.kubectl("get", "node", NODE, "-o", "json"))
    assert node["spec"]["unschedulable"] is True
    assert "edge" not in node["metadata"]["labels"]
    assert rack.preview() == []

    again = json.loads(rack.inside(*command).stdout)
    assert again["problems"] == []
    said = {step["step"]: step["said"] for step in again["steps"]}
    assert "was revoked before" in said["certificate"]
    assert "was done before" in said["wipe"]
    assert said["stack"] == "held this already"
    assert again["wiped"]["wiped"] == done["wiped"]["wiped"]

    rack.site_file.write_text(text.replace(PIS_AND_ONE, PIS))
    steps = sorted(f"{step['urn'].rpartition('::')[2]} {step['op']}" for step in rack.preview())
    assert steps == [f"{NODE} delete", "tor-1 update", "tor-1 update"]
    rack.inside("pinion", "stack", "up", SITE, "--json")
    assert status(rack) is None
    assert rack.netbox("ipam/ip-addresses/?address=10.78.101.12")["count"] == 0


@pytest.mark.slow
def test_it_comes_back(rack: Rack, text: str) -> None:
    """*text* has it again, and has brought it up."""
    assert status(rack) == "active"
    rack.kubectl("uncordon", NODE)
    said = rack.machine(NODE).run(["/bin/sh", "-c", f"test -e {FOLDER}/current/cert.pem && echo yes"]).stdout
    assert said.strip() == "yes"
