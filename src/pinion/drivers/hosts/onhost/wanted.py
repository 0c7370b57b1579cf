"""What a concern asks of the host: the plan's `Concern`, as it arrives in JSON. Sources and claims are not needed here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


class BadRequestError(ValueError):
    """The request has not the shape of a concern; the text names the field."""


@dataclass(frozen=True, slots=True)
class User:
    """See `pinion.plan.model.HostUser`."""

    name: str
    system: bool
    comment: str
    home: str
    create_home: bool
    shell: str
    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class File:
    """See `pinion.plan.model.HostFile`; *mode* is a number here."""

    path: str
    owner: str
    group: str
    mode: int
    content: str
    notify: tuple[str, ...]
    validate_command: str | None
    confirm: bool


@dataclass(frozen=True, slots=True)
class Sysctl:
    """See `pinion.plan.model.HostSysctl`; those that are not live do not get this far."""

    key: str
    value: str


@dataclass(frozen=True, slots=True)
class Unit:
    """See `pinion.plan.model.HostUnit`."""

    name: str
    enabled: bool
    active: bool


@dataclass(frozen=True, slots=True)
class Concern:
    """See `pinion.plan.model.Concern`. One without any entry is a concern that the site no longer has."""

    name: str
    packages: tuple[str, ...] = ()
    packages_absent: tuple[str, ...] = ()
    users: tuple[User, ...] = ()
    files: tuple[File, ...] = ()
    sysctls: tuple[Sysctl, ...] = ()
    units: tuple[Unit, ...] = ()


def concern(data: Mapping[str, Any]) -> Concern:
    """The concern that *data* states. Raises `BadRequestError`."""
    try:
        found = Concern(
            name=_name(data["name"]),
            packages=tuple(data.get("packages", ())),
            packages_absent=tuple(data.get("packages_absent", ())),
            users=tuple(_user(entry) for entry in data.get("users", ())),
            files=tuple(_file(entry) for entry in data.get("files", ())),
            sysctls=tuple(Sysctl(entry["key"], entry["value"]) for entry in data.get("sysctls", ()) if entry["live"]),
            units=tuple(Unit(entry["name"], entry["enabled"], entry["active"]) for entry in data.get("units", ())),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise BadRequestError(f"not a concern of a Pinion plan: {error!r}") from error
    return found


def _name(text: str) -> str:
    """A concern's name is also the name of files: letters, digits and underscores only."""
    if not text.replace("_", "").isalnum():
        raise ValueError(f"bad name {text!r}")
    return text


def _user(entry: Mapping[str, Any]) -> User:
    fields = {field: entry[field] for field in ("name", "system", "comment", "home", "create_home", "shell")}
    return User(**fields, groups=_texts(entry["groups"]))


def _file(entry: Mapping[str, Any]) -> File:
    if not entry["path"].startswith("/"):
        raise ValueError(f"{entry['path']!r} is not an absolute path")
    return File(
        path=entry["path"],
        owner=entry["owner"],
        group=entry["group"],
        mode=int(entry["mode"], 8),
        content=entry["content"],
        notify=_texts(entry["notify"]),
        validate_command=entry["validate_command"],
        confirm=entry["confirm"],
    )


def _texts(entries: Sequence[str]) -> tuple[str, ...]:
    return tuple(str(entry) for entry in entries)
