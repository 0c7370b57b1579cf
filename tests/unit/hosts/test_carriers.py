"""Ansible and pyinfra with the real program, on this machine in a mount namespace of its own: the whole way, without a lab.

What they place lies below /run, which is a file system of the namespace; so is /var/lib/pinion. sudo is a stand-in that runs its command.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from unit.hosts.kubelet_requests import first_request, request, waiting
from unit.hosts.sites import REPOSITORY

from pinion.drivers.hosts.answers import HostResult, collect
from pinion.drivers.hosts.approving import NOTE
from pinion.drivers.hosts.bundle import COMMAND, standard_input
from pinion.plan.model import Concern, HostApproval, HostDirectory, HostFile, HostKernelArgument, HostMaterial

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a mount namespace needs root")

SECRET = "sesame-open"
FIRST = Concern(
    name="first",
    directories=(HostDirectory(path="/run/t/folder", mode="0700"),),
    files=(
        HostFile(path="/run/t/a.conf", content="hello\n", run=("echo ran >>/run/t/ran",)),
        HostFile(path="/run/t/key", content=f"{SECRET}\n", mode="0600", secret=True),
    ),
    kernel_arguments=(HostKernelArgument(argument="quiet", source="s", file="/run/t/cmdline.txt", live=False),),
)
SECOND = Concern(name="second", files=(HostFile(path="/run/t/b.conf", content="second\n", needs_reboot=True),))
SUDO = '#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do [ "$1" = -u ] && shift; shift; done\nexec "$@"\n'
NO_SUDO = "#!/bin/sh\necho 'sudo: a password is required' >&2\nexit 1\n"


class Bench:
    """Runs several commands one after the other in one namespace."""

    def __init__(self, folder: Path, *, sudo: str = SUDO) -> None:
        self.folder = folder
        self.lines: list[str] = []
        self.known = ["first", "second"]
        (folder / "bin").mkdir()
        (folder / "bin/sudo").write_text(sudo)
        (folder / "bin/sudo").chmod(0o755)

    def converge(self, by: str, *concerns: Concern, arguments: str = "", expect: int = 0, **variables: str) -> str:
        """Have Ansible or pyinfra bring *concerns*; the name of its answers."""
        name = f"{len(self.lines)}-{by}"
        host = {"name": "here", "concerns": {concern.name: concern.model_dump(mode="json") for concern in concerns}}
        data: dict[str, Any] = {"pinion_host": host, "pinion_concerns": self.known}
        local = {
            "ansible_connection": "local",
            "ansible_python_interpreter": "/usr/bin/python3",
            "ansible_remote_tmp": str(self.folder / "remote"),
        }
        if by == "ansible":
            inventory = self.folder / f"{name}.json"
            inventory.write_text(json.dumps({"all": {"hosts": {"@local": {**local, **data}}}}))
            command = f"-m ansible playbook -i {inventory} playbooks/site.yml {arguments}"
        else:
            inventory = self.folder / f"{name.replace('-', '_')}.py"
            inventory.write_text(f"import json\nhosts = [('@local', json.loads({json.dumps(data)!r}))]\n")
            command = f"-m pyinfra {inventory} {arguments or 'deploys/site.py -y'}"
        given = {"PINION_ANSWERS": str(self.folder / f"{name}.answers"), **variables}
        settings = " ".join(f"{key}={shlex.quote(value)}" for key, value in given.items())
        self.then(f"{settings} {sys.executable} {command} >{self.folder}/{name}.said 2>&1; test $? = {expect}")
        return name

    def then(self, line: str) -> None:
        """Add a shell command that must succeed."""
        self.lines.append(line)

    def run(self) -> None:
        """Run all of it."""
        script = "\n".join(
            [
                "set -e",
                "mkdir -p /var/lib/pinion",
                "mount -t tmpfs none /var/lib/pinion && mount -t tmpfs none /run && mkdir -p /run/t",
                *(f"({line}) || {{ echo FAILED: {shlex.quote(line)} >&2; exit 1; }}" for line in self.lines),
            ]
        )
        environment = {
            key: value for key, value in os.environ.items() if not key.startswith(("ANSIBLE_", "PINION_"))
        } | {
            "ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg"),
            "ANSIBLE_INVENTORY_ENABLED": "yaml",
            "ANSIBLE_BECOME_ALLOW_SAME_USER": "true",
            "PATH": f"{self.folder}/bin:{os.environ['PATH']}",
            "PYTHONPATH": str(REPOSITORY / "src"),
        }
        done = subprocess.run(
            ["unshare", "--mount", "/bin/bash", "-c", script],
            cwd=REPOSITORY,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr + self.said()

    def said(self) -> str:
        """All that the programs said."""
        return "\n".join(f"== {path.name}\n{path.read_text()}" for path in sorted(self.folder.glob("*.said")))

    def result(self, name: str) -> HostResult:
        """What the host answered to the run called *name*."""
        return collect(self.folder / f"{name}.answers", ("@local",))["@local"]

    def subjects(self, name: str) -> list[str]:
        """Concern and subject of each change of a run."""
        return [f"{change['concern']} {change['subject']}" for change in self.result(name).changes]


OTHER = {"ansible": "pyinfra", "pyinfra": "ansible"}
PLACED = ["first /run/t/folder", "first /run/t/a.conf", "first /run/t/key", "first quiet"]


@pytest.mark.parametrize("by", ["ansible", "pyinfra"])
def test_the_whole_way(tmp_path: Path, by: str) -> None:
    bench, other = Bench(tmp_path), OTHER[by]
    check = "--check --diff" if by == "ansible" else "deploys/site.py --dry --diff"
    foretold = bench.converge(by, FIRST, SECOND, arguments=check)
    bench.then("test ! -e /run/t/a.conf")
    first = bench.converge(by, FIRST, SECOND, PINION_RUN="run-1")
    bench.then(f"grep -qx {SECRET} /run/t/key && grep -qx quiet /run/t/cmdline.txt && grep -qx ran /run/t/ran")
    again = bench.converge(other, FIRST, SECOND, PINION_RUN="run-2")
    without = bench.converge(by, SECOND, PINION_RUN="run-3")
    bench.then("test ! -e /run/t/a.conf && test ! -e /run/t/folder && test -e /run/t/b.conf")
    back = bench.converge(other, PINION_UNDO="run-3", PINION_RUN="run-4")
    bench.then(f"grep -qx {SECRET} /run/t/key && test -d /run/t/folder")
    bench.then(f"test $(grep -rlF {SECRET} /var/lib/pinion | grep -c -v /var/lib/pinion/secrets/) = 0")
    nothing = bench.converge(by, PINION_UNDO="run-3", PINION_RUN="run-5")
    alone = "--tags second" if by == "ansible" else "deploys/second.py -y"
    if by == "ansible":
        bench.then("rm /run/t/a.conf /run/t/b.conf")
        single = bench.converge(by, FIRST, SECOND, arguments=alone)
        bench.then("test ! -e /run/t/a.conf && test -e /run/t/b.conf")
    bench.run()
    assert bench.subjects(foretold) == bench.subjects(first) == [*PLACED, "second /run/t/b.conf"]
    assert bench.result(first).reboot == ["/run/t/b.conf", "/run/t/cmdline.txt"]
    assert bench.subjects(again) == []
    assert sorted(bench.subjects(without)) == sorted(PLACED)
    assert sorted(bench.subjects(back)) == sorted(PLACED)
    assert (bench.subjects(nothing), bench.result(nothing).notes) == ([], []), "it is taken back, and again is fine"
    assert all(bench.result(name).errors == [] for name in (foretold, first, again, without, back, nothing))
    if by == "ansible":
        assert bench.subjects(single) == ["second /run/t/b.conf"]
    assert "+hello" in bench.said()
    assert SECRET not in bench.said()


def test_not_even_the_most_talkative_run_tells_a_secret(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    changed = FIRST.model_copy(update={"files": (FIRST.files[1].model_copy(update={"content": f"{SECRET}-2\n"}),)})
    bench.converge("ansible", FIRST, arguments="-vvvv --diff")
    bench.converge("ansible", changed, arguments="-vvvv --diff")
    bench.converge("pyinfra", FIRST, arguments="deploys/site.py -y -vvv --diff")
    bench.run()
    assert SECRET not in bench.said()
    assert "secret, not shown" in bench.said()


@pytest.mark.parametrize("by", ["ansible", "pyinfra"])
def test_a_login_that_may_not_become_root_is_told(tmp_path: Path, by: str) -> None:
    bench = Bench(tmp_path, sudo=NO_SUDO)
    refused = bench.converge(by, FIRST, expect={"ansible": 2, "pyinfra": 1}[by])
    bench.then("test ! -e /run/t/a.conf")
    bench.run()
    (error,) = bench.result(refused).errors
    assert "password is required" in error


@pytest.mark.parametrize("by", ["ansible", "pyinfra"])
def test_a_full_disk_is_told_and_nothing_is_half_written(tmp_path: Path, by: str) -> None:
    bench = Bench(tmp_path)
    bench.then("mount -t tmpfs -o size=64k none /run/t && { cat /dev/zero >/run/t/fill 2>/dev/null || true; }")
    refused = bench.converge(by, FIRST, expect={"ansible": 2, "pyinfra": 1}[by])
    bench.then('test ! -e /run/t/a.conf && test -z "$(ls -A /run/t | grep pinion-new)"')
    bench.then("rm /run/t/fill")
    done = bench.converge(by, FIRST)
    bench.run()
    (error,) = bench.result(refused).errors
    assert "/run/t/a.conf: No space left on device" in error
    assert bench.result(done).errors == []


def test_an_unknown_tag_is_an_error_and_no_empty_run(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    refused = bench.converge("ansible", FIRST, arguments="--tags frist", expect=2)
    bench.run()
    assert bench.result(refused).errors[0].endswith("there is no concern 'frist'; there are first, second")


def test_two_runs_at_once_wait_for_each_other(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    both = [bench.converge(by, FIRST) for by in OTHER]
    first, second = bench.lines
    bench.lines[:] = [f"{{ {first}; }} & {{ {second}; }}; here=$?; wait $! && test $here = 0"]
    bench.run()
    changes = sorted(bench.subjects(name) for name in both)
    assert changes == [[], PLACED]
    assert all(bench.result(name).errors == [] for name in both)


def test_a_run_that_waits_in_vain_names_the_one_at_work(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.then("echo 'noon (process 1, somebody)' >/run/pinion-converge.lock")
    host = {"concerns": [FIRST.model_dump(mode="json")], "action": "apply", "wait": 0}
    (tmp_path / "request").write_text(standard_input(host))
    (tmp_path / "program").write_text(f"{COMMAND}\n")
    bench.then(
        f"flock /run/pinion-converge.lock sh {tmp_path}/program <{tmp_path}/request >{tmp_path}/answer.said; test $? = 2"
    )
    bench.run()
    assert "another run is at work on this host since noon (process 1, somebody)" in bench.said()


# --- what is made on demand -------------------------------------------------------------------------------------------

SERVER = "https://10.1.2.3:6443"
CA = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
#: Keeps what it is given, told to approve and to take back, shows the requests and the node that there are, and does what a cluster does:
#: nothing that shows. Once something was approved, the host has what it waits for (`waits`).
KUBECTL = """\
#!/bin/sh
case "$*" in
  *" get csr "*) id=$(sed -n 's/.*"token-id": "\\([a-z0-9]*\\)".*/\\1/p' {folder}/given | tail -n 1)
    sed "s/@id@/$id/" {folder}/requests; exit {code} ;;
  *" certificate approve "*) echo "$*" | sed 's/.* approve //' >>{folder}/approved; exit {code} ;;
  *" get node "*) cat {folder}/node 2>/dev/null; exit 0 ;;
  *" delete secret "*) echo "$*" | grep -o 'bootstrap-token-[a-z0-9]*' >>{folder}/taken; exit {code} ;;
esac
cat >>{folder}/given
echo >>{folder}/given
exit {code}
"""
JOINS = Concern(
    name="first",
    files=(
        HostFile(path="/run/t/a.conf", content="hello\n"),
        HostFile(
            path="/run/t/ca.pem",
            content="@ca@",
            materials=(HostMaterial(placeholder="@ca@", kind="cluster-authority", site="s", authority=SERVER),),
        ),
        HostFile(
            path="/run/t/token",
            content="token @t@\n",
            mode="0600",
            secret=True,
            unless="test -e /run/t/joined",
            materials=(
                HostMaterial(placeholder="@t@", kind="cluster-token", site="s", authority=SERVER, names=("here",)),
            ),
        ),
    ),
)


def with_cluster(folder: Path, *, code: int = 0, server: str = SERVER) -> tuple[Bench, dict[str, str]]:
    """A bench whose operator has a kubeconfig and a kubectl that ends with *code*."""
    bench = Bench(folder)
    (folder / "bin/kubectl").write_text(KUBECTL.format(folder=folder, code=code))
    (folder / "bin/kubectl").chmod(0o755)
    (folder / "ca.pem").write_text(CA)
    cluster = {"name": "c", "cluster": {"server": server, "certificate-authority": "ca.pem"}}
    context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
    document = {"current-context": "x", "contexts": [context], "clusters": [cluster], "users": []}
    (folder / "kubeconfig").write_text(json.dumps(document))
    return bench, {"PINION_KUBECONFIG": str(folder / "kubeconfig")}


def made(folder: Path) -> list[dict[str, Any]]:
    """The Secrets that were made."""
    given = folder / "given"
    return [json.loads(line) for line in given.read_text().splitlines() if line] if given.exists() else []


@pytest.mark.parametrize("by", ["ansible", "pyinfra"])
def test_a_token_is_made_for_a_host_that_needs_one_and_for_no_other(tmp_path: Path, by: str) -> None:
    bench, named = with_cluster(tmp_path)
    check = "--check --diff" if by == "ansible" else "deploys/site.py --dry --diff"
    foretold = bench.converge(by, JOINS, arguments=check, **named)
    bench.then(f"test ! -e {tmp_path}/given && test ! -e /run/t/token")
    first = bench.converge(by, JOINS, PINION_RUN="run-1", **named)
    bench.then(
        f"cp /run/t/token {tmp_path}/placed && stat -c %a /run/t/token | grep -qx 600 && grep -q BEGIN /run/t/ca.pem"
    )
    bench.then("touch /run/t/joined && rm /run/t/token")
    again = bench.converge(OTHER[by], JOINS, PINION_RUN="run-2", **named)
    bench.then("test ! -e /run/t/token && ! grep -rq '\"run-2\"' /var/lib/pinion")
    bench.run()
    subjects = ["first /run/t/a.conf", "first /run/t/ca.pem", "first /run/t/token"]
    assert bench.subjects(foretold) == bench.subjects(first) == subjects
    assert (bench.subjects(again), bench.result(again).errors) == ([], [])
    (secret,) = made(tmp_path)
    parts = secret["stringData"]
    token = f"{parts['token-id']}.{parts['token-secret']}"
    assert (tmp_path / "placed").read_text() == f"token {token}\n"
    assert parts["token-secret"] not in bench.said()
    assert (tmp_path / "taken").read_text() == f"{secret['metadata']['name']}\n", "it ends with the request"


@pytest.mark.parametrize("by", ["ansible", "pyinfra"])
def test_what_is_asked_for_with_the_token_is_approved_while_the_host_is_at_work(tmp_path: Path, by: str) -> None:
    bench, named = with_cluster(tmp_path)
    asks = f"for i in $(seq 300); do test -e {tmp_path}/approved && exit 0; sleep 0.2; done; exit 1"
    waits = JOINS.model_copy(
        update={"files": (*JOINS.files, HostFile(path="/run/t/waits", content="x\n", run=(asks,)))}
    )
    asked = first_request("csr-1", "here", "@id@")
    (tmp_path / "requests").write_text(json.dumps({"items": [asked]}))
    done = bench.converge(by, waits, **named)
    bench.then(f"grep -qx csr-1 {tmp_path}/approved && test $(wc -l <{tmp_path}/approved) = 1")
    bench.run()
    assert bench.result(done).errors == []
    assert len((tmp_path / "taken").read_text().splitlines()) == 1


@pytest.mark.parametrize("by", ["ansible", "pyinfra"])
def test_a_node_that_has_joined_gets_no_token_until_the_operator_says_so(tmp_path: Path, by: str) -> None:
    bench, named = with_cluster(tmp_path)
    (tmp_path / "node").write_text(json.dumps({"status": {"nodeInfo": {"kubeletVersion": "v1.34.2"}}}))
    refused = bench.converge(by, JOINS, expect={"ansible": 2, "pyinfra": 1}[by], **named)
    bench.then(f"test ! -e {tmp_path}/given && test ! -e /run/t/token")
    told = bench.converge(by, JOINS, **named, PINION_REJOIN="there,here")
    bench.then("test -e /run/t/token")
    bench.run()
    assert "has joined before (kubelet v1.34.2)" in bench.result(refused).errors[0]
    assert "--rejoin here" in bench.result(refused).errors[0]
    assert bench.result(told).errors == []
    assert len(made(tmp_path)) == 1


@pytest.mark.parametrize("by", ["ansible", "pyinfra"])
def test_a_cluster_that_refuses_is_told_and_nothing_is_placed(tmp_path: Path, by: str) -> None:
    bench, named = with_cluster(tmp_path, code=1)
    code = {"ansible": 2, "pyinfra": 1}[by]
    refused = bench.converge(by, JOINS, expect=code, **named)
    unnamed = bench.converge(by, JOINS, expect=code)
    bench.then("test ! -e /run/t/a.conf && test ! -e /run/t/token")
    bench.run()
    assert "no token could be made" in bench.result(refused).errors[0]
    assert "PINION_KUBECONFIG" in bench.result(unnamed).errors[0]
    (secret,) = made(tmp_path)
    assert secret["stringData"]["token-secret"] not in bench.said()


# --- what a host waits for --------------------------------------------------------------------------------------------

APPROVAL = HostApproval(server=SERVER, node="here", addresses=("10.1.2.4",), asks="test -e /run/t/a.conf")
ASKS = Concern(name="first", files=(HostFile(path="/run/t/a.conf", content="hello\n"),), approval=APPROVAL)


def asked(folder: Path, address: str) -> None:
    """Have the cluster hold a request of the host's kubelet, to serve at *address*."""
    (folder / "requests").write_text(
        json.dumps({"items": [waiting("csr-1", "here", request("here", ["here"], [address]))]})
    )


@pytest.mark.parametrize("by", ["ansible", "pyinfra"])
def test_what_a_host_waits_for_is_approved_where_the_plan_says_it(tmp_path: Path, by: str) -> None:
    bench, named = with_cluster(tmp_path)
    asked(tmp_path, "10.1.2.4")
    approved = bench.converge(by, ASKS, **named)
    bench.then(f"grep -qx csr-1 {tmp_path}/approved")
    bench.then(f"rm {tmp_path}/approved && sed -i s/csr-1/csr-2/ {tmp_path}/requests")
    other = ASKS.model_copy(update={"approval": APPROVAL.model_copy(update={"addresses": ("10.1.2.5",)})})
    refused = bench.converge(by, other, expect={"ansible": 2, "pyinfra": 1}[by], **named)
    bench.then(f"test ! -e {tmp_path}/approved")
    bench.run()
    assert (bench.subjects(approved), bench.result(approved).notes) == (["first /run/t/a.conf"], [NOTE])
    assert "csr-2 is for DNS here, IP 10.1.2.4, planned DNS here, IP 10.1.2.5" in bench.result(refused).errors[0]
