"""The values on the concern's page are the plan's."""

from __future__ import annotations

from unit.hosts.sites import ADMIN, DC, REPOSITORY, planned

from pinion.plan.concerns.os_tuning import SSHD_FILE
from pinion.plan.model import Concern, DeviceKind, Plan

PAGE = REPOSITORY / "docs/concerns/os_tuning.md"
START = "<!-- generated from the plan by tests/unit/hosts/test_docs.py --regenerate -->\n"
END = "<!-- end -->"
WHO = {DeviceKind.MANAGEMENT_HOST: "management hosts", DeviceKind.PI: "Pis", DeviceKind.GPU_SERVER: "GPU servers"}


def concerns(plan: Plan) -> dict[DeviceKind, Concern]:
    """One concern a kind of host."""
    return {host.kind: host.concerns["os_tuning"] for host in plan.hosts}


def who(kinds: set[DeviceKind]) -> str:
    """The kinds of hosts in words."""
    return "every host" if kinds == set(WHO) else ", ".join(name for kind, name in WHO.items() if kind in kinds)


def table(heads: list[str], rows: dict[tuple[str, ...], set[DeviceKind]]) -> list[str]:
    """A Markdown table whose last column says which hosts."""
    lines = [f"| {' | '.join([*heads, 'on'])} |", f"|{'---|' * (len(heads) + 1)}"]
    return [*lines, *(f"| {' | '.join([*row, who(kinds)])} |" for row, kinds in rows.items()), ""]


def values() -> str:
    """The part of the page that follows from the plan."""
    lab = planned(REPOSITORY / "inventories/lab/site.yml", access={"admins": [ADMIN]}, concerns=None)
    found = concerns(lab)
    sysctls: dict[tuple[str, ...], set[DeviceKind]] = {}
    packages: dict[tuple[str, ...], set[DeviceKind]] = {}
    users: dict[tuple[str, ...], set[DeviceKind]] = {}
    for kind in WHO:
        stated = found[kind]
        for sysctl in stated.sysctls:
            where = "" if sysctl.namespaced else "boot only in a container: "
            sysctls.setdefault((f"`{sysctl.key}`", f"`{sysctl.value}`", f"{where}{sysctl.source}"), set()).add(kind)
        for name in stated.packages:
            packages.setdefault((f"`{name}`", "installed"), set()).add(kind)
        for name in stated.packages_absent:
            packages.setdefault((f"`{name}`", "absent"), set()).add(kind)
        for user in stated.users:
            users.setdefault((f"`{user.name}`", user.comment, f"`{user.home}`", f"`{user.shell}`"), set()).add(kind)
    (sshd,) = [file for file in found[DeviceKind.PI].files if file.path == SSHD_FILE]
    lines = sshd.content.splitlines()[1:]
    pairs = [(f"`{lines[at + 1]}`", lines[at].removeprefix("# ")) for at in range(0, len(lines), 2)]
    return "\n".join(
        [
            "",
            *table(["kernel parameter", "value", "source"], sysctls),
            *table(["package", "is"], packages),
            *table(["user", "for", "home", "shell"], users),
            "`ops` exists when `access.admins` names a key, and may become root without a password.",
            "",
            f"| `{SSHD_FILE}` | why |",
            "|---|---|",
            *(f"| {option} | {why} |" for option, why in pairs),
            "",
            "",
        ]
    )


def test_the_page_has_the_values_of_the_plan(regenerate: bool) -> None:
    before, _, rest = PAGE.read_text().partition(START)
    shown, end, after = rest.partition(END)
    assert end, f"{PAGE} has lost its markers"
    if regenerate:
        PAGE.write_text(before + START + values() + END + after)
        return
    assert shown == values(), "the page is out of date: pytest tests/unit/hosts/test_docs.py --regenerate"


def test_a_real_site_has_the_same_values() -> None:
    lab = concerns(planned(REPOSITORY / "inventories/lab/site.yml"))
    for kind, stated in concerns(planned(DC, kubernetes=None)).items():
        values_there = {sysctl.key: sysctl.value for sysctl in stated.sysctls}
        assert values_there.items() <= {sysctl.key: sysctl.value for sysctl in lab[kind].sysctls}.items()
