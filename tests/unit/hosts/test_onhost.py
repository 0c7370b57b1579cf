"""The program that runs on hosts: its bytes, its requests, its journal, its real files."""

from __future__ import annotations

import grp
import io
import json
import os
import pwd
import shutil
import stat
import subprocess
import zipfile
from base64 import b64decode
from pathlib import Path

import pytest
from unit.hosts.sites import ADMIN, LAB, planned

from pinion.drivers.hosts import bootstrap
from pinion.drivers.hosts.bundle import COMMAND, program, standard_input
from pinion.drivers.hosts.onhost import engine, files, found, guard, wanted
from pinion.drivers.hosts.onhost.command import run
from pinion.drivers.hosts.onhost.guard import _script
from pinion.drivers.hosts.onhost.journal import from_json
from pinion.drivers.hosts.onhost.kernel import ProcSys
from pinion.drivers.hosts.onhost.machine import FileState, HostError

LONGEST_ARGUMENT = 131_072  # MAX_ARG_STRLEN of Linux


def ask(request: dict[str, object]) -> tuple[int, dict[str, object]]:
    """Run the program here, as root of nothing: exit code and answer."""
    done = subprocess.run(
        ["/bin/sh", "-c", COMMAND], input=standard_input(request), capture_output=True, text=True, check=False
    )
    return done.returncode, json.loads(done.stdout)


def test_the_program_is_the_same_bytes_each_time() -> None:
    program.cache_clear()
    first = program()
    program.cache_clear()
    assert program() == first
    with zipfile.ZipFile(io.BytesIO(b64decode(first))) as archive:
        assert "onhost/main.py" in archive.namelist()
        assert all(name.endswith(".py") for name in archive.namelist())


def test_it_needs_nothing_but_the_standard_library() -> None:
    assert " -I -S " in COMMAND  # isolated: neither this environment's packages nor the working directory
    code, answer = ask({"action": "check", "concerns": [{"name": "no_such_concern"}]})
    assert code == 0
    assert answer.pop("reboot") is not None
    assert answer == {"changes": [], "confirm": [], "waited": 0.0, "notes": [], "needs": [], "asks": []}


def test_nothing_of_a_request_is_an_argument() -> None:
    assert len(COMMAND) < LONGEST_ARGUMENT
    assert "os_tuning" not in COMMAND


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ({"action": "explode", "concerns": [{"name": "x"}]}, "unknown action 'explode'"),
        ({"action": "check", "concerns": [{}]}, "not a concern of a Pinion plan"),
        ({"action": "check", "concerns": [{"name": "../../etc"}]}, "bad name"),
        ({"action": "check", "concerns": [{"name": "x", "files": [{"path": "etc/x"}]}]}, "not an absolute path"),
        (
            {"action": "check", "concerns": [{"name": "x", "files": [{"path": "/etc/../root/x"}]}]},
            "not a plain path",
        ),
        (
            {"action": "check", "concerns": [{"name": "x", "kernel_arguments": [{"argument": "a b"}]}]},
            "not one kernel argument",
        ),
        ({"action": "check", "concerns": [{"name": "x", "units": [{"name": "a"}]}]}, "enabled"),
        ({"action": "apply", "concerns": [{"name": "x", "approval": {"node": "a"}}]}, "not an approval"),
    ],
)
def test_a_bad_request_is_an_answer_and_not_a_traceback(request_: dict[str, object], said: str) -> None:
    code, answer = ask(request_)
    assert code == 2
    assert said in str(answer["error"])


def test_every_concern_of_a_plan_is_understood_whole() -> None:
    for host in planned(LAB, access={"admins": [ADMIN]}).hosts:
        for stated in host.concerns.values():
            read = wanted.concern(json.loads(stated.model_dump_json()))
            assert read.packages == stated.packages
            assert [user.name for user in read.users] == [user.name for user in stated.users]
            assert [file.content for file in read.files] == [file.content for file in stated.files]
            assert [f"{file.mode:04o}" for file in read.files] == [file.mode for file in stated.files]
            assert [s.key for s in read.sysctls] == [sysctl.key for sysctl in stated.sysctls if sysctl.live]
            assert [unit.name for unit in read.units] == [unit.name for unit in stated.units]


def test_a_journal_of_another_format_is_refused() -> None:
    with pytest.raises(ValueError, match="format 99"):
        from_json('{"format": 99}')
    with pytest.raises(ValueError, match="Expecting value"):
        from_json("")


def test_replace_keeps_nothing_half_written(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.conf"
    files.replace(path, b"one", 0o640, os.getuid(), os.getgid())
    (path.parent / ".a.conf.pinion-new").write_text("left by a killed run")
    files.replace(path, b"two", 0o600, os.getuid(), os.getgid())
    assert path.read_bytes() == b"two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["a.conf"]


def test_a_failed_replace_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.conf"
    path.mkdir()
    with pytest.raises(OSError, match=r"a\.conf"):
        files.replace(path, b"x", 0o644, os.getuid(), os.getgid())
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.conf"]


def test_a_link_or_a_folder_is_never_followed_or_replaced(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("secret")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    for path in (tmp_path / "link", tmp_path):
        with pytest.raises(HostError, match="not a regular file"):
            files.Files().read(str(path))


def test_an_unknown_owner_is_told(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="nobody-such"):
        files.Files().put(str(tmp_path / "x"), FileState("x", "nobody-such", "root", 0o644))


def test_a_validation_sees_the_candidate_and_says_why_not() -> None:
    if not os.access("/run", os.W_OK):
        pytest.skip("only root may write to /run")
    wants = wanted.File(
        "/etc/x", "root", "root", 0o644, "good\n", (), "grep -q good %s || { echo no good >&2; false; }", confirm=False
    )
    assert files.Files().validate(wants) is None
    bad = wanted.File("/etc/x", "root", "root", 0o644, "bad\n", (), wants.validate_command, confirm=False)
    assert files.Files().validate(bad) == "no good"


def test_a_parameter_s_name_cannot_leave_proc_sys() -> None:
    kernel = ProcSys()
    assert kernel.read("kernel.ostype") == "Linux"
    for key in ("net..ipv4", "kernel./../../etc/passwd/..", ""):
        with pytest.raises(HostError, match="not a name"):
            kernel.read(key)


def test_programs_that_fail_are_told_with_their_reason() -> None:
    with pytest.raises(HostError, match=r"exit 3: why \| because"):
        run(["/bin/sh", "-c", "echo why; echo because >&2; exit 3"])
    with pytest.raises(HostError, match="there is no such program"):
        run(["/no/such/program"])
    with pytest.raises(HostError, match="not done after"):
        run(["/bin/sleep", "5"], seconds=0.1)


def test_the_undo_script_is_shell_and_does_what_it_says(tmp_path: Path) -> None:
    changed, new = tmp_path / "it's changed", tmp_path / "new"
    changed.write_text("after")
    new.write_text("new")
    folder = tmp_path / "guard"
    folder.mkdir()
    (folder / "0").write_text("before")
    state = FileState("before", "root", "root", 0o600)
    script = _script(folder, {str(changed): state, str(new): None}, [])
    script = script.replace("/run/pinion-converge.lock", str(tmp_path / "lock"))
    script = script.replace("/etc/systemd/system/", f"{tmp_path}/").replace("/run/", f"{tmp_path}/")
    (tmp_path / "pinion-undo.service").write_text("")
    subprocess.run(["/bin/sh", "-eu"], input=script, text=True, check=True)
    assert changed.read_text() == "before"
    assert not new.exists()
    assert not folder.exists()
    assert not (tmp_path / "pinion-undo.service").exists()
    changed.write_text("confirmed")
    subprocess.run(["/bin/sh", "-eu"], input=script, text=True, check=True)
    assert changed.read_text() == "confirmed"


def test_the_report_is_json() -> None:
    change = found.Change("c", "file", "/x", "a", "b")
    report = engine.Report(
        (change,), confirm=("c",), waited=1.5, reboot=("/y",), notes=("z",), needs=("/n",), asks=("c",)
    )
    assert json.loads(json.dumps(report.as_json())) == {
        "changes": [{"concern": "c", "kind": "file", "subject": "/x", "before": "a", "after": "b"}],
        "confirm": ["c"],
        "waited": 1.5,
        "reboot": ["/y"],
        "notes": ["z"],
        "needs": ["/n"],
        "asks": ["c"],
    }


def test_what_runs_at_boot_reloads_nothing_and_is_a_unit_that_systemd_takes(tmp_path: Path) -> None:
    script = guard._script(tmp_path / "none", {}, ["ssh.service"])
    assert '[ "$1" = boot ] || systemctl try-reload-or-restart ssh.service' in script
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd here to read the unit")
    unit = tmp_path / "pinion-undo.service"
    unit.write_text(guard._AT_BOOT_TEXT)
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    assert "pinion-undo" not in done.stderr, done.stderr


@pytest.mark.parametrize("name", ["new\nline", "a 'quote", "-rf", "$(reboot)", "ünï", "x" * 200])
def test_a_hostile_file_name_is_only_a_name(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    me = pwd.getpwuid(os.getuid()).pw_name
    group = grp.getgrgid(os.getgid()).gr_name
    real = files.Files()
    real.put(str(path), FileState("old\n", me, group, 0o644))
    script = guard._script(tmp_path / "guard", {str(path): None}, []).replace("/run/", f"{tmp_path}/")
    (tmp_path / "guard").mkdir()
    subprocess.run(
        ["/bin/sh", "-eu", "-s", "boot"], input=script.replace("/etc/systemd/", f"{tmp_path}/"), text=True, check=True
    )
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["pinion-converge.lock", "pinion-undone-guard"]


# --- how it starts ----------------------------------------------------------------------------------------------------


def packed() -> tuple[str, bytes]:
    """Digest and zip of the program, as a host gets them."""
    digest, text = standard_input({}).splitlines()[0].split()
    return digest, text.encode()


def test_the_compiled_program_is_kept_and_taken_again(tmp_path: Path) -> None:
    digest, text = packed()
    folder = tmp_path / "cache"
    first = bootstrap.load(digest, text, str(folder))
    (kept,) = folder.iterdir()
    assert (kept.stat().st_mode & 0o777, folder.stat().st_mode & 0o777) == (0o600, 0o700)
    assert "onhost.main" in first
    assert bootstrap.load(digest, b"not looked at", str(folder)) == first
    bootstrap.load("another-version", text, str(folder))
    assert [entry.name.split("-")[1] for entry in folder.iterdir()] == ["another"]


@pytest.mark.parametrize("spoil", ["cut", "changed", "empty"])
def test_a_spoilt_cache_is_made_anew(tmp_path: Path, spoil: str) -> None:
    digest, text = packed()
    first = bootstrap.load(digest, text, str(tmp_path))
    (kept,) = tmp_path.iterdir()
    whole = kept.read_bytes()
    kept.write_bytes({"cut": whole[: len(whole) // 2], "changed": whole[:-1] + b"x", "empty": b""}[spoil])
    assert bootstrap.load(digest, text, str(tmp_path)) == first
    assert kept.read_bytes() == whole


def test_without_a_place_to_keep_it_the_program_runs_all_the_same(tmp_path: Path) -> None:
    digest, text = packed()
    (tmp_path / "file").write_text("")
    assert "onhost.main" in bootstrap.load(digest, text, str(tmp_path / "file" / "cache"))


def test_the_bootstrap_is_what_the_command_runs() -> None:
    assert len(COMMAND) < 4000
    assert "\n" not in COMMAND
