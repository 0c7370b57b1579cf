"""Mutants of site files, by a seed: other values, right and wrong; entries added, taken out, doubled, renamed, exchanged."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

import yaml
from unit.plan.leaves import UNSTATED, KeyPath, annotation_of, others

from pinion.site.examples import example
from pinion.site.model_paths import model_at

#: What people and programs write where it does not belong.
VALUES: tuple[Any, ...] = (
    *(
        0,
        1,
        2,
        7,
        41,
        48,
        63,
        100,
        4094,
        9000,
        65535,
        100_000,
        -1,
        0.5,
        True,
        False,
        "",
        " ",
        "none",
        "lab",
        "pis",
        "all",
        {},
        [],
    ),
    *(
        "1-3",
        "2,5",
        "7-90",
        "1-100000",
        "0%",
        "100%",
        "1ms",
        "12h",
        "edge",
        "control",
        "rdma",
        "management",
        "lossless",
        "a" * 63,
        "é" * 60,
    ),
    *(
        "10.0.0.0/8",
        "10.77.101.1",
        "10.77.101.0/24",
        "10.77.0.0/16",
        "192.168.101.0/30",
        "192.168.101.255",
        "0.0.0.0/0",
        "127.0.0.1",
    ),
    *(
        "fd00::/64",
        "fd00:101::/126",
        "fd00::1",
        "2001:db8::/32",
        "::/0",
        "192.168.101.2-192.168.101.9",
        "fd00::2-fd00::ff",
    ),
    *(
        "tor-1 Ethernet3",
        "tor-1 Ethernet1-48",
        "tor-2 Ethernet1",
        "Ethernet1-2",
        "Ethernet55/1",
        "Ethernet49/1-56/1",
        "Management1",
    ),
    *(
        "raspberry-pi-4b-4gb",
        "raspberry-pi-5-16gb",
        "lab-tor-16",
        "7060CX2-32S",
        "dgx-h200",
        "lab-gpu-server",
        "lab-management-host",
    ),
    *(
        "arista-eos",
        "debian-13",
        "raspberry-pi-os",
        "x-0",
        "a-10",
        "nv-1",
        "mgmt-1",
        "pi-01",
        "tor-1",
        "[fd00::1]:9000",
        "1g.10gb",
    ),
)


def places(data: Any, path: KeyPath = ()) -> Iterator[KeyPath]:
    """The paths of all that a site file states."""
    steps = data.items() if isinstance(data, Mapping) else enumerate(data) if isinstance(data, list) else ()
    for step, value in steps:
        yield (*path, step)
        yield from places(value, (*path, step))


def at(data: Any, path: KeyPath) -> Any:
    """What *data* states at *path*."""
    for step in path:
        data = data[step]
    return data


def mutant(data: Mapping[str, Any], random: Random) -> dict[str, Any]:
    """*data* with one to four changes."""
    made = copy.deepcopy(dict(data))
    for _ in range(random.choice((1, 1, 1, 1, 2, 2, 3))):
        known = list(places(made))
        path = random.choice(known)
        random.choice((_other, _other, _other, _added, _added, _any, _out, _twin, _exchange, _renamed))(
            made, path, known, random
        )
    return made


def _other(made: dict[str, Any], path: KeyPath, known: list[KeyPath], random: Random) -> None:
    """Another value of the right kind, where the model knows the place."""
    value = at(made, path)
    words = [str(step) for each in random.sample(known, min(30, len(known))) for step in each[-1:]]
    try:
        found = list(others(annotation_of(tuple(map(str, path))), value, words))
    except (KeyError, ValueError, AttributeError, IndexError, TypeError):
        found = []
    chosen = random.choice(found) if found else random.choice(VALUES)
    if chosen is UNSTATED:
        _out(made, path, known, random)
    else:
        at(made, path[:-1])[path[-1]] = chosen


def _added(made: dict[str, Any], path: KeyPath, known: list[KeyPath], random: Random) -> None:
    """A key that nobody stated, with the example that messages give for it."""
    models = [
        (each, model)
        for each in ((), *known)
        if (model := model_at(each)) is not None and isinstance(at(made, each), dict)
    ]
    home, model = random.choice(models)
    missing = [key for key in model.model_fields if key not in at(made, home)]
    if missing:
        key = random.choice(missing)
        at(made, home)[key] = yaml.safe_load(example((*home, key), made))


def _any(made: dict[str, Any], path: KeyPath, _known: list[KeyPath], random: Random) -> None:
    at(made, path[:-1])[path[-1]] = copy.deepcopy(random.choice(VALUES))


def _out(made: dict[str, Any], path: KeyPath, _known: list[KeyPath], _random: Random) -> None:
    del at(made, path[:-1])[path[-1]]


def _twin(made: dict[str, Any], path: KeyPath, _known: list[KeyPath], random: Random) -> None:
    """The same once more, under another name."""
    parent = at(made, path[:-1])
    value = copy.deepcopy(parent[path[-1]])
    if isinstance(parent, list):
        parent.append(value)
    else:
        parent[f"{path[-1]}-{random.choice((0, 2, 3, 77))}"] = value


def _exchange(made: dict[str, Any], path: KeyPath, known: list[KeyPath], random: Random) -> None:
    """What stands at another place with the same key."""
    alike = [each for each in known if each[-1] == path[-1]]
    at(made, path[:-1])[path[-1]] = copy.deepcopy(at(made, random.choice(alike)))


def _renamed(made: dict[str, Any], path: KeyPath, known: list[KeyPath], random: Random) -> None:
    parent = at(made, path[:-1])
    if isinstance(parent, dict):
        name = random.choice(
            (str(random.choice(known)[-1]), f"{path[-1]}-2", "a" * 32, "x-0", "n-1", f"{path[-1]}"[:3])
        )
        if name not in parent:
            parent[name] = parent.pop(path[-1])
