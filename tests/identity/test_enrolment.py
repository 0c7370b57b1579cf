"""The node program against a real step-ca on loopback: from the first token to the last fault."""

from __future__ import annotations

import datetime as dt
import http.client
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

from pinion.drivers.identity.authority import Authority
from pinion.drivers.identity.revoking import revoke
from pinion.drivers.identity.tokens import enrolment

from .conftest import DOMAIN, LIFETIME, NETWORKS, PROGRAM, Host, StepCa

YEAR = 365 * 86400.0


def due(host: Host) -> float:
    return host.metrics()["renewal_due_seconds"]


def test_a_host_enrols_with_a_token_and_has_a_certificate_for_its_names(host: Host, ca: StepCa) -> None:
    token = host.token()
    done = host.run("enrol")
    assert done.returncode == 0, done.stderr
    host.assert_whole()
    status = host.status()
    assert status["good"] is True
    assert tuple(status["names"]) == host.names
    assert not host.token_file.exists(), "a used token is left nowhere"
    assert token not in done.stdout + done.stderr
    assert token not in ca.log.read_text(), "the authority does not log tokens"
    metrics = host.metrics()
    assert metrics["good"] == 1
    assert metrics["failed"] == 0
    assert abs(metrics["expires_seconds"] - time.time() - LIFETIME) < 120
    assert host.run("good", *host.names).returncode == 0
    assert host.run("good", "other.rack.internal").returncode == 1


def test_enrolling_again_changes_nothing_and_needs_no_token(host: Host) -> None:
    host.enrolled()
    before = host.status()["serial"]
    assert host.run("enrol").returncode == 0
    assert host.run("renew").returncode == 0
    assert host.status()["serial"] == before


def test_a_renewal_is_due_between_half_and_five_eighths_of_the_life_and_spread(host: Host) -> None:
    shares = set()
    for _ in range(4):
        shutil.rmtree(host.data, ignore_errors=True)
        host.enrolled()
        metrics = host.metrics()
        life = LIFETIME + 60.0  # step-ca dates back by a minute
        shares.add(round(1 - (metrics["expires_seconds"] - metrics["renewal_due_seconds"]) / life, 3))
    assert all(0.5 <= share <= 0.626 for share in shares), shares
    assert len(shares) > 1


def test_it_renews_by_its_certificate_with_a_new_key(host: Host, program: ModuleType) -> None:
    host.enrolled()
    before, key = host.status(), (host.current / "key.pem").read_text()
    at = due(host)
    ahead = at - time.time() + 1
    # The authority's clock is the true one, so the host's own sense of the hour alone is moved: what it then asks for is real.
    assert host.run_at(program, "renew", lambda: time.time() + ahead) == 0
    after = host.status()
    assert after["serial"] != before["serial"]
    assert (host.current / "key.pem").read_text() != key
    host.assert_whole()
    assert len(list(host.data.glob("certificate-*"))) == 2, "the one before is kept"


def test_with_the_authority_down_the_old_certificate_stays_and_the_host_says_so(
    host: Host, ca: StepCa, program: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    host.enrolled()
    before, ahead = host.status()["serial"], due(host) - time.time() + 1
    ca.stop()
    try:
        assert host.run_at(program, "renew", lambda: time.time() + ahead) == 1
    finally:
        ca.start()
    said = capsys.readouterr().err
    assert "the old certificate is kept, good until" in said
    assert "does not answer" in said
    assert host.status()["serial"] == before
    assert host.metrics()["failed"] == 1
    assert host.metrics()["good"] == 1
    assert host.run_at(program, "renew", lambda: time.time() + ahead) == 0
    assert host.status()["serial"] != before
    assert host.metrics()["failed"] == 0


def test_with_the_authority_down_there_is_no_enrolment_and_the_token_is_kept(host: Host, ca: StepCa) -> None:
    host.token()
    ca.stop()
    try:
        done = host.run("enrol")
    finally:
        ca.start()
    assert done.returncode == 1
    assert "does not answer" in done.stderr
    assert not host.current.exists()
    assert host.run("enrol").returncode == 0, "the token was not used"


def test_a_host_that_starts_with_its_authority_waits_for_it(host: Host, ca: StepCa) -> None:
    host.config["wait"] = 30
    host.token()
    ca.stop()
    with socket.create_server(("127.0.0.1", ca.port)) as nobody:
        running = subprocess.Popen([sys.executable, "-I", PROGRAM, "enrol", "--config", host.config_file])
        nobody.settimeout(60)
        nobody.accept()[0].close()  # it has asked
    assert running.poll() is None
    ca.start()
    assert running.wait(timeout=60) == 0


def test_a_token_works_once(host: Host, ca: StepCa, tmp_path: Path) -> None:
    token = host.token()
    assert host.run("enrol").returncode == 0
    thief = Host(tmp_path / "thief", ca)
    thief.give(token)
    done = thief.run("enrol")
    assert done.returncode == 1
    assert "the authority refuses: 401" in done.stderr
    assert not thief.current.exists()
    assert not thief.token_file.exists()


def test_a_token_works_once_also_after_the_authority_was_started_anew(host: Host, ca: StepCa, tmp_path: Path) -> None:
    token = host.token()
    assert host.run("enrol").returncode == 0
    ca.stop()
    ca.start()
    thief = Host(tmp_path / "thief", ca)
    thief.give(token)
    assert thief.run("enrol").returncode == 1


def test_a_token_for_another_host_is_refused_here_and_by_the_authority(
    host: Host, ca: StepCa, program: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other = (f"nv-1.{DOMAIN}", "10.77.100.99")
    host.token(other)
    done = host.run("enrol")
    assert done.returncode == 1
    assert "the token is for 10.77.100.99, nv-1.rack.internal, and this host is" in done.stderr
    # A host that lies to itself: the program does not look, the authority does.
    token = enrolment(ca.authority, ca.url, other)
    host.give(token)
    monkeypatch.setattr(program, "read_token", lambda *_: token)
    assert host.run_at(program, "enrol", time.time) == 1
    assert "the authority refuses: 403" in capsys.readouterr().err
    assert not host.current.exists()


def test_a_token_that_has_run_out_is_refused(host: Host) -> None:
    host.token(seconds=-120)
    done = host.run("enrol")
    assert done.returncode == 1
    assert "refuses: 401" in done.stderr


@pytest.mark.parametrize("names", [("pi-01.elsewhere.net", "10.77.100.11"), (f"pi-01.{DOMAIN}", "192.0.2.7")])
def test_the_authority_signs_for_the_sites_names_alone(host: Host, names: tuple[str, ...]) -> None:
    host.config["names"] = names
    host.token(names)
    done = host.run("enrol")
    assert done.returncode == 1
    assert "the authority refuses: 403" in done.stderr


def test_without_a_token_it_says_how_to_get_one(host: Host) -> None:
    done = host.run("enrol")
    assert done.returncode == 1
    assert "`pinion identity token`" in done.stderr
    host.give("not a token")
    assert "is no enrolment token" in host.run("enrol").stderr


def test_a_wrong_fingerprint_and_nothing_is_sent(host: Host) -> None:
    token = host.token()
    host.config["root"] = "0" * 64
    done = host.run("enrol")
    assert done.returncode == 1
    assert "has no root certificate with the fingerprint 0000" in done.stderr
    assert token not in done.stderr
    assert not host.current.exists()
    host.config["root"] = host.ca.authority.fingerprint
    host.give(token)
    assert host.run("enrol").returncode == 0, "the token had not been shown to anybody"


def test_an_authority_that_shows_another_root_than_asked_for_is_refused(
    host: Host, program: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who stands between may answer anything to the question for the root: its digest proves it."""
    host.token()
    other = Authority(host.folder / "other")
    other.make("other", DOMAIN, NETWORKS)
    real = program.ask

    def between(config: object, context: ssl.SSLContext, method: str, path: str, body: object = None) -> object:
        assert "/root/" in path, "nothing else is asked of it"
        _, clock = real(config, context, method, path, body)
        return {"ca": other.root}, clock

    monkeypatch.setattr(program, "ask", between)
    assert host.run_at(program, "enrol", time.time) == 1
    assert "has not the fingerprint" in capsys.readouterr().err


def test_a_renewal_does_not_go_to_another_authority(host: Host, program: ModuleType, tmp_path: Path) -> None:
    host.enrolled()
    before, ahead = host.status()["serial"], due(host) - time.time() + 1
    other = Authority(tmp_path / "other-authority")
    other.make("other", DOMAIN, NETWORKS)
    fake = StepCa(tmp_path / "other-ca", other)
    fake.start()
    try:
        host.config["authority"] = fake.url
        assert host.run_at(program, "renew", lambda: time.time() + ahead) == 1
    finally:
        fake.stop()
    assert host.status()["serial"] == before


@pytest.mark.parametrize(("years", "where"), [(2, "ahead of"), (-2, "behind")])
def test_a_clock_two_years_off_is_told_plainly(
    host: Host, program: ModuleType, years: int, where: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def off() -> float:
        return time.time() + years * YEAR

    host.token()
    assert host.run_at(program, "enrol", off) == 1
    assert f"is 730 days {where} the authority's" in capsys.readouterr().err
    assert host.token_file.exists(), "the token is good once the clock is"
    assert host.run("enrol").returncode == 0
    assert host.run_at(program, "renew", off) == 1
    assert f"is 730 days {where} the authority's" in capsys.readouterr().err
    assert host.status()["good"] is True
    assert host.run("renew").returncode == 0


def test_an_authority_whose_own_certificate_is_not_valid_yet_is_told(
    host: Host, program: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The TLS library judges by the machine's clock; an authority from the future looks like a host from the past."""
    later = Authority(tmp_path / "later", lambda: dt.datetime.now(dt.UTC) + dt.timedelta(days=730))
    later.make("later", DOMAIN, NETWORKS)
    future = StepCa(tmp_path / "future-ca", later)
    future.start()
    try:
        there = Host(tmp_path / "there", future)
        there.token()
        assert there.run_at(program, "enrol", time.time) == 1
    finally:
        future.stop()
    assert "certificate is not yet valid" in capsys.readouterr().err
    assert not there.current.exists()


def test_an_expired_certificate_takes_a_new_token(tmp_path: Path, ca: StepCa) -> None:
    host = Host(tmp_path, ca)
    host.config["lifetime"] = 300  # the shortest that the authority signs
    host.enrolled()
    expire(host, ca)
    done = host.run("renew")
    assert done.returncode == 1
    assert "the certificate expired on" in done.stderr
    assert "takes a new enrolment token" in done.stderr
    assert host.metrics()["good"] == 0
    before = host.status()["serial"]
    host.token()
    assert host.run("renew").returncode == 0, "the timer takes the token where there is one"
    assert host.status()["serial"] != before
    host.assert_whole()


def expire(host: Host, ca: StepCa) -> None:
    """Give *host* a certificate of *ca*'s own intermediate for its key that has run out."""
    folder = host.current.resolve()
    request = subprocess.run(
        ["openssl", "req", "-new", "-key", folder / "key.pem", "-subj", f"/CN={host.names[0]}"],
        capture_output=True,
        check=True,
    ).stdout
    (host.folder / "request.pem").write_bytes(request)
    (host.folder / "extensions").write_text(f"subjectAltName=DNS:{host.names[0]},IP:{host.names[1]}\n")
    command: list[str | Path] = [
        "openssl",
        "x509",
        "-req",
        "-in",
        host.folder / "request.pem",
        "-CA",
        ca.folder / "intermediate.crt",
    ]
    command += ["-CAkey", ca.folder / "intermediate.key", "-CAcreateserial", "-CAserial", host.folder / "serial"]
    command += ["-extfile", host.folder / "extensions", "-days", "-1", "-out", folder / "cert.pem"]
    subprocess.run(command, check=True, capture_output=True)


def test_the_authority_itself_does_not_renew_what_has_expired(tmp_path: Path, ca: StepCa) -> None:
    host = Host(tmp_path, ca)
    host.enrolled()
    expire(host, ca)
    context = ssl.create_default_context(cadata=ca.authority.root)
    context.load_cert_chain(host.current / "cert.pem", host.current / "key.pem")
    connection = http.client.HTTPSConnection("127.0.0.1", ca.port, context=context, timeout=10)

    def renewed() -> None:
        """TLS 1.3 tells a client that its certificate was refused with the answer only."""
        connection.request("POST", "/1.0/renew", "{}")
        connection.getresponse()

    with pytest.raises(ssl.SSLError):
        renewed()
    connection.close()


def test_a_revoked_certificate_is_not_renewed(
    host: Host, ca: StepCa, program: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    host.enrolled()
    serial = int(host.status()["serial"], 16)
    assert revoke(ca.authority, ca.url, serial, "decommissioned") is True
    assert revoke(ca.authority, ca.url, serial, "decommissioned") is False, "again is fine"
    ahead = due(host) - time.time() + 1
    assert host.run_at(program, "renew", lambda: time.time() + ahead) == 1
    said = capsys.readouterr().err
    assert "the authority refuses: 401" in said
    assert "the old certificate is kept" in said


def test_other_names_take_a_new_token(host: Host) -> None:
    host.enrolled()
    before = host.status()["serial"]
    host.config["names"] = host.names = (host.names[0], "10.77.100.12")
    assert "the certificate is for" in host.run("renew").stderr
    host.enrolled()
    assert host.status()["serial"] != before


def test_another_lifetime_takes_a_new_token_because_a_renewal_keeps_the_old_one(
    host: Host, program: ModuleType
) -> None:
    host.enrolled()
    ahead = due(host) - time.time() + 1
    host.config["lifetime"] = 1800
    assert host.run_at(program, "renew", lambda: time.time() + ahead) == 0
    assert host.run("good", "--lifetime", "1800", *host.names).returncode == 1, "renewed for as long as before"
    assert host.run("good", *host.names).returncode == 0, "and good all the same"
    host.enrolled()
    assert host.run("good", "--lifetime", "1800", *host.names).returncode == 0
    assert abs(host.metrics()["expires_seconds"] - time.time() - 1800) < 120


def test_services_are_reloaded_after_the_change_and_until_it_worked(host: Host, tmp_path: Path) -> None:
    commands = tmp_path / "bin"
    commands.mkdir()
    systemctl = commands / "systemctl"
    systemctl.write_text(f'#!/bin/sh\necho "$*" >>{tmp_path}/called\nexit $(cat {tmp_path}/code)\n')
    systemctl.chmod(0o755)
    (tmp_path / "code").write_text("1")
    host.config["reload"] = ["nginx.service"]
    host.token()
    env = {"PATH": f"{commands}:{os.environ['PATH']}"}
    done = host.run("enrol", env=env)
    assert done.returncode == 1
    assert "nginx.service could not be reloaded" in done.stderr
    host.assert_whole()
    (tmp_path / "code").write_text("0")
    assert host.run("renew", env=env).returncode == 0
    assert host.run("renew", env=env).returncode == 0
    assert (tmp_path / "called").read_text().splitlines() == ["try-reload-or-restart nginx.service"] * 2


def test_a_bad_configuration_ends_with_2(host: Host, tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    for text in ("", "[]", "{}", json.dumps({**host.config, "lifetime": "long"})):
        bad.write_text(text)
        done = subprocess.run(
            [sys.executable, "-I", PROGRAM, "renew", "--config", bad], capture_output=True, text=True, check=False
        )
        assert done.returncode == 2, text
        assert "Traceback" not in done.stderr
