"""bin/pinion-env: the environment for work by hand."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "bin" / "pinion-env"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with the script alone, and a blank in its name."""
    folder = tmp_path / "a checkout"
    (folder / "bin").mkdir(parents=True)
    shutil.copy(SCRIPT, folder / "bin" / "pinion-env")
    return folder


def run(checkout: Path, *command: str, **variables: str) -> str:
    base = {name: value for name, value in os.environ.items() if not name.startswith(("PULUMI_", "PINION_"))}
    return subprocess.run(
        [str(checkout / "bin" / "pinion-env"), *command],
        env=base | variables,
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    ).stdout


def test_passphrase_is_private_and_stays(checkout: Path) -> None:
    run(checkout, "true")
    file = checkout / ".pulumi-state" / "passphrase"
    first = file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    assert len(first.strip()) >= 40
    run(checkout, "true")
    assert file.read_text() == first
    assert [path.name for path in file.parent.iterdir()] == ["passphrase"]


def test_two_first_runs_agree_on_one_passphrase(checkout: Path) -> None:
    command = [str(checkout / "bin" / "pinion-env"), "sh", "-c", 'cat "$PULUMI_CONFIG_PASSPHRASE_FILE"']
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PULUMI_")}
    runs = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(8)]
    assert len({process.communicate(timeout=30)[0] for process in runs}) == 1


def test_path_is_put_first_once(checkout: Path) -> None:
    inner = run(checkout, str(checkout / "bin" / "pinion-env"), "sh", "-c", "echo $PATH", PINION_CACHE="/tmp/c")
    assert inner.startswith(f"{checkout}/.venv/bin:/tmp/c/bin:")
    assert inner.count("/tmp/c/bin") == 1


def test_what_the_user_set_stays(checkout: Path) -> None:
    shown = run(
        checkout,
        "sh",
        "-c",
        'echo "$PULUMI_BACKEND_URL $PULUMI_CONFIG_PASSPHRASE_FILE"',
        PULUMI_BACKEND_URL="s3://team",
        PULUMI_CONFIG_PASSPHRASE="x",
    )
    assert shown.strip() == "s3://team"
    assert not (checkout / ".pulumi-state").exists()


def test_exports_can_be_evaluated_and_hold_no_secret(checkout: Path) -> None:
    exports = run(checkout)
    shown = subprocess.run(
        ["bash", "-c", f"{exports}\necho $PULUMI_BACKEND_URL"], capture_output=True, text=True, check=True, timeout=30
    ).stdout.strip()
    assert shown == f"file://{checkout}/.pulumi-state"
    assert (checkout / ".pulumi-state" / "passphrase").read_text().strip() not in exports
