"""Where a site's authority lies on the operator's machine, and what is said when it does not."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

#: The environment variable that names the folder with an authority a site.
VARIABLE = "PINION_AUTHORITY"


class AuthorityError(Exception):
    """The operator's machine cannot do it; the text says what to do."""


def folder_of(site: str, variables: Mapping[str, str]) -> Path:
    """Where the authority of *site* lies: in ``PINION_AUTHORITY``, else in the user's own data (XDG Base Directory Specification)."""
    if stated := variables.get(VARIABLE):
        return Path(stated) / site
    data = variables.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(data) / "pinion" / "authority" / site
