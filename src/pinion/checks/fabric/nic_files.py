"""The settings of RDMA NICs, from the files on a host: each statement with its line. Shares nothing with what writes them."""

from __future__ import annotations

import re
from collections.abc import Mapping

import yaml

from pinion.checks.fabric.said import Said, SaidNic, UnreadableError

_MTU = re.compile(r"MTUBytes=(\d+)")
_NAME = re.compile(r"Name=(\S+)")


def read_nics(file: str, text: str, links: Mapping[str, str]) -> dict[str, SaidNic]:
    """The NICs that the JSON *text* of *file* sets, by name; *links* are the host's systemd.link files, path to text.

    `UnreadableError` when it is no such JSON.
    """
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)  # JSON is YAML, and this reader knows its lines
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else 0
        raise UnreadableError(line, f"is no JSON ({error.problem})") from error
    except yaml.YAMLError as error:
        raise UnreadableError(0, f"is no JSON ({error})") from error
    boot = dict(_boot_mtu(path, content) for path, content in links.items())
    return {name: _nic(file, node, boot.get(name)) for name, node in _entries(root).items()}


def _boot_mtu(path: str, text: str) -> tuple[str, Said[int] | None]:
    name, mtu = "", None
    for line, said in enumerate(text.splitlines(), start=1):
        if match := _NAME.fullmatch(said.strip()):
            name = match[1]
        elif match := _MTU.fullmatch(said.strip()):
            mtu = Said(int(match[1]), path, line)
    return name, mtu


def _entries(node: yaml.Node | None) -> dict[str, yaml.Node]:
    if not isinstance(node, yaml.MappingNode):
        raise UnreadableError(_line(node), "is no object")
    found: dict[str, yaml.Node] = {}
    for key, value in node.value:
        if str(key.value) in found:
            raise UnreadableError(_line(key), f"says {key.value} a second time")
        found[str(key.value)] = value
    return found


def _line(node: yaml.Node | None) -> int:
    return node.start_mark.line + 1 if node is not None else 1


def _nic(file: str, node: yaml.Node, boot: Said[int] | None) -> SaidNic:
    stated = _entries(node)

    def number(name: str) -> Said[int] | None:
        return _number(file, stated.get(name))

    pause = stated.get("pause")
    priorities, pfc = stated.get("priorities"), stated.get("pfc")
    return SaidNic(
        mtu=number("mtu"),
        boot_mtu=boot,
        pause=Said(pause.value == "true", file, _line(pause)) if isinstance(pause, yaml.ScalarNode) else None,
        priorities={
            _dscp(dscp, value): said
            for dscp, value in (_entries(priorities) if isinstance(priorities, yaml.MappingNode) else {}).items()
            if (said := _number(file, value)) is not None
        },
        pfc=tuple(said for each in pfc.value if (said := _number(file, each)) is not None)
        if isinstance(pfc, yaml.SequenceNode)
        else None,
        tos=number("tos"),
        file=file,
    )


def _dscp(text: str, node: yaml.Node) -> int:
    if not text.isdecimal():
        raise UnreadableError(_line(node), f"{text[:40]} is no DSCP")
    return int(text)


def _number(file: str, node: yaml.Node | None) -> Said[int] | None:
    """The whole number that *node* is; None for null. `UnreadableError` for anything else."""
    if not isinstance(node, yaml.ScalarNode) or node.value in {"null", ""}:
        return None
    try:
        return Said(int(node.value), file, _line(node))
    except ValueError:
        raise UnreadableError(_line(node), f"is no whole number: {node.value[:40]}") from None
