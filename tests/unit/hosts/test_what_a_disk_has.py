"""What a stolen disk holds: whatever the operator's machine puts into files of a Pi or a GPU server is that host's own, or public."""

from __future__ import annotations

import pytest
from unit.hosts.nodes import JOINED
from unit.hosts.sites import DC, LAB, planned

from pinion.plan import Plan
from pinion.plan.model import DeviceKind, HostFile, HostPlan

#: What everybody may read: certificates, their digest, the names of provisioners.
PUBLIC = {"root", "fingerprint", "issuer", "cluster-authority"}
#: What is made for the host alone, and counts once.
OWN = {"token", "cluster-token"}
SITES = {
    "lab": lambda: planned(LAB, concerns={"site_ca": {}, "identity": {}}),
    "dc-rack-12": lambda: planned(DC, **JOINED),
}


def nodes(plan: Plan) -> list[HostPlan]:
    kinds = {device.name: device.kind for device in plan.devices}
    return [host for host in plan.hosts if kinds[host.name] in (DeviceKind.PI, DeviceKind.GPU_SERVER)]


def files(host: HostPlan) -> list[HostFile]:
    return [file for concern in host.concerns.values() for file in concern.files]


@pytest.mark.parametrize("site", SITES)
def test_no_node_has_what_makes_it_another_or_reads_what_others_keep(site: str) -> None:
    plan = SITES[site]()
    found = [(host.name, file, entry) for host in nodes(plan) for file in files(host) for entry in file.materials]
    assert {entry.kind for _, _, entry in found} >= {"root", "token"} - {"root"}
    for name, file, entry in found:
        assert entry.kind in PUBLIC | OWN, f"{name} has a {entry.kind} in {file.path}"
        if entry.kind in OWN:
            assert file.secret, f"{file.path} of {name}"
            assert file.mode == "0600", f"{file.path} of {name}"
            assert file.unless is not None, f"{file.path} of {name} comes again and again"
            assert entry.names[0].partition(".")[0] == name, f"{file.path} of {name} is for {entry.names}"
        if entry.kind == "token":
            assert entry.issuer in ("", entry.names[0]), f"{file.path} of {name} is signed as {entry.issuer}"


@pytest.mark.parametrize("site", SITES)
def test_secret_files_are_made_by_the_operators_machine_alone(site: str) -> None:
    """Else the secret would stand in the plan, and so in every inventory."""
    for host in nodes(SITES[site]()):
        for file in files(host):
            assert not file.secret or file.materials, f"{file.path} of {host.name}"
            assert "PRIVATE KEY" not in file.content or file.path.startswith("/usr/local/lib/pinion/"), file.path
