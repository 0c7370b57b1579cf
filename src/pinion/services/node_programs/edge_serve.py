#!/usr/bin/python3 -IS
"""Start the edge runtime: edge-serve [--usable MODEL] [--answers URL] COMMAND [ARGUMENT...].

COMMAND takes this program's place. --usable: but only when MODEL, a link of model-store, is the file that it checked last. --answers: a
process beside it tells systemd that the unit has started (Type=notify, NotifyAccess=all) once URL answers. One program for all of it, and
little loaded: systemd fences in each that it starts anew, and a board's start is short of processor time. Exit: COMMAND's, 1 MODEL is not
usable, 2 could not start it.
"""

from __future__ import annotations

import os
import sys
import time

#: Seconds that an answer may take, and seconds between two questions.
PATIENCE, PAUSE = 5.0, 0.1
OPTIONS = ("--usable", "--answers")


def unusable(model: str) -> str | None:
    """None when *model* is as model-store noted it (length, times and number of the file) when its digest was right, else why not."""
    try:
        place = os.path.realpath(model, strict=True)
        files, name = os.path.split(place)
        store, _ = os.path.split(files)
        # Not by pathlib, which loads longer than this runs.
        checked, _ = look(f"{store}/.seen/{name}")
        _, facts = look(place)
    except OSError as error:
        return f"was not checked: {error}"
    # A list of numbers, in JSON's words and in Python's.
    now = str([facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino])
    return None if checked == now.encode() else "is not as it was checked"


def look(path: str) -> tuple[bytes, os.stat_result]:
    """The beginning of the file *path*, and what the system knows of it."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, 200), os.fstat(descriptor)
    finally:
        os.close(descriptor)


def announce(url: str) -> None:
    """Tell systemd from a process of its own, once *url* answers. It ends with the unit."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    # A child of the engine's would stay as a zombie: engines do not wait for children that they did not start.
    if os.fork():
        os._exit(0)
    try:
        while not answers(url):
            time.sleep(PAUSE)
        os.execv("/usr/bin/systemd-notify", ["systemd-notify", "--ready"])
    finally:
        os._exit(2)


def answers(url: str) -> bool:
    """Whether *url* (http://HOST:PORT/PATH) answers with 200."""
    # Loaded beside the engine, not before it.
    from http.client import HTTPConnection, HTTPException

    _, _, place = url.partition("://")
    server, _, path = place.partition("/")
    asked = HTTPConnection(server, timeout=PATIENCE)
    try:
        asked.request("GET", f"/{path}")
        return asked.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        asked.close()


def main(arguments: list[str]) -> int:
    """Run the program. Options are read by hand: argparse takes as long to load as all else here."""
    told = {}
    while len(arguments) > 2 and arguments[0] in OPTIONS:
        told[arguments[0]], arguments = arguments[1], arguments[2:]
    if not arguments or arguments[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    model, url = (told.get(option) for option in OPTIONS)
    if model is not None and (why := unusable(model)) is not None:
        print(f"edge-serve: {model} {why}", file=sys.stderr)
        return 1
    try:
        if url is not None and "NOTIFY_SOCKET" in os.environ:
            announce(url)
        os.execv(arguments[0], arguments)
    except OSError as error:
        print(f"edge-serve: {arguments[0]}: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
