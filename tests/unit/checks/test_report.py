"""The report is one self-contained page that says the worst first and hides nothing."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path

import pytest

from pinion.checks.claims import checks
from pinion.checks.elevation import elevations
from pinion.checks.model import Finding, Outcome, judge, not_run
from pinion.checks.report import render_html, write
from pinion.plan import Plan, plan
from pinion.site.loader import load

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def compiled() -> Plan:
    return plan(load(ROOT / "inventories/dc-rack-12/site.yml"))


def findings(compiled: Plan) -> list[Finding]:
    every = checks(compiled)
    return [
        judge(every[0], "<script>alert(1)</script>", 0.1),
        not_run(every[1], "NetBox does not answer"),
        *(judge(check, check.expected, 0.1) for check in every[2:]),
    ]


def page(compiled: Plan) -> str:
    return render_html(compiled, findings(compiled), taken=datetime(2026, 1, 2, tzinfo=UTC), source="site.yml")


def test_it_needs_no_other_file_and_escapes_what_it_shows(compiled: Plan) -> None:
    html = page(compiled)
    assert not re.search(r"(src|href)=|https?://|@import", html)
    assert "<script>alert" not in html
    assert "&lt;script&gt;" in html


def test_every_tag_is_closed(compiled: Plan) -> None:
    open_tags: list[str] = []

    class Tags(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            if tag not in {"meta", "br"}:
                open_tags.append(tag)

        def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            pass

        def handle_endtag(self, tag: str) -> None:
            assert open_tags.pop() == tag

    Tags().feed(page(compiled))
    assert open_tags == []


def test_failures_come_first_with_their_remedy_and_topics_with_them_are_open(compiled: Plan) -> None:
    html = page(compiled)
    first = html.index("✗ failed")
    assert first < html.index("✓ proved")
    assert "Remedy:" in html[first : first + 800]
    assert html.count("<details open>") == 1


def test_ports_lie_inside_their_device_and_none_is_left_out(compiled: Plan) -> None:
    seen = 0
    for elevation in elevations(compiled, []):
        for box in elevation.devices:
            expected = [i for i in compiled.device(box.name).interfaces if i.type != "virtual" or i.management_only]
            assert len(box.ports) == len(expected)
            for port in box.ports:
                assert box.x <= port.x
                assert port.x + port.size <= box.x + box.width + 1
                assert port.y + port.size <= box.y + box.height + 1
                seen += 1
    assert seen > 100


def test_the_worst_outcome_marks_the_device(compiled: Plan) -> None:
    bad = next(check for check in checks(compiled) if check.subject == "pi-03")
    found = [judge(check, check.expected, 0) for check in checks(compiled) if check.id != bad.id] + [
        judge(bad, "else", 0)
    ]
    outcomes = {box.name: box.outcome for elevation in elevations(compiled, found) for box in elevation.devices}
    assert outcomes["pi-03"] is Outcome.FAILED
    assert outcomes["pi-04"] is Outcome.PROVED


def test_writing_replaces_in_one_step(tmp_path: Path) -> None:
    target = tmp_path / "reports" / "r.html"
    write(target, "one")
    write(target, "two")
    assert target.read_text() == "two"
    assert [path.name for path in target.parent.iterdir()] == ["r.html"]


def test_what_is_not_ours_is_listed_beside_the_claim_and_fails_nothing(compiled: Plan) -> None:
    rest = next(check for check in checks(compiled) if check.id == "fabric.tor-1.rest.configuration")
    found = judge(rest, rest.expected, 0.1, ("VLAN 400 (<guest>)", "ip routing"))
    assert found.outcome is Outcome.PROVED
    page = render_html(compiled, [found], taken=datetime(2026, 1, 1, tzinfo=UTC), source="site.yml")
    assert "Not ours, left alone: VLAN 400 (&lt;guest&gt;), ip routing" in page
