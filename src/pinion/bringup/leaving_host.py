"""The host of a node that leaves, over SSH: its certificate, what it holds, and the wipe."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Mapping
from importlib import resources

from pydantic import BaseModel, ConfigDict

from pinion.bringup.host_shell import HostRefusedError, Run, on
from pinion.drivers.hosts.inventory import Login
from pinion.plan.concerns.identity import FOLDER
from pinion.plan.leaving import Behind
from pinion.plan.model import HostPlan

_ASK_SECONDS = 40
#: Overwriting is bounded by what concerns may keep: keys and notes. Removing gigabytes of models from an SD card takes longest.
_WIPE_SECONDS = 900
_NO_CERTIFICATE = "none"
_CERTIFICATE = f"{FOLDER}/current/cert.pem"
#: One root shell, so that a refused sudo is an error and not taken for a host without a certificate.
_SERIAL = "sudo -n sh -c " + shlex.quote(
    f"if test -e {_CERTIFICATE}; then openssl x509 -noout -serial -in {_CERTIFICATE}; else echo {_NO_CERTIFICATE}; fi"
)


class Counted(BaseModel):
    """One folder or file, and what it holds. *overwritten*: with random bytes, before it was removed."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    path: str
    files: int
    bytes: int
    overwritten: bool = False


class Wiped(BaseModel):
    """What was wiped (or, before that, what is there). *trimmed* says for each filesystem what came of ``fstrim``."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    stopped: tuple[str, ...] = ()
    wiped: tuple[Counted, ...] = ()
    there: tuple[Counted, ...] = ()
    trimmed: Mapping[str, str] = {}
    media: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


def serial(host: HostPlan, access: Login, run: Run = subprocess.run) -> int | None:
    """The serial number of the certificate that *host* uses; None when it has none. Raises `UnreachedError`, `HostRefusedError`."""
    said = on(host, access, _SERIAL, "", _ASK_SECONDS, run).strip()
    if said == _NO_CERTIFICATE:
        return None
    try:
        return int(said.removeprefix("serial="), 16)
    except ValueError:
        raise HostRefusedError(f"{host.name} cannot say which certificate it has: {said[:200]!r}") from None


def look(host: HostPlan, left: Behind, access: Login, run: Run = subprocess.run) -> Wiped:
    """What a wipe would find on *host*. Raises `UnreachedError`, `HostRefusedError`."""
    return _program(host, left, access, run, "--check")


def wipe(host: HostPlan, left: Behind, access: Login, run: Run = subprocess.run) -> Wiped:
    """Wipe what *left* names on *host*. What could not be wiped is in `Wiped.failed`. Raises `UnreachedError`, `HostRefusedError`."""
    return _program(host, left, access, run)


def _program(host: HostPlan, left: Behind, access: Login, run: Run, *options: str) -> Wiped:
    program = (resources.files("pinion.services.node_programs") / "wipe.py").read_text(encoding="utf-8")
    command = f"sudo -n -H /usr/bin/python3 -I -B - {shlex.join([*options, left.model_dump_json()])}"
    said = on(host, access, command, program, _WIPE_SECONDS, run, fine=(0, 2))
    try:
        return Wiped.model_validate(json.loads(said))
    except ValueError:
        raise HostRefusedError(f"{host.name}: the wipe ended without an answer: {said[-300:]!r}") from None
