"""The files that make a machine itself."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

import pytest

from pinion.lab.apt import Mirrors
from pinion.lab.identity import Keys, MachineFile, hosts_file, machine_files, machine_id
from pinion.lab.state import InstanceState
from pinion.lab.topology import Topology, topology
from pinion.plan import plan
from pinion.render.networkd import network_file
from pinion.site.loader import load

ROOT = Path(__file__).parents[3]
MIRRORS = Mirrors("https://mirror.example/debian", None)


@pytest.fixture(scope="module")
def lab() -> Topology:
    return topology(plan(load(ROOT / "inventories/lab/site.yml")))


def files(lab: Topology, name: str, *, sshd: bool = True) -> dict[str, MachineFile]:
    node = lab.node(name)
    return machine_files(
        lab, node, instance="i", authorized_key="ssh-ed25519 AAAA", host_key="KEY", mirrors=MIRRORS, sshd=sshd
    )


def test_machine_ids_are_fixed_distinct_and_valid() -> None:
    assert machine_id("a", "m") == machine_id("a", "m")
    assert len({machine_id("a", "m"), machine_id("b", "m"), machine_id("a", "n")}) == 3
    assert re.fullmatch(r"[0-9a-f]{12}4[0-9a-f]{3}[89ab][0-9a-f]{15}", machine_id("a", "m"))


def test_a_network_file_is_an_ini_file_with_the_plans_facts() -> None:
    text = network_file("rdma0", ("10.0.0.2/24", "fd00::2/64"), ("10.0.0.1",), 9000, without_carrier=True)
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(text)
    assert parser["Match"]["Name"] == "rdma0"
    assert parser["Link"]["MTUBytes"] == "9000"
    assert parser["Network"]["Gateway"] == "10.0.0.1"
    assert parser["Network"]["ConfigureWithoutCarrier"] == "yes"
    assert "Carrier" not in network_file("eth0", ("10.0.0.2/24",), (), None)
    assert "Address=10.0.0.2/24\n" in text
    assert "Address=fd00::2/64\n" in text


def test_every_address_of_the_plan_is_put_on_and_nothing_else(lab: Topology) -> None:
    written = [path for path in files(lab, "nv-1") if path.startswith("/etc/systemd/network/")]
    assert [path.rpartition("-")[2] for path in written] == ["eth0.network", "rdma0.network", "rdma1.network"]
    # a switch's fabric ports are its own business
    switch = [path for path in files(lab, "tor-1", sshd=False) if path.startswith("/etc/systemd/network/")]
    assert [path.rpartition("-")[2] for path in switch] == ["Management1.network"]


def test_secrets_are_private_and_belong_to_their_readers(lab: Topology) -> None:
    made = files(lab, "pi-01")
    assert made["/etc/ssh/ssh_host_ed25519_key"] == MachineFile("KEY", 0o600)
    keys = made["/home/pinion/.ssh/authorized_keys"]
    assert (keys.mode, keys.owner, keys.group) == (0o600, 1000, 1000)
    assert "/etc/ssh/ssh_host_ed25519_key" not in files(lab, "tor-1", sshd=False)


def test_packages_come_through_the_management_host(lab: Topology) -> None:
    made = files(lab, "pi-01")
    assert made["/etc/apt/apt.conf.d/20-proxy"].content == 'Acquire::http::Proxy "http://10.77.100.10:3142";\n'
    assert "URIs: http://mirror.example/debian\n" in made["/etc/apt/sources.list.d/debian.sources"].content


def test_hosts_file(lab: Topology) -> None:
    lines = hosts_file(lab).splitlines()
    assert lines[0] == "127.0.0.1 localhost"
    assert "10.77.101.11 pi-02" in lines
    assert all(len(line.split()) >= 2 for line in lines)


def test_keys_are_made_once_and_known(lab: Topology, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PINION_STATE", str(tmp_path))
    store = InstanceState.of("k")
    store.make()
    keys = Keys(store)
    keys.make(lab)
    first = keys.private.read_text(), keys.known_hosts.read_text()
    keys.make(lab)
    assert (keys.private.read_text(), keys.known_hosts.read_text()) == first
    assert keys.private.stat().st_mode & 0o777 == 0o600
    known = {line.split()[0].split(",")[0]: line for line in first[1].splitlines()}
    assert set(known) == {node.name for node in lab.nodes}
    assert known["nv-1"].startswith("nv-1,10.77.100.16,10.77.102.16,10.77.102.17 ssh-ed25519 ")
    assert keys.public(keys.host_key("nv-1")) in known["nv-1"]
    # half of a key pair, as a crash may leave it, is made whole
    Path(f"{keys.host_key('pi-01')}.pub").unlink()
    keys.make(lab)
    assert keys.public(keys.host_key("pi-01")) in keys.known_hosts.read_text()
