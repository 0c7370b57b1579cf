"""No statement without effect: each leaf of the site model changes something that the plan renders or proves, or is told as not applied.

Both ways: an entry of the list whose key has an effect fails here too.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from pydantic import ValidationError
from unit.plan.effects import effects
from unit.plan.leaves import changed, leaves, stated

from pinion.checks.claims import checks
from pinion.checks.model import Finding, judge
from pinion.cli import main
from pinion.lab.cluster.control_plane import files
from pinion.lab.cluster.credentials import ClusterCredentials
from pinion.plan import Plan, plan
from pinion.site import catalog
from pinion.site.loader import not_applied, read
from pinion.site.model import Site
from pinion.site.not_applied import NOT_APPLIED

ROOT = Path(__file__).resolve().parents[3]
EVERY_KEY = Path(__file__).with_name("every_key.yml")
LAB, DC = (ROOT / "inventories" / name / "site.yml" for name in ("lab", "dc-rack-12"))
#: The module, which the command of the same name hides.
verify = importlib.import_module("pinion.cli.verify")
#: Other values that are tried at a place before a statement counts as one without effect.
TRIED = 4
LEAVES = tuple(leaves())
SOURCE = {
    "url": "https://packages.example.org/kubelet",
    "sha256": "2b18d47c46ab268e94c1d14b335d54607d1c08d2704ebe66ca16b21124137db2",
}


@cache
def sites() -> tuple[dict[str, Any], ...]:
    """Site files that together state every leaf: the one that states most, and that one with what cannot stand beside the rest."""
    every = yaml.safe_load(EVERY_KEY.read_text(encoding="utf-8"))
    keys = yaml.safe_load(DC.read_text(encoding="utf-8"))["concerns"]["base"]["package_sources"]
    of = every["concerns"]
    other = {
        **of,
        "base": {**of["base"], "package_sources": keys},
        "identity": {**of["identity"], "authority": "https://192.168.100.5:9000"},
        "edge_cluster": {"source": SOURCE},
        "kube_node": {"join": {"source": SOURCE}},
        "gpu_driver": {"version": "580.95.05", "mps": "50%"},
    }
    del other["site_ca"]
    return every, {**every, "concerns": other}


@cache
def effects_of_site(at: int) -> tuple[object, ...]:
    """The effects of the site file *at* that number, as it is."""
    return effects(plan(Site.model_validate(sites()[at])))


@cache
def hardware() -> tuple[str, ...]:
    """The names that the catalogue knows."""
    known = catalog.load()
    return (*known.switches, *known.servers, *known.boards, *known.hats, *known.platforms)


def other_plans(leaf: tuple[str, ...], at: int) -> Iterator[Plan]:
    """Plans of the site file *at* that number with another value for *leaf*, `TRIED` at each of its places: values that make a plan."""
    site = sites()[at]
    for path in stated(site, leaf):
        yield from islice(_made(changed(site, leaf, path, hardware())), TRIED)


def _made(changes: Iterator[dict[str, Any]]) -> Iterator[Plan]:
    for made in changes:
        try:
            yield plan(Site.model_validate(made))
        except (ValidationError, ValueError, LookupError, AssertionError, TypeError, RuntimeError):
            continue  # no value that means anything there


def verdicts(leaf: tuple[str, ...]) -> Iterator[bool]:
    """Of each other value of *leaf*, whether it changes anything."""
    for at, _ in enumerate(sites()):
        for planned in other_plans(leaf, at):
            yield effects(planned) != effects_of_site(at)


# --- the leaves -------------------------------------------------------------------------------------------------------


def test_the_sites_are_good_ones() -> None:
    for site in sites():
        _, problems = read(json.dumps(site).encode(), "site.yml", charts=ROOT / "charts")
        assert [str(problem) for problem in problems] == []


def test_every_leaf_of_the_model_is_stated_in_one_of_them() -> None:
    assert len(LEAVES) > 180
    assert [leaf for leaf in LEAVES if not any(list(stated(site, leaf)) for site in sites())] == []


@pytest.mark.parametrize("leaf", LEAVES, ids=".".join)
def test_a_statement_has_an_effect_or_is_told_to_have_none(leaf: tuple[str, ...]) -> None:
    key = ".".join(leaf)
    found = verdicts(leaf)
    first = next(found, None)
    assert first is not None, f"{key}: no other value was found for it; state one in every_key.yml that has others"
    obeyed = first or any(found)
    if key in NOT_APPLIED:
        assert not obeyed, f"{key} has an effect now: take it out of pinion.site.not_applied"
    else:
        assert obeyed, f"nothing obeys {key}: mend that, or state it in pinion.site.not_applied"


def test_the_list_names_leaves_only() -> None:
    assert set(NOT_APPLIED) <= set(map(".".join, LEAVES))


def test_what_only_the_lab_obeys_is_told_only_outside_it(tmp_path: Path) -> None:
    (key,) = (key for key, reason in NOT_APPLIED.items() if reason.lab_obeys)
    assert key == "kubernetes.service_prefix"
    prefix = "{control_plane: mgmt-1, service_prefix: 10.97.0.0/16}"
    lab = tmp_path / "site.yml"
    lab.write_text(LAB.read_text(encoding="utf-8").replace("{control_plane: mgmt-1}", prefix), encoding="utf-8")
    assert key not in {remark.key for remark in not_applied(lab)}
    assert key in {remark.key for remark in not_applied(EVERY_KEY)}

    def units(path: Path, folder: str) -> dict[str, str | bytes]:
        cluster = plan(Site.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))).cluster
        assert cluster is not None
        made = files(cluster, ClusterCredentials(tmp_path / folder, cluster), "")
        return {name: file.content for name, file in made.items() if name.endswith(".service")}

    assert units(lab, "one") != units(LAB, "two")


def test_a_lossless_class_is_told_where_nothing_has_the_nics_pause(tmp_path: Path) -> None:
    key = "traffic_classes.rdma.delivery"
    site = tmp_path / "site.yml"
    stated = EVERY_KEY.read_text(encoding="utf-8")
    without = "".join(line for line in stated.splitlines(keepends=True) if not line.startswith("  nic_tuning:"))
    for text, told in (
        (without, True),
        (without.replace("delivery: lossless", "delivery: lossy"), False),
        (stated, False),
    ):
        site.write_text(text, encoding="utf-8")
        assert (key in {remark.key for remark in not_applied(site)}) == told
        found = plan(Site.model_validate(yaml.safe_load(text)))
        rdma = next(one for one in found.traffic_classes if one.name == "rdma")
        assert (rdma.applied != rdma.delivery) == told


# --- how it is told ---------------------------------------------------------------------------------------------------


@pytest.fixture
def site_file(tmp_path: Path) -> Path:
    """The site that states every key, where the repository's charts are the nearest."""
    copy = tmp_path / "site.yml"
    copy.write_bytes(EVERY_KEY.read_bytes())
    return copy


def test_each_is_told_with_its_line(site_file: Path) -> None:
    lines = site_file.read_text(encoding="utf-8").splitlines()
    found = not_applied(site_file)
    assert len(found) == len({remark.key for remark in found}) == len(NOT_APPLIED)
    for remark in found:
        name = remark.key.rpartition(".")[2]
        assert lines[remark.line - 1][remark.column - 1 :].startswith(f"{name}:"), remark
    assert [(remark.line, remark.column) for remark in found] == sorted((one.line, one.column) for one in found)


def test_what_is_not_stated_is_not_told(tmp_path: Path) -> None:
    assert not {remark.key for remark in not_applied(LAB)} & {
        "kubernetes.service_prefix",
        "traffic_classes.rdma.delivery",
    }
    assert not_applied(tmp_path / "no-such-file.yml") == ()
    (tmp_path / "site.yml").write_text("[]")
    assert not_applied(tmp_path / "site.yml") == ()


def test_site_check_tells_it_and_the_file_is_fine(site_file: Path) -> None:
    done = CliRunner().invoke(main, ["site", "check", str(site_file)])
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert f"{site_file}: fine" in lines[0]
    assert lines[1:-1] == [str(remark) for remark in not_applied(site_file)]
    assert lines[-1] == f"{site_file}: {len(NOT_APPLIED)} statements that nothing obeys yet"
    told = json.loads(CliRunner().invoke(main, ["site", "check", str(site_file), "--json"]).output)
    assert told["ok"] is True
    assert told["not_applied"] == [remark.as_dict() for remark in not_applied(site_file)]


def test_verify_and_its_report_tell_it_and_every_claim_is_proved(
    site_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def proved(planned: Plan, *_: object, **__: object) -> Sequence[Finding]:
        return tuple(judge(check, check.expected, 0.0) for check in checks(planned))

    monkeypatch.setattr(verify, "access_of", lambda *_: None)
    monkeypatch.setattr(verify, "run_verification", proved)
    report = tmp_path / "report.html"
    done = CliRunner().invoke(main, ["verify", str(site_file), "--report", str(report)])
    assert done.exit_code == 0, done.output
    assert [line for line in done.output.splitlines() if "not applied" in line] == list(
        map(str, not_applied(site_file))
    )
    html = report.read_text(encoding="utf-8")
    assert "<h2>Stated, not applied</h2>" in html
    for remark in not_applied(site_file):
        assert f"<td>{remark.line}</td><td>{remark.key}</td>" in html
    told = json.loads(CliRunner().invoke(main, ["verify", str(site_file), "--json"]).stdout)
    assert told["not_applied"] == [remark.as_dict() for remark in not_applied(site_file)]


def test_the_reference_marks_each() -> None:
    page = (ROOT / "docs" / "reference" / "site-file.md").read_text(encoding="utf-8")
    for key, reason in NOT_APPLIED.items():
        (row,) = (line for line in page.splitlines() if f"`{key}`" in line)
        assert "**Stated, not applied**" in row
        assert reason.why in row
