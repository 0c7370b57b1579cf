"""What a lab switch is given before its first start: settings, users, and a start-up configuration as a technician leaves it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace

from pinion.lab.switch.nos.config import Address, factory
from pinion.lab.switch.nos.loading import load
from pinion.lab.switch.nos.status import IN_STEP
from pinion.lab.switch.nos.text import render
from pinion.lab.switch.nos.users import document

__all__ = ["IN_STEP", "USER", "settings", "startup_config", "users"]

#: The user that Pinion logs in with.
USER = "pinion"


def settings(
    *,
    ports: Sequence[str],
    management: str,
    flash: str,
    run: str,
    users: str,
    host_key: str,
    data_plane: str,
    everywhere: bool,
    port: int,
) -> str:
    """The settings file; the fields are those of `pinion.lab.switch.nos.__main__.Settings`."""
    content = {
        "ports": list(ports),
        "management": management,
        "flash": flash,
        "run": run,
        "users": users,
        "host_key": host_key,
        "data_plane": data_plane,
        "everywhere": everywhere,
        "port": port,
    }
    return json.dumps(content, indent=2) + "\n"


def users(password: str, enable: str | None = None) -> str:
    """The users file: `USER` with *password*, hashed."""
    return document({USER: password}, enable)


def startup_config(
    hostname: str, ports: Iterable[str], management: str, addresses: Iterable[str], saved: str | None = None
) -> str:
    """A switch that can be logged in to: host name and management address given, as a technician leaves it at its console.

    Without *saved* it carries nothing: every port is shut and there is no VLAN. With it, all else stays as saved; ports that it does not
    know are shut.
    """
    base = factory(ports, management)
    config = base if saved is None else load(saved, base)[0]
    for name, port in base.ethernets.items():
        if saved is None or f"interface {name}\n" not in saved:
            config = config.with_interface(replace(port, shutdown=True))
    given = tuple(Address(address) for address in addresses)
    config = config.with_interface(replace(config.managements[management], addresses=given, shutdown=False))
    return render(replace(config, hostname=hostname))
