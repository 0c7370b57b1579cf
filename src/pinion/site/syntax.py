"""What the parser of YAML cannot read, in words of a person, at the place where the mistake was made rather than where it is noticed."""

from __future__ import annotations

import re
from contextlib import suppress

import yaml

from pinion.site.errors import Report
from pinion.site.fixes import Fix, write

#: The C parser where PyYAML has it (all its wheels do): about 20 times as fast, the same events.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

#: What the parser says, and what a person should hear.
_SYNTAX = (
    (
        "mapping values are not allowed",
        "there is a ': ' where no key can be",
        "put the text in quotes, or check the indentation of this line",
    ),
    (
        "could not find expected ':'",
        "a key has no ':' after it",
        "write 'key: value'; a text over several lines needs quotes or '|'",
    ),
    (
        "did not find expected key",
        "the indentation or a closing quote does not fit",
        "align this line with its neighbours; check quotes and commas",
    ),
    (
        "did not find expected ',' or '}'",
        "a '{' is not closed, or a ',' is missing",
        "close it with '}', or put a ',' between the entries",
    ),
    (
        "did not find expected ',' or ']'",
        "a '[' is not closed, or a ',' is missing",
        "close it with ']', or put a ',' between the entries",
    ),
    ("did not find expected '-' indicator", "the indentation of a list does not fit", "align all '-' of the list"),
    ("found unexpected end of stream", "a quote is opened and never closed", "close the quote"),
    (
        "expected alphabetic or numeric character",
        "a '*' or '&' begins the text, which means something else in YAML",
        "put the text in quotes",
    ),
    ("cannot start any token", "this character cannot begin a value", "put the value in quotes"),
    ("found character that cannot", "this character cannot begin a value", "put the value in quotes"),
    (
        "unknown escape character",
        "a backslash in double quotes starts an unknown escape",
        "use single quotes, or write two backslashes",
    ),
    ("did not find expected node content", "a value is missing here", "write the value, or take the key away"),
    (
        "block sequence entries are not allowed",
        "a '-' stands where no list can be",
        "put the list on its own lines below the key",
    ),
    (
        "did not find expected <document start>",
        "there is text after the end of the document",
        "check the indentation of this line",
    ),
)


#: What git and others leave in a file that could not be merged.
_MERGE_MARKER = re.compile(r"^(<{7}|={7}|>{7}|\|{7})(?: .*)?$", re.MULTILINE)
#: What begins somewhere and never ends is a mistake of the place where it begins.
_BEGINS = ("expected ':'", "',' or '}'", "',' or ']'", "unexpected end of stream")


def report_syntax(broken: yaml.MarkedYAMLError, text: str, report: Report) -> None:
    """Report why *text* is no YAML."""
    marker = _MERGE_MARKER.search(text)
    if marker is not None:
        line, fix = (
            text.count("\n", 0, marker.start()) + 1,
            "keep one of the two sides, and take the three marked lines out",
        )
        report.at("YAML-002", line, 1, wrong=f"'{marker[1]}' marks a merge that was not finished", fix=fix)
        return
    said = f"{broken.problem or ''} {broken.context or ''}"
    opened = _open_quote(text, broken)
    if opened is not None:
        line, column, last = opened
        wrong = f"a quote is opened here, and the next one stands in line {last}"
        report.at("YAML-002", line, column, wrong=wrong, fix="close the quote at the end of the text that it begins")
        return
    mark = broken.problem_mark or broken.context_mark
    begins = broken.context_mark
    # On one line, what was begun is not what never ends: it is a ',' that is missing further on.
    if begins is not None and any(part in said for part in _BEGINS) and (mark is None or begins.line != mark.line):
        mark = begins
    wrong, fix = next(
        ((wrong, fix) for pattern, wrong, fix in _SYNTAX if pattern in said),
        (
            (broken.problem or broken.context or "it cannot be read").strip(),
            "check quotes, brackets and indentation of this line and the one before",
        ),
    )
    lines = text.splitlines()
    shown = lines[mark.line] if mark is not None and mark.line < len(lines) else ""
    glued = re.fullmatch(r" *([A-Za-z_][A-Za-z0-9_-]*):([^ ].*)", shown)
    item = re.fullmatch(r" *-([^ -].*)", shown)
    told: Fix | str = fix
    if "expected ':'" in said and glued is not None and mark is not None:
        wrong, told = (
            "there is no space after the ':' of a key",
            _apart(mark.line + 1, shown, f"{glued[1]}: {glued[2]}"),
        )
    elif "expected ':'" in said and item is not None and mark is not None:
        wrong, told = "there is no space after the '-' of an item", _apart(mark.line + 1, shown, f"- {item[1]}")
    report.at("YAML-002", mark.line + 1 if mark else 1, mark.column + 1 if mark else 1, wrong=wrong, fix=told)


def _apart(line: int, stands: str, text: str) -> Fix:
    """Write *text* in place of what *stands* in a line."""
    first = len(stands) - len(stands.lstrip(" ")) + 1
    return write("write {}", text, span=(line, first, line, len(stands) + 1))


def _open_quote(text: str, broken: yaml.MarkedYAMLError) -> tuple[int, int, int] | None:
    """Where the last quoted text before the mistake begins, and in which line it ends, when these are two lines: its end was forgotten."""
    found = None
    with suppress(yaml.YAMLError):
        for token in yaml.scan(text, Loader=LOADER):
            if broken.problem_mark is not None and token.start_mark.index >= broken.problem_mark.index:
                break
            if isinstance(token, yaml.ScalarToken) and token.style in {"'", '"'}:
                found = token
    if found is None or found.start_mark.line == found.end_mark.line:
        return None
    return found.start_mark.line + 1, found.start_mark.column + 1, found.end_mark.line + 1
