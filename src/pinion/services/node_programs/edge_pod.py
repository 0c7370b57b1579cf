#!/usr/bin/python3 -I
"""The edge runtime as a static pod of this node: edge-pod place | remove [--check]. The pod is in /etc/pinion/edge-pod.json (--config).

* ``place``: have the kubelet run it, with the digest of the model in use on it; folders of the host that this one has not are left out;
* ``remove``: have the kubelet end it, and wait until nobody listens on its port any more.

With --check nothing is changed. Exit: 0 it is so (or was made so), 1 it is not, 2 could not work.
"""

from __future__ import annotations

import argparse
import ipaddress
import json
import sys
import time
from pathlib import Path
from typing import Any

CONFIG = "/etc/pinion/edge-pod.json"
#: Seconds that the kubelet has to see that the file is gone and to end the pod, whose own time to end is 10 s.
PATIENCE, PAUSE = 40.0, 0.25
#: The annotation with the digest of the model that the pod was started with.
MODEL = "pinion/model"
#: Linux include/net/tcp_states.h, as /proc/net/tcp has it.
LISTENING = "0A"


def manifest(config: dict[str, Any]) -> str:
    """The pod as the kubelet is to read it."""
    pod = config["pod"]
    absent = {name for name, path in config["if_there"].items() if not Path(path).is_dir()}
    spec = pod["spec"]
    spec["volumes"] = [volume for volume in spec["volumes"] if volume["name"] not in absent]
    for container in spec["containers"]:
        container["volumeMounts"] = [mount for mount in container["volumeMounts"] if mount["name"] not in absent]
    pod["metadata"].setdefault("annotations", {})[MODEL] = Path(config["model"]).resolve(strict=True).name
    return json.dumps(pod, indent=1) + "\n"


def place(path: Path, text: str) -> bool:
    """Put *text* at *path*, whole; whether that changed anything. The kubelet does not look at files that begin with a dot."""
    if held(path) == text:
        return False
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.new")
    beside.write_text(text)
    beside.replace(path)
    return True


def held(path: Path) -> str | None:
    """What is at *path*."""
    try:
        return path.read_text()
    except FileNotFoundError:
        return None


def listens(address: str, port: int) -> bool:
    """Whether somebody listens there, as the kernel has it (proc(5)): to connect is no question while edge-drain keeps all out."""
    wanted = ipaddress.ip_address(address)
    for name in ("tcp", "tcp6"):
        path = Path("/proc/net", name)
        for line in path.read_text(encoding="ascii").splitlines()[1:] if path.exists() else ():
            _, local, _, state = line.split()[:4]
            where, _, number = local.rpartition(":")
            if state == LISTENING and int(number, 16) == port:
                found = decoded(where)
                if found == wanted or found.is_unspecified:
                    return True
    return False


def decoded(words: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """An address of /proc/net/tcp: words of 32 bits, each in the order of this processor's bytes."""
    raw = b"".join(int(words[at : at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(words), 8))
    found = ipaddress.ip_address(raw)
    return getattr(found, "ipv4_mapped", None) or found


def remove(path: Path, address: str, port: int) -> int:
    """Take the pod away."""
    path.unlink(missing_ok=True)
    deadline = time.monotonic() + PATIENCE
    while listens(address, port):
        if time.monotonic() > deadline:
            print(f"{address}:{port} still answers; does the kubelet run?", file=sys.stderr)
            return 1
        time.sleep(PAUSE)
    return 0


def main(arguments: list[str]) -> int:
    """Run the program."""
    parser = argparse.ArgumentParser(prog="edge-pod", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("command", choices=["place", "remove"])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--config", type=Path, default=Path(CONFIG))
    options = parser.parse_args(arguments)
    try:
        config = json.loads(options.config.read_text())
        path, address, port = Path(config["placed"]), str(config["address"]), int(config["port"])
        if options.command == "remove":
            return int(path.exists()) if options.check else remove(path, address, port)
        text = manifest(config)
        if options.check:
            return int(held(path) != text)
        if place(path, text):
            print(f"placed {path}", flush=True)
    except (OSError, ValueError, KeyError) as error:
        print(f"edge-pod: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
