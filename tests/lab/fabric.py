"""Configure the switches of a site as `pulumi up` would, without Pulumi: run in the operator's position with the site file as argument."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from pydantic import SecretStr

from pinion.drivers.hosts.inventory import plan_of
from pinion.drivers.switch import SwitchAccess, open_driver


def main() -> None:
    """Apply the plan of every switch."""
    endpoints = json.loads(Path(os.environ["PINION_ENDPOINTS"]).read_text())
    for switch in plan_of(Path(sys.argv[1])).switches:
        told = endpoints["switches"][switch.name]
        access = SwitchAccess(
            host=told["host"],
            port=told["port"],
            username=told["user"],
            password=SecretStr(Path(told["password_file"]).read_text().strip()),
            known_hosts=Path(told["known_hosts"]),
            lock_folder=Path(os.environ["PINION_ENDPOINTS"]).parent / "locks",
        )
        open_driver(switch.driver, switch.name, access).apply(switch)


if __name__ == "__main__":
    main()
