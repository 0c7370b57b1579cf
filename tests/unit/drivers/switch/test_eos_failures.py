"""The EOS driver when things go wrong on the way: clear errors, bounded waits, and a switch that stays reachable."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest
from pydantic import SecretStr
from unit.drivers.switch.bench import LoopbackBench
from unit.drivers.switch.gate import Gate
from unit.drivers.switch.plans import PORTS, small_plan

from pinion.drivers.switch import (
    CommandRefusedError,
    HostKeyError,
    LoginRefusedError,
    NoAnswerError,
    NotConfirmedError,
    SwitchBusyError,
    SwitchUnreachableError,
)
from pinion.drivers.switch.eos_shell import EosShell
from pinion.drivers.switch.state import wanted
from pinion.lab.switch.loopback import LoopbackSwitch

WRONG = "not-the-password-7f3a"


def _known_hosts_for(eos: LoopbackBench, port: int) -> Path:
    """The switch's host key under the port of a gate."""
    key = eos.switch.known_hosts.read_text().split(maxsplit=1)[1]
    path = eos.folder / f"known_hosts_{port}"
    path.write_text(f"[127.0.0.1]:{port} {key}")
    return path


def test_a_wrong_password_is_tried_once_and_never_shown(eos: LoopbackBench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(LoginRefusedError) as caught:
        eos.driver(password=SecretStr(WRONG)).apply(small_plan())
    assert str(caught.value) == (
        f"switch tor-1 (127.0.0.1:{eos.switch.port}): `login`: user name or password refused for 'pinion'; "
        "check switch:username and switch:password"
    )
    assert eos.switch.log.read_text().count("refused") == 1
    chain = [caught.value, caught.value.__cause__, caught.value.__context__]
    assert WRONG not in caplog.text + "".join(map(repr, chain)) + eos.switch.log.read_text()


def test_no_secret_in_logs_texts_or_errors_of_a_whole_change(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    login, enable = "login-secret-51b7", "enable-secret-93cd"
    with LoopbackSwitch(tmp_path / "switch", ports=PORTS, password=login, enable=enable) as switch:
        eos = LoopbackBench(switch, tmp_path)
        access = eos.access(enable_password=SecretStr(enable))
        eos.driver(enable_password=SecretStr(enable)).apply(small_plan())
        with pytest.raises(LoginRefusedError, match="`enable`: privileged mode"):
            eos.driver(enable_password=SecretStr(WRONG)).read()
        with pytest.raises(LoginRefusedError, match="enable"):
            eos.driver().read()
        kept = [path for path in (tmp_path / "switch").rglob("*") if path.is_file()] + list(
            (tmp_path / "locks").iterdir()
        )
        texts = [path.read_text() for path in kept]
    assert "configure session" in caplog.text, "the log is there to be looked at"
    for secret in (login, enable, WRONG):
        assert secret not in caplog.text
        assert secret not in f"{access!r} {access} {access.model_dump_json()}"
        assert not any(secret in text for text in texts)


def test_nobody_listens(eos: LoopbackBench) -> None:
    eos.switch.stop()
    started = time.monotonic()
    with pytest.raises(SwitchUnreachableError, match=r"tor-1 \(127\.0\.0\.1:\d+\): `connect`: Connection refused"):
        eos.driver().read()
    assert time.monotonic() - started < 30


def test_a_switch_that_accepts_and_says_nothing(eos: LoopbackBench) -> None:
    with Gate(eos.switch.port, silent=True) as gate:
        driver = eos.driver(port=gate.port, connect_timeout=1.0, command_timeout=1.0, attempts=2)
        with pytest.raises(NoAnswerError, match="`login`"):
            driver.read()
        assert gate.connections == 2


def test_a_frozen_switch_does_not_hang_us(eos: LoopbackBench) -> None:
    os.kill(eos.switch.pid, signal.SIGSTOP)
    try:
        with pytest.raises(NoAnswerError):
            eos.driver(connect_timeout=1.0, command_timeout=1.0, attempts=1).apply(small_plan())
    finally:
        os.kill(eos.switch.pid, signal.SIGCONT)
    eos.driver().apply(small_plan())


def test_an_unknown_host_key_is_refused_and_says_how_to_accept(eos: LoopbackBench) -> None:
    empty = eos.folder / "empty"
    empty.touch()
    for known_hosts in (empty, eos.folder / "not-there"):
        with pytest.raises(HostKeyError, match=r"not known .*ssh-keyscan -p \d+ 127\.0\.0\.1 >> "):
            eos.driver(known_hosts=known_hosts).read()


def test_a_changed_host_key_is_refused_and_says_what_to_do(eos: LoopbackBench) -> None:
    before = eos.switch.known_hosts.read_text()
    eos.switch.stop()
    eos.switch.new_host_key()
    eos.switch.start()
    old = eos.folder / "old"
    old.write_text(before)
    with pytest.raises(
        HostKeyError, match=r"has changed: ssh-ed25519 SHA256:.*expected SHA256:.*ssh-keygen -R"
    ) as caught:
        eos.driver(known_hosts=old).read()
    fingerprint = subprocess.run(
        ["ssh-keygen", "-lf", eos.switch.known_hosts], capture_output=True, text=True, check=True
    ).stdout.split()[1]
    assert fingerprint in str(caught.value)
    assert "accepted" not in eos.switch.log.read_text(), "no password goes to a stranger"
    eos.driver().read()


@pytest.mark.parametrize("octets", [500, 2_500, 5_000])
def test_connections_that_break_in_the_middle_are_made_up_for(eos: LoopbackBench, octets: int) -> None:
    with Gate(eos.switch.port, octets=octets, cuts=2) as gate:
        driver = eos.driver(port=gate.port, known_hosts=_known_hosts_for(eos, gate.port))
        assert driver.apply(small_plan()).changes
        assert gate.connections >= 4
    assert eos.driver().read() == wanted(small_plan())


@pytest.mark.parametrize("octets", [100, 2_800, 3_200])
def test_a_connection_that_always_breaks_is_given_up_at_once(eos: LoopbackBench, octets: int) -> None:
    with Gate(eos.switch.port, octets=octets, cuts=99) as gate:
        driver = eos.driver(port=gate.port, known_hosts=_known_hosts_for(eos, gate.port))
        started = time.monotonic()
        with pytest.raises(SwitchUnreachableError, match="the connection broke"):
            driver.apply(small_plan())
        assert gate.connections == 3
        assert time.monotonic() - started < eos.access().command_timeout, "nobody waits for a dead connection to speak"


def test_without_a_fresh_login_the_switch_goes_back_by_itself(eos: LoopbackBench) -> None:
    before = eos.driver().read()
    with Gate(eos.switch.port, admits=1) as gate:
        driver = eos.driver(port=gate.port, known_hosts=_known_hosts_for(eos, gate.port), confirm_within=15)
        with pytest.raises(NotConfirmedError, match="goes back to its former configuration within 15 s"):
            driver.apply(small_plan())
    give_up = time.monotonic() + 60
    while (state := eos.driver().read()) != before and time.monotonic() < give_up:
        time.sleep(0.5)
    assert state == before
    assert "ran out: going back" in eos.switch.log.read_text()


def test_a_refused_command_names_itself_and_leaves_nothing_behind(eos: LoopbackBench) -> None:
    plan = small_plan()
    long = "a-name-of-far-more-than-thirty-two-characters"
    wrong = small_plan(vlans=(plan.vlans[0].model_copy(update={"name": long}), plan.vlans[1]))
    with pytest.raises(CommandRefusedError, match=rf"`name {long}`: Invalid input \(at token 1"):
        eos.driver().apply(wrong)
    assert '"sessions": {}' in eos.console("show configuration sessions detail | json")


def test_somebody_in_a_session_of_pinion_is_waited_for_and_then_named(eos: LoopbackBench) -> None:
    with _in_session(eos, "pinion-ffffffff-00000001"):
        with pytest.raises(
            SwitchBusyError, match="configuration session pinion-ffffffff-00000001 is in use by pinion on vty"
        ):
            eos.driver(wait_for_others=0.5).apply(small_plan())
        threading.Timer(2.0, eos.console, ("configure session pinion-ffffffff-00000001 abort",)).start()
        eos.driver(wait_for_others=60).apply(small_plan())
    assert eos.driver().read() == wanted(small_plan())


def test_a_session_that_a_dead_run_of_another_machine_left_is_cleared_away(eos: LoopbackBench) -> None:
    eos.console("configure session pinion-ffffffff-00000001", "vlan 999", "end")
    eos.console("configure session somebodys", "vlan 998", "end")
    eos.driver().apply(small_plan())
    listed = eos.console("show configuration sessions detail | json")
    assert "pinion-ffffffff-00000001" not in listed
    assert "somebodys" in listed, "a session of a person is that person's"


def test_a_persons_unconfirmed_change_is_waited_for(eos: LoopbackBench) -> None:
    eos.console("configure session somebodys", "vlan 998", "commit timer 00:10:00")
    assert eos.driver().read().unconfirmed == "somebodys"
    with pytest.raises(SwitchBusyError, match="configuration session somebodys waits for its confirmation"):
        eos.driver(wait_for_others=0.5).apply(small_plan())
    eos.console("configure session somebodys commit")
    eos.driver().apply(small_plan())


def test_an_unsaved_configuration_is_saved_and_nothing_else(eos: LoopbackBench) -> None:
    plan = small_plan()
    eos.driver().apply(plan)
    eos.console(
        "configure", "vlan 101", "name other", "end", "write", "configure", "vlan 101", "name edge-inference", "end"
    )
    assert not eos.driver().read().saved
    assert [str(change) for change in eos.driver().apply(plan).changes] == [
        "start-up configuration out of date -> saved"
    ]
    assert eos.reboot() == wanted(plan)


def test_an_edit_by_hand_at_the_same_moment_is_not_lost(eos: LoopbackBench) -> None:
    """A session replaces the whole configuration: what somebody changed since it began must not be undone by our commit."""
    plan = small_plan()
    stop = threading.Event()
    edits: list[int] = []

    def person() -> None:
        while not stop.is_set() and len(edits) < 25:
            vid = 500 + len(edits)
            eos.console("configure", f"vlan {vid}", f"name by-hand-{vid}", "end")
            edits.append(vid)

    thread = threading.Thread(target=person)
    thread.start()
    try:
        eos.driver(attempts=10).apply(plan)
    except SwitchBusyError:
        pass  # a person who never stops is told about
    finally:
        stop.set()
        thread.join()
    eos.driver().apply(plan)
    state = eos.driver().read()
    assert [vid for vid in edits if state.vlan(vid) is None] == []


def test_a_session_that_another_run_clears_away_is_made_anew(
    eos: LoopbackBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between a session's last line and its commit nobody is in it: a run of another machine takes it for a dead one's."""
    plain = EosShell.command
    cleared: list[str] = []

    def command(shell: EosShell, text: str) -> str:
        if not cleared and text.startswith("show session-config named "):
            cleared.append(text.split()[3])
            eos.console(f"configure session {cleared[0]} abort")
        return plain(shell, text)

    monkeypatch.setattr(EosShell, "command", command)
    with pytest.raises(SwitchBusyError, match="another run cleared configuration session pinion-"):
        eos.driver(attempts=1).apply(small_plan())
    cleared.clear()
    eos.driver(attempts=2).apply(small_plan())
    assert eos.driver().read() == wanted(small_plan())


def test_a_switch_that_loses_the_change_right_after_the_confirmation_is_told(eos: LoopbackBench) -> None:
    """Confirmed, and gone all the same: what counts is what is read afterwards."""
    plan = small_plan()
    undo = ("configure", "interface Ethernet2", "switchport access vlan 100", "end")
    with (
        eos.at(" commit", lambda _: eos.console(*undo), after=True),
        pytest.raises(NotConfirmedError, match=r"port Ethernet2 \(pis.pi 2\): access VLAN 100 -> 101.*run again"),
    ):
        eos.driver().apply(plan)
    assert [str(change) for change in eos.driver().apply(plan).changes] == [
        "port Ethernet2 (pis.pi 2): access VLAN 100 -> 101",
        "start-up configuration out of date -> saved",
    ]


def test_a_change_that_is_lost_while_it_is_saved_is_told(eos: LoopbackBench, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = EosShell.command

    def command(shell: EosShell, text: str) -> str:
        answer = plain(shell, text)
        if text.startswith("copy running-config"):
            eos.console("configure", "interface Ethernet2", "shutdown", "end")
        return answer

    with monkeypatch.context() as patched:
        patched.setattr(EosShell, "command", command)
        with pytest.raises(NotConfirmedError, match=r"read again after the confirmation it differs .*Ethernet2"):
            eos.driver().apply(small_plan())
    eos.driver().apply(small_plan())
    assert eos.driver().read() == wanted(small_plan())


class _in_session:  # noqa: N801 - reads as a phrase
    """Somebody sits in a configuration session."""

    def __init__(self, eos: LoopbackBench, name: str) -> None:
        self._eos = eos
        self._name = name

    def __enter__(self) -> None:
        switch = self._eos.switch
        askpass = self._eos.folder / "askpass"
        askpass.write_text('#!/bin/sh\nprintf %s "$SWITCH_PASSWORD"\n')
        askpass.chmod(0o700)
        self._process = subprocess.Popen(
            ["ssh", "-tt", "-o", f"UserKnownHostsFile={switch.known_hosts}", "-o", "PubkeyAuthentication=no", "-p", str(switch.port),
             f"{switch.user}@{switch.host}"],
            env={"PATH": "/usr/bin:/bin", "SSH_ASKPASS": str(askpass), "SSH_ASKPASS_REQUIRE": "force", "SWITCH_PASSWORD": switch.password},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"enable\nconfigure session {self._name}\n".encode())
        self._process.stdin.flush()
        heard = b""
        while b"(config-s-pinion)#" not in heard:
            data = self._process.stdout.read1(1000)  # type: ignore[attr-defined]
            assert data, heard
            heard += data

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
