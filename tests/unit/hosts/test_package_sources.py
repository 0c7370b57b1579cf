"""What the plan writes for apt, read by a real apt from a real archive; and what a host says when an archive cannot be used."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from unit.hosts.archive import PACKAGE, Archive, apt_folders, archive, needs_apt
from unit.hosts.images import asked, image
from unit.hosts.sites import DC, plan_of_file

from pinion.drivers.hosts.onhost import archives, engine, packages
from pinion.drivers.hosts.onhost.archives import causes
from pinion.drivers.hosts.onhost.command import ENVIRONMENT
from pinion.drivers.hosts.onhost.machine import HostError
from pinion.plan import package_sources
from pinion.plan.concerns.base import NAMES_FILE
from pinion.site.concerns import Base, PackageSource

NOW = datetime.now(UTC)


@pytest.fixture(scope="module")
def mirror(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Archive]:
    with archive(tmp_path_factory.mktemp("archive") / "keys") as found:
        found.publish("ahead", NOW + timedelta(days=731))
        found.publish("old", NOW - timedelta(days=731), NOW - timedelta(days=724))
        yield found


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the files of the plan are, for apt and for the on-host program."""
    monkeypatch.setitem(ENVIRONMENT, "APT_CONFIG", apt_folders(tmp_path)["APT_CONFIG"])
    monkeypatch.setattr(package_sources, "KEYS_FOLDER", str(tmp_path / "keys"))
    monkeypatch.setattr(package_sources, "FOLDER", str(tmp_path / "etc/apt/sources.list.d"))
    monkeypatch.setattr(archives, "NAMES_FILE", tmp_path / "resolv.conf")
    (tmp_path / "resolv.conf").write_text("# some\nnameserver 192.0.2.53\nnameserver 2001:db8::53\n")
    (tmp_path / "keys").mkdir()
    return tmp_path


def state(uri: str, suite: str = "good", key: str | None = None) -> None:
    """Place the files of one source, as the plan has them."""
    source = PackageSource.model_validate({"uri": uri, "suites": [suite], "key": key})
    for file in package_sources.source_files("base", {"m": source}):
        Path(file.path).write_text(file.content)


def refused(name: str = PACKAGE) -> str:
    """What the on-host program says when it cannot install *name*."""
    with pytest.raises(HostError) as refusal:
        packages.Dpkg().install([name])
    return str(refusal.value)


@needs_apt
def test_apt_finds_the_packages_of_a_stated_source_by_the_key_that_is_stated(root: Path, mirror: Archive) -> None:
    state(mirror.uri, key=mirror.key)
    environment = apt_folders(root)
    update = ["apt-get", "-q", "-o", "APT::Update::Error-Mode=any", "update"]
    done = subprocess.run(update, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    shown = subprocess.run(["apt-cache", "show", PACKAGE], env=environment, capture_output=True, text=True, check=True)
    assert f"Package: {PACKAGE}\n" in shown.stdout


@needs_apt
def test_an_archive_that_its_source_has_no_key_of_is_not_used(root: Path, mirror: Archive) -> None:
    state(mirror.uri)
    said = refused()
    assert "archive: " in said or "key: " in said
    assert "concerns.base.package_sources" in said


@needs_apt
@pytest.mark.parametrize(
    ("suite", "cause"),
    [
        ("ahead", "clock: what the archive has signed is of a later time than this host's clock, "),
        ("old", "clock: what the archive has signed has run out at "),
        ("none", "archive: "),
    ],
    ids=["clock two years behind", "clock two years ahead", "no such suite"],
)
def test_an_archive_that_cannot_be_used_is_told_with_its_cause(
    root: Path, mirror: Archive, suite: str, cause: str
) -> None:
    state(mirror.uri, suite, mirror.key)
    said = refused()
    assert said.startswith(f"apt-get install {PACKAGE}: exit 100: ")
    assert cause in said
    if suite != "none":
        assert f"{datetime.now(UTC):%Y-%m-%d}" in said, "it says what the clock says"
        assert "`chronyc makestep`" in said


@needs_apt
def test_a_mirror_that_is_down_is_told(root: Path, mirror: Archive) -> None:
    # a port that nobody listens on
    state("http://127.0.0.1:9/debian", key=mirror.key)
    assert "mirror: 127.0.0.1:9 does not answer: mend it, or state another, concerns.base.package_sources" in refused()


@needs_apt
@pytest.mark.skipif(os.geteuid() != 0, reason="a network of its own needs root")
def test_dead_name_servers_are_told(root: Path, mirror: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "_APT", ("unshare", "--net", *packages._APT))
    state("http://packages.example/debian", key=mirror.key)
    said = refused()
    assert (
        "DNS: nobody knows the name packages.example; this host asks 192.0.2.53, 2001:db8::53: state name servers"
        in said
    )
    assert "concerns.base.name_servers" in said
    (root / "resolv.conf").unlink()
    assert "this host asks nobody" in refused()


@needs_apt
def test_one_archive_that_is_down_does_not_hold_up_the_packages_of_another(root: Path, mirror: Archive) -> None:
    state("http://127.0.0.2:9/debian", key=mirror.key)
    (root / "etc/apt/sources.list.d/m.sources").rename(root / "etc/apt/sources.list.d/down.sources")
    state(mirror.uri, key=mirror.key)
    said = refused()
    assert "Unable to locate" not in said, "it is found; only its fetching fails, for the archive has lists and no more"
    assert "404" in said


@needs_apt
def test_a_package_that_no_source_has_is_told(root: Path, mirror: Archive) -> None:
    state(mirror.uri, key=mirror.key)
    said = refused("pinion-of-nobody")
    assert (
        "archive: no package source of this host has pinion-of-nobody: state one that has, concerns.base.package_sources"
        in said
    )


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ("  Temporary failure resolving 'deb.example'", "DNS: nobody knows the name deb.example; "),
        ("  Could not resolve 'deb.example'", "DNS: nobody knows the name deb.example; "),
        (
            "  Sub-process /usr/bin/sqv returned an error code (1), error message is: Verifying signature: Not live until 2028-11-22",
            "clock: what the archive has signed is of a later time",
        ),
        (
            "E: Release file for http://m/InRelease is expired (invalid since 753d 23h 32min 40s).",
            "clock: what the archive has signed has run out",
        ),
        (
            "  Certificate verification failed: The certificate is NOT trusted. The certificate chain uses not yet valid certificate. ",
            "clock: what the archive has signed is of a later time",
        ),
        (
            "  Cannot initiate the connection to m.example:443 (192.0.2.1). - connect (101: Network is unreachable)",
            "mirror: m.example:443 does not answer",
        ),
        ("  503  Service Unavailable [IP: 192.0.2.1 80]", "mirror: it fails (503  Service Unavailable"),
        (
            "  Sub-process /usr/bin/sqv returned an error code (1), error message is: Missing key 912E37DCC6656F02, which is needed to",
            "key: the archive is not signed by what its source names (912E37DCC6656F02)",
        ),
        (
            "  SSL connection failed: error:0A00010B:SSL routines::wrong version number / Success [IP: 192.0.2.1 443]",
            "mirror: its TLS does not hold (SSL connection failed: error:0A00010B:SSL routines::wrong version number / Success)",
        ),
        (
            "E: The repository 'http://m nosuch Release' does not have a Release file.",
            "archive: http://m nosuch Release is not there",
        ),
    ],
)
def test_what_apt_says_has_a_cause(said: str, cause: str) -> None:
    """Lines of apt 3.0 and 2.6, as they said them."""
    assert causes(said).startswith(cause)


def test_what_follows_from_a_cause_is_no_other() -> None:
    """apt 3.0 with a clock that is behind, as it said it."""
    said = "Not live until 2028-11-22\nE: The repository 'http://m good InRelease' is not signed.\nE: Unable to locate package chrony"
    assert causes(said).startswith("clock: ")
    assert "archive: " not in causes(said)


def test_what_has_another_cause_gets_none() -> None:
    assert causes("E: dpkg was interrupted | E: Sub-process /usr/bin/dpkg returned an error code (1)") == ""


def test_the_keys_that_a_mend_names_are_those_of_the_site_file() -> None:
    text = " ".join(mend for _, _, mend in (*archives._SAID, *archives._THEN, *archives._NOWHERE))
    named = re.findall(r"concerns\.base\.([a-z_]+)(?:\.NAME\.([a-z_]+))?", text)
    assert {key for key, _ in named} == {"name_servers", "time_servers", "package_sources"} <= set(Base.model_fields)
    assert {inner for _, inner in named if inner} <= set(PackageSource.model_fields)


def test_they_are_there_before_the_first_package_comes() -> None:
    """Also before those of concerns that come before `base`."""
    stated = next(host for host in plan_of_file(DC).hosts if host.name == "nv-1")
    concerns = [concern for concern in asked(stated) if concern.name in {"os_tuning", "base"}]
    host = image(concerns)
    there: list[bool] = []

    def step(name: str) -> None:
        if name == "install":
            there.append({NAMES_FILE, "/etc/apt/sources.list.d/nvidia.sources"} <= set(host.files))

    host.step = step
    engine.converge(host.machine(), concerns, wait=0, who="t", name="r")
    assert there
    assert all(there)
