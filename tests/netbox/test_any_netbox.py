"""The suite runs against any NetBox that is named to it: here against the tests' own, as if it were somebody's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from netbox.conftest import Server

pytestmark = pytest.mark.netbox


def test_the_suite_runs_against_a_netbox_that_is_named(server: Server, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(f"{server.token}\n")
    chosen = ["tests/netbox/test_contract.py", "-k", "scope_is_written_as_a_pair or template_goes"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", *chosen],
        env={**os.environ, "PINION_TEST_NETBOX": f"{server.url},{token}"},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "1 passed" in done.stdout, "the part that CI_FULL=1 adds runs there, too"
    assert "PINION_TEST_NETBOX_ADMIN" in done.stdout, "what needs the administrator is left out, and said to be"
