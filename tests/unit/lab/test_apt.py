"""The mirror of this machine: read in both formats, third parties left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from pinion.lab import apt
from pinion.lab.errors import LabError

DEB822 = """\
Types: deb
# a comment line inside a stanza
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://mirror.example/debian-security
Suites: bookworm-security
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: https://third.example/node
Suites: bookworm
Components: main
Signed-By: /usr/share/keyrings/third.gpg
"""


def test_deb822_stanzas() -> None:
    mirrors = apt.choose(apt.parse_deb822(DEB822), "bookworm")
    assert mirrors == apt.Mirrors("http://mirror.example/debian", "http://mirror.example/debian-security")


def test_disabled_and_source_stanzas_do_not_count() -> None:
    text = DEB822.replace("Types: deb\n", "Types: deb-src\n", 1)
    with pytest.raises(LabError, match="no Debian mirror"):
        apt.choose(apt.parse_deb822(text), "bookworm")
    disabled = DEB822.replace("Types: deb\n", "Enabled: no\nTypes: deb\n", 1)
    with pytest.raises(LabError, match="no Debian mirror"):
        apt.choose(apt.parse_deb822(disabled), "bookworm")


def test_a_field_may_go_on_over_lines() -> None:
    text = "Types: deb\nURIs:\n http://one.example/debian/\nSuites:\n bookworm\nComponents: main contrib\n"
    assert apt.choose(apt.parse_deb822(text), "bookworm").archive == "http://one.example/debian"


@pytest.mark.parametrize(
    "line",
    [
        "deb http://old.example/debian bookworm main",
        "deb [arch=amd64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://old.example/debian/ bookworm main contrib # why",
        "  deb   http://old.example/debian  stable   main",
    ],
)
def test_one_line_entries(line: str) -> None:
    assert apt.choose(apt.parse_one_line(line), "bookworm").archive == "http://old.example/debian"


@pytest.mark.parametrize(
    "line",
    [
        "# deb http://old.example/debian bookworm main",
        "deb-src http://old.example/debian bookworm main",
        "deb [signed-by=/etc/apt/keyrings/docker.gpg] https://third.example/linux/debian bookworm main",
        "deb https://third.example/linux/debian bookworm stable",
        "deb https://third.example/apt cloud-sdk-bookworm main",
    ],
)
def test_lines_that_are_not_debians(line: str) -> None:
    with pytest.raises(LabError):
        apt.choose(apt.parse_one_line(line), "bookworm")


def test_old_style_security_suite() -> None:
    entries = apt.parse_one_line(
        "deb http://m.example/debian bookworm main\ndeb http://m.example/security stable/updates main"
    )
    # `stable/updates` was security before bullseye; it is no pocket of the archive's own name, so the archive stays the first
    assert apt.choose(entries, "bookworm").archive == "http://m.example/debian"


def test_a_machine_with_both_formats(tmp_path: Path) -> None:
    (tmp_path / "apt/sources.list.d").mkdir(parents=True)
    (tmp_path / "os-release").write_text("VERSION_CODENAME=bookworm\n")
    (tmp_path / "apt/sources.list").write_text("deb http://list.example/debian bookworm main\n")
    (tmp_path / "apt/sources.list.d/security.sources").write_text(DEB822.split("\n\n")[1])
    (tmp_path / "apt/sources.list.d/ignored.save").write_text("deb http://no.example/debian bookworm main")
    found = apt.machine_mirrors(tmp_path)
    assert found == apt.Mirrors("http://list.example/debian", "http://mirror.example/debian-security")


def test_this_machine_has_a_mirror() -> None:
    assert apt.machine_mirrors().archive.startswith(("http://", "https://", "file:", "mirror"))


def test_sources_name_the_lab_release_and_the_proxy_sees_plain_http() -> None:
    mirrors = apt.Mirrors("https://user:secret@mirror.example:8443/debian", None)
    assert "Suites: trixie trixie-updates" in mirrors.sources()
    assert "trixie-security" not in mirrors.sources()
    proxied = mirrors.proxied_sources()
    assert "URIs: http://mirror.example:8443/debian\n" in proxied
    assert "secret" not in proxied


def test_only_what_a_build_needs_is_kept_of_the_configuration() -> None:
    dump = (
        "Acquire::http::Proxy http://proxy.example:3128\nAcquire::Check-Valid-Until false\n"
        "Acquire::http::Proxy::mirror.example DIRECT\nAPT::Install-Recommends 1\nAcquire::https::Proxy \n"
    )
    kept = apt.parse_options(dump)
    assert kept == {
        "Acquire::http::Proxy": "http://proxy.example:3128",
        "Acquire::Check-Valid-Until": "false",
        "Acquire::http::Proxy::mirror.example": "DIRECT",
    }
    assert 'Acquire::Check-Valid-Until "false";' in apt.as_configuration(kept)
