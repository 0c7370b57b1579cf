"""How to log in to a switch, and how long to wait for what."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, SecretStr

#: The shortest commit timer that leaves room for a fresh login over a slow link, seconds.
SHORTEST_TIMER = 10


def default_lock_folder() -> Path:
    """``$XDG_STATE_HOME/pinion/switch``, by default below ``~/.local/state``."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "pinion" / "switch"


class SwitchAccess(BaseModel):
    """Where a switch answers SSH and who logs in. Its text never shows a secret. Times are seconds.

    *known_hosts* is an OpenSSH file, checked strictly. *lock_folder* is shared by all runs that must wait for each other.
    *confirm_within* is the switch's commit timer. *wait_for_others* bounds the wait for another run. *attempts* counts tries of what is
    safe to repeat.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: Annotated[str, Field(min_length=1)]
    port: Annotated[int, Field(ge=1, le=65535)] = 22
    username: Annotated[str, Field(min_length=1)]
    password: SecretStr
    enable_password: SecretStr | None = None
    known_hosts: Path
    lock_folder: Path = Field(default_factory=default_lock_folder)
    connect_timeout: Annotated[float, Field(gt=0)] = 10.0
    command_timeout: Annotated[float, Field(gt=0)] = 30.0
    confirm_within: Annotated[int, Field(ge=SHORTEST_TIMER, le=3600)] = 60
    wait_for_others: Annotated[float, Field(ge=0)] = 90.0
    attempts: Annotated[int, Field(ge=1, le=10)] = 3
