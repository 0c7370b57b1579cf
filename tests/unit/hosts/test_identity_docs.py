"""The pages of `site_ca` and `identity`, and their golden files: what they show is the plan's."""

from __future__ import annotations

import pytest
from golden.test_node_concerns import _text
from unit.hosts.sites import LAB, REPOSITORY, planned
from unit.hosts.test_node_docs import END, values

from pinion.plan.model import HostPlan

FOLDER = REPOSITORY / "docs/concerns"
GOLDEN = REPOSITORY / "tests/golden/identity"
START = "<!-- generated from the plan by tests/unit/hosts/test_identity_docs.py --regenerate -->\n"
STATED: dict[str, dict[str, object]] = {"site_ca": {}, "identity": {}}
CASES = [("mgmt-1", "site_ca"), ("mgmt-1", "identity"), ("pi-01", "identity"), ("nv-1", "identity")]


def host(name: str) -> HostPlan:
    """The host *name* of the lab with both concerns."""
    return next(host for host in planned(LAB, concerns=STATED).hosts if host.name == name)


@pytest.mark.parametrize("name", STATED)
def test_the_page_shows_what_the_plan_says(name: str, regenerate: bool) -> None:
    page = FOLDER / f"{name}.md"
    before, _, rest = page.read_text(encoding="utf-8").partition(START)
    _, end, after = rest.partition(END)
    assert end, f"{page} has lost its markers"
    shown = values("mgmt-1", host("mgmt-1").concerns[name]).replace("`dc-rack-12`", "the lab")
    made = f"{before}{START}{shown}\n{END}{after}"
    if regenerate:
        page.write_text(made, encoding="utf-8")
    assert made == page.read_text(encoding="utf-8"), "run with --regenerate, then look at the difference"
    assert before.startswith(f"# {name}\n")


@pytest.mark.parametrize(("name", "concern"), CASES)
def test_golden(name: str, concern: str, regenerate: bool) -> None:
    path = GOLDEN / f"{name}-{concern}.txt"
    lines = _text(name, host(name).concerns[concern]).splitlines(keepends=True)
    # the program is a file of its own in the repository
    at = next((index for index, line in enumerate(lines) if "#!/usr/bin/python3" in line), len(lines))
    until = next((index for index in range(at, len(lines)) if lines[index].startswith("file ")), len(lines))
    text = "".join([*lines[:at], *lines[until:]])
    if regenerate:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), "run with --regenerate, then look at the difference"


def test_no_golden_without_a_case() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == {f"{name}-{concern}" for name, concern in CASES}
