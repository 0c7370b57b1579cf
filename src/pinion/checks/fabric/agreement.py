"""All files of a site against each other: what they say is read, and each contradiction named."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pinion.checks.fabric import eos_text, nvue_text
from pinion.checks.fabric.artefacts import LINKS, NIC_SETTINGS, Artefact, host_path, switch_path
from pinion.checks.fabric.contract import Box, Contract, Contradiction
from pinion.checks.fabric.nic_files import read_nics
from pinion.checks.fabric.nics import NicAgreement
from pinion.checks.fabric.said import SaidNic, SaidSwitch, UnreadableError
from pinion.checks.fabric.switches import SwitchAgreement
from pinion.drivers.switch import Change, compare
from pinion.drivers.switch.dialects import dialect
from pinion.plan.model import Plan, SwitchPlan
from pinion.site.catalog import Catalog
from pinion.site.model import Site

_READERS = {"eos": eos_text.read_switch, "cumulus": nvue_text.read_switch}


@dataclass(frozen=True, slots=True)
class Reading:
    """What the files of a site say: *switches* by name, *nics* by host and name; *unreadable* are files that say nothing."""

    switches: dict[str, SaidSwitch]
    nics: dict[tuple[str, str], SaidNic]
    unreadable: tuple[Contradiction, ...] = ()


def read(plan: Plan, artefacts: Sequence[Artefact]) -> Reading:
    """What *artefacts*, the files of *plan*, say."""
    texts = {artefact.path: artefact.text for artefact in artefacts}
    switches: dict[str, SaidSwitch] = {}
    nics: dict[tuple[str, str], SaidNic] = {}
    unreadable = []
    for switch in plan.switches:
        path = switch_path(switch)
        try:
            switches[switch.name] = _READERS[switch.driver](path, texts.get(path, ""))
        except UnreadableError as error:
            unreadable.append(Contradiction(path, error.line, str(error), "write the file anew"))
    for host in plan.hosts:
        path, below = host_path(host.name, NIC_SETTINGS), host_path(host.name, LINKS)
        if path not in texts:
            continue
        links = {file: text for file, text in texts.items() if file.startswith(f"{below}/")}
        try:
            nics |= {(host.name, name): nic for name, nic in read_nics(path, texts[path], links).items()}
        except UnreadableError as error:
            unreadable.append(Contradiction(path, error.line, str(error), "write the file anew"))
    return Reading(switches, nics, tuple(unreadable))


def contradictions(
    site: Site, catalog: Catalog, plan: Plan, artefacts: Sequence[Artefact]
) -> tuple[Contradiction, ...]:
    """Everything in *artefacts*, the files of *plan*, that does not agree, in the order of files and lines."""
    texts = {artefact.path: artefact.text for artefact in artefacts}
    held = (told for switch in plan.switches for told in _differences(switch, texts.get(switch_path(switch), "")))
    return tuple(sorted({*_found(site, catalog, plan, read(plan, artefacts)), *held}))


def _differences(switch: SwitchPlan, text: str) -> Iterator[Contradiction]:
    """How a switch that holds *text* differs from its plan, by the driver's own comparison, in what has no line of a contradiction."""
    try:
        state = dialect(switch).parse(text)
    except ValueError:  # told already, with its line
        return
    for change in compare(state, switch).changes:
        if not _by_line(change):
            yield Contradiction(switch_path(switch), 0, str(change), "write what the site file says")


def _by_line(change: Change) -> bool:
    """Whether `SwitchAgreement` names *change*, with its line: traffic classes, VLANs of ports and MTU."""
    match change.path:
        case ("qos", *_) | ("svis", _, "mtu") | ("ports", _):
            return True
        case ("ports", _, field):
            return field in {"access_vlan", "trunk_vlans", "mtu", "qos_profile"}
    return False


def _found(site: Site, catalog: Catalog, plan: Plan, said: Reading) -> Iterator[Contradiction]:
    yield from said.unreadable
    contract = Contract.of(plan)
    names = {switch.name for switch in plan.switches}
    for switch in plan.switches:
        box = Box.of(site, catalog, switch.name)
        if box is None or switch.name not in said.switches:
            continue
        others = names - {switch.name}
        yield from SwitchAgreement(contract, said.switches[switch.name], plan.device(switch.name), box, others).found()
    for (host, name), nic in said.nics.items():
        interface = next((one for one in plan.device(host).interfaces if one.name == name), None)
        if interface is None or interface.cable is None or interface.untagged_vlan is None:
            yield Contradiction(nic.file, 0, f"{host} has no cabled NIC {name}", "take it out")
            continue
        box = Box.of(site, catalog, interface.cable.device)
        mtu = contract.mtus[contract.vids[interface.untagged_vlan]]
        cnp = box.cnp_dscp if box is not None else None
        yield from NicAgreement(contract, nic, f"{host} {name}", mtu, cnp).found()
