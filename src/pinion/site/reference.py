"""The reference pages that follow from code: site file, error codes, hardware, and the JSON Schema.

`pinion site reference` writes them to docs/reference/; a test compares them, so a page cannot disagree with what the program does.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from string import Template
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, Le
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from pinion.site import model, schema, statement
from pinion.site.catalog import Catalog, Port
from pinion.site.catalog import load as load_catalog
from pinion.site.errors import catalogue
from pinion.site.model_paths import model_at
from pinion.site.not_applied import NOT_APPLIED

_MADE = "<!-- Made by `pinion site reference`; change the code that it follows from, not this page. -->"

#: The model's own words for kinds of value, as a reader says them.
_WORDS: tuple[tuple[object, str], ...] = (
    (statement.DnsLabel, "DNS label"),
    (statement.Name, "name"),
    (statement.MacAddress, "MAC address"),
    (statement.Duration, "duration"),
    (statement.Percentage, "percentage"),
    (statement.Numbers, "numbers"),
    (statement.SwitchPortList, "switch and ports"),
    (statement.PortList, "ports"),
    (statement.TimeWindow, "window"),
    (statement.ArtefactUrl, "address of an artefact"),
    (statement.ArchiveUrl, "address of an archive"),
    (statement.NodeNumber, "number"),
    (str, "text"),
    (int, "whole number"),
    (float, "number"),
    (bool, "true or false"),
)


def pages(example: str) -> dict[str, str]:
    """Every page by its file name. *example* is the text of the site file that the site page shows."""
    return {
        "site-file.md": site_file(example),
        "errors.md": errors(),
        "hardware.md": hardware(load_catalog()),
        "site.schema.json": schema.text(),
    }


def stale(folder: Path, example: str) -> list[str]:
    """The names of the pages in *folder* that differ from what the code says."""
    return [
        name
        for name, text in pages(example).items()
        if not (folder / name).is_file() or (folder / name).read_text(encoding="utf-8") != text
    ]


# --- the site file --------------------------------------------------------------------------------------------------------


_SITE_FILE = Template("""\
# The site file

$made

`inventories/<site>/site.yml` is the only file that a site needs. It says what there is; everything else follows from it.
`pinion site new NAME` writes a first one, `pinion site check NAME` finds every mistake in it, and an editor that knows
JSON Schema completes it: its first line names [site.schema.json](site.schema.json).

## How it is written

YAML, in UTF-8, of which only the plain part is taken, so that every reader reads the same: no anchors, aliases, tags,
merge keys or second documents; no tabs; no key twice; no key without a value. `no`, `017`, `0o17`, `1:30`, `2026-01-31`
and `1e3` need quotes where text is meant. A unit is part of its value.

| kind of value | is written |
|---|---|
| DNS label | lower-case letters, digits and inner hyphens, at most 63 (RFC 1123): `tor-1` |
| name | letters, digits, `.`, `_` and `-`, at most 64: `edge-inference` |
| duration | a number and `ms`, `s`, `min` or `h`: `80ms` |
| percentage | a number and `%`: `60%` |
| window | `daily` or a day, then one to twelve hours, on the 24-hour clock: `daily 02:00-05:00` or `sun 23:00-02:00` |
| numbers | node numbers and spans of them: `1-8` or `1-4,7` |
| ports | ports and spans of them, in the order in which they are handed out: `Ethernet49/1-52/1` |
| switch and ports | a switch's name and ports of it: `tor-1 Ethernet1-8` |
| MAC address | six pairs of hexadecimal digits, in quotes: `"2c:cf:67:00:00:01"` |

## Stated, not applied

Some keys say what nothing obeys yet. They are marked below; `pinion site check`, `pulumi preview` and the report of `pinion verify` name
each of them that a site file states, with its line. Such a file is fine all the same.

## What follows from a name

A node's number is its identity. Number *n* of a group takes the address *n* - `first` further on than the first of its
range, and the port as far on in `ports`; a device with a name of its own takes the address of the number that its name
ends in. So adding or removing a node moves nobody else's address or port.

## An example

```yaml
$example
```

$keys
""")


def site_file(example: str) -> str:
    """The page of the site file: how it is written, an example, and every key."""
    return _SITE_FILE.substitute(made=_MADE, example=example.rstrip("\n"), keys="\n".join(_sections()))


def _sections() -> Iterator[str]:
    yield "## Keys"
    seen: list[type[BaseModel]] = [model.Site]
    for found in seen:
        yield ""
        yield f"### {found.__name__}"
        yield ""
        yield (found.__doc__ or "").split("\n\n")[0].replace("\n    ", " ").strip()
        yield ""
        yield "| key | value | unless stated | meaning |"
        yield "|---|---|---|---|"
        hints = get_type_hints(found, include_extras=True)
        for key, field in found.model_fields.items():
            inside: list[type[BaseModel]] = []
            said = _said(hints[key], field, inside)
            seen.extend(kind for kind in inside if kind not in seen)
            means = (field.description or "").replace("|", "&#124;")
            yield f"| `{key}` | {said} | {_default(field)} | {means}{_unobeyed(found, key)} |"


def _unobeyed(found: type[BaseModel], key: str) -> str:
    """Where nothing obeys the *key* of the model *found* yet, and why."""
    paths = {
        path: reason
        for path, reason in NOT_APPLIED.items()
        if (steps := tuple(path.split(".")))[-1] == key and model_at(steps[:-1]) is found
    }
    if not paths:
        return ""
    whys = dict.fromkeys(
        f"{reason.why}{' (the lab obeys it)' if reason.lab_obeys else ''}" for reason in paths.values()
    )
    return f" **Stated, not applied** ({', '.join(f'`{path}`' for path in paths)}): {'; '.join(whys)}."


def _said(annotation: Any, field: FieldInfo | None, inside: list[type[BaseModel]]) -> str:  # noqa: ANN401
    """What *annotation* takes, in words; the models that it names go to *inside*."""
    for known, words in _WORDS:
        if annotation == known:
            return words
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _said(arguments[0], None, inside) + _bounds(arguments[1:])
    if origin in {Union, types.UnionType}:
        return " or ".join(_said(each, field, inside) for each in arguments if each is not type(None))
    if origin is Literal:
        return " or ".join(f"`{each}`" for each in arguments)
    if origin is dict:
        return f"{_said(arguments[0], None, inside)}: {_said(arguments[1], None, inside)}"
    if origin is tuple:
        return f"list of {_said(arguments[0], None, inside)}"
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return ", ".join(f"`{each}`" for each in annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        inside.append(annotation)
        return f"[{annotation.__name__}](#{annotation.__name__.lower()})"
    raise TypeError(f"no words for {annotation}")


def _bounds(metadata: tuple[object, ...]) -> str:
    """The bounds of a number: `` from 1 to 60``."""
    found = [each for item in metadata for each in (item.metadata if isinstance(item, FieldInfo) else [item])]
    low = next((each.ge for each in found if isinstance(each, Ge)), None)
    high = next((each.le for each in found if isinstance(each, Le)), None)
    return (f" from {low}" if low is not None else "") + (f" to {high}" if high is not None else "")


def _default(field: FieldInfo) -> str:
    if field.default is PydanticUndefined:
        return "**required**"
    if field.default is None or field.default in ("", (), {}) or isinstance(field.default, BaseModel):
        return "-"
    return f"`{str(field.default).lower() if isinstance(field.default, bool) else field.default}`"


# --- error codes ----------------------------------------------------------------------------------------------------------


def errors() -> str:
    """The page of the error codes."""
    lines = [
        "# Error codes",
        "",
        _MADE,
        "",
        "`pinion site check` finds every mistake of a site file in one run and prints each with its place, its code and its fix:",
        "",
        "```",
        "inventories/dc-rack-12/site.yml:12:9 NET-021 the gateway 192.168.100.1 is not in 192.168.101.0/24",
        "    fix: write an address of this network, or none",
        "```",
        "",
        "Words in braces stand for what the file says. `tests/errors/` has a bad file for each code.",
        "",
        "With `--json` each problem also has its fix as a `replacement` for editors: what stands from `line`, `column` up to `end_line`,",
        "`end_column` (counted from 1, the end exclusive) becomes any one of `texts`, the likeliest first. Where only a person can tell",
        "what belongs there, `replacement` is null and `choice` says why.",
    ]
    topic = ""
    for code, kind in catalogue().items():
        if kind.topic != topic:
            topic = kind.topic
            lines += ["", f"## {topic}", "", "| code | is | says | fix |", "|---|---|---|---|"]
        told = kind.said()
        said = (kind.title, _cell(told["wrong"]), _cell(told["fix"]))
        lines.append(f'| <a id="{code.lower()}"></a>{code} | {" | ".join(said)} |')
    return "\n".join([*lines, ""])


def _cell(text: str) -> str:
    return text.replace("|", "&#124;").replace("<", "&lt;")


# --- hardware -------------------------------------------------------------------------------------------------------------


_HARDWARE = Template("""\
# Hardware that Pinion knows

$made

The names on the left are what a site file says. What is not listed cannot be done: a speed, a HAT on a board, a platform.
Every fact is from the document in the last column; add an entry in `src/pinion/site/catalog/` with its source.

## Boards

$boards

## HATs

$hats

## Switches

$switches

## Servers

$servers

## Network cards

$nics

## Platforms

$platforms

What switch systems do with traffic classes and gateways: data that the plan asks for, and never for the name of a system. The times are
those of the PFC watchdog: a queue that is paused so long is stuck, how often that is looked at, and when it is well again.

$systems
""")


def hardware(known: Catalog) -> str:
    """The page of the hardware catalogue."""
    return _HARDWARE.substitute(
        made=_MADE,
        boards=_boards(known),
        hats=_table(
            ("HAT", "model", "chip", "10^12 operations/s", "packages", "boards", "source"),
            {
                name: (hat.model, hat.chip, str(hat.tops), _list(hat.packages), _list(hat.boards), hat.source)
                for name, hat in known.hats.items()
            },
        ),
        switches=_switches(known),
        servers=_servers(known),
        nics=_table(
            ("card", "driver", "largest ring", "interrupt moderation", "PFC", "source"),
            {
                name: (
                    nic.driver,
                    str(nic.ring) if nic.ring is not None else "none",
                    "adaptive" if nic.adaptive else "yes" if nic.coalescing else "no",
                    "yes" if nic.data_centre_bridging else "no",
                    nic.source,
                )
                for name, nic in known.nics.items()
            },
        ),
        platforms=_table(
            ("platform", "is", "for", "best evidence", "source"),
            {
                name: (platform.name, platform.kind, str(platform.evidence), platform.source)
                for name, platform in known.platforms.items()
            },
        ),
        systems=_systems(known),
    )


def _systems(known: Catalog) -> str:
    rows = {}
    for name, platform in known.platforms.items():
        if platform.qos is None:
            continue
        qos, timers = platform.qos, platform.qos.watchdog
        percent, metres = qos.lossless_percent, qos.cable
        rows[name] = (
            ", ".join(map(str, qos.lossless_priorities)) or "none",
            "none" if platform.cnp_dscp is None else str(platform.cnp_dscp),
            f"{timers.timeout} / {timers.polling} / {timers.recovery} ms, {timers.action}",
            "nothing" if timers.guaranteed is None else f"{timers.guaranteed} %",
            "its own" if percent is None else f"{percent} %, {metres} m of cable",
            "yes" if platform.vlan_names else "no",
            f"MAC {platform.virtual_router_mac}"
            + (", and an address of each switch's own" if platform.own_gateway_addresses else ""),
            qos.source,
        )
    return _table(
        (
            "platform",
            "can pause priorities",
            "CNP: DSCP",
            "watchdog",
            "guaranteed to a watched queue",
            "lossless memory",
            "names of VLANs",
            "gateways that switches share",
            "source",
        ),
        rows,
    )


def _boards(known: Catalog) -> str:
    rows = {
        name: (
            board.model,
            f"{board.memory_mib // 1024} GiB",
            _list(hat for hat, entry in known.hats.items() if name in entry.boards) or "no",
            _port(board.port),
            str(board.max_mtu),
            _list(board.platforms),
            board.source,
        )
        for name, board in known.boards.items()
    }
    return _table(("board", "model", "memory", "takes a HAT", "port", "largest MTU", "platforms", "source"), rows)


def _switches(known: Catalog) -> str:
    rows = {
        name: (
            f"{switch.manufacturer} {switch.model}",
            str(switch.units),
            "<br>".join(f"{group.names}: {_speeds(group.speeds)}" for group in switch.ports),
            str(switch.max_mtu),
            "yes" if switch.lossless else "no",
            _list(switch.platforms) or "`lab` only",
            switch.source,
        )
        for name, switch in known.switches.items()
    }
    return _table(("model", "is", "units", "ports", "largest MTU", "lossless buffers", "platforms", "source"), rows)


def _servers(known: Catalog) -> str:
    rows = {
        name: (
            f"{server.manufacturer} {server.model}",
            str(server.units),
            str(server.gpus),
            "yes" if server.nvlink else "no",
            "<br>".join(node.cpus for node in server.numa.nodes) if server.numa is not None else "not stated",
            "<br>".join(map(_port, server.ports)),
            f"{len(server.rdma_ports)} of {_speeds(server.rdma_ports[0].speeds)}" if server.rdma_ports else "none",
            _list(server.platforms) or "`lab` only",
            server.source,
        )
        for name, server in known.servers.items()
    }
    return _table(
        ("profile", "is", "units", "GPUs", "NVLink", "CPUs by NUMA node", "ports", "RDMA ports", "platforms", "source"),
        rows,
    )


def _table(head: tuple[str, ...], rows: Mapping[str, tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    return "\n".join([*lines, *(f"| `{name}` | {' | '.join(cells)} |" for name, cells in rows.items())])


def _list(names: Iterator[str] | tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _port(port: Port) -> str:
    return f"{port.name}: {_speeds(port.speeds)}"


def _speeds(speeds: tuple[int, ...]) -> str:
    return ", ".join(f"{speed // 1000}G" if speed >= 1000 else f"{speed}M" for speed in speeds)
