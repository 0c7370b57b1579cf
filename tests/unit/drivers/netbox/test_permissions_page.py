"""The documented permissions are those that the lab grants and the tests use."""

from __future__ import annotations

import re
from pathlib import Path

from pinion.drivers.netbox.kinds import ADOPTED, MARK, TAG, permissions

PAGE = (Path(__file__).parents[4] / "docs/netbox-permissions.md").read_text()


def test_the_page_lists_exactly_the_permissions() -> None:
    rows = [line.split("|") for line in PAGE.splitlines() if line.strip().startswith("| view")]
    documented = [(row[1].replace(" ", "").split(","), re.findall(r"`([a-z0-9.]+)`", row[2])) for row in rows]
    assert documented == [(one["actions"], one["object_types"]) for one in permissions()]


def test_the_page_names_the_marks() -> None:
    for name in (TAG, MARK, ADOPTED):
        assert f"`{name}`" in PAGE
