"""Backup and restore of a real step-ca: what holds after a restore from yesterday, after kills, and what no file is taken for a backup."""

from __future__ import annotations

import base64
import io
import os
import shutil
import socketserver
import string
import subprocess
import tarfile
import threading
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from power_cut import cut
from unit.hosts.sites import LAB, planned

from pinion.bringup.authority_host import fetch_database, place_database
from pinion.bringup.host_shell import HostRefusedError
from pinion.bringup.refusing import another_token_key, await_key, refuse
from pinion.drivers.hosts.answers import HostResult
from pinion.drivers.hosts.inventory import Login
from pinion.drivers.identity import backup as backups
from pinion.drivers.identity.authority import Authority
from pinion.drivers.identity.backup import collect, keep, put_back, read
from pinion.drivers.identity.issuers import issuer
from pinion.drivers.identity.place import AuthorityError
from pinion.drivers.identity.sealing import passphrase_in, seal
from pinion.plan.model import AuthorityPlan

from .conftest import DOMAIN, LIFETIME, NETWORKS, Host, StepCa
from .test_thief import Thief

NOBODY = Login(None, None)
MGMT = next(host for host in planned(LAB).hosts if host.name == "mgmt-1")
PASSPHRASE = b"correct horse battery staple"
YESTERDAY = datetime(2026, 11, 23, 12, tzinfo=UTC)


class Site:
    """An authority on the operator's machine and its step-ca, on a host whose commands run here with another `systemctl`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority(folder / "authority" / "rack")
        self.authority.make("rack", DOMAIN, NETWORKS)
        self.ca = StepCa(folder / "ca", self.authority, hosts=("pi-01", "pi-02"))
        self.data = folder / "ca" / "data"
        self.staying: tuple[str, ...] = ("pi-01", "pi-02")
        self.asked: list[str] = []
        site = self

        class Systemd(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                word = self.rfile.readline().decode().strip()
                site.asked.append(word)
                {"stop": site.ca.stop, "start": site.started}[word]()
                self.wfile.write(b"done\n")

        self.server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Systemd)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        commands = folder / "bin"
        commands.mkdir()
        port = self.server.server_address[1]
        for name, text in {
            "sudo": 'shift\nexec "$@"',
            "chown": "exit 0",
            "systemctl": f'exec 3<>/dev/tcp/127.0.0.1/{port}\necho "$1" >&3\nread -r said <&3\ntest "$said" = done',
        }.items():
            (commands / name).write_text(f"#!/bin/bash\n{text}\n")
            (commands / name).chmod(0o755)
        self.path = f"{commands}:{os.environ['PATH']}"

    def started(self) -> None:
        """As systemd has it: what runs is not started again."""
        self.ca.stop()
        self.ca.start()

    def run(self, argv: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        """In place of ssh: the command for the host, here."""
        assert argv[0] == "ssh"
        return subprocess.run(["bash", "-c", argv[-1]], env={"PATH": self.path}, **options)

    def converge(self, name: str) -> Mapping[str, HostResult]:
        """The authority's host gets the configuration for who stays."""
        self.ca.authority = self.authority
        self.ca.serves(*self.staying)
        self.started()
        return {name: HostResult()}

    @property
    def stated(self) -> AuthorityPlan:
        return AuthorityPlan(url=self.ca.url, host="mgmt-1", domain=DOMAIN, networks=NETWORKS, lifetime=LIFETIME)

    def back_up(self, path: Path) -> None:
        """As `pinion identity backup`."""
        database = fetch_database(MGMT, NOBODY, self.run, str(self.data))
        keep(collect(self.authority, "rack", database, YESTERDAY), path, PASSPHRASE)

    def restore(self, path: Path) -> bool:
        """As `pinion identity restore`."""
        found = read(path, "rack", PASSPHRASE)
        anew = put_back(self.authority, found)
        another_token_key(self.authority, self.stated, self.converge)
        place_database(MGMT, NOBODY, found.database, self.run, str(self.data))
        await_key(self.authority, self.stated.url)
        return anew

    def host(self, name: str) -> Host:
        found = Host(self.folder / name, self.ca, name)
        found.enrolled()
        return found


@pytest.fixture
def site(tmp_path: Path, step_ca_program: Path) -> Iterator[Site]:
    del step_ca_program
    found = Site(tmp_path)
    found.ca.start()
    yield found
    found.server.shutdown()
    found.server.server_close()
    found.ca.stop()


def test_after_a_restore_from_yesterday_nobody_who_left_is_back_and_no_token_of_before_counts(
    site: Site, tmp_path: Path
) -> None:
    pi, file = site.host("pi-01"), tmp_path / "safe" / "rack"
    file.parent.mkdir()
    site.back_up(file)
    assert site.asked == ["stop", "start"]
    assert file.stat().st_mode & 0o777 == 0o600

    later = Host(tmp_path / "pi-02", site.ca, "pi-02")
    used = later.token()
    assert later.run("enrol").returncode == 0
    thief = Thief(pi, tmp_path / "thief")
    site.staying = ("pi-02",)
    refuse(site.authority, site.stated, pi.names[0], site.converge)

    assert site.restore(file) is False
    assert thief.rekeys(thief.pairs[0]) == 401
    copy = Host(tmp_path / "copy", site.ca, "pi-02")
    copy.give(used)
    assert copy.run("enrol").returncode == 1, "the database does not know any more that it was used"
    own = Thief(later, tmp_path / "later")
    assert own.rekeys(own.pairs[0]) == 201, "who was enrolled since is renewed as before"
    assert len(list(site.data.glob("db.before-*"))) == 1
    assert site.restore(file) is False, "again"


def test_without_the_operators_folder_nobody_is_renewed_who_was_not_enrolled_anew(site: Site, tmp_path: Path) -> None:
    pi, file = site.host("pi-01"), tmp_path / "rack"
    before = site.authority.fingerprint
    site.back_up(file)
    thief = Thief(pi, tmp_path / "thief")
    refuse(site.authority, site.stated, pi.names[0], site.converge)
    pi.enrolled()
    shutil.rmtree(site.authority.folder)
    site.ca.stop()
    shutil.rmtree(site.data / "db")

    assert site.restore(file) is True
    assert site.authority.fingerprint == before
    assert (site.authority.folder / "root.key").stat().st_mode & 0o777 == 0o600
    assert site.authority.folder.stat().st_mode & 0o777 == 0o700
    assert thief.rekeys(thief.pairs[0]) == 401, "that he was refused is forgotten, and yet he is"
    mine = issuer(site.authority, pi.names[0])
    assert pi.run("good", "--issuer", mine, *pi.names).returncode == 1
    pi.enrolled()
    own = Thief(pi, tmp_path / "own")
    assert own.rekeys(own.pairs[0]) == 201


def test_a_restore_that_is_killed_while_step_ca_is_stopped_goes_on(site: Site, tmp_path: Path) -> None:
    file = tmp_path / "rack"
    site.back_up(file)
    mv = tmp_path / "bin" / "mv"
    mv.write_text('#!/bin/bash\nif test "$1" = .restored/db; then kill -HUP $PPID; exit 1; fi\nexec /bin/mv "$@"\n')
    mv.chmod(0o755)
    with pytest.raises(HostRefusedError):
        place_database(MGMT, NOBODY, read(file, "rack", PASSPHRASE).database, site.run, str(site.data))
    assert site.asked[-2:] == ["stop", "start"], "it is started whatever ended the command"
    mv.unlink()
    assert site.restore(file) is False
    assert site.host("pi-01").status()["good"] is True


def test_killed_at_any_file_the_folder_is_put_back_by_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = Authority(tmp_path / "before" / "rack")
    before.make("rack", DOMAIN, NETWORKS)
    kept = collect(before, "rack", b"database", YESTERDAY)
    files = {*kept.files, "issuers.json"}
    write = backups.write
    for step in range(len(files)):
        after = Authority(tmp_path / str(step) / "rack")
        written: list[str] = []

        def cut(path: Path, content: bytes, mode: int, at: int = step, done: list[str] = written) -> None:
            if len(done) == at:
                raise KeyboardInterrupt
            write(path, content, mode)
            done.append(path.name)

        monkeypatch.setattr(backups, "write", cut)
        with pytest.raises(KeyboardInterrupt):
            put_back(after, kept)
        monkeypatch.setattr(backups, "write", write)
        assert put_back(after, kept) is True, f"cut at {step}: not taken for whole"
        assert {path.name for path in after.folder.iterdir()} - {".lock"} == files
        assert after.fingerprint == before.fingerprint
        assert issuer(after, "pi-01.rack.internal") != "pi-01.rack.internal"


def test_another_authoritys_folder_is_not_written_over(tmp_path: Path) -> None:
    one, other = Authority(tmp_path / "one"), Authority(tmp_path / "other")
    for authority in (one, other):
        authority.make("rack", DOMAIN, NETWORKS)
    before = other.fingerprint
    with pytest.raises(AuthorityError, match="is another authority than the backup's"):
        put_back(other, collect(one, "rack", b"", YESTERDAY))
    assert other.fingerprint == before


def test_no_backup_goes_into_a_git_work_tree(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    authority.make("rack", DOMAIN, NETWORKS)
    (tmp_path / "tree" / ".git").mkdir(parents=True)
    (tmp_path / "tree" / "deep").mkdir()
    file = tmp_path / "tree" / "deep" / "rack"
    with pytest.raises(AuthorityError, match="is in the git work tree"):
        keep(collect(authority, "rack", b"", YESTERDAY), file, PASSPHRASE)
    assert not file.exists()


def test_what_is_torn_changed_or_another_sites_is_refused(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    authority.make("rack", DOMAIN, NETWORKS)
    file = tmp_path / "backup"
    keep(collect(authority, "rack", b"database", YESTERDAY), file, PASSPHRASE)
    whole = file.read_bytes()
    assert read(file, "rack", PASSPHRASE).database == b"database"
    with pytest.raises(AuthorityError, match="of the site rack, and not of lab"):
        read(file, "lab", PASSPHRASE)
    for torn in (b"", whole[:40], whole[: len(whole) // 2], whole + b"x", b"x" * 2048, authority.folder.name.encode()):
        file.write_bytes(torn)
        with pytest.raises(AuthorityError, match="cannot be opened: "):
            read(file, "rack", PASSPHRASE)
    for at in (10, 50, len(whole) // 2, len(whole) - 3):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(AuthorityError, match="cannot be opened: "):
            read(file, "rack", PASSPHRASE)
    letters = string.ascii_uppercase + string.ascii_lowercase + string.digits + "-_"
    last = len(whole.rstrip(b"=\n")) - 1
    for spare in (1, 2, 3):  # bits of the last letter that mean nothing
        letter = letters[letters.index(chr(whole[last])) | spare]
        file.write_bytes(whole[:last] + letter.encode() + whole[last + 1 :])
        with pytest.raises(AuthorityError, match="cannot be opened: "):
            read(file, "rack", PASSPHRASE)
    file.write_bytes(seal(b"x" * 2048, PASSPHRASE))
    with pytest.raises(AuthorityError, match="is no backup of an authority"):
        read(file, "rack", PASSPHRASE)
    with pytest.raises(AuthorityError, match="No such file"):
        read(tmp_path / "nowhere", "rack", PASSPHRASE)


def test_who_has_the_file_and_not_the_passphrase_has_nothing(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    authority.make("rack", DOMAIN, NETWORKS)
    file, again = tmp_path / "backup", tmp_path / "again"
    kept = collect(authority, "rack", b"database", YESTERDAY)
    keep(kept, file, PASSPHRASE)
    keep(kept, again, PASSPHRASE)
    for plain in (b"database", b"root.key", b"PRIVATE KEY", base64.b64encode(b"PRIVATE KEY")[4:-4], PASSPHRASE):
        assert plain not in file.read_bytes()
    assert file.read_bytes().split(b"\n")[1] != again.read_bytes().split(b"\n")[1], "a salt of its own"
    with pytest.raises(AuthorityError, match="another passphrase"):
        read(file, "rack", PASSPHRASE + b"s")
    assert read(file, "rack", PASSPHRASE).files == kept.files


def test_killed_while_it_is_written_a_backup_is_the_old_one_or_the_new(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    authority.make("rack", DOMAIN, NETWORKS)
    folder, scratch = tmp_path / "safe", tmp_path / "scratch"
    folder.mkdir()
    scratch.mkdir()
    file = folder / "rack"
    old, new = (collect(authority, "rack", database, YESTERDAY) for database in (b"old", b"new"))
    keep(old, file, PASSPHRASE)
    at, seen = 0, set()
    while cut(lambda: keep(new, file, PASSPHRASE), folder, at, scratch):
        seen.add(read(file, "rack", PASSPHRASE).database)
        keep(old, file, PASSPHRASE)
        assert [path.name for path in folder.iterdir()] == ["rack"], f"cut at {at}: nothing half written is left"
        at += 1
    assert at > 1, "steps were counted"
    assert seen == {b"old"}
    assert read(file, "rack", PASSPHRASE).database == b"new"


def test_a_passphrase_is_long_and_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "passphrase"
    path.touch(mode=0o600)
    path.write_bytes(PASSPHRASE + b"\n")
    assert passphrase_in(path) == PASSPHRASE
    path.write_bytes(b"0123456789abcd\n")
    with pytest.raises(AuthorityError, match="14 characters, and 15 are the least"):
        passphrase_in(path)
    path.write_bytes(PASSPHRASE)
    path.chmod(0o640)
    with pytest.raises(AuthorityError, match="others may read"):
        passphrase_in(path)
    with pytest.raises(AuthorityError, match="No such file"):
        passphrase_in(tmp_path / "nowhere")


def test_a_host_without_a_database_says_so_and_step_ca_is_started_again(site: Site) -> None:
    site.ca.stop()
    shutil.rmtree(site.data / "db")
    with pytest.raises(HostRefusedError, match="mgmt-1: "):
        fetch_database(MGMT, NOBODY, site.run, str(site.data))
    assert site.asked == ["stop", "start"]


def test_a_database_that_is_none_changes_nothing(site: Site) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        archive.addfile(tarfile.TarInfo("other"), io.BytesIO())
    for database in (b"torn", packed.getvalue()):
        with pytest.raises(HostRefusedError):
            place_database(MGMT, NOBODY, database, site.run, str(site.data))
    assert site.asked == [], "not even stopped"
    assert site.host("pi-01").status()["good"] is True
