"""The seed: who a node is, and what the first boot makes of it."""

from __future__ import annotations

import hashlib
import io
import ipaddress
import json
import os
import shutil
import ssl
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from pinion.image.errors import ImageError
from pinion.image.identity import Given, SeedFile, command_line, config_txt, identity, node_of, seed_files
from pinion.plan import plan as compile_plan
from pinion.plan.concerns.identity import SEED_TOKEN_FILE, TIMER
from pinion.plan.model import Plan
from pinion.services import node_programs
from pinion.services.node_programs import first_boot
from pinion.site.find import site_file
from pinion.site.loader import load

PROGRAM = Path(node_programs.__file__).parent / "first_boot.py"
GIVEN = Given(
    host_key=b"-----BEGIN OPENSSH PRIVATE KEY-----\nsecret\n",
    host_key_public="ssh-ed25519 AAAA",
    authorized=("ssh-ed25519 BBBB admin",),
    user_ca="ssh-ed25519 CCCC ca",
    root_ca=ssl.DER_cert_to_PEM_cert(b"a certificate").encode(),
    token=b"once",
)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return compile_plan(load(site_file("dc-rack-12")))


def test_a_node_has_its_own_name_addresses_keys_and_token(plan: Plan) -> None:
    device = node_of(plan, "pi-03")
    files = {file.path: file for file in identity(plan, device, GIVEN)}
    assert files["/etc/hostname"].content == b"pi-03\n"
    own = ipaddress.ip_interface(device.primary_address or "")
    network = files["/etc/systemd/network/10-eth0.network"].content.decode()
    assert f"Address={own}\n" in network
    gateway = next(line for line in network.splitlines() if line.startswith("Gateway="))
    assert ipaddress.ip_address(gateway.partition("=")[2]) in own.network
    assert f"{own.ip} pi-03\n" in files["/etc/hosts"].content.decode()
    secret = {path for path, file in files.items() if file.mode & 0o077 == 0}
    assert {"/etc/ssh/ssh_host_ed25519_key", SEED_TOKEN_FILE} <= secret
    assert files["/home/pinion/.ssh/authorized_keys"].owner == 1000
    assert files[SEED_TOKEN_FILE].content == b"once"


def test_two_nodes_differ_and_one_node_is_the_same_twice(plan: Plan) -> None:
    def seed(name: str) -> dict[str, bytes]:
        return seed_files(plan, name, identity(plan, node_of(plan, name), GIVEN), 1_700_000_000)

    assert seed("pi-01") == seed("pi-01")
    assert seed("pi-01")["identity.tar"] != seed("pi-02")["identity.tar"]


def test_only_pis_have_images(plan: Plan) -> None:
    with pytest.raises(ImageError, match=r"no Pi is called 'nv-1'.*pi-01, pi-02"):
        node_of(plan, "nv-1")


def test_an_image_that_nobody_could_log_in_to_is_refused(plan: Plan) -> None:
    with pytest.raises(ImageError, match="--admin-key"):
        identity(plan, node_of(plan, "pi-01"), Given(b"k", "ssh-ed25519 A", ()))


def test_the_boot_partition_holds_what_pi_boot_plans(plan: Plan) -> None:
    config = config_txt(plan, "pi-01")
    assert "dtparam=pciex1_gen=3\n" in config
    assert "auto_initramfs=1\n" in config
    line = command_line(plan, "pi-01", "1234abcd-03")
    assert line.count("\n") == 1, "the firmware reads one line"
    assert "root=PARTUUID=1234abcd-03" in line.split()
    assert "cgroup_enable=memory" in line.split()
    assert len(set(line.split())) == len(line.split())


# --- the first boot ---------------------------------------------------------------------------------------------------


def _write_seed(folder: Path, plan: Plan, node: str = "pi-01") -> dict[str, bytes]:
    """The seed of *node*, its files owned by whoever runs the tests."""
    files = seed_files(plan, node, identity(plan, node_of(plan, node), GIVEN), 1_700_000_000)
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return files


def _boot(root: Path, seed: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", PROGRAM, "--root", root, "--seed", seed], capture_output=True, text=True, check=False
    )


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to root and to user 1000: run as root")


@needs_root
def test_the_first_boot_places_the_identity_once_and_wipes_the_seed(tmp_path: Path, plan: Plan) -> None:
    root, seed = tmp_path / "root", tmp_path / "seed"
    files = _write_seed(seed, plan)
    done = _boot(root, seed)
    assert done.returncode == 0, done.stderr
    assert (root / "etc/hostname").read_text() == "pi-01\n"
    key = root / "etc/ssh/ssh_host_ed25519_key"
    assert key.read_bytes() == GIVEN.host_key
    assert key.stat().st_mode & 0o7777 == 0o600
    assert (root / "home/pinion/.ssh/authorized_keys").stat().st_uid == 1000
    noted = json.loads((root / "var/lib/pinion/identity.json").read_text())
    assert noted["sha256"] == hashlib.sha256(files["identity.tar"]).hexdigest()
    assert noted["node"] == "pi-01"
    assert not (seed / "identity.tar").exists()
    token = root / SEED_TOKEN_FILE.lstrip("/")
    assert (token.read_bytes(), token.stat().st_mode & 0o7777, token.stat().st_uid) == (b"once", 0o600, 0)
    assert token.parent.stat().st_mode & 0o7777 == 0o755, "as the program would make it"
    (root / "etc/hostname").write_text("changed\n")
    assert _boot(root, seed).returncode == 0
    assert (root / "etc/hostname").read_text() == "changed\n", "the identity is placed once, not at each boot"
    _write_seed(seed, plan, "pi-02")
    assert _boot(root, seed).returncode == 0
    assert (root / "etc/hostname").read_text() == "pi-02\n", "another seed is another identity"


@needs_root
def test_a_boot_that_was_cut_is_done_again_by_the_next(tmp_path: Path, plan: Plan) -> None:
    root, seed = tmp_path / "root", tmp_path / "seed"
    _write_seed(seed, plan)
    assert _boot(root, seed).returncode == 0
    # as if power had gone before the note, and then before the wipe
    (root / "var/lib/pinion/identity.json").unlink()
    (root / "etc/ssh/ssh_host_ed25519_key").write_bytes(b"hal")
    wants = root / "etc/systemd/system/timers.target.wants"
    (wants / TIMER).rename(wants / f".{TIMER}.new")
    _write_seed(seed, plan)
    assert _boot(root, seed).returncode == 0
    assert (root / "etc/ssh/ssh_host_ed25519_key").read_bytes() == GIVEN.host_key
    assert [path.name for path in wants.iterdir()] == [TIMER]
    _write_seed(seed, plan)
    assert _boot(root, seed).returncode == 0
    assert not (seed / "identity.tar").exists()


@needs_root
def test_the_first_boot_enables_the_timer_as_systemctl_does(tmp_path: Path, plan: Plan) -> None:
    root, seed = tmp_path / "root", tmp_path / "seed"
    _write_seed(seed, plan)
    assert _boot(root, seed).returncode == 0
    link = root / "etc/systemd/system/timers.target.wants" / TIMER
    assert link.is_symlink()
    assert link.readlink() == Path(f"/etc/systemd/system/{TIMER}")
    assert [path.name for path in (root / "etc/systemd/system").glob("*.wants/*")] == [TIMER], "and nothing else"
    if shutil.which("systemctl"):
        said = subprocess.run(
            ["systemctl", f"--root={root}", "is-enabled", TIMER], capture_output=True, text=True, check=False
        )
        assert said.stdout.strip() == "enabled", said.stderr


UNIT_TEXT = b"[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n"


@needs_root
@pytest.mark.parametrize(
    ("units", "path", "text", "said"),
    [
        (["ssh.service"], "/etc/systemd/system/ssh.service", UNIT_TEXT, "no unit that an image may enable"),
        (["../pinion-x.service"], "/etc/systemd/system/pinion-x.service", UNIT_TEXT, "no unit that an image may"),
        (["pinion-x.mount"], "/etc/systemd/system/pinion-x.mount", UNIT_TEXT, "no unit that an image may enable"),
        ([7], "/etc/systemd/system/pinion-x.service", UNIT_TEXT, "no unit that an image may enable"),
        ("pinion-x.service", "/etc/systemd/system/pinion-x.service", UNIT_TEXT, "units is no list"),
        (["pinion-x.service"], "/usr/lib/systemd/system/pinion-x.service", UNIT_TEXT, "is not in the seed"),
        (["pinion-x.service"], "/etc/systemd/system/pinion-x.service", b"[Service]\n", "no target that wants it"),
        (
            ["pinion-x.service"],
            "/etc/systemd/system/pinion-x.service",
            UNIT_TEXT.replace(b"multi-user.target", b"../../x.target"),
            "no target that wants it",
        ),
    ],
    ids=["of the system", "path", "kind", "number", "no list", "elsewhere", "no target", "target's path"],
)
def test_a_unit_that_is_not_the_seeds_own_is_not_enabled_and_nothing_is_placed(
    tmp_path: Path, plan: Plan, units: object, path: str, text: bytes, said: str
) -> None:
    root, seed = tmp_path / "root", tmp_path / "seed"
    seed.mkdir()
    files = seed_files(plan, "pi-01", [SeedFile(path, text)], 1_700_000_000)
    (seed / "identity.tar").write_bytes(files["identity.tar"])
    (seed / "identity.json").write_text(json.dumps(json.loads(files["identity.json"]) | {"units": units}))
    done = _boot(root, seed)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not root.exists()


#: Runs the program and kills it at step argv[3] of all that it does to files.
KILLER = f"""
import importlib.util, os, signal, sys
spec = importlib.util.spec_from_file_location("program", {str(PROGRAM)!r})
program = importlib.util.module_from_spec(spec)
sys.modules["program"] = program
spec.loader.exec_module(program)
steps, at = 0, int(sys.argv[3])
def hook(event, arguments):
    global steps
    if event in {{"os.rename", "os.mkdir", "os.symlink", "os.remove"}} or event == "open" and str(arguments[0]).startswith(sys.argv[1]):
        steps += 1
        if steps == at:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(hook)
sys.argv = ["first-boot", "--root", sys.argv[1], "--seed", sys.argv[2]]
sys.exit(program.main())
"""


@needs_root
def test_killed_at_any_step_the_next_boot_has_the_token_and_the_timer(tmp_path: Path, plan: Plan) -> None:
    # one file of each kind: the steps of the others are the same
    few = [f"/etc/systemd/system/{TIMER}", SEED_TOKEN_FILE, "/etc/hostname"]
    files = [file for file in identity(plan, node_of(plan, "pi-01"), GIVEN) if file.path in few]
    made = seed_files(plan, "pi-01", files, 1_700_000_000)
    step = 0
    while True:
        step += 1
        root, seed = tmp_path / str(step) / "root", tmp_path / str(step) / "seed"
        seed.mkdir(parents=True)
        for name, content in made.items():
            (seed / name).write_bytes(content)
        code = subprocess.run([sys.executable, "-I", "-c", KILLER, root, seed, str(step)], check=False).returncode
        assert code in {0, -9}
        assert _boot(root, seed).returncode == 0, f"after a kill at step {step}"
        assert (root / SEED_TOKEN_FILE.lstrip("/")).read_bytes() == b"once"
        assert (root / "etc/systemd/system/timers.target.wants" / TIMER).is_symlink()
        assert not (seed / "identity.tar").exists()
        if code == 0:
            break
        shutil.rmtree(root)
    assert step > 20, "steps were counted"


def test_a_tampered_seed_places_nothing(tmp_path: Path, plan: Plan) -> None:
    root, seed = tmp_path / "root", tmp_path / "seed"
    files = _write_seed(seed, plan)
    (seed / "identity.tar").write_bytes(files["identity.tar"].replace(b"pi-01", b"pi-99"))
    done = _boot(root, seed)
    assert done.returncode == 2
    assert "SHA-256 differs" in done.stderr
    assert not root.exists()


def _entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    found = tarfile.TarInfo(name)
    found.type, found.linkname = kind, link
    return found


@pytest.mark.parametrize(
    "entry",
    [
        _entry("../outside"),
        _entry("/etc/passwd"),
        _entry("a", tarfile.SYMTYPE, "/etc"),
        _entry("d", tarfile.DIRTYPE),
        _entry("a/../../b"),
    ],
    ids=["upwards", "absolute", "link", "folder", "through"],
)
def test_a_seed_with_anything_but_plain_files_below_the_root_is_refused_whole(
    tmp_path: Path, entry: tarfile.TarInfo
) -> None:
    root, seed = tmp_path / "root", tmp_path / "seed"
    seed.mkdir()
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        tar.addfile(_entry("etc/hostname"))
        tar.addfile(entry)
    (seed / "identity.tar").write_bytes(stream.getvalue())
    (seed / "identity.json").write_text(json.dumps({"sha256": hashlib.sha256(stream.getvalue()).hexdigest()}))
    done = _boot(root, seed)
    assert done.returncode == 2
    assert "no plain file below the root" in done.stderr
    assert not root.exists()


def test_a_card_without_an_identity_says_so(tmp_path: Path) -> None:
    (tmp_path / "seed").mkdir()
    done = _boot(tmp_path / "root", tmp_path / "seed")
    assert done.returncode == 1
    assert "no identity" in done.stderr


def test_the_first_boot_adds_the_sites_root_to_what_programs_trust(tmp_path: Path) -> None:
    """And leaves a second one, in the place of the first, to update-ca-certificates, which lets go of the first."""
    for name in ("public", "site"):
        argv = [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ed25519",
            "-nodes",
            "-keyout",
            f"{name}.key",
            "-out",
            f"{name}.crt",
        ]
        subprocess.run([*argv, "-subj", f"/CN={name}"], cwd=tmp_path, check=True, capture_output=True)
    placed = "usr/local/share/ca-certificates/pinion-site.crt"
    trusted = tmp_path / "etc/ssl/certs"
    trusted.mkdir(parents=True)
    (tmp_path / placed).parent.mkdir(parents=True)
    shutil.copy(tmp_path / "site.crt", tmp_path / placed)
    assert not first_boot.trust(tmp_path, [placed]), "there is no bundle to add to"
    shutil.copy(tmp_path / "public.crt", trusted / "ca-certificates.crt")
    assert first_boot.trust(tmp_path, [placed])
    assert (trusted / "pinion-site.pem").resolve() == (tmp_path / placed).resolve()
    argv = ["openssl", "verify", "-no-CAfile", "-CApath", str(trusted), "site.crt"]
    subprocess.run(argv, cwd=tmp_path, check=True, capture_output=True)
    for name in ("public", "site"):
        argv = ["openssl", "verify", "-no-CApath", "-CAfile", str(trusted / "ca-certificates.crt"), f"{name}.crt"]
        subprocess.run(argv, cwd=tmp_path, check=True, capture_output=True)
    assert (trusted / "ca-certificates.crt").stat().st_mode & 0o777 == 0o644
    assert not first_boot.trust(tmp_path, [placed])
