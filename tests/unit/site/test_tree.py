"""YAML to a tree: positions, what plain scalars mean, and how far reading goes on after a mistake."""

from __future__ import annotations

import pytest

from pinion.site.errors import Report
from pinion.site.tree import MAXIMUM_DEPTH, Mapping, Scalar, entry_at, parse, plain


def _read(text: str | bytes) -> tuple[Mapping | None, list[tuple[str, int, int]]]:
    report = Report(file="x")
    root = parse(text if isinstance(text, bytes) else text.encode(), report)
    return root, [(problem.code, problem.line, problem.column) for problem in report.problems]


def test_every_key_and_value_knows_its_place() -> None:
    root, problems = _read("a:\n  b: {c: 1,\n      d: [x, z]}\n")
    assert problems == []
    assert root is not None
    found = {path: entry_at(root, path) for path in (("a",), ("a", "b"), ("a", "b", "d"), ("a", "b", "d", 1))}
    assert {path: (entry.line, entry.column) for path, entry in found.items() if entry} == {
        ("a",): (1, 1),
        ("a", "b"): (2, 3),
        ("a", "b", "d"): (3, 7),
        ("a", "b", "d", 1): (3, 14),
    }
    assert entry_at(root, ("a", "nothing")) is None
    assert entry_at(root, ("a", "b", "d", 2)) is None


def test_columns_count_characters_not_bytes() -> None:
    root, _ = _read("a: {ü: é, b: 1}\n")
    assert root is not None
    entry = entry_at(root, ("a", "b"))
    assert entry is not None
    assert (entry.line, entry.column) == (1, 11)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("1", 1),
        ("-7", -7),
        ("0", 0),
        ("1.5", 1.5),
        ("true", True),
        ("false", False),
        ("text", "text"),
        ("1-8", "1-8"),
        ("10.0.0.1", "10.0.0.1"),
        ("10.0.0.0/24", "10.0.0.0/24"),
        ("60%", "60%"),
        ("80ms", "80ms"),
        ("fd00::1", "fd00::1"),
        ("2c:cf:67:00:00:01", "2c:cf:67:00:00:01"),
        ("7050SX3-48YC8", "7050SX3-48YC8"),
        ("'no'", "no"),
        ('"0o17"', "0o17"),
        ("'1:30'", "1:30"),
        ("'1'", "1"),
        ("none", "none"),
        ("nope", "nope"),
        ("1.2.3", "1.2.3"),
        ("e5", "e5"),
        ("|\n  two\n  lines\n", "two\nlines\n"),
    ],
)
def test_what_a_value_means(written: str, value: object) -> None:
    root, problems = _read(f"key: {written}")
    assert problems == []
    assert root is not None
    assert plain(root) == {"key": value}
    assert type(plain(root)["key"]) is type(value)  # type: ignore[index]


@pytest.mark.parametrize(
    ("written", "code"),
    [
        *((text, "YAML-014") for text in ("", "~", "null", "Null")),
        *((text, "YAML-015") for text in ("yes", "No", "ON", "off", "y", "N", "True", "FALSE")),
        *((text, "YAML-016") for text in ("017", "0o17", "0x1F", "0b11", "1_000", "+5", "00", "08", "1_0.5", "9" * 40)),
        *((text, "YAML-017") for text in ("1:30", "52:54:00:12:34:56", "190:20:30.15")),
        *((text, "YAML-018") for text in ("2026-01-31", "2026-1-1", "2026-01-31T10:00:00Z")),
        *((text, "YAML-019") for text in (".inf", "-.INF", ".nan", "1e3", "1.5e10", ".5", "1.")),
    ],
)
def test_traps_have_codes_of_their_own(written: str, code: str) -> None:
    _, problems = _read(f"key: {written}\nother: 1\n")
    assert [problem[0] for problem in problems] == [code]


@pytest.mark.parametrize("key", ["no", "017", "1.5", "true", "~", "2026-01-31", "1:30"])
def test_keys_that_other_readers_take_for_something_else(key: str) -> None:
    _, problems = _read(f"{key}: 1\nother: 1\n")
    assert problems == [("YAML-013", 1, 1)]
    root, problems = _read(f'"{key}": 1\nother: 1\n')
    assert problems == []
    assert root is not None
    assert plain(root) == {key: 1, "other": 1}


def test_reading_goes_on_after_what_can_be_told_alone() -> None:
    root, problems = _read(
        "a: 017\na: 2\nb: &x {c: yes}\nd: *x\ne: !t 1\n<<: {f: 1}\n? [g]\n: 1\nh:\ni: 1:30\nj\u200b: fine\n"
    )
    assert problems == [
        ("YAML-016", 1, 4),
        ("YAML-007", 2, 1),
        ("YAML-008", 3, 4),
        ("YAML-015", 3, 11),
        ("YAML-008", 4, 4),
        ("YAML-010", 5, 4),
        ("YAML-009", 6, 1),
        ("YAML-013", 7, 3),
        ("YAML-014", 9, 1),
        ("YAML-017", 10, 4),
        ("YAML-006", 11, 2),
    ]
    assert root is not None
    assert list(root.entries) == ["a", "b", "d", "e", "h", "i", "j"]


def test_every_line_with_a_tab_is_told() -> None:
    root, problems = _read("a:\n\tb: 1\n  \tc: 2\n# \tin a comment is fine\nd: 'x\ty'\n")
    assert root is None
    assert problems == [("YAML-005", 2, 1), ("YAML-005", 3, 3)]


def test_windows_line_ends_and_a_document_start_are_fine() -> None:
    root, problems = _read("---\r\na: 1\r\nb: text\r\n")
    assert problems == []
    assert root is not None
    assert plain(root) == {"a": 1, "b": "text"}
    assert entry_at(root, ("b",)) is not None
    assert entry_at(root, ("b",)).line == 3  # type: ignore[union-attr]


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? "])
def test_depth_is_bounded(opening: str) -> None:
    root, problems = _read(f"key:\n  {opening * 100_000}")
    assert root is None
    assert [problem[0] for problem in problems] in (["YAML-012"], ["YAML-002"])
    nested = "a: {" * (MAXIMUM_DEPTH - 1) + "a: 1" + "}" * (MAXIMUM_DEPTH - 1)
    assert _read(nested)[1] == []


def test_the_first_document_is_still_looked_at() -> None:
    root, problems = _read("a: 1\n---\nb: no\n")
    assert root is not None
    assert plain(root) == {"a": 1}
    assert problems == [("YAML-011", 2, 1)]


def test_a_byte_order_mark_hides_nothing_else() -> None:
    _, problems = _read(b"\xef\xbb\xbfa: no\n")
    assert problems == [("YAML-004", 1, 1), ("YAML-015", 1, 4)]


def test_other_encodings_are_named() -> None:
    assert _read("a: 1\n".encode("utf-16"))[1] == [("YAML-003", 1, 1)]
    assert _read(b"a: 1\nb: caf\xe9\n")[1] == [("YAML-003", 2, 7)]


def test_an_unpaired_surrogate_is_refused() -> None:
    _, problems = _read('a: "\\ud800"\n')
    assert [problem[0] for problem in problems] in (["YAML-002"], ["YAML-006"])


def test_scalars_keep_their_written_text() -> None:
    root, _ = _read("a: 1.50\n")
    assert root is not None
    node = root.entries["a"].node
    assert isinstance(node, Scalar)
    assert (node.value, node.text) == (1.5, "1.50")
