"""What every pulumi command is given. Apart from the stack itself, since that imports Pulumi and many a command needs only this."""

from __future__ import annotations

import os
from pathlib import Path


class StackError(Exception):
    """The stack could not be prepared or brought up; the text says why and what to do."""


def environment(root: Path) -> dict[str, str]:
    """The environment of every pulumi command. `bin/pinion-env` is where backend, passphrase file and PATH are decided.

    Raises `StackError` when it was not used and the user has set no backend either.
    """
    if "PULUMI_BACKEND_URL" not in os.environ:
        raise StackError(
            "PULUMI_BACKEND_URL is not set; run this through bin/pinion-env, or set it and a passphrase yourself"
        )
    return {**os.environ, "PINION_ROOT": str(root)}
