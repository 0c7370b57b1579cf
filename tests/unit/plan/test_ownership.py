"""No two concerns of a host own the same thing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.hosts.nodes import NEEDED
from unit.hosts.sites import ADMIN, DC, LAB, planned

from pinion.plan import ownership
from pinion.plan.model import (
    Concern,
    HostDirectory,
    HostFile,
    HostKernelArgument,
    HostModule,
    HostSysctl,
    HostUnit,
    HostUser,
)
from pinion.site.concerns import Concerns

NAMES = ["a", "b", "c", "d"]


def concern(name: str, things: frozenset[tuple[str, str]]) -> Concern:
    """A concern that owns *things*: (part, name)."""
    of = {part: sorted(found for kind, found in things if kind == part) for part, _ in things}
    return Concern(
        name=name,
        packages=tuple(of.get("packages", ())),
        packages_absent=tuple(of.get("packages_absent", ())),
        users=tuple(
            HostUser(name=each, system=True, comment="", home="/", create_home=False, shell="/bin/sh")
            for each in of.get("users", ())
        ),
        directories=tuple(HostDirectory(path=f"/{each}/") for each in of.get("directories", ())),
        files=tuple(HostFile(path=f"/{each}", content="") for each in of.get("files", ())),
        kernel_arguments=tuple(
            HostKernelArgument(argument=f"{each}={name}", source="x", file="/x") for each in of.get("arguments", ())
        ),
        modules=tuple(HostModule(name=each, source="x") for each in of.get("modules", ())),
        sysctls=tuple(
            HostSysctl(key=f"net.{each}", value=name, source="x", namespaced=True, live=True)
            for each in of.get("sysctls", ())
        ),
        units=tuple(HostUnit(name=f"{each}.service", enabled=True, active=True) for each in of.get("units", ())),
    )


#: Parts that are one kind of thing to their owner.
SAME = {"packages_absent": "packages", "directories": "files"}
PARTS = ["packages", "packages_absent", "users", "directories", "files", "arguments", "modules", "sysctls", "units"]
THINGS = st.frozensets(st.tuples(st.sampled_from(PARTS), st.sampled_from(NAMES)), max_size=12)


@given(st.lists(THINGS, max_size=4))
def test_a_clash_is_found_exactly_where_two_name_one_thing(stated: list[frozenset[tuple[str, str]]]) -> None:
    owned: dict[tuple[str, str], list[str]] = {}
    for number, things in enumerate(stated):
        for part, name in sorted(things):
            owned.setdefault((SAME.get(part, part), name), []).append(f"c{number}")
    refused = {name for things in stated for part, name in things if part == "packages_absent"}
    expected = sorted(
        tuple(owners)
        for (part, name), owners in owned.items()
        if len(owners) > 1 and (part != "packages" or name in refused)
    )
    found = ownership.clashes(concern(f"c{number}", things) for number, things in enumerate(stated))
    assert sorted(owners for _, _, owners in found) == expected


def test_a_package_may_be_needed_by_several_but_not_refused_by_one_of_them() -> None:
    needed = [concern(name, frozenset({("packages", "a")})) for name in ("one", "two")]
    assert ownership.clashes(needed) == ()
    refusing = concern("three", frozenset({("packages_absent", "a")}))
    assert ownership.clashes([*needed, refusing]) == (("package", "a", ("one", "two", "three")),)


def test_the_error_names_host_thing_and_owners() -> None:
    two = [concern(name, frozenset({("sysctls", "x")})) for name in ("one", "two")]
    with pytest.raises(ownership.OwnershipError, match=r"pi-01: .*sysctl net\.x by one and two"):
        ownership.check("pi-01", two)


def test_a_unit_without_a_suffix_is_a_service() -> None:
    stated = [
        Concern(name=name, units=(HostUnit(name=unit, enabled=True, active=True),))
        for name, unit in (("one", "chrony"), ("two", "chrony.service"))
    ]
    assert ownership.clashes(stated) == (("unit", "chrony.service", ("one", "two")),)


@pytest.mark.parametrize("site", [LAB, DC])
def test_all_concerns_together_have_one_owner_for_each_thing(site: object) -> None:
    """Every concern at once, with as little stated as it takes, on every host."""
    every = {name: NEEDED.get(name, {}) for name in Concerns.model_fields if name in NEEDED or defaults(name)}
    plan = planned(site, concerns=every, access={"admins": [ADMIN]})  # type: ignore[arg-type]
    for host in plan.hosts:
        ownership.check(host.name, host.concerns.values())


def defaults(name: str) -> bool:
    """Whether the settings of the concern *name* need nothing stated."""
    try:
        Concerns.model_validate({name: {}})
    except ValueError:
        return False
    return True
