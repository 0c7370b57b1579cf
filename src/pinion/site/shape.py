"""From the tree to the model: every key known, every value of the right kind, and every mistake in words of the site file.

When something is wrong, the rest is mended (a bad value is replaced by a placeholder or taken out, a misspelt key is read as the one that
was meant), so that the rules can still look at it and one run reports everything. A mended site is never handed out.
"""

from __future__ import annotations

import json
import re
from itertools import islice
from typing import Literal

from pydantic import Field, ValidationError
from pydantic_core import ErrorDetails

from pinion.site.edits import edit
from pinion.site.errors import NEAR, Path, Report
from pinion.site.examples import FREE, as_text, example, number
from pinion.site.fixes import Edit, Fix, Put, listed, quoted, take_away, write
from pinion.site.model import Network, Rack, Site, Switch
from pinion.site.model_paths import bounds, homes, meaning, model_at
from pinion.site.placeholders import placeholder
from pinion.site.quantities import NotAQuantity
from pinion.site.scalars import written as as_yaml
from pinion.site.statement import DNS_LABEL, MAC_ADDRESS, NAME, DnsLabel, Name
from pinion.site.tree import Entry, Mapping, Scalar, Sequence, entry_at, plain
from pinion.site.wording import called, digits, found, home, inline, is_number, label

#: Each round takes something out, and the model is this deep at most twice over.
_ROUNDS = 24

#: As difflib counts likeness: `port` is very near `ports`, `name_servers` is not near `gpu_servers`.
_VERY_NEAR = 0.8

#: Unknown keys beside a missing one that are looked at, to see whether one of them is that key misspelt.
_CANDIDATES = 20

_QUANTITY_CODES = {
    "duration": "SITE-009",
    "percentage": "SITE-010",
    "numbers": "SITE-011",
    "ports": "SITE-012",
    "window": "SITE-019",
    "artefact_url": "MODEL-013",
    "archive_url": "BASE-005",
    "authority_url": "CA-004",
    "image": "NODE-022",
}

#: pydantic's names for "this should be …", as a person says it.
_EXPECTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "dict_type": "a mapping (key: value)",
    "model_type": "a mapping (key: value)",
    "tuple_type": "a list",
}
_BOUNDS = frozenset({"greater_than_equal", "less_than_equal"})


class _Partial(Site):
    """A site of which whole sections may be missing, for a site file with mistakes."""

    version: Literal[1] = 1
    site: str = "unnamed"
    region: str = "unnamed"
    racks: dict[DnsLabel, Rack] = Field(default={})
    networks: dict[Name, Network] = Field(default={})
    switches: dict[DnsLabel, Switch] = Field(default={})


class Shaped:
    """The outcome: *site* to look at (mended where *mended*), and the way from its keys back to the file."""

    def __init__(self, root: Mapping, report: Report) -> None:
        self.root = root
        self.mended = False
        self._report = report
        self._renamed: dict[Path, str] = {}
        self._guessed: set[Path] = set()
        #: Paths of values that were taken out.
        self.dropped: set[Path] = set()
        self._data = plain(root)
        self._stated: dict[str, object] = {key: plain(entry.node) for key, entry in root.entries.items()}
        report.position, report.silent, report.edit = self.position, self.quiet, self.edit
        self.site: Site = self._read()

    # --- positions -----------------------------------------------------------------------------------------------------

    def written(self, path: Path) -> Path:
        """*path* with every key as the person wrote it."""
        found: Path = ()
        for step in path:
            found = (*found, self._renamed.get((*found, step), step))
        return found

    def entry(self, path: Path) -> Entry | None:
        """The entry of the file at *path*; None when it is not there."""
        return entry_at(self.root, self.written(path))

    def position(self, path: Path, at_key: bool) -> tuple[int, int]:
        """Line and column of the value at *path*, or of its key; of the nearest parent's key when it is not in the file."""
        entry = self.entry(path)
        if entry is None:
            parent = next((found for size in range(len(path) - 1, 0, -1) if (found := self.entry(path[:size]))), None)
            return (parent.line, parent.column) if parent is not None else (self.root.line, self.root.column)
        if at_key or not isinstance(entry.node, Scalar):
            return entry.line, entry.column
        return entry.node.line, entry.node.column

    def edit(self, put: Put, path: Path, texts: tuple[str, ...]) -> Edit | None:
        """The change of the file's text that puts one of *texts* at *path*."""
        return edit(self.root, put, self.written(path), texts)

    def faulty(self, path: Path) -> bool:
        """Whether the value at *path* has a problem already."""
        entry = self.entry(path)
        return entry is not None and entry.node.faulty

    def guessed(self, path: Path) -> bool:
        """Whether a placeholder stands at *path*, or at a key that leads there."""
        return bool(self._guessed) and any(path[:size] in self._guessed for size in range(1, len(path) + 1))

    def quiet(self, path: Path) -> bool:
        """Whether nothing more is to be said of the value at *path*: it has a problem already."""
        return self.faulty(path) or self.guessed(path)

    # --- validation ----------------------------------------------------------------------------------------------------

    def _read(self) -> Site:
        model: type[Site] = Site
        seen: set[Path] = set()
        for turn in range(_ROUNDS):
            try:
                return model.model_validate_json(json.dumps(self._data), strict=True)
            except ValidationError as refused:
                errors = refused.errors(include_url=False)
            self.mended, model = True, _Partial
            for error in errors:
                # Later rounds only meet what earlier ones made: a key that is missing because its value was taken out.
                self._take(error, seen, first=turn == 0)
                if self._report.full:  # nothing more would be told, so nothing need be mended for it
                    return _Partial()
        return _Partial()

    def _take(self, error: ErrorDetails, seen: set[Path], *, first: bool) -> None:
        """Report one error and mend what it is about."""
        at_key = error["loc"][-1:] == ("[key]",)
        path: Path = tuple(step for step in error["loc"] if step != "[key]")
        if error["type"] == "missing":
            if not self._misspelt(path):
                if first:
                    self._missing(path)
                if not self._stand_in(path):
                    self._drop(path[:-1])
            return
        if (first or path not in seen) and not self.faulty(path):
            self._describe(error, path, at_key=at_key)
        seen.add(path)
        if error["type"] == "extra_forbidden" and (meant := self._meant(path)) is not None:
            self._rename(path, meant)
        elif at_key and (harmless := _harmless(str(path[-1]))) is not None:
            self._rename(path, harmless)
        else:
            self._mend(path)

    def _missing(self, path: Path) -> None:
        parent = self.entry(path[:-1])
        if self.root.faulty if parent is None else parent.node.faulty:
            return
        if self.entry(path) is not None:
            return
        place = "the site file" if len(path) == 1 else f"'{path[-2]}'"
        said = meaning(path)
        hint = f" ({inline(said)})" if said else ""
        written = example(path, self._stated)
        self._report.on_key("SITE-002", path, key=path[-1], place=place, hint=hint, example=written)

    def _misspelt(self, path: Path) -> bool:
        """Whether a misspelt key beside it is what the missing key at *path* was meant to be."""
        parent, model = self._mapping(path[:-1]), model_at(path[:-1])
        if parent is None or model is None:
            return False
        unknown = islice((key for key in parent if key not in model.model_fields), _CANDIDATES)
        return any(self._meant((*path[:-1], key)) == path[-1] for key in unknown)

    def _meant(self, path: Path) -> str | None:
        """The known key that the unknown key at *path* was meant to be, when it is not there yet."""
        model, parent = model_at(path[:-1]), self._mapping(path[:-1])
        if model is None or parent is None or str(path[-1]) in model.model_fields:
            return None
        # A key that belongs elsewhere is only then another one misspelt when it is very near it.
        least = _VERY_NEAR if str(path[-1]) in homes() else NEAR
        return self._report.near(path[-1], (name for name in model.model_fields if name not in parent), least)

    # --- words ---------------------------------------------------------------------------------------------------------

    def _describe(self, error: ErrorDetails, path: Path, *, at_key: bool) -> None:
        kind, context, key = error["type"], error.get("ctx", {}), called(path)
        report = self._report
        if report.full:
            return
        if kind == "extra_forbidden":
            model = model_at(path[:-1])
            known = list(model.model_fields) if model is not None else []
            report.on_key("SITE-001", path, key=key, hint=self._unknown(path, known))
        elif kind == "value_error" and isinstance(quantity := context.get("error"), NotAQuantity):
            fix = quantity.fix(example(path, self._stated))
            report.on(_QUANTITY_CODES[quantity.kind], path, key=key, wrong=quantity.wrong, fix=fix)
        elif kind in {"enum", "literal_error"}:
            self._choice(error, path, at_key=at_key)
        elif kind == "string_pattern_mismatch":
            pattern = context["pattern"]
            code = {DNS_LABEL: "SITE-006", NAME: "SITE-007", MAC_ADDRESS: "HW-013"}.get(pattern, "SITE-021")
            value = key if at_key else error["input"]
            say = report.on_key if at_key else report.on
            say(code, path, value=value, key=key, example=self._form(code, path, str(value), at_key=at_key))
        elif kind in _BOUNDS:
            limit = context["ge"] if kind == "greater_than_equal" else context["le"]
            if key == "vid":
                report.on("NET-002", path, value=error["input"], free=self._free_vid())
            else:
                report.on(
                    "SITE-004", path, key=key, value=error["input"], bounds=bounds(path), example=number(path, limit)
                )
        elif kind in {"too_short", "string_too_short"}:
            # A list whose only item was refused is not empty in the file.
            if not self._holds(path):
                report.on("SITE-013", path, key=key, example=example(path, self._stated))
        elif kind in {"string_too_long", "too_long"}:
            report.on("SITE-014", path, key=key, limit=context["max_length"])
        else:
            self._kind(error, path, at_key=at_key)

    def _form(self, code: str, path: Path, value: str, *, at_key: bool) -> str:
        """A text of the form that *value* should have: as near to it as can be, where it is nobody else's name."""
        digits = re.sub(r"[^0-9A-Fa-f]", "", value)
        if code == "HW-013" and len(digits) == 12:
            return quoted(":".join(digits[at : at + 2] for at in range(0, 12, 2)).lower())
        if at_key or (code in {"SITE-006", "SITE-007"} and str(path[-1]) in FREE):
            return as_yaml(label(value))
        return example(path, self._stated)

    def _unknown(self, path: Path, known: list[str]) -> Fix:
        """What to do about an unknown key."""
        if (meant := self._meant(path)) is not None:
            return self._report.hint(meant, [meant])
        if (place := home(str(path[-1]))) is not None:
            return Fix(f"it belongs under '{place}'")
        return take_away(f"take it away; here go {listed(known)}")

    def _holds(self, path: Path) -> bool:
        """Whether something stands in the list or mapping at *path* of the file."""
        entry = self.entry(path)
        node = entry.node if entry is not None else None
        return bool(node.items if isinstance(node, Sequence) else node.entries if isinstance(node, Mapping) else ())

    def _choice(self, error: ErrorDetails, path: Path, *, at_key: bool) -> None:
        if path == ("version",):
            if isinstance(error["input"], int):
                self._report.on("SITE-008", path, value=error["input"])
            else:
                self._wrong_kind(path, "a whole number", error["input"])
            return
        choices = re.findall(r"'([^']*)'", str(error.get("ctx", {}).get("expected", "")))
        value = path[-1] if at_key else error["input"]
        key = path[-2] if at_key else path[-1]
        if not at_key and not isinstance(value, str):
            self._wrong_kind(path, f"one of {listed(choices)}", value)
            return
        beside = (self._mapping(path[:-1]) or {}) if at_key else ()
        hint = self._report.hint(value, choices, beside)
        (self._report.on_key if at_key else self._report.on)("SITE-005", path, value=value, key=key, hint=hint)

    def _kind(self, error: ErrorDetails, path: Path, *, at_key: bool) -> None:
        if at_key:
            self._report.on_key("SITE-018", path, value=path[-1], key=path[-2])
            return
        self._wrong_kind(path, _EXPECTED.get(error["type"], error["msg"]), error["input"])

    def _wrong_kind(self, path: Path, expected: str, value: object) -> None:
        good = example(path, self._stated)
        fix = write(f"write {expected}, such as {{}}", good)
        if expected == "text" and is_number(value):
            entry = self.entry(path)
            written = entry.node.text if entry is not None and isinstance(entry.node, Scalar) else str(value)
            fix = as_text(written, path, self._stated)
        elif expected in {"a whole number", "a number"} and isinstance(value, str):
            fix = write(f"write {expected} without quotes or unit, such as {{}}", digits(value, path) or good)
        elif isinstance(path[-1], str) and path[-1] == "ports" and expected.startswith("a mapping"):
            fix = Fix(f"write {expected}, such as {good}")
        elif expected == "a list" and isinstance(value, (str, int, float)):
            fix = write("write a list: {}", f"[{str(value).strip('[] ')}]")
        self._report.on("SITE-003", path, key=called(path), expected=expected, found=found(value), fix=fix)

    # --- mending -------------------------------------------------------------------------------------------------------

    def _mapping(self, path: Path) -> dict[str, object] | None:
        found: object = self._data
        for step in path:
            if isinstance(found, dict):
                found = found.get(str(step))
            elif isinstance(found, list) and isinstance(step, int) and step < len(found):
                found = found[step]
            else:
                return None
        return found if isinstance(found, dict) else None

    def _drop(self, path: Path) -> None:
        """Take the value at *path* out; of a list, the whole list. The root stays: `_Partial` needs none of its keys."""
        if not path:
            return
        parent = self._mapping(path[:-1])
        if parent is None:
            self._drop(path[:-1])
        else:
            parent.pop(str(path[-1]), None)
            self.dropped.add(path)

    def _mend(self, path: Path) -> None:
        """Put a placeholder in the place of the value at *path*, or of the list that it is in; take it out where there is none."""
        while path and self._mapping(path[:-1]) is None:
            path = path[:-1]
        # A list with a refused item is told as too short as well.
        if path not in self._guessed and not self._stand_in(path):
            self._drop(path)

    def _stand_in(self, path: Path) -> bool:
        """Put a placeholder at *path*, where nothing has one yet; False when there is none for it."""
        parent, model = self._mapping(path[:-1]), model_at(path[:-1]) if path else None
        if parent is None or path in self._guessed:
            return False
        value = placeholder(model.__name__ if model is not None else "", path, parent, self._vids())
        if value is None:
            return False
        parent[str(path[-1])] = value
        self._guessed.add(path)
        return True

    def _vids(self) -> frozenset[int]:
        """The VLAN identifiers of the site."""
        networks = self._mapping(("networks",)) or {}
        stated = (network.get("vid") for network in networks.values() if isinstance(network, dict))
        return frozenset(vid for vid in stated if isinstance(vid, int))

    def _free_vid(self) -> int:
        """The lowest VLAN identifier from 101 on that no network has."""
        taken = self._vids()
        return min(set(range(101, 4095)) - taken, default=2)

    def _rename(self, path: Path, name: str) -> None:
        parent = self._mapping(path[:-1])
        if parent is None or name in parent or str(path[-1]) not in parent:
            self._drop(path)
            return
        parent[name] = parent.pop(str(path[-1]))
        self._renamed[(*self.written(path[:-1]), name)] = str(path[-1])


def _harmless(name: str) -> str | None:
    """A good name to look at an entry under whose own name is not; None when there is none."""
    found = label(name)
    return found if found != name else None
