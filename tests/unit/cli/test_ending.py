"""How the real command ends, as a process, whatever happens: one clear line, its exit code, JSON where it was asked for."""

from __future__ import annotations

import ctypes
import json
import os
import pty
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from pinion.cli import main
from pinion.cli.console import new_console

ROOT = Path(__file__).resolve().parents[3]
TWELVE = ROOT / "tests" / "errors" / "twelve-mistakes" / "site.yml"
PINION = (sys.executable, "-m", "pinion")
#: A name that no file system of Linux takes (NAME_MAX is 255).
LONG = "a" * 300
#: What a terminal would obey: its title, colours, a cleared screen.
ESCAPES = "\x1b]0;owned\x07\x1b[31m\x1b[2J"
#: Generous: the machine may be busy with anything.
PATIENCE = 120


def run(*words: str, env: Mapping[str, str] | None = None, letters: str = "utf-8") -> subprocess.CompletedProcess[str]:
    """`pinion WORDS…` as a process of its own, which writes in the encoding *letters*."""
    known = {**os.environ, "NO_COLOR": "", "PYTHONIOENCODING": letters, **(env or {})}
    return subprocess.run([*PINION, *words], cwd=ROOT, env=known, capture_output=True, encoding=letters, check=False)


def one_line(said: str) -> str:
    """The one line that *said* is."""
    assert "Traceback" not in said
    (line,) = said.splitlines()
    return line


def leaves(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of every command that is no group."""
    if not isinstance(command, click.Group):
        yield path
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from leaves(found, (*path, name))


#: Every command but those that only start another program.
COMMANDS = [words for words in leaves(main) if words not in {("lab", "exec"), ("lab", "ssh")}]


def test_there_are_commands() -> None:
    assert len(COMMANDS) > 25


# --- what cannot run --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_in_a_deleted_folder_every_command_says_so_in_one_line_and_as_json(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    done = subprocess.run(
        ["sh", "-c", 'rmdir "$PWD" && exec "$@"', "sh", *PINION, *words, "--json"],
        cwd=gone,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "it was deleted" in one_line(done.stderr)
    assert json.loads(done.stdout) == {"error": done.stderr.strip().removeprefix("Error: "), "exit_code": 2}


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_json_is_printed_even_when_the_words_make_no_sense(words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(main, [*words, "--json", "--no-such-option"])
    assert done.exit_code == 2
    assert json.loads(done.stdout)["exit_code"] == 2
    assert "--no-such-option" in json.loads(done.stdout)["error"]


@pytest.mark.parametrize(
    "command", [("site", "check"), ("plan",), ("verify",), ("converge",), ("up",), ("lab", "up", "--site")]
)
def test_a_name_that_no_file_system_takes(command: tuple[str, ...]) -> None:
    done = run(*command, LONG)
    assert done.returncode == 2
    assert "no site of that name" in one_line(done.stderr)
    assert len(done.stderr) < len(LONG)
    told = json.loads(run(*command, LONG, "--json").stdout)
    assert told["exit_code"] == 2
    assert "no site of that name" in told["error"]


def test_a_path_that_no_file_system_takes() -> None:
    done = run("site", "check", f"./{LONG}.yml", "--json")
    assert (done.returncode, done.stderr) == (2, "")
    assert "File name too long" in json.loads(done.stdout)["problems"][0]["message"]


def _without_roots_eyes() -> None:
    """Take from the process that follows what lets root read everything (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH; prctl(2))."""
    if os.geteuid() != 0:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in (1, 2):
        if libc.prctl(24, capability, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_CAPBSET_DROP)")


@pytest.mark.parametrize("written", ["locked", "locked/site.yml"])
@pytest.mark.parametrize("command", [("site", "check"), ("plan",)])
def test_a_folder_that_may_not_be_read(command: tuple[str, ...], written: str, tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir()
    (tmp_path / "locked" / "site.yml").write_text("version: 1\n")
    (tmp_path / "locked").chmod(0)
    try:
        done = subprocess.run(
            [*PINION, *command, written],
            cwd=tmp_path,
            env={**os.environ, "PINION_ROOT": str(ROOT)},
            preexec_fn=_without_roots_eyes,
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        (tmp_path / "locked").chmod(0o700)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "Permission denied" in done.stdout + done.stderr


def test_a_mistake_of_ours_is_told_as_one_and_as_json(tmp_path: Path) -> None:
    broken = "import pinion.cli.plan as p; p.compile_plan = lambda site: 1 / 0; from pinion.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", broken, "plan", "lab", "--json"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "a mistake in Pinion: ZeroDivisionError" in json.loads(done.stdout)["error"]


def test_what_a_command_passes_on_asks_nobody_here_for_json() -> None:
    done = run("lab", "exec", "--site", LONG, "kubectl", "--json")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no site of that name" in one_line(done.stderr)


# --- what cannot be written -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("buffered", ["", "1"])
@pytest.mark.parametrize(
    "words",
    [("site", "check", "lab"), ("site", "check", "lab", "--json"), ("site", "schema"), ("plan", "lab"), ("--help",)],
)
def test_a_full_device(words: tuple[str, ...], buffered: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*PINION, *words],
            cwd=ROOT,
            env={**os.environ, "PYTHONUNBUFFERED": buffered},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert one_line(done.stderr) == "Error: standard output cannot be written: No space left on device"


def test_progress_that_cannot_be_written_stops_nobody() -> None:
    with Path("/dev/full").open("w") as full:
        command = [*PINION, "plan", str(TWELVE)]
        assert subprocess.run(command, cwd=ROOT, stdout=full, stderr=full, check=False).returncode == 1


def test_a_reader_that_went_away() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [*PINION, "plan", "lab", "--json"], cwd=ROOT, stdout=writer, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")


def test_a_terminal_that_knows_few_letters(tmp_path: Path) -> None:
    site = tmp_path / "site.yml"
    site.write_text("version: 1\nsite: Příbram 🌋\n", encoding="utf-8")
    done = run("site", "check", str(site), letters="latin-1")
    assert (done.returncode, done.stderr) == (1, "")
    assert "P\\u0159íbram \\ud83c\\udf0b" in done.stdout
    told = json.loads(run("site", "check", str(site), "--json", letters="ascii").stdout)
    assert any("Příbram 🌋" in problem["message"] for problem in told["problems"])


def test_a_locale_without_letters_beyond_ascii(tmp_path: Path) -> None:
    """As on a bare machine: Python asks the locale itself, and nothing turns UTF-8 on."""
    site = tmp_path / "site.yml"
    site.write_text("version: 1\nsite: Příbram 🌋\n", encoding="utf-8")
    bare = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "PYTHON"))}
    environment = {**bare, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [*PINION, "site", "check", str(site)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (1, b"")
    assert b"P\\u0159\\u00edbram \\ud83c\\udf0b" in done.stdout
    told = json.loads(
        subprocess.run([*command, "--json"], cwd=ROOT, env=environment, capture_output=True, check=False).stdout
    )
    assert any("Příbram 🌋" in problem["message"] for problem in told["problems"])


# --- what takes too long ----------------------------------------------------------------------------------------------


def test_two_million_nodes_are_refused_at_once(tmp_path: Path) -> None:
    """Twenty groups of 100,000 nodes each, in less processor time than one of them takes to be planned."""
    group = "{numbers: 1-100000, board: raspberry-pi-5-8gb, rack: r12, network: edge-inference, range: pis, ports: tor-1 Ethernet1-8}"
    text = (ROOT / "inventories" / "dc-rack-12" / "site.yml").read_text(encoding="utf-8")
    site = tmp_path / "site.yml"
    groups = "".join(f"  many-{number}: {group}\n" for number in range(20))
    site.write_text(text.replace("\npis:\n", f"\npis:\n{groups}", 1), encoding="utf-8")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = run("site", "check", str(site))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert (done.returncode, done.stderr) == (1, "")
    assert "SITE-024" in done.stdout
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 10


# --- what a terminal would obey ---------------------------------------------------------------------------------------


def on_a_terminal(*words: str, **env: str) -> str:
    """What `pinion WORDS…` sends a terminal."""
    mine, its = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    process = subprocess.Popen([*PINION, *words], cwd=ROOT, env={**environment, **env}, stdout=its, stderr=its)
    os.close(its)
    seen = bytearray()
    try:
        while part := os.read(mine, 65536):
            seen += part
    except OSError:  # EIO: nobody holds the other side any more
        pass
    os.close(mine)
    process.wait()
    return seen.decode()


def test_colours_are_drawn_where_they_are_wanted_and_only_there() -> None:
    assert "\x1b[" in on_a_terminal("site", "check", str(TWELVE), TERM="xterm-256color")
    assert "\x1b" not in on_a_terminal("site", "check", str(TWELVE), TERM="xterm-256color", NO_COLOR="1")
    assert "\x1b" not in on_a_terminal("site", "check", str(TWELVE), TERM="dumb")


def test_tables_are_drawn_without_colour_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert new_console().color_system is not None
    monkeypatch.setenv("NO_COLOR", "1")
    assert new_console().color_system is None
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert new_console().color_system is None


@pytest.mark.parametrize("words", [("site", "check"), ("plan",), ("up",)])
def test_a_file_name_is_shown_and_not_obeyed(words: tuple[str, ...], tmp_path: Path) -> None:
    site = tmp_path / f"{ESCAPES}site.yml"
    site.write_text("version: 1\n")
    seen = on_a_terminal(*words, str(site), TERM="xterm-256color")
    assert "\\u001b]0;owned\\u0007\\u001b[31m\\u001b[2Jsite.yml:1:1" in seen.replace("\x1b[1m", "")
    assert not any(escape in seen for escape in ("\x1b]", "\x07", "\x1b[31m\x1b[2J", "\x1b[2J"))
    done = run(*words, str(site))
    assert "\x1b" not in done.stdout + done.stderr
    assert "\x1b" not in on_a_terminal(*words, f"no-{ESCAPES}", TERM="xterm-256color")


# --- Ctrl-C -----------------------------------------------------------------------------------------------------------


def interruptible(*words: str) -> subprocess.Popen[bytes]:
    """A process that takes Ctrl-C, also where the tests themselves run in the background and do not."""
    return subprocess.Popen(
        [*PINION, *words],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_ctrl_c_at_work(form: tuple[str, ...], tmp_path: Path) -> None:
    pipe = tmp_path / "site.yml"
    os.mkfifo(pipe)
    process = interruptible("site", "check", str(pipe), *form)
    writer, last = None, time.monotonic() + PATIENCE
    while writer is None:  # until the command has opened the other end
        try:
            writer = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            assert process.poll() is None
            assert time.monotonic() < last
            time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    os.close(writer)  # a signal between two system calls is seen after the next one, so that one must end
    out, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert b"stopped by Ctrl-C" in said
    assert b"Traceback" not in said
    assert (json.loads(out)["exit_code"] == 130) if form else (out == b"")


def test_ctrl_c_at_a_question(tmp_path: Path) -> None:
    process = interruptible("site", "new", "rack-7", "--file", str(tmp_path / "site.yml"))
    assert process.stdout is not None
    assert process.stdout.read(6) == b"Region"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=PATIENCE)  # closes its input too
    assert process.returncode == 130
    assert b"stopped by Ctrl-C" in said
    assert list(tmp_path.iterdir()) == []


def test_a_question_that_nobody_answers(tmp_path: Path) -> None:
    process = interruptible("site", "new", "rack-7", "--file", str(tmp_path / "site.yml"))
    _, said = process.communicate(input=b"", timeout=PATIENCE)
    assert process.returncode == 2
    assert b"nobody answers" in said
