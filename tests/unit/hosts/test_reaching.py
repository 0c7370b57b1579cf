"""Why a host could not be reached: a changed or unknown host key and a refused login, by a real sshd; and how to go on."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from unit.hosts.sites import LAB, plan_of_file

from pinion.drivers.hosts.answers import HostResult
from pinion.drivers.hosts.inventory import Login
from pinion.drivers.hosts.reaching import explain, explain_unreached
from pinion.lab.ports import free_ports
from pinion.plan.model import HostPlan

HOST = plan_of_file(LAB).hosts[-1]

CHANGED = """\
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
Host key verification failed.
"""


def test_a_changed_host_key_is_refused_and_how_to_accept_it_is_said() -> None:
    said = explain(CHANGED, HOST, Login(None, Path("/k/known")))
    assert "is not the one in /k/known" in said
    assert "refused" in said
    assert f"ssh-keygen -R {HOST.address} -f /k/known; ssh-keyscan {HOST.address} >>/k/known" in said
    assert "~/.ssh/known_hosts" in explain(CHANGED, HOST, Login(None, None))


def test_an_unknown_host_key_and_a_refused_login_are_told_apart() -> None:
    unknown = explain("Host key verification failed.\n", HOST, Login(None, None))
    assert "does not know its SSH host key" in unknown
    refused = explain("pinion@x: Permission denied (publickey).\n", HOST, Login(Path("/k/id"), None))
    assert "does not let the key /k/id in" in refused
    assert explain("a\nssh: connect to host x port 22: No route to host\n", HOST, Login(None, None)).endswith(
        "it could not be reached: ssh: connect to host x port 22: No route to host"
    )


@pytest.fixture
def server(tmp_path: Path) -> Iterator[int]:
    """A real sshd on the loopback that lets nobody in; its port."""
    port = free_ports(1)[0]
    for name in ("host", "other", "mine"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / name)], check=True)
    options = [f"HostKey={tmp_path / 'host'}", f"PidFile={tmp_path / 'pid'}", "UsePAM=no", "StrictModes=no"]
    options += ["AuthorizedKeysFile=none", "PasswordAuthentication=no", f"ListenAddress=127.0.0.1:{port}"]
    Path("/run/sshd").mkdir(exist_ok=True)
    command = [
        "/usr/sbin/sshd",
        "-D",
        "-e",
        "-f",
        "/dev/null",
        *(part for option in options for part in ("-o", option)),
    ]
    with (tmp_path / "sshd.log").open("w") as log, subprocess.Popen(command, stderr=log) as running:
        deadline = time.monotonic() + 10
        while "Server listening" not in (tmp_path / "sshd.log").read_text():
            assert time.monotonic() < deadline, (tmp_path / "sshd.log").read_text()
            time.sleep(0.05)
        yield port
        running.terminate()


@pytest.mark.skipif(not Path("/usr/sbin/sshd").exists(), reason="there is no sshd here")
@pytest.mark.parametrize(
    ("known", "said"),
    [
        ("other", "is not the one in"),
        (None, "does not know its SSH host key"),
        ("host", "does not let the key"),
    ],
)
def test_the_reason_of_a_real_server(tmp_path: Path, server: int, known: str | None, said: str) -> None:
    keys = tmp_path / "known_hosts"
    keys.write_text("")
    if known is not None:
        public = (tmp_path / f"{known}.pub").read_text().split()
        keys.write_text(f"[127.0.0.1]:{server} {public[0]} {public[1]}\n")
    # ssh takes the port from its configuration only: the plan's addresses have none
    host: HostPlan = HOST.model_copy(update={"address": "127.0.0.1"})
    results = {host.name: HostResult(errors=["it could not be reached, or the run ended before it answered"])}
    config = tmp_path / "config"
    config.write_text(f"Port {server}\n")
    wrapper = tmp_path / "bin" / "ssh"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {config} "$@"\n')
    wrapper.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{wrapper.parent}:/usr/bin:/bin")
        explain_unreached(results, [host], Login(tmp_path / "mine", keys))
    (error,) = results[host.name].errors
    assert said in error
