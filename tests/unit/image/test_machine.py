"""The emulated machine's command line and network, and which claims are tried on it. No machine is started here."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from pinion.checks.hosts import host_checks
from pinion.checks.model import HostProbe
from pinion.checks.probers.hosts import SshAccess
from pinion.cli import main
from pinion.image.checks import applies, image_checks
from pinion.image.debian import planned
from pinion.image.errors import ImageError
from pinion.image.identity import Given, node_of
from pinion.image.packages import Lock
from pinion.image.recipe import ARCHITECTURE, PACKAGES, RELEASE
from pinion.image.vm import command, kernel_arguments, network
from pinion.plan import plan as compile_plan
from pinion.plan.concerns.identity import SEED_TOKEN_FILE
from pinion.plan.model import Plan
from pinion.plan.programs import program_path
from pinion.site.catalog import Evidence
from pinion.site.find import site_file
from pinion.site.loader import load

GIVEN = Given(b"key", "ssh-ed25519 AAAA", ("ssh-ed25519 BBBB admin",), root_ca=b"pem", token=b"secret-token")
DISK = planned(Lock(release=RELEASE, architecture=ARCHITECTURE, asked=PACKAGES, epoch=1, packages=()))[1]


@pytest.fixture(scope="module")
def plan() -> Plan:
    return compile_plan(load(site_file("dc-rack-12")))


def test_the_machine_reaches_nothing_and_is_reached_on_loopback_only(plan: Plan) -> None:
    device = node_of(plan, "pi-01")
    net = network(plan, device, 2222)
    assert "restrict=on" in net
    own = (device.primary_address or "").partition("/")[0]
    assert f"hostfwd=tcp:127.0.0.1:2222-{own}:22" in net
    assert "host=192.168.101.1," in net, "QEMU plays the site's router"
    argv = command(Path("/w"), "quiet", net)
    assert not any("kvm" in part for part in argv)
    assert argv[argv.index("-netdev") + 1] == net


def test_the_images_own_command_line_is_used_but_for_the_console() -> None:
    assert (
        kernel_arguments("console=serial0,115200 console=tty1 root=PARTUUID=1-03 rootwait\n")
        == "console=ttyAMA0 root=PARTUUID=1-03 rootwait"
    )


def test_a_forwarder_changes_where_is_dialled_and_not_whose_key_is_expected(plan: Plan) -> None:
    host = next(host for host in plan.hosts if host.name == "pi-01")
    argv = SshAccess(None, None, ("127.0.0.1", 2222)).command(host)
    assert argv[-1] == "pinion@127.0.0.1"
    assert f"HostKeyAlias={host.address}" in argv
    assert argv[argv.index("-p") + 1] == "2222"
    assert SshAccess(None, None).command(host)[-1] == f"pinion@{host.address}"


def test_checks_before_converge_are_the_nodes_identity_and_what_the_plan_puts_on_the_boot_partition(plan: Plan) -> None:
    checks = {check.id: check for check in image_checks(plan, node_of(plan, "pi-01"), GIVEN, "d" * 64, DISK)}
    assert {check.subject for check in checks.values()} == {"pi-01"}
    for key in (
        "hostname",
        "addresses",
        "gateway.4",
        "host-key",
        "user",
        "root-ca.trusted",
        "token",
        "seed.wiped",
        "root.grown",
    ):
        assert checks[f"image.pi-01.{key}"].best is Evidence.EMULATED
    assert checks["host.pi-01.base.claim.hostname"].expected == "pi-01"
    assert checks["host.pi-01.pi_boot.argument.cgroup_enable=memory"].best is Evidence.EMULATED
    assert checks["host.pi-01.pi_boot.file./boot/firmware/config.txt"].best is Evidence.RENDERED, (
        "nothing reads it under emulation"
    )
    assert checks["host.pi-01.pi_boot.claim.config.dtparam=pciex1_gen"].best is Evidence.PARSED
    assert {key for key in checks if key.startswith("host.") and ".package." in key} == {
        "host.pi-01.identity.package.openssl"
    }, "nothing is installed before the first converge but what the image has"
    assert "openssl" in PACKAGES
    assert "secret-token" not in json.dumps([check.model_dump(mode="json") for check in checks.values()])


def test_of_enrolment_is_claimed_what_holds_before_the_authority_was_reached_and_after(plan: Plan) -> None:
    checks = {check.id: check for check in image_checks(plan, node_of(plan, "pi-01"), GIVEN, "d" * 64, DISK)}
    own = {key.removeprefix("host.pi-01.identity.") for key in checks if key.startswith("host.pi-01.identity.")}
    assert own == {
        "file./usr/local/lib/pinion/identity",
        "file./etc/pinion/identity.json",
        "file./etc/systemd/system/pinion-identity.service",
        "file./etc/systemd/system/pinion-identity.timer",
        "unit.pinion-identity.timer",
        "package.openssl",
    }
    assert checks["host.pi-01.identity.unit.pinion-identity.timer"].expected == "enabled active"
    assert checks["host.pi-01.identity.unit.pinion-identity.timer"].best is Evidence.EMULATED
    without = Given(b"key", "ssh-ed25519 AAAA", ("ssh-ed25519 BBBB admin",), root_ca=b"pem")
    ids = {check.id for check in image_checks(plan, node_of(plan, "pi-01"), without, "d" * 64, DISK)}
    assert not any(".identity." in key or key.endswith(".token") for key in ids)


@pytest.mark.skipif(os.geteuid() != 0, reason="the token is root's")
def test_the_claim_of_the_token_holds_for_one_that_is_root_alone_s_or_has_brought_a_certificate(
    plan: Plan, tmp_path: Path
) -> None:
    (check,) = [
        found
        for found in image_checks(plan, node_of(plan, "pi-01"), GIVEN, "d" * 64, DISK)
        if found.id == "image.pi-01.token"
    ]
    assert isinstance(check.probe, HostProbe)
    token, program = tmp_path / "token", tmp_path / "identity"
    command = check.probe.command.replace(SEED_TOKEN_FILE, str(token)).replace(program_path("identity"), str(program))

    def holds() -> bool:
        said = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=True).stdout.strip()
        return said == check.expected

    token.write_text("t")
    token.chmod(0o600)
    assert holds()
    token.chmod(0o640)
    assert not holds()
    token.unlink()
    assert not holds(), "neither token nor program"
    program.write_text("#!/bin/sh\necho why; exit 1\n")
    program.chmod(0o755)
    assert not holds(), "no certificate"
    program.write_text('#!/bin/sh\ntest "$1" = good\n')
    assert holds()


def test_an_authority_that_is_not_reached_is_no_fault_of_the_image(plan: Plan) -> None:
    checks = {check.id: check for check in image_checks(plan, node_of(plan, "pi-01"), GIVEN, "d" * 64, DISK)}
    probe = checks["image.pi-01.units"].probe
    assert isinstance(probe, HostProbe)
    listed = "systemctl --failed --no-legend --plain"
    for failed, count in (
        ("", "0"),
        ("pinion-identity.service loaded failed failed Renew", "0"),
        ("ssh.service loaded failed failed OpenBSD\npinion-identity.service loaded failed failed Renew", "1"),
    ):
        command = probe.command.replace(listed, f"printf '%s' '{failed}'")
        said = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False).stdout
        assert said.strip() == count == (checks["image.pi-01.units"].expected if count == "0" else "1")


def test_a_claim_that_needs_a_converge_does_not_apply(plan: Plan) -> None:
    ids = {
        check.id.removeprefix("host.pi-01.")
        for check in host_checks(plan)
        if check.subject == "pi-01" and applies(check)
    }
    assert not any(key.startswith(("firewall.", "node_metrics.", "os_tuning.sysctl")) for key in ids)
    assert "pi_boot.package.rpi-eeprom" not in ids
    assert "pi_boot.claim.eeprom" not in ids


def test_a_node_without_an_ipv4_address_is_refused(plan: Plan) -> None:
    device = node_of(plan, "pi-01").model_copy(update={"primary_address": None})
    with pytest.raises(ImageError, match="no address"):
        network(plan, device, 1)


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> CliRunner:
    monkeypatch.setenv("PINION_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("PINION_CACHE", str(tmp_path / "cache"))
    return CliRunner()


@pytest.mark.parametrize("command_name", ["build", "test", "write"])
def test_every_command_has_an_example(quiet: CliRunner, command_name: str) -> None:
    done = quiet.invoke(main, ["image", command_name, "--help"])
    assert done.exit_code == 0
    assert f"pinion image {command_name}" in done.output
    assert "--json" in done.output


def test_a_node_that_is_no_pi_is_refused_before_anything_is_built(quiet: CliRunner) -> None:
    done = quiet.invoke(main, ["image", "build", "dc-rack-12", "--node", "nv-1"])
    assert done.exit_code == 2
    assert "no Pi is called 'nv-1'" in done.output


def test_a_token_is_for_one_node(quiet: CliRunner, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t")
    done = quiet.invoke(main, ["image", "build", "dc-rack-12", "--token", str(tmp_path / "token")])
    assert done.exit_code == 2
    assert "name it with --node" in done.output


def test_a_file_is_no_device(quiet: CliRunner, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    done = quiet.invoke(main, ["image", "write", "dc-rack-12", "--node", "pi-01", "--to", str(tmp_path / "file")])
    assert done.exit_code == 2
    assert "not a block device" in done.output
    assert (tmp_path / "file").read_bytes() == b""
