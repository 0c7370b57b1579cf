"""The Pulumi stack of a site: its configuration, stale locks of a killed run, and one `up` with progress.

Invariants:

* Secrets reach `pulumi config set` on standard input, never as an argument.
* A lock is removed only when the process that took it on this machine is known to be gone; a living run is never robbed of its lock.
"""

from __future__ import annotations

import json
import shlex
import socket
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from pulumi.automation import EngineEvent, LocalWorkspaceOptions, create_or_select_stack
from pulumi.automation.errors import CommandError

from pinion.bringup.former_state import brought_up_to_date
from pinion.bringup.stack_environment import StackError, environment

#: Properties of one resource that are named; there may be hundreds.
_SHOWN = 4
#: Operations that change nothing outside of the state.
_NO_CHANGE = frozenset({"same", "read", "refresh"})


@dataclass(frozen=True, slots=True)
class StackSettings:
    """What a stack must know beyond the site file: configuration key to (value, is it a secret)."""

    values: Mapping[str, tuple[str, bool]]


@dataclass(frozen=True, slots=True)
class Foreseen:
    """One resource that an update would change.

    *operation* is Pulumi's (``create``, ``update``, ``delete`` …), *paths* are the properties that differ.
    """

    kind: str
    name: str
    operation: str
    paths: tuple[str, ...] = ()

    def __str__(self) -> str:
        which = f": {', '.join(self.paths[:_SHOWN])}{' …' if len(self.paths) > _SHOWN else ''}" if self.paths else ""
        return f"{self.operation} {self.name} ({self.kind}){which}"


@dataclass(slots=True)
class StackResult:
    """What an update did: operation (``create``, ``update``, ``same`` …) to the number of resources.

    *awaited*: planned nodes that the cluster does not have yet; an update after they have joined gives them their labels and taints.
    *unfinished*: operations of a killed run whose resource is no longer in the stack, so that nobody knows whether it exists.
    """

    changes: dict[str, int] = field(default_factory=dict)
    touched: list[str] = field(default_factory=list)
    awaited: list[str] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)

    @property
    def changed(self) -> int:
        """How many resources were not left as they were."""
        return sum(count for operation, count in self.changes.items() if operation != "same")


def settings_from_endpoints(endpoints: Mapping[str, Any]) -> StackSettings:
    """Stack configuration from an `endpoints.json`: where NetBox, switches and cluster are, and which files hold the credentials."""
    values: dict[str, tuple[str, bool]] = {}
    if netbox := endpoints.get("netbox"):
        values["netbox:url"] = (netbox["url"], False)
        values["netbox:token"] = (Path(netbox["token_file"]).read_text().strip(), True)
        if netbox.get("ca_file"):
            values["netbox:caFile"] = (netbox["ca_file"], False)
    for switch in list((endpoints.get("switches") or {}).values())[:1]:
        values["switch:username"] = (switch["user"], False)
        values["switch:password"] = (Path(switch["password_file"]).read_text().strip(), True)
        if switch.get("known_hosts"):
            values["switch:knownHosts"] = (switch["known_hosts"], False)
    if cluster := endpoints.get("kubernetes"):
        values["kubernetes:kubeconfig"] = (cluster["kubeconfig"], False)
        if cluster.get("plugin"):
            values["pinion:kubernetesPlugin"] = (cluster["plugin"], False)
    return StackSettings(values=values)


def pulumi(root: Path, arguments: list[str], given: str | None = None) -> str:
    """What pulumi says to *arguments* in *root*, with *given* on its standard input. Raises `StackError` with its words when it refuses."""
    run = subprocess.run(
        ["pulumi", "--non-interactive", *arguments],
        cwd=root,
        env=environment(root),
        input=given if given is not None else "",
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode != 0:
        raise StackError(f"pulumi {arguments[0]}: {run.stderr.strip() or run.stdout.strip()}")
    return run.stdout


def prepare(root: Path, site: str, settings: StackSettings) -> int:
    """Create the stack when it is missing, bring the state of one of a former release up to date, and its configuration to *settings*;
    returns how many values changed.

    Raises `StackError` when pulumi refuses.
    """
    known = {stack["name"] for stack in json.loads(pulumi(root, ["stack", "ls", "--json"]) or "[]")}
    if site not in known:
        pulumi(root, ["stack", "init", site])
    else:
        exported = json.loads(pulumi(root, ["stack", "export", "--stack", site]))
        if (deployment := brought_up_to_date(exported.get("deployment") or {}, site)) is not None:
            pulumi(root, ["stack", "import", "--stack", site], given=json.dumps({**exported, "deployment": deployment}))
    present = json.loads(pulumi(root, ["config", "--stack", site, "--show-secrets", "--json"]) or "{}")
    changed = 0
    for key, (value, secret) in settings.values.items():
        held = present.get(key)
        if held is not None and held.get("value") == value and held.get("secret", False) == secret:
            continue
        pulumi(root, ["config", "set", "--stack", site, "--secret" if secret else "--plaintext", key], given=value)
        changed += 1
    return changed


@dataclass(frozen=True, slots=True)
class Locks:
    """What was found of a stack's locks: in words those that were *removed*, and those that stay since nobody can tell whose they are."""

    removed: tuple[str, ...] = ()
    unclear: tuple[str, ...] = ()


def remove_stale_locks(root: Path, site: str) -> Locks:
    """Delete the locks of runs on this machine whose process is gone. Only the file backend has such locks.

    A lock that cannot be read, or that does not say which process of which machine holds it, may be a living run's, and stays.
    """
    url = environment(root)["PULUMI_BACKEND_URL"]
    if not url.startswith("file://"):
        return Locks()
    folder = Path(url.removeprefix("file://")).expanduser() / f".pulumi/locks/organization/pinion/{site}"
    removed, unclear = [], []
    for path in sorted(folder.glob("*.json")):
        try:
            holder = _holder(path)
        except FileNotFoundError:
            continue  # its run has just ended
        except (OSError, ValueError) as error:
            unclear.append(
                f"{path} does not say who holds it ({error}). If nobody is at work on stack {site}: rm {shlex.quote(str(path))}"
            )
            continue
        if holder.host == socket.gethostname() and not psutil.pid_exists(holder.pid):
            path.unlink(missing_ok=True)
            removed.append(f"lock of process {holder.pid}, which is gone")
    return Locks(tuple(removed), tuple(unclear))


class _Holder(NamedTuple):
    host: str
    pid: int


def _holder(path: Path) -> _Holder:
    """Who holds the lock at *path*. Raises `OSError`, and `ValueError` saying what is wrong with it."""
    text = path.read_text(encoding="utf-8", errors="replace")
    if not text.strip():
        raise ValueError("it is empty")
    try:
        lock = json.loads(text)
    except ValueError:
        raise ValueError("it is no JSON") from None
    host, pid = (lock.get("hostname"), lock.get("pid")) if isinstance(lock, dict) else (None, None)
    if not isinstance(host, str) or not host:
        raise ValueError("it names no machine")
    if not isinstance(pid, int) or isinstance(pid, bool) or pid <= 0:
        raise ValueError("it names no process")
    return _Holder(host, pid)


def preview(root: Path, site: str) -> tuple[Foreseen, ...]:
    """What `pulumi up` would change now, after a look at the world; nothing is touched.

    Raises `StackError` when pulumi cannot tell.
    """
    run = subprocess.run(
        ["pulumi", "--non-interactive", "preview", "--stack", site, "--refresh", "--json"],
        cwd=root,
        env=environment(root),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        said = json.loads(run.stdout[max(run.stdout.find("{"), 0) :])
    except ValueError:
        said = {}
    if run.returncode != 0:
        reasons = [
            entry["message"].strip() for entry in said.get("diagnostics", []) if entry.get("severity") == "error"
        ]
        told = "\n".join(dict.fromkeys(reasons)) or run.stderr.strip() or run.stdout.strip()
        raise StackError(f"pulumi preview of stack {site} failed:\n{told}")
    return tuple(
        Foreseen(
            step["urn"].split("::")[2].rpartition("$")[2],
            step["urn"].rpartition("::")[2],
            step["op"],
            tuple(step.get("detailedDiff") or ()),
        )
        for step in said.get("steps", [])
        if step["op"] not in _NO_CHANGE
    )


def up(
    root: Path, site: str, *, refresh: bool, progress: Callable[[str], None], parallel: int | None = None
) -> StackResult:
    """Run `pulumi up` for *site*, telling *progress* of each resource that changes, and of what one takes its time for.

    Raises `StackError` with the engine's diagnostics when the update fails; what succeeded is in the state.
    """
    result = StackResult()
    diagnostics: list[str] = []
    under_way: dict[str, str] = {}

    def on_event(event: EngineEvent) -> None:
        if event.res_outputs_event is not None and str(event.res_outputs_event.metadata.op.value) not in {
            "same",
            "read",
            "refresh",
        }:
            metadata = event.res_outputs_event.metadata
            label = f"{metadata.op.value} {metadata.urn.rpartition('::')[2]} ({metadata.type})"
            result.touched.append(label)
            progress(label)
        elif event.diagnostic_event is not None and event.diagnostic_event.severity == "error":
            diagnostics.append(event.diagnostic_event.message.strip())
        elif event.diagnostic_event is not None and event.diagnostic_event.ephemeral and event.diagnostic_event.urn:
            urn, message = event.diagnostic_event.urn, event.diagnostic_event.message.strip()
            if under_way.get(urn) != message:
                under_way[urn] = message
                progress(f"{urn.rpartition('::')[2]} {message}")
        elif event.summary_event is not None:
            result.changes = {
                str(getattr(op, "value", op)): count for op, count in event.summary_event.resource_changes.items()
            }

    workspace = LocalWorkspaceOptions(work_dir=str(root), env_vars=environment(root))
    try:
        done = create_or_select_stack(site, work_dir=str(root), opts=workspace).up(
            on_event=on_event, refresh=refresh, parallel=parallel, suppress_outputs=True, color="never"
        )
    except CommandError as error:
        reasons = "\n".join(dict.fromkeys(line for line in diagnostics if line)) or str(error)
        raise StackError(f"pulumi up of stack {site} failed:\n{reasons}") from None
    result.awaited = list(done.outputs["awaited"].value) if "awaited" in done.outputs else []
    result.unfinished = _settle(root, site)
    return result


def _settle(root: Path, site: str) -> list[str]:
    """After an update that went well: forget the operations of a killed run which it has made good; returns the others.

    The engine would warn of them until somebody refreshes by hand. One whose resource is no longer in the stack may have made something
    that nothing knows of: while there is such a one, all stay, since an import forgets all of them.
    """
    exported = json.loads(pulumi(root, ["stack", "export", "--stack", site]))
    pending = exported["deployment"].get("pending_operations") or []
    present = {resource["urn"] for resource in exported["deployment"].get("resources") or []}
    unfinished = [operation for operation in pending if operation["resource"]["urn"] not in present]
    if pending and not unfinished:
        pulumi(root, ["stack", "import", "--stack", site], given=json.dumps(exported))
    return [f"{operation['type']} {operation['resource']['urn'].rpartition('::')[2]}" for operation in unfinished]
