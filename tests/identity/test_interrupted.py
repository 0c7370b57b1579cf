"""The node program, killed at every step, and on a disk that is full at every step: what is in use is whole, and the next run converges."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import power_cut
import pytest
from power_cut import CUT
from thoroughness import points

from pinion.services.node_programs.identity import read_certificate

from .conftest import PROGRAM, Host, StepCa

#: From one step that is tried to the next.
STRIDE = points(3, 1)
#: Runs the program and ends it before step number argv[1] of all that it does to files, processes and connections; 0: never.
#: argv[2] is how far its sense of the hour is ahead, in seconds, argv[3] its folder, argv[4] the file that says what is safe on the disk.
CUTTER = f"""
import importlib.util, sys, time
sys.path.insert(0, {str(Path(power_cut.__file__).parent)!r})
import power_cut
at, ahead, own, synced = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3], sys.argv[4]
spec = importlib.util.spec_from_file_location("program", {str(PROGRAM)!r})
program = importlib.util.module_from_spec(spec)
sys.modules["program"] = program
spec.loader.exec_module(program)
if at:
    power_cut.install(at - 1, own, synced)
sys.exit(program.main(sys.argv[5:], lambda: time.time() + ahead))
"""


def killed_at(step: int, host: Host, command: str, ahead: float = 0.0) -> int:
    """Run *command* of the program to *step*; `CUT` when it ended there, by turns by a kill and because the power went."""
    synced, marks = host.folder / "synced", power_cut.marks(host.folder)
    arguments = [str(step), str(ahead), str(host.folder), str(synced)]
    code = subprocess.run(
        [sys.executable, "-I", "-c", CUTTER, *arguments, command, "--config", host.config_file],
        capture_output=True,
        timeout=60,
        check=False,
    ).returncode
    if code == CUT and step % 2:
        power_cut.lose(host.folder, marks, synced)
    return code


def assert_tidy(host: Host) -> None:
    """No half-made folder, link or file of a killed run is left."""
    left = {path.name for path in host.data.iterdir()} - {"current", ".lock"}
    assert all(name.startswith("certificate-") for name in left), left
    assert len(left) <= 2, left


@pytest.mark.timeout(600)
def test_killed_at_any_step_of_an_enrolment_the_next_run_converges(tmp_path: Path, ca: StepCa) -> None:
    step = 1 - STRIDE
    while True:
        step += STRIDE
        host = Host(tmp_path / str(step), ca)
        host.token()
        code = killed_at(step, host, "enrol")
        if code != CUT:
            assert code == 0
            break
        if host.current.exists():
            host.assert_whole()
        host.token()  # as the next converge run does: the old one may be used up
        done = host.run("enrol")
        assert done.returncode == 0, f"after a kill at step {step}: {done.stderr}"
        host.assert_whole()
        assert_tidy(host)
        assert not host.token_file.exists()
    assert step > 30, "steps were counted"


@pytest.mark.timeout(600)
def test_killed_on_the_way_a_token_from_an_image_is_used_by_a_later_run_or_was_used_up(
    tmp_path: Path, ca: StepCa
) -> None:
    """What the next look of the timer finds: a certificate, a token that still works, or one that the authority has seen."""
    step, by_themselves, used_up = 2 - STRIDE, 0, 0
    while True:
        step += STRIDE
        host = Host(tmp_path / str(step), ca)
        host.seeded()
        code = killed_at(step, host, "renew")
        if code != CUT:
            assert code == 0
            break
        if host.current.exists():
            host.assert_whole()
        else:
            assert host.seed_token_file.exists(), f"killed at step {step}: it has neither token nor certificate"
        done = host.run("renew")
        assert not host.seed_token_file.exists(), f"after a kill at step {step}: {done.stderr}"
        if done.returncode == 0:
            by_themselves += 1
        else:
            used_up += 1
            assert "the authority refuses: 401" in done.stderr, f"after a kill at step {step}: {done.stderr}"
            host.token()  # as the next converge run does
            assert host.run("enrol").returncode == 0
        host.assert_whole()
        assert_tidy(host)
    assert by_themselves > 4, "killed before the request was sent, or once the certificate was in use"
    assert used_up > 0, "killed in between: the one moment that takes an operator"


@pytest.mark.timeout(600)
def test_killed_at_any_step_of_a_renewal_a_good_certificate_is_in_use_all_the_time(tmp_path: Path, ca: StepCa) -> None:
    host = Host(tmp_path, ca)
    host.enrolled()
    step = 1 - STRIDE
    while True:
        step += STRIDE
        ahead = read_certificate(host.current / "cert.pem").due - time.time() + 60
        before = host.status()["serial"]
        code = killed_at(step, host, "renew", ahead)
        host.assert_whole()
        assert host.status()["good"] is True
        if code != CUT:
            assert code == 0
            assert host.status()["serial"] != before
            break
        assert killed_at(0, host, "renew", ahead) == 0
        assert host.status()["serial"] != before, f"after a kill at step {step}"
        host.assert_whole()
        assert_tidy(host)
    assert step > 30, "steps were counted"


ON_A_SMALL_DISK = """
mount -t tmpfs -o size={pages}k,mode=0755 tmpfs {folder} || exit 99
cp -a {saved}/. {folder}/ || exit 99
dd if=/dev/zero of={folder}/filler bs=4k count={filler} 2>/dev/null
{python} -I {program} {command} --config {config}
code=$?
rm -f {folder}/filler
rm -rf {saved}
cp -a {folder} {saved}
exit $code
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system: needs root")
@pytest.mark.parametrize("free", range(9))
def test_on_a_full_disk_it_says_so_and_nothing_half_made_is_in_use(tmp_path: Path, ca: StepCa, free: int) -> None:
    """*free* blocks are left: the disk fills up at another step each time."""
    host = Host(tmp_path, ca)
    host.enrolled()
    before = host.status()["serial"]
    host.config["names"] = host.names = (host.names[0], "10.77.100.12")  # so that a new certificate is wanted
    host.token()
    saved = tmp_path / "saved"
    host.data.rename(saved)
    host.data.mkdir()
    total = 64
    used = sum(1 for path in saved.rglob("*") if path.is_file() and not path.is_symlink() and path.stat().st_size)
    script = ON_A_SMALL_DISK.format(
        pages=total * 4,
        folder=host.data,
        saved=saved,
        filler=total - used - free,
        python=sys.executable,
        program=PROGRAM,
        command="enrol",
        config=host.config_file,
    )
    done = subprocess.run(["unshare", "--mount", "/bin/sh", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode in {0, 1}, done.stderr
    host.data.rmdir()
    saved.rename(host.data)
    host.assert_whole()
    if done.returncode == 1:
        assert "No space left on device" in done.stderr, done.stderr
        assert host.status()["serial"] == before
    assert free > 0 or done.returncode == 1, "a disk without any room was met"
    host.enrolled()
    host.assert_whole()
    assert_tidy(host)


def test_a_folder_that_cannot_be_written_is_told(host: Host) -> None:
    token = host.token()
    (host.folder / "file").write_text("")
    host.config["folder"] = str(host.folder / "file" / "data")
    done = host.run("enrol")
    assert done.returncode == 1
    assert "Not a directory" in done.stderr
    assert "Traceback" not in done.stderr
    host.config["folder"] = str(host.data)
    host.give(token)
    assert host.run("enrol").returncode == 0, "the token was not used"


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system: needs root")
def test_a_disk_that_became_read_only_keeps_the_certificate(host: Host) -> None:
    host.enrolled()
    before = host.status()["serial"]
    host.config["names"] = (host.names[0], "10.77.100.12")
    host.token((host.names[0], "10.77.100.12"))
    script = f"mount --bind {host.data} {host.data} && mount -o remount,bind,ro {host.data} && exec {sys.executable} -I {PROGRAM} enrol "
    script += f"--config {host.config_file}"
    done = subprocess.run(["unshare", "--mount", "/bin/sh", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Read-only file system" in done.stderr
    assert host.status()["serial"] == before
