"""What is generated: the pages are fresh, the schema agrees with the loader, the starter is valid."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from pinion.plan import plan
from pinion.site import schema, starter
from pinion.site.errors import catalogue
from pinion.site.fixes import shown
from pinion.site.loader import load, read
from pinion.site.reference import stale

ROOT = Path(__file__).resolve().parents[3]
SITES = sorted((ROOT / "inventories").glob("*/site.yml"))
EDITOR_LINE = re.compile(r"# yaml-language-server: \$schema=(\S+)$")


def test_no_page_is_stale() -> None:
    """When this fails: `pinion site reference`, then read the difference."""
    example = (ROOT / "inventories" / "lab" / "site.yml").read_text(encoding="utf-8")
    assert stale(ROOT / "docs" / "reference", example) == []


# --- schema ---------------------------------------------------------------------------------------------------------------


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(schema.schema())


def test_every_site_names_the_schema_and_fits_it() -> None:
    assert SITES
    validator = jsonschema.Draft202012Validator(schema.schema())
    for path in SITES:
        text = path.read_text(encoding="utf-8")
        named = EDITOR_LINE.match(text.splitlines()[0])
        assert named is not None, path
        assert json.loads((path.parent / named[1]).read_text(encoding="utf-8")) == schema.schema()
        assert [error.message for error in validator.iter_errors(yaml.safe_load(text))] == []


@pytest.mark.parametrize(
    "case",
    [
        *("SITE-001-unknown-key", "SITE-002-missing-key", "SITE-003-wrong-kind", "SITE-004-out-of-bounds"),
        *("SITE-005-unknown-choice", "SITE-006-not-a-dns-label", "SITE-007-not-a-name", "SITE-008-version"),
        *("SITE-009-not-a-duration", "SITE-010-not-a-percentage", "SITE-012-not-ports", "SITE-013-empty-section"),
        *("NET-002-reserved-vid", "HW-001-unknown-board", "HW-003-unknown-switch-model"),
    ],
)
def test_an_editor_sees_mistakes_of_shape_too(case: str) -> None:
    stated = yaml.safe_load((ROOT / "tests" / "errors" / case / "site.yml").read_text(encoding="utf-8"))
    assert list(jsonschema.Draft202012Validator(schema.schema()).iter_errors(stated))


def test_every_key_of_the_schema_says_what_it_means() -> None:
    for name, model in [("Site", schema.schema()), *schema.schema()["$defs"].items()]:
        for key, field in model.get("properties", {}).items():
            # A section without a description of its own has that of its model.
            assert field.get("description") or "$ref" in field, f"{name}.{key}"


# --- error catalogue ------------------------------------------------------------------------------------------------------


def test_codes_are_well_formed_and_messages_their_own() -> None:
    kinds = catalogue()
    assert all(re.fullmatch(r"[A-Z0-9]{2,5}-[0-9]{3}", code) for code in kinds)
    titles = [kind.title for kind in kinds.values()]
    assert len(titles) == len(set(titles))
    for kind in kinds.values():
        assert not kind.wrong.endswith("."), kind.code
        assert not kind.fix.words.endswith("."), kind.code


def test_a_fix_whose_text_may_be_missing_still_makes_sense() -> None:
    """What rules look for and may not find stands in brackets, which go with it; without, the reason is there."""
    for kind in catalogue().values():
        if kind.fix.text is not None and "{free}" in kind.fix.text:
            assert "{free}" not in kind.fix.bare, kind.code
            assert kind.choice, kind.code


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a\nb", "a\\nb"),
        ("\x1b[31m", "\\x1b[31m"),
        ("\u202e", "\\u202e"),
        ("x" * 99, "x" * 59 + "…"),
        (7, "7"),
        ("é", "é"),
    ],
)
def test_what_messages_repeat(value: object, text: str) -> None:
    assert shown(value) == text


# --- starter --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lab", [True, False])
@pytest.mark.parametrize("pis", [1, 8])
@pytest.mark.parametrize("hat", ["ai-hat-plus-2", None])
@pytest.mark.parametrize("server", [True, False])
@pytest.mark.parametrize("prefix", ["10.80.0.0/16", "192.168.4.0/22", "10.0.0.0/8"])
def test_whatever_is_answered_the_starter_is_valid_and_plans(
    lab: bool, pis: int, hat: str | None, server: bool, prefix: str, tmp_path: Path
) -> None:
    profile = starter.profiles(lab=lab)[0] if server else None
    answers = starter.Answers("new-site", lab=lab, pis=pis, hat=hat, profile=profile, prefix=prefix)
    text = starter.text(answers, tmp_path / "site.yml")
    site, problems = read(text.encode(), "x")
    assert problems == ()
    assert site is not None
    assert len([device for device in plan(site).devices if device.kind == "pi"]) == pis
    assert list(jsonschema.Draft202012Validator(schema.schema()).iter_errors(yaml.safe_load(text))) == []


def test_the_starter_names_the_schema_where_it_is_in_reach(tmp_path: Path) -> None:
    inside = starter.text(starter.Answers("x"), ROOT / "inventories" / "x" / "site.yml")
    assert inside.startswith("# yaml-language-server: $schema=../../docs/reference/site.schema.json\n")
    assert "yaml-language-server" not in starter.text(starter.Answers("x"), tmp_path / "site.yml")


def test_a_file_is_written_whole_and_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "new" / "site.yml"
    starter.write(path, starter.text(starter.Answers("new"), path))
    assert load(path).site == "new"
    with pytest.raises(FileExistsError):
        starter.write(path, "other")
    assert load(path).site == "new"
    assert [file.name for file in path.parent.iterdir()] == ["site.yml"]
