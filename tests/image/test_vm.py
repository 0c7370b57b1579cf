"""The Pis' image, whole: built twice to the same digest, healed, killed, started under emulation, and what must hold there.

    make test-vm                        everything here, as root; half an hour on two cores
    CI_FULL=1 pytest tests/image -m vm

The operator's state is a folder of the tests' own; packages and base image are shared with `pinion image` ($PINION_CACHE).
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pinion.checks.hosts import host_checks
from pinion.checks.probers import run_all
from pinion.checks.probers.hosts import SshAccess, host_prober
from pinion.drivers.identity.authority import Authority
from pinion.image import base as bases
from pinion.image.debian import DebianBuilder, locked
from pinion.image.disk import digest
from pinion.image.errors import ImageError
from pinion.image.kinds import Kind
from pinion.image.node import NodeImage, Supplied, build
from pinion.image.packages import Archive, Lock, broken, heal, write_lock
from pinion.image.recipe import PACKAGES
from pinion.image.signing import Signer, prehash, verify
from pinion.image.store import Store
from pinion.image.trial import Trial, try_node
from pinion.image.vm import Running, running
from pinion.plan import plan as compile_plan
from pinion.plan.concerns.base import FAILED_UNITS
from pinion.plan.concerns.identity import SERVICE
from pinion.plan.model import HostPlan, Plan
from pinion.site.catalog import Evidence
from pinion.site.find import repository, site_file
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
    obtain = [sys.executable, "tools/obtain.py", "debian", "--packages", "tools/image-packages.txt"]
    subprocess.run(obtain, cwd=repository(), check=True, timeout=1800)
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
def lock(store: Store) -> Lock:
    """The packages of the base that is in the cache, so that a quarter of an hour is not spent twice; the newest where there is none."""
    for path in sorted(store.cache.glob("base-*/manifest.json"), key=lambda path: path.stat().st_mtime, reverse=True):
        inputs = json.loads(path.read_text())["inputs"]
        if inputs["base"] != Kind.DEBIAN:
            continue
        known = {key: inputs[key] for key in ("release", "architecture", "epoch", "packages")}
        found = Lock(asked=PACKAGES, **known)
        if bases.present(store, DebianBuilder(store, found)) is not None:
            write_lock(store.lock_file, found)
            break
    return locked(store, say, update=False)


@pytest.fixture(scope="module")
def base(store: Store, lock: Lock) -> bases.Base:
    del lock  # it is in the store
    return bases.ensure(store, say)


@pytest.fixture(scope="module")
def supplied(store: Store, plan: Plan) -> Supplied:
    """The site's authority on the operator's machine: root certificate and token come from it."""
    assert plan.authority is not None
    made = Authority(store.state / "authority")
    made.make(plan.site, plan.authority.domain, plan.authority.networks)
    return Supplied(authority=made.folder)


@pytest.fixture(scope="module")
def image(store: Store, plan: Plan, base: bases.Base, supplied: Supplied) -> NodeImage:
    return build(store, plan, base, NODE, supplied, say)


@pytest.fixture(scope="module")
def trial(store: Store, plan: Plan, base: bases.Base, image: NodeImage, supplied: Supplied) -> Trial:
    return try_node(store, plan, base, NODE, supplied, None, say, patience=1800)


def test_the_base_is_signed_and_says_what_it_is_made_of(store: Store, lock: Lock, base: bases.Base) -> None:
    public = Signer(store.signing_key).public_path.read_text()
    for path in (base.image, base.manifest, base.bill):
        verify(public, prehash(path), path.with_name(f"{path.name}.minisig").read_text(), path.name)
    manifest = json.loads(base.manifest.read_text())
    assert manifest["image"]["sha256"] == digest(base.image)
    named = {component["name"] for component in json.loads(base.bill.read_text())["components"]}
    assert named <= {package.name for package in lock.packages}
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
    assert {check for check in (found.check.id for found in trial.findings) if ".identity.unit." in check}
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
    argv = [sys.executable, "-m", "pinion", "image", "build", "dc-rack-12", "--base", "debian", "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=dict(os.environ), timeout=600)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["base"]["size"] > 1 << 30


def test_a_converge_sets_what_a_network_namespace_hides(
    store: Store, plan: Plan, image: NodeImage, supplied: Supplied, tmp_path: Path
) -> None:
    """Ansible on the emulated node: the parameters of the Pi's concern, read from a kernel that is the node's own."""
    host = next(host for host in plan.hosts if host.name == NODE)
    access = SshAccess(store.admin_key, store.known_hosts)
    archive = Archive(tmp_path / "pool", tmp_path / "apt")
    archive.open()
    archive.command("download", *host.concerns["pi_tuning"].packages)
    with running(image.path, plan, host, access, tmp_path, patience=1800, say=lambda text: say(NODE, text)) as machine:
        for package in (tmp_path / "pool").glob("*.deb"):
            # the machine reaches no mirror, so its one missing package is handed in
            put = [*machine.access.command(host), "cat >/tmp/p.deb && sudo dpkg --install /tmp/p.deb"]
            subprocess.run(put, input=package.read_bytes(), check=True, capture_output=True, timeout=900)
        _converge(host, machine, "pi_tuning")
        part = plan.model_copy(update={"hosts": (host,)})
        # an emulated machine has one speed, so nothing there chooses it
        checks = [
            check
            for check in host_checks(part)
            if ".pi_tuning." in check.id and not check.id.endswith("claim.governor")
        ]
        findings = run_all(part, checks, [host_prober(machine.access)])
        refused = _refused(plan, host, machine)
        given_up = _said(host, machine, FAILED_UNITS)
    failed = [f"{found.check.id}: {found.found!r}" for found in findings if found.outcome != "proved"]
    assert failed == []
    proved = {found.check.id.partition(".sysctl.")[2]: found.found for found in findings}
    assert proved["net.core.netdev_max_backlog"] == "5000"
    assert {"claim.swap", "claim.noatime", "claim.steering"} <= {
        found.check.id.removeprefix(f"host.{NODE}.pi_tuning.") for found in findings
    }
    assert refused == [], "a kernel of its own takes every value of gpu_tuning"
    # it asks an authority that it does not reach here
    assert given_up in {"none", SERVICE}


def test_a_damaged_package_heals_itself(store: Store, lock: Lock) -> None:
    victim = store.pool / lock.package("zstd").file
    victim.write_bytes(b"not a package")
    assert [package.name for package in broken(lock, store.pool)] == ["zstd"]
    heal(lock, store.pool, say)
    assert broken(lock, store.pool) == []


def test_a_build_that_is_killed_leaves_no_image_under_its_final_name(
    store: Store, lock: Lock, base: bases.Base, tmp_path: Path
) -> None:
    argv = [sys.executable, "-m", "pinion", "image", "build", "dc-rack-12", "--base", "debian", "--rebuild"]
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
    found = bases.present(store, DebianBuilder(store, lock), thorough=True)
    assert found is not None, "the one that was there is still there and whole"
    assert found.sha256 == base.sha256


def test_the_same_inputs_give_the_same_digest(store: Store, base: bases.Base) -> None:
    """Also clears what the killed build left."""
    again = bases.ensure(store, say, rebuild=True)
    assert again.sha256 == base.sha256
    assert not (store.cache / ".building").exists()


def test_a_lock_that_the_mirror_cannot_serve_says_what_to_do(store: Store, lock: Lock) -> None:
    gone = lock.package("zstd").model_copy(update={"version": "0.0-0", "file": "zstd_0.0-0_arm64.deb"})
    other = lock.model_copy(update={"packages": (gone,)})
    with pytest.raises(ImageError, match="--update"):
        heal(other, store.pool, say)


def _converge(host: HostPlan, machine: Running, concern: str) -> None:
    """`ansible-playbook` as an operator runs it, with the way to the machine in place of the node's address."""
    assert machine.access.at is not None
    name, port = machine.access.at
    options = shlex.join(
        [
            "-o",
            f"HostKeyAlias={host.address}",
            "-o",
            "CheckHostIP=no",
            "-o",
            f"UserKnownHostsFile={machine.access.known_hosts}",
        ]
    )
    way = {
        "ansible_host": name,
        "ansible_port": port,
        "ansible_ssh_common_args": f"{options} -o StrictHostKeyChecking=yes",
    }
    argv = [
        "ansible-playbook",
        "-i",
        str(site_file("dc-rack-12")),
        "playbooks/site.yml",
        "--limit",
        NODE,
        "--tags",
        concern,
    ]
    environment = os.environ | {
        "PINION_SSH_KEY": str(machine.access.key),
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_TIMEOUT": "300",
    }
    run = subprocess.run(
        [*argv, "-e", json.dumps(way)],
        cwd=repository(),
        env=environment,
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-2000:]


def _said(host: HostPlan, machine: Running, command: str) -> str:
    """What *command* prints on the machine."""
    argv = [*machine.access.command(host), command]
    return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=600).stdout.strip()


def _refused(plan: Plan, host: HostPlan, machine: Running) -> list[str]:
    """The parameters of the GPU server's concern that the machine's kernel does not take as they are."""
    server = next(host for host in plan.hosts if "gpu_tuning" in host.concerns)
    wanted = {sysctl.key: sysctl.value for sysctl in server.concerns["gpu_tuning"].sysctls}
    assert "net.core.netdev_max_backlog" in wanted
    lines = "".join(f"{key} = {value}\n" for key, value in wanted.items())
    argv = [*machine.access.command(host), "sudo sysctl --quiet --load=- && sudo sysctl " + shlex.join(wanted)]
    said = subprocess.run(argv, input=lines, capture_output=True, text=True, check=False, timeout=600)
    found = {
        key: " ".join(value.split()) for key, _, value in (line.partition(" = ") for line in said.stdout.splitlines())
    }
    return [
        f"{key}: {found.get(key)!r}, wanted {value!r}; {said.stderr}"
        for key, value in wanted.items()
        if found.get(key) != value
    ]
