"""The Pis' image, whole: built twice to the same digest, healed, killed, started under emulation, and what must hold there.

    make test-vm                        everything here, as root; half an hour on two cores
    CI_FULL=1 pytest tests/image -m vm

The operator's state is a folder of the tests' own; packages and base image are shared with `pinion image` ($PINION_CACHE).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pinion.image import base as bases
from pinion.image.disk import digest
from pinion.image.errors import ImageError
from pinion.image.node import NodeImage, Supplied, build
from pinion.image.packages import broken
from pinion.image.signing import Signer, prehash, verify
from pinion.image.store import Store
from pinion.image.trial import Trial, try_node
from pinion.lab.pki import authority
from pinion.plan import plan as compile_plan
from pinion.plan.model import Plan
from pinion.site.catalog import Evidence
from pinion.site.find import site_file
from pinion.site.loader import load

pytestmark = [
    pytest.mark.vm,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(os.geteuid() != 0, reason="images are built as root"),
]

NODE = "pi-02"


def say(stage: str, text: str) -> None:
    print(f"{stage}: {text}", flush=True)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return compile_plan(load(site_file("dc-rack-12")))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    state = tmp_path_factory.mktemp("state")
    before = os.environ.get("PINION_STATE")
    os.environ["PINION_STATE"] = str(state)
    try:
        yield Store.of("dc-rack-12")
    finally:
        os.environ.pop("PINION_STATE")
        if before is not None:
            os.environ["PINION_STATE"] = before
        # copies of images
        shutil.rmtree(state, ignore_errors=True)


@pytest.fixture(scope="module")
def base(store: Store) -> bases.Base:
    return bases.ensure(store, say)


@pytest.fixture(scope="module")
def supplied(store: Store) -> Supplied:
    """What a site's operator hands out: a root certificate, and a token that the image does not look into."""
    token = store.state / "token"
    token.write_text("eyJ0b2tlbiI6Im9wYXF1ZSJ9")
    return Supplied(root_ca=authority(store.state).certificate, token=token)


@pytest.fixture(scope="module")
def image(store: Store, plan: Plan, base: bases.Base, supplied: Supplied) -> NodeImage:
    return build(store, plan, base, NODE, supplied, say)


@pytest.fixture(scope="module")
def trial(store: Store, plan: Plan, image: NodeImage, supplied: Supplied) -> Trial:
    return try_node(store, plan, NODE, supplied, None, say, patience=900)


def test_the_base_is_signed_and_says_what_it_is_made_of(store: Store, base: bases.Base) -> None:
    public = Signer(store.signing_key).public_path.read_text()
    for path in (base.image, base.manifest, base.bill):
        verify(public, prehash(path), path.with_name(f"{path.name}.minisig").read_text(), path.name)
    manifest = json.loads(base.manifest.read_text())
    assert manifest["image"]["sha256"] == digest(base.image)
    named = {component["name"] for component in json.loads(base.bill.read_text())["components"]}
    assert named <= {package.name for package in base.lock.packages}
    assert {"openssh-server", "systemd", "raspi-firmware"} <= named


def test_one_base_serves_all_nodes(
    store: Store, plan: Plan, base: bases.Base, supplied: Supplied, image: NodeImage
) -> None:
    other = build(store, plan, base, "pi-03", supplied, say)
    assert other.sha256 != image.sha256
    with image.path.open("rb") as one, other.path.open("rb") as two:
        root = base.disk["root"].start
        one.seek(root)
        two.seek(root)
        while block := one.read(1 << 24):
            assert block == two.read(1 << 24), "the root of all nodes is the same"
    other.path.unlink()


def test_a_node_image_is_made_once_and_the_same_again(
    store: Store, plan: Plan, base: bases.Base, supplied: Supplied, image: NodeImage
) -> None:
    made = image.path.stat().st_mtime_ns
    assert build(store, plan, base, NODE, supplied, say).sha256 == image.sha256
    assert image.path.stat().st_mtime_ns == made
    assert image.path.stat().st_mode & 0o777 == 0o600
    with image.path.open("r+b") as stream:
        stream.seek(5 << 20)
        stream.write(b"damage")
    assert build(store, plan, base, NODE, supplied, say).sha256 == image.sha256, "a damaged one is made again, the same"


def test_it_starts_and_is_the_node(trial: Trial) -> None:
    failed = [
        f"{found.check.id}: {found.found!r}, expected {found.check.expected!r}"
        for found in trial.findings
        if found.outcome != "proved"
    ]
    assert failed == []
    ids = {found.check.id.removeprefix(f"image.{NODE}.") for found in trial.findings}
    assert {
        "hostname",
        "addresses",
        "host-key",
        "user",
        "root-ca.trusted",
        "token",
        "seed.wiped",
        "root.grown",
        "units",
    } <= ids
    assert all(found.evidence is not None and found.evidence is not Evidence.MEASURED for found in trial.findings)
    print(f"login after {trial.seconds:.0f} s")


def test_nothing_is_left_of_the_trial(store: Store, trial: Trial) -> None:
    assert not list(store.nodes.glob(".trial-*"))
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            assert str(store.nodes).encode() not in line


def test_the_command_shows_what_it_proved(store: Store, trial: Trial) -> None:
    """The same by the command line, on an image that is there: JSON with each finding."""
    del trial
    argv = [sys.executable, "-m", "pinion", "image", "build", "dc-rack-12", "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=dict(os.environ), timeout=600)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["base"]["size"] > 1 << 30


def test_a_damaged_package_heals_itself(store: Store, base: bases.Base) -> None:
    victim = store.pool / base.lock.package("zstd").file
    victim.write_bytes(b"not a package")
    assert [package.name for package in broken(base.lock, store.pool)] == ["zstd"]
    bases.heal(base.lock, store.pool, say)
    assert broken(base.lock, store.pool) == []


def test_a_build_that_is_killed_leaves_no_image_under_its_final_name(
    store: Store, base: bases.Base, tmp_path: Path
) -> None:
    argv = [sys.executable, "-m", "pinion", "image", "build", "dc-rack-12", "--rebuild"]
    builder = subprocess.Popen(
        argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert builder.stderr is not None
    for line in builder.stderr:
        if "installs the packages" in line:
            break
    time.sleep(20)
    os.killpg(builder.pid, signal.SIGKILL)
    builder.wait()
    builder.stderr.close()
    found = bases.present(store, base.lock, thorough=True)
    assert found is not None, "the one that was there is still there and whole"
    assert found.sha256 == base.sha256


def test_the_same_inputs_give_the_same_digest(store: Store, base: bases.Base) -> None:
    """Also clears what the killed build left."""
    again = bases.ensure(store, say, rebuild=True)
    assert again.sha256 == base.sha256
    assert not (store.cache / ".building").exists()


def test_a_lock_that_the_mirror_cannot_serve_says_what_to_do(store: Store, base: bases.Base) -> None:
    gone = base.lock.package("zstd").model_copy(update={"version": "0.0-0", "file": "zstd_0.0-0_arm64.deb"})
    lock = base.lock.model_copy(update={"packages": (gone,)})
    with pytest.raises(ImageError, match="--update"):
        bases.heal(lock, store.pool, say)
