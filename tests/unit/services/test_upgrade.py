"""Packages of a host become newer, and go back: the real program, apt and dpkg, in a mount namespace with archives of its own."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from unit.hosts.sites import REPOSITORY
from unit.hosts.stand_ins import Deb

from pinion.services.node_programs import upgrade

PROGRAM = REPOSITORY / "src/pinion/services/node_programs/upgrade.py"
needs_dpkg = pytest.mark.skipif(
    os.geteuid() != 0 or not all(map(shutil.which, ("dpkg-deb", "apt-get"))),
    reason="a mount namespace needs root, the packages dpkg and apt",
)
#: The machine's own apt and dpkg, with folders of the namespace.
MACHINE = """\
set -e
mkdir -p {folder}/o
mount -t tmpfs none {folder}/o
for top in etc usr var; do
  mkdir -p {folder}/o/$top/upper {folder}/o/$top/work
  mount -t overlay overlay -o lowerdir=/$top,upperdir={folder}/o/$top/upper,workdir={folder}/o/$top/work /$top
done
mount -t tmpfs none /run && mkdir /run/lock
for each in pinion dpkg apt; do mkdir -p /var/lib/$each; mount -t tmpfs none /var/lib/$each; done
cd /var/lib/dpkg && mkdir info updates triggers alternatives && touch status available
rm -rf /etc/apt/* /var/cache/apt/archives/*.deb && mkdir -p /etc/apt/preferences.d /etc/apt/apt.conf.d
rm -f /usr/bin/dpkg-repack
echo 'APT::Sandbox::User "root";' >/etc/apt/apt.conf
use() {{ for each; do echo "deb [trusted=yes] file:{folder}/$each ./"; done >/etc/apt/sources.list; }}
have() {{ dpkg-query -W -f '${{db:Status-Status}} ${{Package}} ${{Version}}\\n' | sed -n 's/^installed //p' | sort | paste -sd ' '; }}
up() {{ python3 -I -B {program} "$@" '{request}'; }}
"""
OLD = (
    Deb("alpha", "1.0", {"/usr/share/alpha": "1.0\n"}),
    Deb("beta", "1.0"),
    Deb("kubelet", "1.34.2"),
    Deb("delta", "1.0"),
    Deb("guest"),
)
NEW = (
    Deb("alpha", "1.1", {"/usr/share/alpha": "1.1\n"}, relations="Depends: alpha-6.12\n"),
    Deb("alpha-6.12", "1.1"),
    Deb("kubelet", "1.35.0"),
    Deb("delta", "2.0", relations="Conflicts: guest\n"),
)
FIXES = (Deb("beta", "1.0+deb13u1"),)


def publish(folder: Path, debs: tuple[Deb, ...], label: str) -> None:
    """A flat archive of *debs* in *folder*, which calls itself *label*."""
    folder.mkdir()
    packages = "".join(deb.build(folder) for deb in debs)
    (folder / "Packages").write_text(packages)
    digest = hashlib.sha256(packages.encode()).hexdigest()
    lines = [f"Origin: {label}", f"Label: {label}", "SHA256:", f" {digest} {len(packages.encode())} Packages", ""]
    (folder / "Release").write_text("\n".join(lines))


class Host:
    """The namespace; each `then` is a shell line that must succeed, and all are run by `run`."""

    def __init__(self, folder: Path, **request: object) -> None:
        self.folder = folder
        publish(folder / "old", OLD, "Debian")
        publish(folder / "new", NEW, "Debian")
        publish(folder / "fixes", FIXES, "Debian-Security")
        given = shlex.quote(json.dumps({"run": "run-1", **request})).strip("'")
        self.lines = [MACHINE.format(folder=folder, program=PROGRAM, request=given)]
        self.then("use old; apt-get -q update; apt-get -qy install alpha beta kubelet delta guest; apt-mark auto beta")

    def then(self, line: str) -> None:
        """Add *line*."""
        self.lines.append(line)

    def have(self, name: str) -> None:
        """Note what is installed, and what of it apt installed by itself, under *name*."""
        self.then(f"{{ have; apt-mark showauto | sort | paste -sd ' '; }} >{self.folder}/{name}")

    def run(self) -> None:
        """Run all of it."""
        done = subprocess.run(
            ["unshare", "--mount", "/bin/bash", "-c", "\n".join(self.lines)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]

    def said(self, name: str) -> Any:
        """The answer under *name*."""
        return json.loads((self.folder / name).read_text())

    def text(self, name: str) -> list[str]:
        """What was noted under *name*."""
        return (self.folder / name).read_text().splitlines()


@needs_dpkg
def test_newer_and_back_again(tmp_path: Path) -> None:
    host = Host(tmp_path, newest={"kubelet": "1.34"})
    host.have("before")
    host.then(f"use old new fixes; up --check >{tmp_path}/check.json")
    host.have("checked")
    host.then(f"up >{tmp_path}/up.json")
    host.have("after")
    host.then(
        f"up >{tmp_path}/again.json; up --back --check >{tmp_path}/foretold.json; ls -1 /run/lock >{tmp_path}/locks"
    )
    host.have("foretold")
    host.then(f"up --back >{tmp_path}/back.json")
    host.have("back")
    host.then(f"up --back >{tmp_path}/back-again.json; cat /usr/share/alpha >{tmp_path}/alpha")
    host.run()
    check = host.said("check.json")
    assert [entry["name"] for entry in check["packages"]] == ["beta", "alpha", "alpha-6.12"], "security fixes first"
    assert [entry["security"] for entry in check["packages"]] == [True, False, False]
    assert check["kept_back"] == ["delta"], "guest would have to go for it"
    assert check["refused"] == {"kubelet": "1.35.0 is newer than the 1.34 that it may be"}
    assert host.text("checked") == host.text("before"), "a check changes nothing"
    assert host.said("up.json")["packages"] == check["packages"]
    assert host.said("up.json")["one_way"] == []
    assert host.text("after") == [
        "alpha 1.1 alpha-6.12 1.1 beta 1.0+deb13u1 delta 1.0 guest 1.0 kubelet 1.34.2",
        "alpha-6.12 beta",
    ]
    assert host.said("again.json")["packages"] == []
    assert host.text("locks") == ["pinion-upgrade"], "no pins are left"
    back = {entry["name"]: (entry["before"], entry["after"]) for entry in host.said("back.json")["packages"]}
    assert back == {"alpha": ("1.1", "1.0"), "beta": ("1.0+deb13u1", "1.0"), "alpha-6.12": ("1.1", "")}
    assert host.said("foretold.json")["packages"] == host.said("back.json")["packages"]
    assert host.text("foretold") == host.text("after")
    assert host.text("back") == host.text("before"), "beta is apt's own choice again"
    assert host.said("back-again.json")["packages"] == []
    assert host.text("alpha") == ["1.0"]


@needs_dpkg
def test_where_nobody_knows_how_new_a_kubelet_may_be_its_minor_version_stays(tmp_path: Path) -> None:
    host = Host(tmp_path, newest={"kubelet": None, "kubeadm": None})
    publish(tmp_path / "patch", (Deb("kubelet", "1.34.9"),), "Kubernetes")
    host.then(f"use old patch; up --check >{tmp_path}/patch.json; use old new; up >{tmp_path}/up.json")
    host.have("after")
    host.run()
    assert [entry["after"] for entry in host.said("patch.json")["packages"]] == ["1.34.9"]
    assert host.said("up.json")["refused"] == {
        "kubelet": "1.35.0 is newer than the 1.34.2 that is installed, and how new it may be is not known"
    }
    assert "kubelet 1.34.2" in host.text("after")[0]


@needs_dpkg
def test_without_a_way_back_nothing_is_touched_unless_told_to(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.have("before")
    host.then(f"use fixes; ! up 2>{tmp_path}/refused")
    host.have("refused-after")
    host.then(f"""python3 -I -B {PROGRAM} '{json.dumps({"run": "run-2", "one_way": True})}' >{tmp_path}/up.json""")
    host.have("after")
    host.run()
    assert "no way back for beta" in host.text("refused")[0]
    assert host.text("refused-after") == host.text("before")
    assert host.said("up.json")["one_way"] == ["beta"]
    assert "beta 1.0+deb13u1" in host.text("after")[0]


@needs_dpkg
def test_an_archive_that_cannot_be_read_is_no_host_up_to_date(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.then(f"use old gone; ! up --check 2>{tmp_path}/said; ! up 2>>{tmp_path}/said")
    host.run()
    assert [line.startswith("upgrade: the lists of packages cannot be fetched") for line in host.text("said")] == [
        True,
        True,
    ]


@needs_dpkg
def test_what_was_cut_off_is_finished_first_and_a_new_package_that_others_need_stays(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.then("use old new fixes; apt-get -q update; cd /tmp; dpkg --unpack " + str(tmp_path / "fixes") + "/beta_*.deb")
    host.then(f'test -n "$(dpkg --audit)"; up >{tmp_path}/up.json; test -z "$(dpkg --audit)"')
    host.then(f"mkdir {tmp_path}/more; dpkg --unpack --force-all {tmp_path}/needs/needs_*.deb; dpkg --configure needs")
    host.then(f"up --back >{tmp_path}/back.json")
    host.have("after")
    publish(tmp_path / "needs", (Deb("needs", relations="Depends: alpha-6.12\n"),), "own")
    host.run()
    assert [entry["name"] for entry in host.said("up.json")["packages"]] == ["alpha", "alpha-6.12", "kubelet"]
    assert host.said("back.json")["stays"] == ["alpha-6.12"]
    assert "alpha 1.0 alpha-6.12 1.1" in host.text("after")[0]


def test_programs_whose_files_were_replaced_are_named(tmp_path: Path) -> None:
    def process(number: str, name: str, *maps: str) -> None:
        (tmp_path / number).mkdir()
        (tmp_path / number / "comm").write_text(f"{name}\n")
        (tmp_path / number / "maps").write_text("".join(f"{line}\n" for line in maps))

    process("1", "systemd", "7f00-7f01 r-xp 00000000 08:01 12  /usr/lib/libc.so.6 (deleted)")
    process("2", "fresh", "7f00-7f01 r-xp 00000000 08:01 12  /usr/lib/libc.so.6")
    process("3", "data", "7f00-7f01 r--p 00000000 08:01 12  /usr/share/locale (deleted)")
    process("4", "own", "7f00-7f01 rwxp 00000000 00:01 12  /memfd:jit (deleted)")
    assert upgrade.stale_programs(tmp_path) == ["systemd"]


def test_what_apt_says_is_read_whole() -> None:
    said = (
        "Inst libc6 [2.41-12] (2.41-12+deb13u1 Debian:13.1/stable, Debian-Security:13/stable-security [arm64]) []\n"
        "Inst linux-image-6.12.50 (6.12.50-1 Debian:13.1/stable [arm64])\n"
        "Conf libc6 (2.41-12+deb13u1 Debian:13.1/stable [arm64])\nRemv gone [1.0]\n"
    )
    assert upgrade.parsed(said) == [
        upgrade.Package("libc6", "2.41-12", "2.41-12+deb13u1", security=True),
        upgrade.Package("linux-image-6.12.50", "", "6.12.50-1", security=False),
    ]
