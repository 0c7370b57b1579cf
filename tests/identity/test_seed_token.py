"""The token that an image brings: the timer's own run uses it once, and nothing but the authority's refusal or a certificate removes it."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

from pinion.drivers.identity.authority import Authority

from .conftest import DOMAIN, NETWORKS, PROGRAM, Host, StepCa


def test_the_timers_run_enrols_with_it_and_leaves_nothing_of_it(host: Host, ca: StepCa) -> None:
    token = host.seeded()
    done = host.run("renew")
    assert done.returncode == 0, done.stderr
    host.assert_whole()
    assert host.status()["good"] is True
    assert token not in done.stdout + done.stderr + ca.log.read_text()
    kept = b"".join(path.read_bytes() for path in host.folder.rglob("*") if path.is_file())
    assert token.encode() not in kept
    assert not host.seed_token_file.exists()


def test_with_the_authority_down_it_is_kept_until_a_later_look(host: Host, ca: StepCa) -> None:
    host.seeded()
    ca.stop()
    try:
        done = host.run("renew")
    finally:
        ca.start()
    assert done.returncode == 1
    assert "does not answer" in done.stderr
    assert host.seed_token_file.exists()
    assert host.run("renew").returncode == 0
    assert not host.seed_token_file.exists()


@pytest.mark.parametrize("seconds", [-120])
def test_one_that_has_run_out_is_refused_for_good_and_goes(host: Host, seconds: int) -> None:
    host.seeded(seconds=seconds)
    done = host.run("renew")
    assert done.returncode == 1
    assert "the authority refuses: 401" in done.stderr
    assert not host.seed_token_file.exists()
    assert "`pinion converge`" in host.run("renew").stderr


def test_a_node_that_is_up_before_the_authority_was_told_of_it_enrols_once_it_was(ca: StepCa, tmp_path: Path) -> None:
    """A node comes into the site file, and its card is in it before the next converge run."""
    node = Host(tmp_path / "pi-77", ca, "pi-77")
    node.seeded()
    done = node.run("renew")
    assert done.returncode == 1
    assert "renews for nobody by the name pi-77.rack.internal" in done.stderr
    assert "(the token is kept)" in done.stderr
    assert node.seed_token_file.exists()
    try:
        ca.serves("pi-01", "pi-77")
        ca.stop()
        ca.start()
        assert node.run("renew").returncode == 0
        assert not node.seed_token_file.exists()
    finally:
        ca.serves(*ca.hosts)
        ca.stop()
        ca.start()


def test_a_node_whose_run_is_telling_the_authority_waits_for_that(ca: StepCa, tmp_path: Path) -> None:
    """All hosts in one wave: the authority's own host is converged while the others ask."""
    node = Host(tmp_path / "pi-78", ca, "pi-78")
    node.config["wait"] = 60
    node.token()
    running = subprocess.Popen([sys.executable, "-I", PROGRAM, "enrol", "--config", node.config_file])
    try:
        ca.serves("pi-78")
        ca.stop()
        ca.start()
        assert running.wait(timeout=90) == 0
        assert node.status()["good"] is True
    finally:
        running.kill()
        running.wait()
        ca.serves(*ca.hosts)
        ca.stop()
        ca.start()


def test_one_for_another_host_or_none_at_all_goes_unsent(host: Host, ca: StepCa) -> None:
    host.seeded((f"pi-02.{DOMAIN}", "10.77.100.12"))
    assert "the token is for" in host.run("renew").stderr
    assert not host.seed_token_file.exists()
    host.seed_token_file.write_text("torn")
    assert "is no enrolment token" in host.run("renew").stderr
    assert not host.seed_token_file.exists()


def test_a_stranger_at_the_authoritys_address_does_not_cost_the_token(host: Host, tmp_path: Path) -> None:
    """Who answers on a fresh network may be anybody: only the site's authority can refuse the one token that the node has."""
    token, right = host.seeded(), host.ca.url
    other = Authority(tmp_path / "other-authority")
    other.make("other", DOMAIN, NETWORKS)
    stranger = StepCa(tmp_path / "other-ca", other)
    stranger.start()
    try:
        host.config["authority"] = stranger.url
        done = host.run("renew")
    finally:
        stranger.stop()
    assert done.returncode == 1
    assert "is not this site's" in done.stderr
    assert token not in stranger.log.read_text()
    host.config["authority"] = right
    assert host.run("renew").returncode == 0


def test_a_clock_that_is_years_off_does_not_cost_the_token(host: Host, program: ModuleType) -> None:
    host.seeded()
    assert host.run_at(program, "renew", lambda: time.time() - 3 * 365 * 86400) == 1
    assert host.seed_token_file.exists()
    assert host.run("renew").returncode == 0


def test_a_converge_before_it_was_used_has_its_own_and_removes_it(host: Host) -> None:
    host.seeded()
    host.enrolled()
    assert not host.seed_token_file.exists()
    assert not host.token_file.exists()


def test_where_the_token_of_a_run_is_refused_the_images_is_tried(host: Host) -> None:
    host.seeded()
    host.token(seconds=-120)
    assert host.run("enrol").returncode == 0
    assert not host.token_file.exists()
    assert not host.seed_token_file.exists()


def test_one_that_a_killed_run_left_beside_its_certificate_goes_and_a_converges_own_stays(host: Host) -> None:
    host.enrolled()
    host.seeded()
    host.token()
    assert host.run("renew").returncode == 0
    assert not host.seed_token_file.exists()
    assert host.token_file.exists(), "a converge is about to use it"


def test_an_older_configuration_that_names_one_place_for_tokens_still_works(host: Host) -> None:
    del host.config["seed_token"]
    host.enrolled()
    assert host.run("renew").returncode == 0
