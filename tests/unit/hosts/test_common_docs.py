"""The pages of the concerns that every host has: what they show is the plan's."""

from __future__ import annotations

import pytest
from unit.hosts.sites import DC, LAB, REPOSITORY, planned
from unit.hosts.test_node_docs import END, values

from pinion.plan.model import FlowPlan

FOLDER = REPOSITORY / "docs/concerns"
START = "<!-- generated from the plan by tests/unit/hosts/test_common_docs.py --regenerate -->\n"
#: The concerns of these pages, as the pages show them.
STATED: dict[str, dict[str, object]] = {
    "base": {},
    "watchdog": {},
    "node_metrics": {},
    "firewall": {"operators": ["192.168.100.0/24"]},
}


def flow_table(flows: tuple[FlowPlan, ...]) -> str:
    """All flows of a site as a table."""
    lines = ["", "| flow | from | to | port | for |", "|---|---|---|---|---|"]
    for flow in flows:
        sources = "<br>".join(f"`{source}`" for source in flow.sources)
        to = ", ".join([*(f"every {kind}" for kind in flow.kinds), *(f"`{host}`" for host in flow.hosts)])
        ports = ", ".join(f"{flow.protocol} {port}" for port in flow.ports)
        lines.append(f"| `{flow.name}` | {flow.peers}:<br>{sources} | {to} | {ports} | {flow.why} |")
    return "\n".join(["", "All flows of the lab with these concerns:", *lines, ""])


@pytest.mark.parametrize("name", STATED)
def test_the_page_shows_what_the_plan_says(name: str, regenerate: bool) -> None:
    host = next(host for host in planned(DC, concerns=STATED).hosts if name in host.concerns)
    shown = values(host.name, host.concerns[name])
    if name == "firewall":
        shown = f"{flow_table(planned(LAB, concerns=STATED | {'firewall': {}}).flows)}{shown}"
    page = FOLDER / f"{name}.md"
    before, _, rest = page.read_text(encoding="utf-8").partition(START)
    _, end, after = rest.partition(END)
    assert end, f"{page} has lost its markers"
    made = f"{before}{START}{shown}\n{END}{after}"
    if regenerate:
        page.write_text(made, encoding="utf-8")
    assert made == page.read_text(encoding="utf-8"), "run with --regenerate, then look at the difference"
    assert before.startswith(f"# {name}\n")
