"""Who may open SSH to the lab's switch, in the kernel: a network namespace of the test's own, which has no name and ends with it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence

import pytest

from pinion.lab.switch.nos.dataplane import SshRule
from pinion.lab.switch.nos.ovs import OvsDataPlane, _firewall, run

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
    pytest.mark.skipif(shutil.which("nft") is None, reason="needs the program nft"),
    pytest.mark.timeout(120),
]

#: Listens on SSH's port at both families, and says for each source whether a connection from it arrives.
_TRY = """
import socket, sys
for source in sys.argv[1:]:
    family = socket.AF_INET6 if ":" in source else socket.AF_INET
    with socket.create_server((source, 22), family=family) as listener, socket.socket(family) as asking:
        asking.settimeout(2.0)
        asking.bind((source, 0))
        try:
            asking.connect((source, 22))
            print("in")
        except TimeoutError:
            print("out")
"""
Inside = Callable[[Sequence[str], "str | None"], str]


@pytest.fixture
def inside() -> Iterator[Inside]:
    """Runs commands in a namespace with a loopback interface and nothing else."""
    with subprocess.Popen(
        ["unshare", "--net", "sh", "-c", "ip link set lo up && echo && exec cat"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"\n"
        enter = ["nsenter", f"--net=/proc/{holder.pid}/ns/net"]
        yield lambda command, text: run([*enter, *command], text)
        assert holder.stdin is not None
        holder.stdin.close()


def who(inside: Inside, *sources: str) -> list[str]:
    """For each of *sources*, ``in`` or ``out``."""
    return inside(["python3", "-c", _TRY, *sources], None).split()


def hold(inside: Inside, *rules: SshRule) -> None:
    """Hold *rules*, and read back that they are held."""
    inside(["nft", "--file", "-"], _firewall(["Management1"], ["192.0.2.2"], rules))
    assert OvsDataPlane(inside)._ssh_rules() == rules


def test_without_a_list_everybody_may(inside: Inside) -> None:
    hold(inside)
    assert who(inside, "127.0.0.1", "::1") == ["in", "in"]


def test_the_first_rule_that_fits_decides_and_each_family_has_its_own(inside: Inside) -> None:
    hold(
        inside,
        SshRule(False, True, "127.0.1.0/24"),
        SshRule(False, False, "127.0.2.0/24"),
        SshRule(False, True, "127.0.2.9/32"),
        SshRule(False, False, None),
    )
    assert who(inside, "127.0.0.1", "127.0.1.1", "127.0.2.9", "::1") == ["out", "in", "out", "in"]
    hold(inside, SshRule(True, False, None))
    assert who(inside, "127.0.0.1", "::1") == ["in", "out"]
    hold(inside, SshRule(True, True, "::1/128"), SshRule(True, False, None))
    assert who(inside, "127.0.0.1", "::1") == ["in", "in"]
