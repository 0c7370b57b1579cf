"""Models as a part of the lab: a folder of files behind HTTP on the management host, and llama.cpp's server on the Pis that start it.

On a site both are there before Pinion comes: somebody publishes the models, and an image or a person brings the engine. What is between
them is done by the concerns `model_store` and `edge_runtime`, here as there. A site whose plan has neither pays nothing.
"""

from __future__ import annotations

import filecmp
import json
import os
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from pinion.bringup.programs import ProgramMissingError, obtain
from pinion.lab.errors import LabError
from pinion.lab.instance import Lab
from pinion.lab.machine import Machine
from pinion.lab.models import artefacts
from pinion.lab.parts import Bind, Forward, JsonValue, MachineNeeds
from pinion.plan import edge_units
from pinion.plan.concerns import edge_runtime, model_store
from pinion.plan.model import Plan
from pinion.plan.pool import model_settings, pool_releases

UNIT = "pinion-lab-models.service"
#: Where the files lie in the machine that serves them.
FOLDER = "/srv/pinion-models"
_TOOL = "llama-server"


@dataclass(frozen=True)
class _File:
    """A model's file that a machine of the lab is to serve at *address*:*port* under *path*."""

    model: str
    machine: str
    address: str
    port: int
    path: PurePosixPath
    sha256: str


class ModelsPart:
    """What the Pis of the plan fetch from a machine of the lab, and what they start."""

    name = "models"

    def needs(self, lab: Lab) -> Mapping[str, MachineNeeds]:
        """The folder and its server where the plan fetches from, the engine where the plan starts it."""
        engine, binds = _folder(lab) / "engine", defaultdict[str, list[Bind]](list)
        for name, program in _programs(lab.plan):
            if name in lab.machines:
                libraries = PurePosixPath(program).parent.parent / "lib" / _TOOL
                binds[name] += [Bind(engine / "bin" / _TOOL, program), Bind(engine / "lib" / _TOOL, str(libraries))]
        found = {name: MachineNeeds(binds=tuple(shown)) for name, shown in binds.items()}
        for name in {file.machine for file in _files(lab)}:
            shown = (*binds[name], Bind(_folder(lab) / "files", FOLDER))
            found[name] = MachineNeeds(binds=shown, units=(UNIT,), revision=_unit(*_listens(lab, name)))
        return found

    def prepare(self, lab: Lab) -> None:
        """The engine and the files; the small model is trained when the site states it and it is not there yet."""
        if not self.needs(lab):
            return
        (_folder(lab) / "files").mkdir(mode=0o755, parents=True, exist_ok=True)
        if any(name in lab.machines for name, _ in _programs(lab.plan)):
            _bring_engine(lab)
        wanted = _files(lab)
        for file in wanted:
            _place(_known(lab, file), _folder(lab) / "files" / file.path)
        _clear(_folder(lab) / "files", {_folder(lab) / "files" / file.path for file in wanted})

    def provision(self, lab: Lab, machine: Machine) -> None:
        """The server's unit."""
        if any(file.machine == machine.name for file in _files(lab)):
            machine.write(f"/etc/systemd/system/{UNIT}", _unit(*_listens(lab, machine.name)))

    def ready(self, lab: Lab, machine: Machine) -> str | None:
        """Whether the files can be fetched; a Pi serves once it is converged."""
        if not any(file.machine == machine.name for file in _files(lab)):
            return None
        try:
            machine.connect(*_listens(lab, machine.name), timeout=2.0).close()
        except OSError:
            return "the models' server"
        return None

    def forwards(self, lab: Lab) -> Sequence[Forward]:  # noqa: ARG002 - the Protocol's
        """None: the Pis ask from within."""
        return ()

    def endpoints(self, lab: Lab) -> Mapping[str, JsonValue]:
        """Where each machine serves files."""
        listening = {machine: _listens(lab, machine) for machine in sorted({file.machine for file in _files(lab)})}
        urls: dict[str, JsonValue] = {name: f"http://{host}:{port}/" for name, (host, port) in listening.items()}
        return {"models": urls} if urls else {}


def _folder(lab: Lab) -> Path:
    return lab.state / "models"


def _programs(plan: Plan) -> Iterator[tuple[str, str]]:
    """Every host that starts llama.cpp's server, and where it lies there."""
    for host in plan.hosts:
        stated = host.concerns.get(edge_units.NAME)
        program = edge_runtime.llama_program(stated) if stated is not None else None
        if program is not None:
            yield host.name, program


def _files(lab: Lab) -> list[_File]:
    """What the plan fetches from machines of the lab, by plain HTTP."""
    addresses = {
        name: (node.name, node.address or "")
        for node in lab.topology.nodes
        for name in (node.name, *(address.partition("/")[0] for port in node.ports for address in port.addresses))
    }
    found: dict[_File, None] = {}
    for name, stated in _fetched(lab.plan):
        url = urlsplit(stated["url"])
        machine, own = addresses.get(url.hostname or "", ("", ""))
        if url.scheme == "http" and machine:
            path = PurePosixPath(unquote(url.path).lstrip("/"))
            address = own if url.hostname == machine else str(url.hostname)
            found[_File(name, machine, address, url.port or 80, path, stated["sha256"])] = None
    return list(found)


def _fetched(plan: Plan) -> Iterator[tuple[str, dict[str, str]]]:
    """Every model that a Pi or a pod fetches, by name, with what it is told of it."""
    for host in plan.hosts:
        for file in host.concerns[model_store.NAME].files if model_store.NAME in host.concerns else ():
            if file.path == model_store.CONFIG_FILE:
                yield from json.loads(file.content)["models"].items()
    for release in pool_releases(plan.cluster) if plan.cluster is not None else ():
        yield from model_settings(release).items()


def _listens(lab: Lab, machine: str) -> tuple[str, int]:
    """Where the server on *machine* listens; `LabError` when the site file names more than one place there."""
    places = dict.fromkeys((file.address, file.port) for file in _files(lab) if file.machine == machine)
    if len(places) > 1:
        named = ", ".join(f"{address}:{port}" for address, port in places)
        raise LabError(f"{machine} serves models at one address and port of the lab; the site file names {named}")
    return next(iter(places))


def _bring_engine(lab: Lab) -> None:
    """Have the link ``engine`` lead to the folder with program, libraries and loader side by side."""
    try:
        obtain((_TOOL,), lab.say)
    except ProgramMissingError as error:
        raise LabError(str(error)) from error
    program = (lab.cache / "bin" / _TOOL).resolve()
    folder = program.parent.parent
    if not (folder / "lib" / _TOOL / _TOOL).is_file():
        raise LabError(
            f"{program} is for this machine's own libraries and cannot run in the lab's; take it off PATH and run tools/obtain.py {_TOOL}"
        )
    link = _folder(lab) / "engine"
    if not link.is_symlink() or link.readlink() != folder:
        new = link.with_name(".engine.new")
        new.unlink(missing_ok=True)
        new.symlink_to(folder)
        new.replace(link)


def _known(lab: Lab, file: _File) -> Path:
    """The file of the cache that has the stated digest. `LabError` when there is none, even after training."""
    found = _in_cache(lab.cache, file.sha256)
    if found is None:
        lab.say("the small model is being trained, about 3 min; once")
        try:
            artefacts.obtain(lab.cache)
        except artefacts.ModelError as error:
            raise LabError(str(error)) from error
        found = _in_cache(lab.cache, file.sha256)
    if found is None:
        raise LabError(
            f"model {file.model}: no file with SHA-256 {file.sha256} in {lab.cache / 'models'}; `python -m pinion.lab.models --json` says"
            " what the lab can serve, and `pinion artefact sign` what the site file must say of it"
        )
    return found


def _in_cache(cache: Path, sha256: str) -> Path | None:
    for manifest in sorted((cache / "models").glob("*/manifest.json")):
        made = artefacts.Artefacts(manifest.parent)
        files = made.manifest["files"]
        if artefacts.intact(made) and isinstance(files, dict):
            for name, facts in files.items():
                if facts["sha256"] == sha256:
                    return manifest.parent / str(name)
    return None


def _place(source: Path, target: Path) -> None:
    """Copy *source* to *target* by rename, readable by whoever serves it."""
    if target.is_file() and filecmp.cmp(source, target, shallow=False):
        return
    target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    with os.fdopen(handle, "wb") as stream, source.open("rb") as content:
        os.fchmod(stream.fileno(), 0o644)
        shutil.copyfileobj(content, stream)
    Path(temporary).replace(target)


def _clear(folder: Path, wanted: set[Path]) -> None:
    """Delete what nobody states any more, and what a killed run left."""
    for path in [path for path in folder.rglob("*") if path.is_file() and path not in wanted]:
        path.unlink()


def _unit(address: str, port: int) -> str:
    """Python's own server of static files: every machine has it, and a file of 2 MB needs nothing that it cannot do."""
    return f"""\
# Kept by Pinion (part models of the lab).
[Unit]
Description=Models for the Pis, as files
StartLimitIntervalSec=0

[Service]
ExecStart=/usr/bin/python3 -I -m http.server --bind {address} --directory {FOLDER} {port}
# The address may come after it.
Restart=always
RestartSec=1
# systemd.exec(5): a user of its own that owns no file, and with it ProtectSystem=strict, PrivateTmp and NoNewPrivileges.
DynamicUser=yes
ProtectHome=yes
PrivateDevices=yes
ProtectProc=invisible
ProtectClock=yes
ProtectHostname=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
AmbientCapabilities={"CAP_NET_BIND_SERVICE" if port < 1024 else ""}
CapabilityBoundingSet={"CAP_NET_BIND_SERVICE" if port < 1024 else ""}
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
MemoryMax=128M
TasksMax=64

[Install]
WantedBy=multi-user.target
"""
