"""What the plan asks a switch's platform for: with Cumulus Linux it has other answers than with EOS."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from pydantic import SecretStr
from unit.drivers.switch.cumulus_sites import SITES, loaded, renamed
from unit.hosts.sites import DC, REPOSITORY, plan_of_file

from pinion.checks.claims import checks
from pinion.checks.model import SwitchProbe
from pinion.drivers.switch import SwitchAccess, SwitchError, open_driver
from pinion.plan.switch_state import switch_state
from pinion.site.catalog import Evidence
from pinion.site.loader import read


def test_switches_that_share_a_gateway_have_an_address_of_their_own_beside_it() -> None:
    _, compiled = loaded("dc-rack-12")
    own = {switch.name: [svi.addresses for svi in switch_state(switch).svis] for switch in compiled.switches}
    assert own == {
        "tor-1": [("192.168.100.2/24",), ("192.168.101.2/24",)],
        "tor-2": [("192.168.100.3/24",), ("192.168.101.3/24",)],
    }
    assert {svi.virtual_addresses for svi in switch_state(compiled.switches[0]).svis} == {
        ("192.168.100.1/24",),
        ("192.168.101.1/24",),
    }
    recorded = compiled.device("tor-2").interface("Vlan101")
    assert recorded.addresses == ("192.168.101.3/24",), "NetBox knows it too"


def test_one_switch_has_the_gateway_itself_and_eos_needs_no_further_address() -> None:
    (switch,) = loaded("dc-rack-12, one switch")[1].switches
    assert [svi.addresses for svi in switch_state(switch).svis] == [("192.168.100.1/24",), ("192.168.101.1/24",)]
    assert switch.virtual_router_mac is None
    eos = plan_of_file(DC).switches
    assert {svi.addresses for each in eos for svi in switch_state(each).svis} == {()}


def test_an_address_that_a_switch_needs_and_somebody_has_is_refused() -> None:
    stated = renamed(yaml.safe_load(DC.read_text(encoding="utf-8")))
    SITES["dc-rack-12"][1](stated)
    stated["pis"]["pi"]["nodes"] = {1: {"address": "192.168.101.3"}}
    _, problems = read(yaml.safe_dump(stated).encode(), "site.yml", charts=REPOSITORY / "charts")
    assert [(each.code, "192.168.101.3" in str(each) and "tor-2" in str(each)) for each in problems] == [
        ("ADDR-005", True)
    ]


def test_vlans_without_names_are_claimed_so() -> None:
    _, compiled = loaded("lab")
    claims = [
        check for check in checks(compiled) if isinstance(check.probe, SwitchProbe) and check.probe.element == "vlan"
    ]
    assert {claim.expected for claim in claims} == {"unnamed"}
    assert {claim.best for claim in claims} == {Evidence.PARSED}
    assert {claim.origin for claim in claims} == {"networks.control", "networks.edge-inference", "networks.gpu-rdma"}


def test_a_cumulus_switch_is_not_logged_in_to(tmp_path: Path) -> None:
    access = SwitchAccess(host="192.0.2.1", username="x", password=SecretStr("x"), known_hosts=tmp_path / "none")
    with pytest.raises(SwitchError, match=r"tor-1: Pinion does not log in to Cumulus Linux yet; .*pinion fabric write"):
        open_driver("cumulus", "tor-1", access)
