"""What an instance of NetBox is configured with: secrets made once and private, a database that is whole or absent, pinned packages."""

from __future__ import annotations

import json
import re
import subprocess
import tarfile
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

import pytest

from pinion.drivers.netbox.kinds import permissions
from pinion.lab.netbox.instance import UNITS, NetBoxSecrets, account, resource, unpack_database, write_configuration
from pinion.lab.netbox.recipes import NETBOX, NETBOX_DATABASE, NETBOX_RELEASE


def test_requirements_are_pinned_hashed_and_name_no_address() -> None:
    text = (files("pinion.lab.netbox") / "requirements.txt").read_text()
    pins = re.findall(r"^([a-z0-9-]+)==(\S+) \\$", text, re.MULTILINE)
    assert ("netbox", NETBOX_RELEASE) in pins
    assert len(pins) > 50
    blocks = re.split(r"^(?=[a-z])", text, flags=re.MULTILINE)[1:]
    assert all("--hash=sha256:" in block for block in blocks)
    assert "http" not in text


def test_the_database_depends_on_nothing_of_an_instance() -> None:
    """Editing what an instance is configured with must not cost the migration again."""
    keyed = "".join((*NETBOX.files.values(), NETBOX.script, *NETBOX_DATABASE.files.values(), NETBOX_DATABASE.script))
    for name in ("configuration.py", "accounts.py", "gunicorn.py", "nginx.conf", "postgresql.conf"):
        assert resource(name) not in keyed


def test_secrets_are_made_once_and_private(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    first, second = NetBoxSecrets.at(folder), NetBoxSecrets.at(folder)
    assert first == second
    assert first != NetBoxSecrets.generate()
    assert folder.stat().st_mode & 0o777 == 0o700
    for path in folder.iterdir():
        assert path.stat().st_mode & 0o777 == 0o600, path
    assert (folder / "netbox-token").read_text() == first.token + "\n"
    assert len(first.secret_key) >= 50
    assert len(first.api_token_pepper) >= 50
    for secret in (first.token, first.secret_key, first.admin_password):
        assert secret not in repr(first)


@dataclass
class Kept:
    """A writer that keeps what it is given."""

    files: dict[str, tuple[str, int, int]] = field(default_factory=dict)

    def write(self, path: str, content: str | bytes, mode: int = 0o644, owner: int = 0, group: int = 0) -> None:
        self.files[path] = (content if isinstance(content, str) else content.decode(), mode, owner)


def test_only_netbox_may_read_its_secrets(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text("root:x:0:0::/:/bin/sh\nnetbox:x:998:997::/opt/netbox:/bin/false\n")
    assert account(tmp_path, "netbox") == (998, 997)
    with pytest.raises(KeyError):
        account(tmp_path, "postgres")
    kept, secrets = Kept(), NetBoxSecrets.generate()
    write_configuration(kept, tmp_path, secrets)
    text, mode, owner = kept.files["/etc/netbox/secrets.json"]
    assert (mode, owner) == (0o600, 998)
    assert json.loads(text)["permissions"] == permissions()
    for path, (content, _, _) in kept.files.items():
        if path != "/etc/netbox/secrets.json":
            assert secrets.token not in content
            assert secrets.secret_key not in content


def archive(folder: Path) -> Path:
    """A small database archive."""
    data = folder / "postgresql"
    data.mkdir()
    (data / "PG_VERSION").write_text("17\n")
    path = folder / "database.tar"
    with tarfile.open(path, "w") as tar:
        tar.add(data, "postgresql")
    return path


def test_a_database_is_unpacked_once_and_whole(tmp_path: Path) -> None:
    source, target = archive(tmp_path), tmp_path / "data"
    target.mkdir()
    (target / ".unpack-1/postgresql").mkdir(parents=True)  # what a killed start left
    assert unpack_database(source, target)
    assert [one.name for one in target.iterdir()] == ["postgresql"]
    (target / "postgresql/mine").write_text("data")
    assert not unpack_database(source, target)
    assert (target / "postgresql/mine").read_text() == "data"


def test_a_broken_archive_leaves_no_database(tmp_path: Path) -> None:
    source, target = archive(tmp_path), tmp_path / "data"
    source.write_bytes(source.read_bytes()[:600] + b"\xff" * 2000)
    with pytest.raises(subprocess.CalledProcessError):
        unpack_database(source, target)
    assert not (target / "postgresql").exists()


@pytest.mark.parametrize("unit", UNITS[:3])
def test_units_stop_quickly_and_come_back(unit: str) -> None:
    text = resource(unit)
    (stop,) = re.findall(r"^TimeoutStopSec=(\d+)$", text, re.MULTILINE)
    assert int(stop) <= 10
    assert "Restart=on-failure" in text
