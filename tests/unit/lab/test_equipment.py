"""Which packages a lab machine's disk is born with, and that it keeps to them."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from pinion.lab.assembly import parts
from pinion.lab.equipment import planned
from pinion.lab.instance import Lab
from pinion.lab.progress import Progress
from pinion.lab.state import InstanceState
from pinion.plan import Plan
from pinion.plan import plan as compile_plan
from pinion.site.find import site_file
from pinion.site.loader import load


@pytest.fixture(scope="module")
def plan() -> Plan:
    return compile_plan(load(site_file("lab")))


def lab(plan: Plan, folder: Path, *, bare: bool = False) -> Lab:
    return Lab(plan, InstanceState("t", folder / "t"), parts(["switch"]), Progress(io.StringIO()), bare=bare)


def test_the_labs_own_hosts_have_nothing_to_install(plan: Plan) -> None:
    for host in plan.hosts:
        wanted = {package for concern in host.concerns.values() for package in concern.packages}
        assert wanted
        assert set(planned(plan, host.name)) == wanted
    assert planned(plan, "tor-1") == ()


def test_a_new_disk_has_them_and_a_bare_one_has_not(plan: Plan, tmp_path: Path) -> None:
    equipped, bare = lab(plan, tmp_path).needs(), lab(plan, tmp_path, bare=True).needs()
    assert equipped["pi-01"].equipment == planned(plan, "pi-01")
    assert equipped["pi-01"].layer == equipped["pi-02"].layer
    assert equipped["pi-01"].layer is not None
    assert equipped["pi-01"].layer.parent == bare["pi-01"].layer
    assert bare["pi-01"].equipment == ()
    assert equipped["tor-1"].layer == bare["tor-1"].layer


@pytest.mark.parametrize("born_with", [["chrony"], [], None])
def test_a_disk_keeps_what_it_was_born_with(plan: Plan, tmp_path: Path, born_with: list[str] | None) -> None:
    """None: of a version that did not write it down."""
    folder = tmp_path / "t" / "machines" / "pi-01"
    folder.mkdir(parents=True)
    note = {"key": "k", "name": "n"} | ({} if born_with is None else {"packages": born_with})
    (folder / "image.json").write_text(json.dumps(note))
    for bare in (False, True):
        needs = lab(plan, tmp_path, bare=bare).needs()
        assert needs["pi-01"].equipment == tuple(born_with or ())
    assert lab(plan, tmp_path).needs()["pi-02"].equipment == planned(plan, "pi-02")
