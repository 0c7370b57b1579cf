"""`pinion reboot` where the site has a cluster and the stack does not say how to reach it: what goes without, and what does not."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pinion.cli import main


@pytest.fixture(autouse=True)
def hosts_without_a_stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts that answer every login with their boot, and wait for no reboot."""
    program = tmp_path / "ssh"
    program.write_text("#!/bin/sh\nprintf 'b1f5\\n77\\n[]\\n'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.delenv("PULUMI_BACKEND_URL", raising=False)


def run(*words: str) -> Result:
    return CliRunner().invoke(main, ["reboot", "lab", *words])


def test_who_only_asks_or_drains_nothing_needs_no_cluster() -> None:
    for words in (["--check"], ["--no-drain", "--yes"]):
        result = run(*words)
        assert result.exit_code == 0, result.output
        assert "nothing waits for a reboot" in result.output


def test_who_drains_needs_it() -> None:
    result = run("--yes")
    assert result.exit_code == 2
    assert "PULUMI_BACKEND_URL" in result.output
