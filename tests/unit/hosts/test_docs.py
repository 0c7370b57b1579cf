"""The values on the pages of the concerns that need no settings are the plan's."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from unit.hosts.sites import ADMIN, DC, LAB, REPOSITORY, planned

from pinion.plan.concerns.access import SSHD_FILE
from pinion.plan.model import Concern, DeviceKind, Plan

FOLDER = REPOSITORY / "docs/concerns"
START = "<!-- generated from the plan by tests/unit/hosts/test_docs.py --regenerate -->\n"
END = "<!-- end -->"
WHO = {DeviceKind.MANAGEMENT_HOST: "management hosts", DeviceKind.PI: "Pis", DeviceKind.GPU_SERVER: "GPU servers"}


def concerns(plan: Plan, name: str) -> dict[DeviceKind, Concern]:
    """The concern *name* of each kind of host."""
    return {host.kind: host.concerns[name] for host in plan.hosts}


def who(kinds: set[DeviceKind]) -> str:
    """The kinds of hosts in words."""
    return "every host" if kinds == set(WHO) else ", ".join(name for kind, name in WHO.items() if kind in kinds)


def table(heads: list[str], rows: dict[tuple[str, ...], set[DeviceKind]]) -> list[str]:
    """A Markdown table whose last column says which hosts."""
    lines = [f"| {' | '.join([*heads, 'on'])} |", f"|{'---|' * (len(heads) + 1)}"]
    return [*lines, *(f"| {' | '.join([*row, who(kinds)])} |" for row, kinds in rows.items()), ""]


def os_tuning() -> str:
    """The part of that page that follows from the plan."""
    found = concerns(planned(LAB, concerns=None), "os_tuning")
    sysctls: dict[tuple[str, ...], set[DeviceKind]] = {}
    packages: dict[tuple[str, ...], set[DeviceKind]] = {}
    for kind in WHO:
        stated = found[kind]
        for sysctl in stated.sysctls:
            where = "" if sysctl.namespaced else "boot only in a container: "
            sysctls.setdefault((f"`{sysctl.key}`", f"`{sysctl.value}`", f"{where}{sysctl.source}"), set()).add(kind)
        for name in stated.packages:
            packages.setdefault((f"`{name}`", "installed"), set()).add(kind)
        for name in stated.packages_absent:
            packages.setdefault((f"`{name}`", "absent"), set()).add(kind)
    return "\n".join(
        ["", *table(["kernel parameter", "value", "source"], sysctls), *table(["package", "is"], packages), ""]
    )


def explained(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Each keyword of sshd's *lines* with the comment above it; one for some users says for whom."""
    why, whom = "", ""
    for line in lines:
        if line.startswith("Match "):
            whom = line.removeprefix("Match ")
        elif line.strip().startswith("# "):
            why = line.strip().removeprefix("# ")
        else:
            yield f"`{line.strip()}`{f' ({whom})' if whom else ''}", why


def access() -> str:
    """The part of that page that follows from the plan, with keys and an authority. Every host has the same."""
    hosts = planned(LAB, access={"admins": [ADMIN], "authorities": [ADMIN]}, concerns=None).hosts
    (stated,) = {host.concerns["access"] for host in hosts}
    (sshd,) = [file for file in stated.files if file.path == SSHD_FILE]
    pairs = list(explained(sshd.content.splitlines()[1:]))
    users = [
        f"| `{user.name}` | {user.comment} | `{user.home}` | `{user.shell}` | {', '.join(user.groups)} |"
        for user in stated.users
    ]
    return "\n".join(
        [
            "",
            "| user | for | home | shell | in |",
            "|---|---|---|---|---|",
            *users,
            "",
            "| file | owner | mode |",
            "|---|---|---|",
            *(f"| `{file.path}` | {file.owner} | {file.mode} |" for file in stated.files),
            "",
            f"| `{SSHD_FILE}` | why |",
            "|---|---|",
            *(f"| {option} | {why} |" for option, why in pairs),
            "",
            "| proved on the host | expected |",
            "|---|---|",
            *(f"| {claim.claim} | `{claim.expected}` |" for claim in stated.claims),
            "",
            "",
        ]
    )


@pytest.mark.parametrize("values", [access, os_tuning])
def test_the_page_has_the_values_of_the_plan(values: Callable[[], str], regenerate: bool) -> None:
    page = FOLDER / f"{values.__name__}.md"
    before, _, rest = page.read_text().partition(START)
    shown, end, after = rest.partition(END)
    assert end, f"{page} has lost its markers"
    if regenerate:
        page.write_text(before + START + values() + END + after)
        return
    assert shown == values(), "the page is out of date: pytest tests/unit/hosts/test_docs.py --regenerate"


def test_a_real_site_has_the_same_values() -> None:
    lab = concerns(planned(LAB), "os_tuning")
    for kind, stated in concerns(planned(DC, kubernetes=None), "os_tuning").items():
        values_there = {sysctl.key: sysctl.value for sysctl in stated.sysctls}
        assert values_there.items() <= {sysctl.key: sysctl.value for sysctl in lab[kind].sysctls}.items()
