"""The uplink as a process of an instance: configured, started, found again, ended."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from pathlib import Path

from pinion.lab import apt, identity, namespaces
from pinion.lab.errors import LabError
from pinion.lab.instance import Lab
from pinion.lab.package_proxy import mirror_map
from pinion.lab.processes import Recorded, end, launch
from pinion.lab.state import InstanceState, write_json
from pinion.lab.uplink import Listener, Proxy, UplinkConfig

_START = 30.0


def uplink_config(lab: Lab) -> UplinkConfig:
    """What the uplink of *lab* serves: the parts' forwards, and the package proxy on the management host."""
    listeners = tuple(
        Listener(
            forward.name,
            lab.forward_port(forward.name),
            lab.store.namespace(forward.machine),
            forward.host,
            forward.port,
        )
        for forward in lab.forwards()
    )
    host = lab.topology.management_host
    if host is None or host.address is None:
        return UplinkConfig(listeners, code=_code())
    namespace = lab.store.namespace(host.name)
    options = apt.machine_options()
    upstream = {
        scheme: options[key]
        for scheme in ("http", "https")
        if (key := f"Acquire::{scheme}::Proxy") in options and options[key] != "DIRECT"
    }
    proxy = Proxy(
        namespace=namespace,
        inode=namespaces.path_of(namespace).stat().st_ino,
        address=host.address,
        port=identity.PROXY_PORT,
        mirrors=mirror_map(apt.machine_mirrors().uris),
        cache=str(lab.cache / "apt"),
        upstream=upstream,
    )
    return UplinkConfig(listeners, proxy, _code())


def _code() -> str:
    """Digest of the uplink's own program: a new version takes a new process."""
    folder = Path(__file__).parent
    return hashlib.sha256(
        b"".join((folder / name).read_bytes() for name in ("uplink.py", "package_proxy.py"))
    ).hexdigest()


def uplink_process(store: InstanceState) -> Recorded | None:
    """The running uplink, or None."""
    recorded = Recorded.read(store.uplink / "process.json")
    return recorded if recorded is not None and recorded.alive() else None


def ensure_uplink(lab: Lab, held: int | None = None) -> int:
    """Have the uplink run with its present configuration; returns 1 when it had to be started.

    *held* as for `processes.launch`. `LabError` when it does not come up.
    """
    store = lab.store
    config = uplink_config(lab)
    ready = store.uplink / "ready"
    wanted = json.dumps(config.as_json(), sort_keys=True)
    if uplink_process(store) is not None and ready.exists() and ready.read_text() == wanted:
        return 0
    stop_uplink(store)
    # a stopped uplink has freed its ports; someone else may hold one of them now
    config = uplink_config(lab)
    wanted = json.dumps(config.as_json(), sort_keys=True)
    path = store.uplink / "config.json"
    write_json(path, config.as_json())
    log = store.uplink / "uplink.log"
    process = launch(
        [sys.executable, "-m", "pinion.lab.uplink", str(path)], record=store.uplink / "process.json", log=log, held=held
    )
    deadline = time.monotonic() + _START
    while not (ready.exists() and ready.read_text() == wanted):
        lab.progress.waits("uplink", "its listeners")
        if not process.alive() or time.monotonic() > deadline:
            raise LabError(
                f"does not listen; the end of {log}:\n" + "\n".join(log.read_text(errors="replace").splitlines()[-5:])
            )
        time.sleep(0.02)
    return 1


def stop_uplink(store: InstanceState) -> bool:
    """End the uplink; whether it ran."""
    process = uplink_process(store)
    if process is not None:
        end(process, patience=5.0)
    for name in ("process.json", "process.json.new", "ready"):
        (store.uplink / name).unlink(missing_ok=True)
    return process is not None
