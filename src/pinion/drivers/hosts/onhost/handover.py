"""A thing that another concern states now: its journal takes over what the former one's says of it.

So the thing is never away in between, and goes in the end to what it was before either of them. Else the former concern would put that back
while the new one is at work. Only journals change here, nothing of the host does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from .journal import Journal
from .wanted import Concern

#: A part of the journal and the keys in it: ``("files", path)``, ``("arguments", file, argument)``.
Thing = tuple[str, ...]
_LISTS = ("packages", "users")
_MAPPINGS = ("directories", "files", "sysctls", "units")


def stated(concern: Concern) -> tuple[Thing, ...]:
    """All that *concern* states and its journal may speak of."""
    return (
        *(("packages", name) for name in concern.packages),
        *(("users", user.name) for user in concern.users),
        *(("directories", folder.path) for folder in concern.directories),
        *(("files", file.path) for file in concern.files),
        *(("arguments", argument.file, argument.argument) for argument in concern.arguments),
        *(("sysctls", sysctl.key) for sysctl in concern.sysctls),
        *(("units", unit.name) for unit in concern.units),
    )


def owners(wanted: Iterable[Concern], others: Mapping[str, Iterable[Thing]]) -> dict[Thing, list[str]]:
    """Who states each thing, of the concerns of a run and the *others* that the host has beside them. Only packages have several."""
    found: dict[Thing, list[str]] = {}
    for name, things in (*((concern.name, stated(concern)) for concern in wanted), *others.items()):
        for thing in things:
            found.setdefault(thing, []).append(name)
    return found


def hand_over(
    journals: dict[str, Journal], owners: Mapping[Thing, list[str]], write: Callable[[str, Journal], None]
) -> None:
    """Move what *journals* (by concern) say of things that only other concerns state to those, and *write* the journals that change.

    First those that gain something, then those that lose it: a kill in between leaves it in both, and the next run goes on.
    """
    moves = [
        (thing, name, owners[thing][0])
        for name, journal in journals.items()
        for thing in _noted(journal)
        if thing in owners and name not in owners[thing]
    ]
    for thing, former, owner in moves:
        _copy(thing, journals[former], journals.setdefault(owner, Journal()))
    for name in dict.fromkeys(owner for _, _, owner in moves):
        write(name, journals[name])
    for thing, former, _ in moves:
        _drop(thing, journals[former])
    for name in dict.fromkeys(former for _, former, _ in moves):
        write(name, journals[name])


def _noted(journal: Journal) -> list[Thing]:
    """All that *journal* speaks of, as `stated` has it."""
    return [
        *((part, key) for part in (*_LISTS, *_MAPPINGS) for key in getattr(journal, part)),
        *(("arguments", path, argument) for path, given in journal.arguments.items() for argument in given),
    ]


def _copy(thing: Thing, former: Journal, owner: Journal) -> None:
    """What *former* says is older than what *owner* may say already, so it counts."""
    part, key = thing[:2]
    if part in _LISTS:
        names: list[str] = getattr(owner, part)
        names += [key] if key not in names else []
    elif part in _MAPPINGS:
        getattr(owner, part)[key] = getattr(former, part)[key]
    else:
        owner.arguments.setdefault(key, {})[thing[2]] = former.arguments[key][thing[2]]


def _drop(thing: Thing, journal: Journal) -> None:
    part, key = thing[:2]
    if part in _LISTS:
        getattr(journal, part).remove(key)
    elif part in _MAPPINGS:
        del getattr(journal, part)[key]
    else:
        del journal.arguments[key][thing[2]]
        if not journal.arguments[key]:
            del journal.arguments[key]
