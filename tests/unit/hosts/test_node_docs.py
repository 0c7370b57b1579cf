"""The pages of the nodes' concerns: what they show is the plan's."""

from __future__ import annotations

import pytest
from unit.hosts.nodes import NODE_CONCERNS, PAGES, shown, stated
from unit.hosts.sites import DC, REPOSITORY

from pinion.plan.model import Concern, DeviceKind, Plan

FOLDER = REPOSITORY / "docs/concerns"
START = "<!-- generated from the plan by tests/unit/hosts/test_node_docs.py --regenerate -->\n"
END = "<!-- end -->"
#: Files longer than this are programs; the page names them and does not repeat them.
LONGEST = 70


@pytest.fixture(scope="module")
def real() -> Plan:
    return stated(DC)


def values(host: str, found: Concern) -> str:
    """The part of the page that follows from the plan."""
    lines = ["", f"What `{host}` of `dc-rack-12` gets with the settings' defaults.", ""]
    if found.sysctls:
        lines += ["| kernel parameter | value | source |", "|---|---|---|"]
        lines += [f"| `{entry.key}` | `{entry.value}` | {entry.source} |" for entry in found.sysctls] + [""]
    if found.kernel_arguments:
        lines += ["| kernel argument | source |", "|---|---|"]
        lines += [f"| `{entry.argument}` | {entry.source} |" for entry in found.kernel_arguments] + [""]
    packages = [(name, "installed") for name in found.packages] + [(name, "absent") for name in found.packages_absent]
    if packages:
        lines += ["| package | is |", "|---|---|", *(f"| `{name}` | {state} |" for name, state in packages), ""]
    if found.units:
        lines += ["| unit | is |", "|---|---|"]
        for unit in found.units:
            state = "masked" if unit.masked else "enabled" if unit.enabled else "disabled"
            lines.append(f"| `{unit.name}` | {state}, {'active' if unit.active else 'inactive'} |")
        lines.append("")
    for file in found.files:
        reboot = " (placed before packages)" if file.for_packages else " (read at boot)" if file.needs_reboot else ""
        content = file.content.rstrip("\n").split("\n")
        if len(content) > LONGEST:
            lines += [f"`{file.path}`{reboot}: a program, {file.mode}.", ""]
        else:
            lines += [f"`{file.path}`{reboot}:", "", "```text", *content, "```", ""]
    if found.claims:
        lines += ["| proved on the host | expected |", "|---|---|"]
        for entry in found.claims:
            boot = ", from the next boot on" if entry.after_boot else ""
            lines.append(f"| {entry.claim} | `{entry.expected or '(nothing)'}`{boot} |")
        lines.append("")
    return "\n".join(lines)


@pytest.mark.parametrize("name", PAGES)
def test_the_page_shows_what_the_plan_says(name: str, regenerate: bool) -> None:
    host, found = shown(name)
    page = FOLDER / f"{name}.md"
    text = page.read_text(encoding="utf-8")
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    made = f"{before}{START}{values(host.name, found)}\n{END}{after}"
    if regenerate:
        page.write_text(made, encoding="utf-8")
    assert made == page.read_text(encoding="utf-8"), "run with --regenerate, then look at the difference"
    assert before.startswith(f"# {name}\n")


def test_the_plan_of_dc_rack_12_has_every_one_of_them(real: Plan) -> None:
    for name in NODE_CONCERNS:
        hosts = [host for host in real.hosts if name in host.concerns]
        kinds = {host.kind for host in hosts}
        assert len(kinds) == 1, f"{name} is of one kind of node"
        assert len(hosts) == (8 if kinds == {DeviceKind.PI} else 1)
