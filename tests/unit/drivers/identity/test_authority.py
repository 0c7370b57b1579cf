"""The authority on the operator's machine: what it makes, keeps, refuses, and what survives a kill."""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from pinion.drivers.identity.authority import Authority
from pinion.drivers.identity.place import AuthorityError, folder_of

DOMAIN, NETWORKS = "rack.internal", ("10.77.100.0/24", "2001:db8::/64")
FILES = {"root.crt", "root.key", "intermediate.crt", "intermediate.key", "provisioner.key"}


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    made = Authority(tmp_path / "rack")
    assert made.make("rack", DOMAIN, NETWORKS) is True
    return made


def texts(authority: Authority) -> dict[str, str]:
    return {path.name: path.read_text() for path in authority.folder.iterdir() if path.name != ".lock"}


def test_it_is_made_once_and_its_keys_are_its_owners(authority: Authority) -> None:
    before = texts(authority)
    assert set(before) == FILES
    assert authority.folder.stat().st_mode & 0o777 == 0o700
    assert all((authority.folder / name).stat().st_mode & 0o777 == 0o600 for name in FILES if name.endswith(".key"))
    assert authority.make("rack", DOMAIN, NETWORKS) is False
    assert texts(authority) == before


def test_the_intermediate_signs_for_the_site_and_for_no_further_authority(authority: Authority) -> None:
    found = x509.load_pem_x509_certificate(authority.intermediate.encode())
    found.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.root.encode()))
    assert found.extensions.get_extension_for_class(x509.BasicConstraints).value.path_length == 0
    named = found.extensions.get_extension_for_class(x509.NameConstraints)
    assert named.critical
    assert [str(name.value) for name in named.value.permitted_subtrees or ()] == [DOMAIN, *NETWORKS]


@pytest.mark.parametrize(
    ("alternatives", "good"),
    [
        ("DNS:pi-01.rack.internal", True),
        ("DNS:pi-01.elsewhere.net", False),
        ("IP:10.77.100.4", True),
        ("IP:10.77.101.4", False),
    ],
)
def test_openssl_holds_it_to_its_names(authority: Authority, tmp_path: Path, alternatives: str, good: bool) -> None:
    (tmp_path / "names").write_text(f"subjectAltName={alternatives}\n")
    own = authority.folder
    for command in (
        [
            "req",
            "-new",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-keyout",
            "k",
            "-subj",
            "/CN=x",
            "-out",
            "r",
        ],
        [
            "x509",
            "-req",
            "-in",
            "r",
            "-CA",
            own / "intermediate.crt",
            "-CAkey",
            own / "intermediate.key",
            "-extfile",
            "names",
            "-out",
            "c",
        ],
    ):
        subprocess.run(["openssl", *command], cwd=tmp_path, check=True, capture_output=True)
    verify = ["openssl", "verify", "-CAfile", own / "root.crt", "-untrusted", own / "intermediate.crt", "c"]
    done = subprocess.run(verify, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) is good, done.stderr
    assert good or "permitted subtree violation" in done.stderr


def test_other_networks_and_age_make_another_intermediate_under_the_same_root(tmp_path: Path) -> None:
    now = [dt.datetime.now(dt.UTC)]
    made = Authority(tmp_path / "rack", lambda: now[0])
    made.make("rack", DOMAIN, NETWORKS)
    root, token, first = made.fingerprint, made.provisioner, made.intermediate
    assert made.make("rack", DOMAIN, NETWORKS[:1]) is True
    second = made.intermediate
    assert second != first
    now[0] += dt.timedelta(days=4.1 * 365)
    assert made.make("rack", DOMAIN, NETWORKS[:1]) is True
    assert made.intermediate != second
    assert (made.fingerprint, made.provisioner) == (root, token)


def test_the_roots_key_is_needed_for_that_only(authority: Authority) -> None:
    (authority.folder / "root.key").unlink()
    assert authority.make("rack", DOMAIN, NETWORKS) is False
    before = texts(authority)
    with pytest.raises(AuthorityError, match=r"root\.key: the root's key is needed"):
        authority.make("rack", "other.internal", NETWORKS)
    assert texts(authority) == before


def test_a_root_of_another_key_is_refused(authority: Authority, tmp_path: Path) -> None:
    other = Authority(tmp_path / "other")
    other.make("other", DOMAIN, NETWORKS)
    (authority.folder / "root.key").write_text((other.folder / "root.key").read_text())
    with pytest.raises(AuthorityError, match="do not belong together"):
        authority.make("rack", "other.internal", NETWORKS)


def test_what_is_missing_or_broken_is_told_with_the_way_out(tmp_path: Path, authority: Authority) -> None:
    with pytest.raises(AuthorityError, match="pinion identity init nowhere"):
        _ = Authority(tmp_path / "nowhere").fingerprint
    (authority.folder / "root.crt").write_text("torn")
    with pytest.raises(AuthorityError, match=r"root\.crt: not what Pinion wrote"):
        _ = authority.fingerprint
    assert not (tmp_path / "nowhere").exists(), "to look makes nothing"


def test_killed_at_any_rename_the_next_run_has_all(tmp_path: Path) -> None:
    script = """
import os, signal, sys
from pathlib import Path
from pinion.drivers.identity.authority import Authority
at, seen = int(sys.argv[1]), 0
def hook(event, arguments):
    global seen
    if event == "os.rename":
        seen += 1
        if seen == at:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(hook)
Authority(Path(sys.argv[2])).make("rack", "rack.internal", ["10.77.100.0/24"])
"""
    for at in range(1, 7):
        folder = tmp_path / str(at)
        code = subprocess.run([sys.executable, "-c", script, str(at), folder], check=False).returncode
        assert code == (-9 if at <= 5 else 0), at
        made = Authority(folder)
        assert made.make("rack", "rack.internal", ["10.77.100.0/24"]) is (code == -9)
        assert set(texts(made)) <= FILES | {f".{name}.new" for name in FILES}
        intermediate = x509.load_pem_x509_certificate(made.intermediate.encode())
        intermediate.verify_directly_issued_by(x509.load_pem_x509_certificate(made.root.encode()))
        key = made.token_key
        key.public_key().verify(key.sign(b"x", ec.ECDSA(hashes.SHA256())), b"x", ec.ECDSA(hashes.SHA256()))
    assert made.make("rack", "rack.internal", ["10.77.100.0/24"]) is False


def test_where_it_lies(tmp_path: Path) -> None:
    assert folder_of("lab", {"PINION_AUTHORITY": str(tmp_path)}) == tmp_path / "lab"
    assert folder_of("lab", {"XDG_DATA_HOME": "/data"}) == Path("/data/pinion/authority/lab")
    assert folder_of("lab", {}) == Path.home() / ".local/share/pinion/authority/lab"


def test_the_command_makes_it_and_prints_tokens(tmp_path: Path) -> None:
    environment = {**os.environ, "PINION_AUTHORITY": str(tmp_path)}

    def pinion(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pinion", "identity", *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    done = pinion("token", "dc-rack-12", "pi-03")
    assert done.returncode == 2
    assert "pinion identity init dc-rack-12" in done.stderr
    done = pinion("init", "dc-rack-12", "--json")
    assert done.returncode == 0, done.stderr
    first = json.loads(done.stdout)
    assert first["made"] is True
    again = json.loads(pinion("init", "dc-rack-12", "--json").stdout)
    assert again == {**first, "made": False}
    done = pinion("token", "dc-rack-12", "pi-03", "--json")
    said = json.loads(done.stdout)
    assert said["fingerprint"] == first["fingerprint"]
    assert said["names"] == ["pi-03.dc-rack-12.internal", "192.168.101.12"]
    assert pinion("token", "dc-rack-12", "pi-03").stdout.startswith("eyJ")
    done = pinion("token", "dc-rack-12", "pi-99")
    assert done.returncode == 2
    assert "it has" in done.stderr
    done = pinion("revoke", "dc-rack-12", "pi-03", "--serial", "zz")
    assert done.returncode == 2
    assert "hexadecimal" in done.stderr
