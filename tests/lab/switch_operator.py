"""Run at the operator's network position: a verb of the switch driver, or lines said to the switch's command line. Prints JSON, or text."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import paramiko
from pydantic import SecretStr

from pinion.drivers.switch import SwitchAccess, SwitchDiff, SwitchError, SwitchState, open_driver
from pinion.plan import plan
from pinion.site.loader import load


def main(site: Path, verb: str, *lines: str) -> None:
    """Do *verb* for the first switch of *site*."""
    switch = plan(load(site)).switches[0]
    endpoints = Path(os.environ["PINION_ENDPOINTS"])
    told = json.loads(endpoints.read_text())["switches"][switch.name]
    password = Path(told["password_file"]).read_text().strip()
    if verb == "say":
        client = paramiko.SSHClient()
        client.load_host_keys(told["known_hosts"])
        client.connect(
            told["host"], told["port"], told["user"], password, look_for_keys=False, allow_agent=False, timeout=10
        )
        print(client.exec_command("\n".join(("enable", *lines)), timeout=10)[1].read().decode())
        client.close()
        return
    access = SwitchAccess(
        host=told["host"],
        port=told["port"],
        username=told["user"],
        password=SecretStr(password),
        known_hosts=Path(told["known_hosts"]),
        lock_folder=endpoints.parent / "locks",
    )
    if verb == "shut-out":
        elsewhere = switch.model_copy(update={"ssh_sources": ("192.0.2.0/24",)})
        hasty = access.model_copy(update={"confirm_within": 20, "connect_timeout": 3.0, "command_timeout": 3.0})
        try:
            open_driver(switch.driver, switch.name, hasty).apply(elsewhere)
        except SwitchError as error:
            print(json.dumps({type(error).__name__: str(error)}))
        return
    driver = open_driver(switch.driver, switch.name, access)
    verbs = {"read": driver.read, "diff": lambda: driver.diff(switch), "apply": lambda: driver.apply(switch)}
    found: SwitchState | SwitchDiff = verbs[verb]() if verb in verbs else driver.undo(switch)
    shown = found.model_dump(mode="json")
    if isinstance(found, SwitchDiff):
        shown["changes"] = [str(change) for change in found.changes]
    print(json.dumps(shown))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
