"""What the Tab key completes, asked as bash asks; and what `pinion explain` says of a code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PINION = Path(sys.executable).parent / "pinion"


def completed(words: str, folder: Path | None = None) -> list[str]:
    """What bash would offer for the last of *words*, which begin with `pinion`."""
    asks = (
        f'source <("{PINION}" completion bash); COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); '
        f'_pinion_completion "{PINION}" 2>&1; printf "%s\\n" "${{COMPREPLY[@]}}"'
    )
    # in place of readline, which is told where file names are wanted
    done = subprocess.run(
        ["bash", "-c", f"compopt() {{ :; }}; {asks}"], capture_output=True, text=True, check=True, cwd=folder
    )
    assert not done.stderr, done.stderr
    return done.stdout.split()


def pinion(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PINION, *words], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("pinion conv", ["converge"]),
        ("pinion fabric ex", ["explain"]),
        ("pinion verify --js", ["--json"]),
        ("pinion converge dc-r", ["dc-rack-12"]),
        ("pinion site check lab dc-", ["dc-rack-12"]),
        ("pinion site check inventories/l", []),
        ("pinion decommission lab nv", ["nv-1"]),
        ("pinion decommission no-such-site nv", []),
        ("pinion explain net-02", ["NET-020", "NET-021"]),
    ],
)
def test_what_bash_offers(words: str, offered: list[str]) -> None:
    found = completed(words)
    assert found[: len(offered)] == offered
    assert found or not offered


def test_a_deleted_folder_completes_to_nothing(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    done = subprocess.run(
        ["bash", "-c", f"cd {gone} && rmdir {gone} && COMP_WORDS='pinion verify la' COMP_CWORD=2 _PINION_COMPLETE=bash_complete {PINION}"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.stdout.strip(), done.stderr) == ("", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_a_shells(shell: str) -> None:
    done = pinion("completion", shell)
    assert done.returncode == 0
    assert "_PINION_COMPLETE" in done.stdout
    assert json.loads(pinion("completion", shell, "--json").stdout)["script"] in done.stdout


def test_no_shell_is_named() -> None:
    done = subprocess.run([PINION, "completion"], capture_output=True, text=True, check=False, env={"SHELL": "/bin/sh"})
    assert done.returncode == 2
    assert done.stderr == "Error: $SHELL names none of bash, zsh, fish; say which: pinion completion bash\n"


def test_a_code_is_explained() -> None:
    done = pinion("explain", "net-021")
    assert done.returncode == 0
    assert done.stdout.startswith("NET-021 Gateway outside the prefix (Networks)\n    says: ")
    (kind,) = json.loads(pinion("explain", "NET-021", "--json").stdout)
    assert kind["fix"] in done.stdout


def test_braces_of_the_file_are_shown_as_they_are_written() -> None:
    assert "kubernetes: {control_plane: {host}}\n" in pinion("explain", "K8S-006").stdout


def test_words_find_their_codes() -> None:
    found = [kind["code"] for kind in json.loads(pinion("explain", "gateway prefix", "--json").stdout)]
    assert "NET-021" in found
    assert "FILE-001" not in found
    done = pinion("explain", "no such words")
    assert (done.returncode, done.stdout) == (2, "")
    assert "docs/reference/errors.md" in done.stderr
