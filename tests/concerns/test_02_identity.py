"""The site's authority and the hosts' certificates: step-ca on the management host, hosts in another VLAN behind firewalls."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from urllib.parse import urlsplit

from concerns.rack import ConcernsRack
from pinion.drivers.hosts.inventory import plan_of
from pinion.plan.concerns.identity import FOLDER, SERVICE, TOKEN_FILE
from pinion.plan.concerns.site_ca import FOLDER as CA_FOLDER
from pinion.plan.concerns.site_ca import UNIT as CA_UNIT


def test_no_token_and_no_root_key_is_left_anywhere(rack: ConcernsRack) -> None:
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


def test_the_unit_renews_in_its_sandbox_across_the_fabric(rack: ConcernsRack) -> None:
    before = rack.serial("pi-01")
    assert rack.later("pi-01") == 0, rack.said("pi-01")
    assert rack.serial("pi-01") != before
    assert "renewed: certificate" in rack.said("pi-01")
    rack.checks_hold("pi-01")


def test_without_the_authority_the_old_one_stays(rack: ConcernsRack) -> None:
    before = rack.serial("pi-02")
    rack.on("mgmt-1", f"systemctl stop {CA_UNIT}")
    try:
        assert rack.later("pi-02") != 0
        assert rack.serial("pi-02") == before
        assert "the old certificate is kept, good until" in rack.said("pi-02")
        answer = rack.converge("ansible", "--limit", "pi-02")
        assert answer["changed"] == 0, f"a host with a good one needs nobody: {answer}"
    finally:
        # started is not yet listening
        authority = plan_of(rack.site).authority
        assert authority is not None
        listens = f"ss -Hltn 'sport = :{urlsplit(authority.url).port}' | grep -q ."
        rack.on("mgmt-1", f"systemctl start {CA_UNIT}; until {listens}; do sleep 0.1; done")


def test_a_revoked_host_is_not_renewed(rack: ConcernsRack) -> None:
    pinion = [sys.executable, "-m", "pinion", "identity"]
    said = json.loads(rack.inside(*pinion, "revoke", str(rack.site), "pi-02", "--json").stdout)
    assert datetime.fromisoformat(said["worthless_by"]) > datetime.fromisoformat(said["refused"])
    assert rack.later("pi-02") != 0
    assert "the authority refuses: 401" in rack.said("pi-02")
    assert rack.later("pi-01") == 0, "others are renewed"
    again = json.loads(rack.inside(*pinion, "revoke", str(rack.site), "pi-02", "--json").stdout)
    assert again["refused"] >= said["refused"]


def test_a_host_that_lost_its_certificate_gets_another_with_the_next_run(rack: ConcernsRack) -> None:
    """As the one that the test before has revoked."""
    before = rack.serial("pi-02")
    rack.on("pi-02", f"rm {FOLDER}/current; systemctl start {SERVICE} 2>/dev/null; systemctl is-failed {SERVICE}")
    answer = rack.converge("pyinfra", "--limit", "pi-02")
    assert answer["failed"] == []
    assert [change["subject"] for change in answer["hosts"]["pi-02"]["changes"]] == [TOKEN_FILE]
    assert "eyJ" not in json.dumps(answer)
    assert rack.serial("pi-02") != before
