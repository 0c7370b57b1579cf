"""The firewall's rules in the kernel: what a flow names connects, and nothing else does. In network namespaces of the test's own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from unit.hosts.nodes import file
from unit.hosts.sites import LAB, planned

from pinion.plan import Plan
from pinion.plan.concerns.firewall import CLOSED_FILE, RULES_FILE, UNIT

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
    pytest.mark.skipif(shutil.which("nft") is None, reason="needs the program nft"),
    pytest.mark.timeout(60),
]

OPERATOR, OTHER_PI, CLIENT, NODE = "10.77.99.20", "10.77.101.11", "10.77.101.200", "10.77.100.16"
HOST, POD, BEYOND = "10.77.101.10", "10.244.1.5", "172.30.0.5"

#: Answers on the ports of its command line: TCP connections with a byte, UDP datagrams with themselves.
SERVER = """
import selectors, socket, sys
ready = selectors.DefaultSelector()
for word in sys.argv[1:]:
    kind, port = word.split("/")
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(("0.0.0.0", int(port)))
    if kind == "tcp":
        made.listen()
    ready.register(made, selectors.EVENT_READ, kind)
print("ready", flush=True)
kept = []
while True:
    for key, _ in ready.select():
        if key.data == "tcp":
            connection, _ = key.fileobj.accept()
            ready.register(connection, selectors.EVENT_READ, "echo")
        elif key.data == "echo":
            data = key.fileobj.recv(100)
            if data:
                key.fileobj.sendall(data)
            else:
                ready.unregister(key.fileobj)
        else:
            data, peer = key.fileobj.recvfrom(100)
            key.fileobj.sendto(data, peer)
"""
#: Asks from one address: ``kind/target/port`` words; prints those that were answered.
CLIENT_PROGRAM = """
import socket, sys
from concurrent.futures import ThreadPoolExecutor
source = sys.argv[1]
def answered(word):
    kind, target, port = word.split("/")
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM) as made:
        made.settimeout(0.7)
        made.bind((source, 0))
        try:
            made.connect((target, int(port)))
            made.send(b"x")
            return made.recv(1) == b"x"
        except OSError:
            return False
with ThreadPoolExecutor(16) as pool:
    for word, yes in zip(sys.argv[2:], pool.map(answered, sys.argv[2:])):
        if yes:
            print(word)
"""
#: Keeps one connection and speaks over it for every line of its input.
KEEPER = """
import socket, sys
made = socket.create_connection((sys.argv[1], int(sys.argv[2])), 2, (sys.argv[3], 0))
print("open", flush=True)
for line in sys.stdin:
    made.sendall(b"x")
    print("alive" if made.recv(1) == b"x" else "dead", flush=True)
"""


def ip(*words: str) -> None:
    """Run iproute2."""
    subprocess.run(["ip", *words], check=True, capture_output=True)


@dataclass(frozen=True)
class Wire:
    """Somebody (*outside*), the host (*inside*) and what lies behind it (*behind*), each in a namespace."""

    outside: str
    inside: str
    behind: str

    def load(self, rules: str) -> int:
        """Load *rules* on the host; nft's exit status."""
        argv = ["ip", "netns", "exec", self.inside, "nft", "--file", "-"]
        return subprocess.run(argv, input=rules, text=True, capture_output=True, check=False).returncode

    def answered(self, source: str, *words: str) -> set[str]:
        """Those of *words* (``tcp/22``, or ``tcp/address/22`` behind the host) that somebody at *source* gets an answer from."""
        full = [word if word.count("/") == 2 else word.replace("/", f"/{HOST}/") for word in words]
        argv = ["ip", "netns", "exec", self.outside, sys.executable, "-c", CLIENT_PROGRAM, source, *full]
        done = subprocess.run(argv, capture_output=True, text=True, check=True)
        return {line.replace(f"/{HOST}/", "/") for line in done.stdout.split()}


@pytest.fixture
def wire() -> Iterator[Wire]:
    """Three namespaces in a row; the host forwards. Everything goes with them."""
    name = f"pin-fw-{os.getpid()}"
    made = Wire(*(f"{name}-{part}" for part in "abc"))
    servers: list[subprocess.Popen[str]] = []
    try:
        for namespace in (made.outside, made.inside, made.behind):
            ip("netns", "add", namespace)
            ip("-n", namespace, "link", "set", "lo", "up")
        ip("-n", made.outside, "link", "add", "e0", "type", "veth", "peer", "name", "e0", "netns", made.inside)
        ip("-n", made.inside, "link", "add", "e1", "type", "veth", "peer", "name", "e0", "netns", made.behind)
        for source in (OPERATOR, OTHER_PI, CLIENT, NODE):
            ip("-n", made.outside, "address", "add", f"{source}/16", "dev", "e0")
        ip("-n", made.inside, "address", "add", f"{HOST}/16", "dev", "e0")
        for address, near in ((POD, "10.244.1.1/24"), (BEYOND, "172.30.0.1/24")):
            ip("-n", made.behind, "address", "add", f"{address}/24", "dev", "e0")
            ip("-n", made.inside, "address", "add", near, "dev", "e1")
        for namespace, link in ((made.outside, "e0"), (made.inside, "e0"), (made.inside, "e1"), (made.behind, "e0")):
            ip("-n", namespace, "link", "set", link, "up")
        ip("-n", made.outside, "route", "add", "default", "via", HOST)
        ip("-n", made.behind, "route", "add", "default", "via", "10.244.1.1")
        subprocess.run(["ip", "netns", "exec", made.inside, "sysctl", "-qw", "net.ipv4.ip_forward=1"], check=True)
        inside = ("tcp/22", "tcp/443", "tcp/8080", "tcp/9100", "tcp/10250", "udp/8472", "udp/53")
        for namespace, ports in ((made.inside, inside), (made.behind, ("tcp/80",))):
            argv = ["ip", "netns", "exec", namespace, sys.executable, "-c", SERVER, *ports]
            server = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
            servers.append(server)
            assert server.stdout is not None
            assert server.stdout.readline() == "ready\n"
        yield made
    finally:
        for server in servers:
            server.kill()
            server.wait()
        for namespace in (made.outside, made.inside, made.behind):
            subprocess.run(["ip", "netns", "delete", namespace], check=False, capture_output=True)


@pytest.fixture(scope="module")
def lab() -> Plan:
    return planned(LAB, concerns={"firewall": {}, "node_metrics": {}, "base": {}})


def rules(plan: Plan, name: str) -> str:
    """The text that nft loads on the host *name*."""
    host = next(host for host in plan.hosts if host.name == name)
    return file(host.concerns["firewall"], RULES_FILE).content


def test_what_a_flow_names_connects_and_nothing_else(wire: Wire, lab: Plan) -> None:
    asked = ("tcp/22", "tcp/443", "tcp/8080", "tcp/9100", "tcp/10250", "udp/8472", "udp/53")
    for source in (OPERATOR, OTHER_PI, CLIENT):
        assert wire.answered(source, *asked) == set(asked), (
            "without rules everything must answer, else this proves nothing"
        )
    assert wire.load(rules(lab, "pi-01")) == 0
    assert wire.answered(OPERATOR, *asked) == {"tcp/22"}
    assert wire.answered(OTHER_PI, *asked) == {"udp/8472"}
    assert wire.answered(NODE, *asked) == {"udp/8472"}
    assert wire.answered(CLIENT, *asked) == set()
    ping = ["ip", "netns", "exec", wire.outside, "ping", "-c1", "-W2", "-I", CLIENT, HOST]
    assert subprocess.run(ping, capture_output=True, check=False).returncode == 0


def test_a_node_passes_packets_of_pods_and_no_others(wire: Wire, lab: Plan) -> None:
    both = (f"tcp/{POD}/80", f"tcp/{BEYOND}/80")
    assert wire.answered(OTHER_PI, *both) == set(both)
    assert wire.load(rules(lab, "pi-01")) == 0
    assert wire.answered(OTHER_PI, *both) == {both[0]}
    assert wire.load(rules(lab, "mgmt-1")) == 0
    assert wire.answered(OTHER_PI, *both) == set()


def test_what_the_host_opens_itself_is_answered(wire: Wire, lab: Plan) -> None:
    assert wire.load(rules(lab, "pi-01")) == 0
    server = subprocess.Popen(
        ["ip", "netns", "exec", wire.outside, sys.executable, "-c", SERVER, "tcp/6443", "udp/123"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        argv = ["ip", "netns", "exec", wire.inside, sys.executable, "-c", CLIENT_PROGRAM, HOST]
        done = subprocess.run(
            [*argv, f"tcp/{OPERATOR}/6443", f"udp/{OPERATOR}/123"], capture_output=True, text=True, check=True
        )
        assert len(done.stdout.split()) == 2
    finally:
        server.kill()
        server.wait()


def test_a_session_outlives_rules_that_are_loaded_over_it_again_and_again(wire: Wire, lab: Plan) -> None:
    """Loading is one transaction: a login is not cut off, and no packet meets a host without rules."""
    loaded = rules(lab, "pi-01")
    argv = ["ip", "netns", "exec", wire.outside, sys.executable, "-c", KEEPER, HOST, "22", OPERATOR]
    keeper = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert keeper.stdin is not None
    assert keeper.stdout is not None
    seen: list[set[str]] = []
    try:
        assert keeper.stdout.readline() == "open\n"
        assert wire.load(loaded) == 0  # over a session that began before there were rules
        intruder = threading.Thread(target=lambda: seen.extend(wire.answered(CLIENT, "tcp/8080") for _ in range(4)))
        intruder.start()
        while intruder.is_alive():
            assert wire.load(loaded) == 0
            keeper.stdin.write("\n")
            keeper.stdin.flush()
            assert keeper.stdout.readline() == "alive\n"
        assert seen == [set()] * 4
    finally:
        keeper.kill()
        keeper.wait()


def test_rules_that_nft_refuses_leave_the_old_ones(wire: Wire, lab: Plan) -> None:
    assert wire.load(rules(lab, "pi-01")) == 0
    assert wire.load(rules(lab, "pi-01").replace("dport { 22 }", "dport { 220000 }")) != 0
    assert wire.answered(OPERATOR, "tcp/22", "tcp/8080") == {"tcp/22"}


def test_the_tables_of_others_stay(wire: Wire, lab: Plan) -> None:
    assert wire.load("table inet podnet {\nchain forward {\ntype filter hook forward priority filter;\n}\n}\n") == 0
    assert wire.load(rules(lab, "pi-01")) == 0
    tables = subprocess.run(
        ["ip", "netns", "exec", wire.inside, "nft", "list", "tables"], capture_output=True, text=True, check=True
    )
    assert tables.stdout.split("\n") == ["table inet podnet", "table inet pinion", ""]


def started(
    wire: Wire, plan: Plan, folder: Path, *, broken: tuple[str, ...] = (), missing: tuple[str, ...] = ()
) -> int:
    """Start the unit on the host as a boot does, with its files in *folder*; its exit status."""
    pi = next(host for host in plan.hosts if host.name == "pi-01")
    files = {file.path: file.content for file in pi.concerns["firewall"].files}
    (line,) = [line for line in files[f"/etc/systemd/system/{UNIT}"].splitlines() if line.startswith("ExecStart=")]
    (command,) = re.findall(r"^ExecStart=/bin/sh -c '(.*)'$", line)
    for path in (RULES_FILE, CLOSED_FILE):
        place = folder / Path(path).name
        place.unlink(missing_ok=True)
        if path not in missing:
            place.write_text("table inet {" if path in broken else files[path])
        assert path in command
        command = command.replace(path, str(place))
    argv = ["ip", "netns", "exec", wire.inside, "sh", "-c", command.replace("/usr/sbin/nft", "nft")]
    return subprocess.run(argv, capture_output=True, check=False).returncode


@pytest.mark.parametrize("how", ["broken", "missing"])
def test_rules_that_cannot_be_loaded_at_boot_leave_the_host_closed_but_for_operators(
    wire: Wire, lab: Plan, tmp_path: Path, how: str
) -> None:
    asked = ("tcp/22", "tcp/443", "tcp/8080", "tcp/9100", "tcp/10250", "udp/8472")
    assert wire.answered(OTHER_PI, *asked) == set(asked), "nothing is loaded yet"
    wrong = {how: (RULES_FILE,)}
    assert started(wire, lab, tmp_path, **wrong) == 1, "the unit has failed, and the claim of failed units says so"
    assert wire.answered(OPERATOR, *asked) == {"tcp/22"}
    assert wire.answered(OTHER_PI, *asked) == set()
    assert wire.answered(CLIENT, f"tcp/{POD}/80") == set()
    assert started(wire, lab, tmp_path) == 0, "put right, it starts"


def test_a_comment_of_many_bytes_is_cut_between_characters(wire: Wire) -> None:
    text = "ü" * 200 + '"quoted"\nsecond line'
    for ahead in range(4):
        flow = {"sources": ["10.77.99.0/24"], "hosts": ["mgmt-1"], "ports": [3142], "why": "x" * ahead + text}
        plan = planned(LAB, concerns={"firewall": {"allow": {"mirror": flow}}})
        loaded = rules(plan, "mgmt-1")
        (comment,) = re.findall(r'comment "(mirror: [^"]*)"', loaded)
        assert 126 <= len(comment.encode()) <= 127
        assert wire.load(loaded) == 0
