"""What a concern asks of the host: the plan's `Concern`, as it arrives in JSON. Sources, claims and evidence are not needed here."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
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
class Directory:
    """See `pinion.plan.model.HostDirectory`; *mode* is a number here."""

    path: str
    owner: str
    group: str
    mode: int


@dataclass(frozen=True, slots=True)
class File:
    """See `pinion.plan.model.HostFile`; *mode* is a number here. One that is *held back* has its content made when the host needs it."""

    path: str
    owner: str
    group: str
    mode: int
    content: str
    notify: tuple[str, ...]
    validate_command: str | None
    confirm: bool
    restart: tuple[str, ...] = ()
    run: tuple[str, ...] = ()
    needs_reboot: bool = False
    secret: bool = False
    unless: str | None = None
    for_packages: bool = False
    held_back: bool = False


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
    masked: bool = False
    after_boot: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Argument:
    """See `pinion.plan.model.HostKernelArgument`. *live* false lets the file be made where there is none."""

    argument: str
    file: str
    live: bool

    @property
    def key(self) -> str:
        """What another value of the same argument starts with."""
        return self.argument.partition("=")[0]


@dataclass(frozen=True, slots=True)
class Module:
    """See `pinion.plan.model.HostModule`; those that are not live are in their file, and nothing more."""

    name: str


@dataclass(frozen=True, slots=True)
class Concern:
    """See `pinion.plan.model.Concern`. One without any entry is a concern that the site no longer has."""

    name: str
    packages: tuple[str, ...] = ()
    packages_absent: tuple[str, ...] = ()
    packages_need_reboot: tuple[str, ...] = ()
    users: tuple[User, ...] = ()
    directories: tuple[Directory, ...] = ()
    files: tuple[File, ...] = ()
    arguments: tuple[Argument, ...] = ()
    modules: tuple[Module, ...] = ()
    sysctls: tuple[Sysctl, ...] = ()
    units: tuple[Unit, ...] = ()


def concern(data: Mapping[str, Any]) -> Concern:
    """The concern that *data* states. Raises `BadRequestError`."""
    try:
        found = Concern(
            name=_name(data["name"]),
            packages=tuple(data.get("packages", ())),
            packages_absent=tuple(data.get("packages_absent", ())),
            packages_need_reboot=tuple(data.get("packages_need_reboot", ())),
            users=tuple(_user(entry) for entry in data.get("users", ())),
            directories=tuple(_directory(entry) for entry in data.get("directories", ())),
            files=(*(_file(entry) for entry in data.get("files", ())), *_modules_file(data)),
            arguments=tuple(
                Argument(_argument(entry["argument"]), entry["file"], entry["live"])
                for entry in data.get("kernel_arguments", ())
            ),
            modules=tuple(Module(entry["name"]) for entry in data.get("modules", ()) if entry["live"]),
            sysctls=tuple(Sysctl(entry["key"], entry["value"]) for entry in data.get("sysctls", ()) if entry["live"]),
            units=tuple(
                Unit(
                    entry["name"],
                    entry["enabled"],
                    entry["active"],
                    entry["masked"],
                    _texts(entry.get("after_boot", ())),
                )
                for entry in data.get("units", ())
            ),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise BadRequestError(f"not a concern of a Pinion plan: {error!r}") from error
    return found


def asks(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """A concern's name and the command that succeeds while its host waits for an approval, if it may. Raises `BadRequestError`."""
    try:
        if approval := data.get("approval"):
            yield data["name"], str(approval["asks"])
    except (KeyError, TypeError) as error:
        raise BadRequestError(f"not an approval of a Pinion plan: {error!r}") from error


def _name(text: str) -> str:
    """A concern's name is also the name of files: letters, digits and underscores only."""
    if not text.replace("_", "").isalnum():
        raise ValueError(f"bad name {text!r}")
    return text


def _user(entry: Mapping[str, Any]) -> User:
    fields = {field: entry[field] for field in ("name", "system", "comment", "home", "create_home", "shell")}
    return User(**fields, groups=_texts(entry["groups"]))


def _file(entry: Mapping[str, Any]) -> File:
    return File(
        path=_absolute(entry["path"]),
        owner=entry["owner"],
        group=entry["group"],
        mode=int(entry["mode"], 8),
        content=entry["content"],
        notify=_texts(entry["notify"]),
        validate_command=entry["validate_command"],
        confirm=entry["confirm"],
        restart=_texts(entry["restart"]),
        run=_texts(entry["run"]),
        needs_reboot=entry["needs_reboot"],
        secret=entry["secret"],
        unless=entry.get("unless"),
        for_packages=bool(entry.get("for_packages", False)),
        held_back=bool(entry.get("held_back", False)),
    )


def _directory(entry: Mapping[str, Any]) -> Directory:
    return Directory(_absolute(entry["path"]), entry["owner"], entry["group"], int(entry["mode"], 8))


def _modules_file(data: Mapping[str, Any]) -> list[File]:
    """modules-load.d(5): what a boot loads."""
    names = [entry["name"] for entry in data.get("modules", ())]
    if not names:
        return []
    lines = [f"# Kept by Pinion (concern {data['name']}); changes made here are undone by the next run.", *names]
    path = f"/etc/modules-load.d/pinion-{data['name'].replace('_', '-')}.conf"
    return [File(path, "root", "root", 0o644, "\n".join(lines) + "\n", (), None, confirm=False)]


def _argument(text: str) -> str:
    if not text or text.split() != [text]:
        raise ValueError(f"{text!r} is not one kernel argument")
    return text


def _absolute(path: str) -> str:
    if not path.startswith("/"):
        raise ValueError(f"{path!r} is not an absolute path")
    if "\0" in path or posixpath.normpath(path) != path:
        raise ValueError(f"{path!r} is not a plain path")
    return path


def _texts(entries: Sequence[str]) -> tuple[str, ...]:
    return tuple(str(entry) for entry in entries)
