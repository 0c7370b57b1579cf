"""The site's authority and the hosts' certificates in the lab: step-ca on the management host, hosts in another VLAN behind firewalls."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from lab.hosts_rack import HostsRack

from pinion.plan.concerns.identity import FOLDER, SERVICE, TIMER, TOKEN_FILE
from pinion.plan.concerns.site_ca import FOLDER as CA_FOLDER
from pinion.plan.concerns.site_ca import UNIT as CA_UNIT
from pinion.plan.programs import program_path

pytestmark = [
    pytest.mark.lab,
    pytest.mark.timeout(900),
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces and mounts need root"),
]

CONCERNS = """\
concerns:
  firewall:
    allow:
      package-mirror: {sources: [control, edge-inference], hosts: [mgmt-1], ports: [3142], why: apt of the lab's machines}
  site_ca: {}
  identity: {lifetime: 15min}
"""
#: More than five eighths of the life, and less than all of it.
AHEAD = 600
#: The program with a sense of the hour that is *ahead*: a container has its machine's clock.
LATER = f"""\
import importlib.machinery, importlib.util, sys, time
loader = importlib.machinery.SourceFileLoader("program", "{program_path("identity")}")
program = importlib.util.module_from_spec(importlib.util.spec_from_loader("program", loader))
sys.modules["program"] = program
loader.exec_module(program)
sys.exit(program.main(["renew"], lambda: time.time() + {AHEAD}))
"""
#: The unit's own sandbox, for that program.
DROP_IN = "[Service]\nExecStart=\nExecStart=/usr/bin/python3 -I -B /run/later.py\n"


@dataclass(frozen=True)
class IdentityRack(HostsRack):
    """A management host and two Pis, whose site states these concerns."""

    BARE = False
    PARTS = "switch,authority"

    @classmethod
    def make(cls, folder: Path, name: str) -> IdentityRack:
        made = super().make(folder, name)
        rack = cls(made.instance, made.folder)
        rack.site.write_text(rack.site.read_text().replace("numbers: 1-4", "numbers: 1-2") + CONCERNS)
        return rack

    def serial(self, name: str) -> str:
        """The serial number of the certificate in use on *name*."""
        return self.on(name, f"openssl x509 -noout -serial -in {FOLDER}/current/cert.pem").strip()

    def later(self, name: str) -> int:
        """Run the unit on *name* as if it were `AHEAD` seconds later; its exit code."""
        folder = f"/run/systemd/system/{SERVICE}.d"
        # A start joins a run that the timer began, and that one would not be this: so let it end, and have no more of them.
        alone = f"systemctl stop {TIMER}; systemctl start {SERVICE} >/dev/null 2>&1\n"
        given = f"mkdir -p {folder}; cat >/run/later.py <<'END'\n{LATER}END\ncat >{folder}/later.conf <<'END'\n{DROP_IN}END\n"
        run = f"systemctl daemon-reload; systemctl start {SERVICE} >/dev/null 2>&1; echo $?\n"
        after = f"rm -r {folder} /run/later.py; systemctl daemon-reload; systemctl reset-failed {SERVICE} 2>/dev/null\n"
        again = f"systemctl start {TIMER}"
        return int(self.on(name, alone + given + run + after + again).strip())

    def said(self, name: str) -> str:
        """The last words of the unit on *name*."""
        return self.on(name, f"journalctl -u {SERVICE} -n 20 -o cat")


@pytest.fixture(scope="module")
def rack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IdentityRack]:
    """One running instance: management host and pi-01 converged by Ansible, pi-02 by pyinfra."""
    made = IdentityRack.make(tmp_path_factory.mktemp("identity"), "t-ident")
    try:
        made.up()
        answer = made.converge("ansible", "--limit", "mgmt-1", "--limit", "pi-01")
        assert answer["failed"] == []
        assert [wave["hosts"] for wave in answer["waves"]] == [["mgmt-1"], ["pi-01"]]
        assert made.converge("pyinfra", "--limit", "pi-02")["failed"] == []
        yield made
    finally:
        made.run("down", "--purge", expect=None)


def test_either_enrols_a_host_and_neither_finds_more_to_do(rack: IdentityRack) -> None:
    for by, names in (("pyinfra", ("mgmt-1", "pi-01")), ("ansible", ("pi-02",))):
        before = [rack.serial(name) for name in names]
        answer = rack.converge(by, *(part for name in names for part in ("--limit", name)))
        assert answer["failed"] == []
        assert answer["changed"] == 0, answer
        assert [rack.serial(name) for name in names] == before


def test_the_checks_of_the_plan_hold(rack: IdentityRack) -> None:
    rack.checks_hold("mgmt-1", "pi-01", "pi-02")


def test_no_token_and_no_root_key_is_left_anywhere(rack: IdentityRack) -> None:
    """A token is a JSON Web Token: it begins with eyJ."""
    pattern = r"eyJ[A-Za-z0-9_-]*\.eyJ[A-Za-z0-9_-]*\."
    for name in ("mgmt-1", "pi-01", "pi-02"):
        script = f"grep -rlE '{pattern}' /etc /home /root /run /tmp /var/lib/pinion /var/log {FOLDER} 2>/dev/null; true"
        assert rack.on(name, script) == "", name
        assert rack.on(name, f"journalctl -o cat --no-pager | grep -cE '{pattern}'; true").strip() == "0", name
    root_key = (rack.store.authority / "small" / "root.key").read_text().splitlines()[1]
    assert rack.on("mgmt-1", f"grep -rlF '{root_key}' /etc /var /run /root 2>/dev/null; true") == ""
    assert (
        rack.on("mgmt-1", f"stat -c '%U %a' {CA_FOLDER} {CA_FOLDER}/intermediate.key")
        == "pinion-ca 700\npinion-ca 600\n"
    )


def test_the_unit_renews_in_its_sandbox_across_the_fabric(rack: IdentityRack) -> None:
    before = rack.serial("pi-01")
    assert rack.later("pi-01") == 0, rack.said("pi-01")
    assert rack.serial("pi-01") != before
    assert "renewed: certificate" in rack.said("pi-01")
    rack.checks_hold("pi-01")


def test_without_the_authority_the_old_one_stays(rack: IdentityRack) -> None:
    before = rack.serial("pi-02")
    rack.on("mgmt-1", f"systemctl stop {CA_UNIT}")
    try:
        assert rack.later("pi-02") != 0
        assert rack.serial("pi-02") == before
        assert "the old certificate is kept, good until" in rack.said("pi-02")
        answer = rack.converge("ansible", "--limit", "pi-02")
        assert answer["changed"] == 0, f"a host with a good one needs nobody: {answer}"
    finally:
        rack.on("mgmt-1", f"systemctl start {CA_UNIT}")


def test_a_host_that_lost_its_certificate_gets_another_with_the_next_run(rack: IdentityRack) -> None:
    before = rack.serial("pi-02")
    rack.on("pi-02", f"rm {FOLDER}/current")
    answer = rack.converge("pyinfra", "--limit", "pi-02")
    assert answer["failed"] == []
    assert [change["subject"] for change in answer["hosts"]["pi-02"]["changes"]] == [TOKEN_FILE]
    assert "eyJ" not in json.dumps(answer)
    assert rack.serial("pi-02") != before


def test_a_revoked_host_is_not_renewed(rack: IdentityRack) -> None:
    pinion = [sys.executable, "-m", "pinion", "identity"]
    said = json.loads(rack.inside(*pinion, "revoke", str(rack.site), "pi-02", "--json").stdout)
    assert said["new"] is True
    assert rack.serial("pi-02") == f"serial={said['serial']}"
    assert rack.later("pi-02") != 0
    assert "the authority refuses: 401" in rack.said("pi-02")
    said = json.loads(rack.inside(*pinion, "revoke", str(rack.site), "pi-02", "--json").stdout)
    assert said["new"] is False


def test_taken_away_the_key_goes_and_the_authority_stops(rack: IdentityRack) -> None:
    text = rack.site.read_text()
    rack.site.write_text("".join(line for line in text.splitlines(keepends=True) if "identity:" not in line))
    assert rack.converge("ansible", "--limit", "pi-01")["failed"] == []
    assert rack.on("pi-01", f"ls -d {FOLDER} {program_path('identity')} 2>/dev/null; true") == ""
    text = rack.site.read_text()
    rack.site.write_text("".join(line for line in text.splitlines(keepends=True) if "site_ca:" not in line))
    assert rack.converge("ansible", "--limit", "mgmt-1")["failed"] == []
    assert (
        rack.on("mgmt-1", f"ls -d {CA_FOLDER} 2>/dev/null; systemctl is-active {CA_UNIT}; true").strip() == "inactive"
    )
