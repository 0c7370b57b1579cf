"""obtain.py as a user runs it: real processes, a real cache, release files from disk or a loopback server."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from toolchest.cache import default_root

from .conftest import Server, Workshop, recipe, release


def stored(workshop: Workshop, program: str) -> Path:
    return (workshop.cache / "bin" / program).resolve()


def test_obtains_from_a_release_file_and_then_changes_nothing(workshop: Workshop) -> None:
    workshop.add_local("alpha")
    first = workshop.run("--json")
    assert first.returncode == 0, first.stderr
    entry = json.loads(first.stdout)["tools"][0]
    assert (entry["source"], entry["changed"], entry["ready"]) == ("archive", True, True)
    assert workshop.answer("alpha") == "alpha 1.2.3"
    again = json.loads(workshop.run("--json").stdout)["tools"][0]
    assert (again["source"], again["changed"]) == ("archive", False)
    assert workshop.leftovers() == []


@pytest.mark.parametrize("damage", ["truncate", "flip", "remove", "no stamp", "half a stamp", "not executable"])
def test_a_broken_cache_heals(workshop: Workshop, damage: str) -> None:
    workshop.add_local("alpha")
    assert workshop.run().returncode == 0
    program = stored(workshop, "alpha")
    stamp = program.parent.parent / "stamp.json"
    good = program.read_bytes()
    match damage:
        case "truncate":
            os.truncate(program, 5)
        case "flip":
            program.write_bytes(good.replace(b"alpha", b"ALPHA"))
        case "remove":
            program.unlink()
        case "no stamp":
            stamp.unlink()
        case "half a stamp":
            os.truncate(stamp, 20)
        case "not executable":
            program.chmod(0o644)
    found = workshop.run("--verify")
    assert found.returncode == 1, found.stdout
    healed = workshop.run()
    assert healed.returncode == 0, healed.stderr
    assert "obtaining it again" in healed.stderr
    assert stored(workshop, "alpha").read_bytes() == good
    assert workshop.run("--verify").returncode == 0
    assert workshop.leftovers() == []


def test_a_wrong_checksum_is_refused(workshop: Workshop) -> None:
    workshop.add_local("alpha", sha256="0" * 64)
    workshop.add_local("beta")
    result = workshop.run("--json")
    assert result.returncode == 2
    assert "REFUSED" in result.stderr
    states = {entry["name"]: entry for entry in json.loads(result.stdout)["tools"]}
    assert not states["alpha"]["ready"]
    assert "recorded is 000" in states["alpha"]["reason"]
    assert states["beta"]["ready"], "one tool's failure must not stop the others"
    assert not (workshop.cache / "bin" / "alpha").exists()
    assert list(workshop.cache.glob("tools/alpha/*/bin/alpha")) == []


def test_a_release_of_the_wrong_version_is_refused(workshop: Workshop) -> None:
    workshop.add_local("alpha", answer="alpha 9.9.9")
    result = workshop.run()
    assert result.returncode == 2
    assert "alpha 9.9.9" in result.stderr
    assert not (workshop.cache / "bin" / "alpha").exists()


def test_path_comes_first_when_its_version_is_right(workshop: Workshop, tmp_path: Path) -> None:
    workshop.add_local("alpha")
    mine = tmp_path / "mine"
    mine.mkdir()
    program = mine / "alpha"
    path = f"{mine}:{os.environ['PATH']}"
    program.write_text("#!/bin/sh\necho alpha 1.2.3 of the machine\n")
    program.chmod(0o755)
    entry = json.loads(workshop.run("--json", path=path).stdout)["tools"][0]
    assert (entry["source"], entry["detail"]) == ("PATH", str(program))
    assert workshop.answer("alpha") == "alpha 1.2.3 of the machine"
    program.write_text("#!/bin/sh\necho alpha 1.1.0\n")
    entry = json.loads(workshop.run("--json", path=path).stdout)["tools"][0]
    assert entry["source"] == "archive"
    assert workshop.answer("alpha") == "alpha 1.2.3"


def test_its_own_cache_on_path_is_not_the_machine_s(workshop: Workshop) -> None:
    workshop.add_local("alpha")
    assert workshop.run().returncode == 0
    entry = json.loads(workshop.run("--json", path=f"{workshop.cache}/bin:{os.environ['PATH']}").stdout)["tools"][0]
    assert entry["source"] == "archive"


def test_a_host_that_refuses_is_asked_once(
    workshop: Workshop, server: Server, add_served: Callable[[str], None]
) -> None:
    for program in ("alpha", "beta", "gamma"):
        add_served(program)
    server.status = 503
    result = workshop.run()
    assert result.returncode == 2
    assert len(server.requests) == 1
    assert "HTTP 503" in result.stderr
    assert "is unreachable" in result.stderr


def test_a_closed_port_fails_fast(workshop: Workshop) -> None:
    workshop.entries.append(recipe("alpha", "http://127.0.0.1:9/alpha.tar.gz", "0" * 64))
    started = time.monotonic()
    result = workshop.run()
    assert result.returncode == 2
    assert "127.0.0.1:9" in result.stderr
    assert time.monotonic() - started < 20


def test_killed_in_the_middle_of_a_download(
    workshop: Workshop, server: Server, add_served: Callable[[str], None]
) -> None:
    add_served("alpha")
    server.gate.clear()
    victim = subprocess.Popen(workshop.command(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert server.half_sent.wait(30)
    victim.send_signal(signal.SIGKILL)
    victim.wait(30)
    assert not (workshop.cache / "bin" / "alpha").exists()
    server.gate.set()
    result = workshop.run()
    assert result.returncode == 0, result.stderr
    assert workshop.answer("alpha") == "alpha 1.2.3"
    assert workshop.leftovers() == []


def test_killed_at_any_moment(workshop: Workshop) -> None:
    for program in ("alpha", "beta", "gamma"):
        workshop.add_local(program)
    moments = random.Random(3)
    for _ in range(12):
        victim = subprocess.Popen(workshop.command(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(moments.uniform(0.05, 0.4))
        victim.kill()
        victim.wait(30)
        # Whatever is on PATH now must be whole: a link exists only after its target was published.
        for link in (workshop.cache / "bin").glob("[a-z]*"):
            assert workshop.answer(link.name) == f"{link.name} 1.2.3"
        if moments.random() < 0.5:
            shutil.rmtree(workshop.cache / "tools" / moments.choice(["alpha", "beta", "gamma"]), ignore_errors=True)
            for link in (workshop.cache / "bin").glob("*"):
                if not link.exists():
                    link.unlink()
    result = workshop.run()
    assert result.returncode == 0, result.stderr
    assert [workshop.answer(program) for program in ("alpha", "beta", "gamma")] == [
        "alpha 1.2.3",
        "beta 1.2.3",
        "gamma 1.2.3",
    ]
    assert workshop.leftovers() == []


def test_two_runs_do_the_work_once(workshop: Workshop, server: Server, add_served: Callable[[str], None]) -> None:
    add_served("alpha")
    server.gate.clear()
    command = workshop.command("--json")
    first = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert server.half_sent.wait(30)
    second = subprocess.Popen(
        workshop.command("--json", "alpha"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    time.sleep(1.0)  # the second one must be seen to wait
    assert second.poll() is None
    server.gate.set()
    outputs = [process.communicate(timeout=60) for process in (first, second)]
    assert [first.returncode, second.returncode] == [0, 0], outputs
    changed = sorted(json.loads(out)["tools"][0]["changed"] for out, _ in outputs)
    assert changed == [False, True]
    assert len(server.requests) == 1


def test_a_run_takes_over_from_a_killed_one(
    workshop: Workshop, server: Server, add_served: Callable[[str], None]
) -> None:
    add_served("alpha")
    server.gate.clear()
    first = subprocess.Popen(workshop.command(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert server.half_sent.wait(30)
    second = subprocess.Popen(workshop.command(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    time.sleep(1.0)
    first.kill()
    first.wait(30)
    server.gate.set()
    _, errors = second.communicate(timeout=60)
    assert second.returncode == 0, errors
    assert workshop.answer("alpha") == "alpha 1.2.3"


def test_files_of_debian_packages_need_no_installation(workshop: Workshop) -> None:
    if not shutil.which("dpkg-deb"):
        pytest.skip("dpkg-deb is not here: no Debian")
    # apt-get is the network's side; a script in its place hands over a package that dpkg-deb really unpacks.
    root = workshop.folder / "package"
    (root / "DEBIAN").mkdir(parents=True)
    (root / "DEBIAN" / "control").write_text(
        "Package: alpha\nVersion: 1.2.3-1\nArchitecture: all\nMaintainer: a <a@example.invalid>\nDescription: x\n"
    )
    (root / "usr" / "bin").mkdir(parents=True)
    (root / "usr" / "bin" / "alpha").write_text("#!/bin/sh\necho alpha 1.2.3\n")
    package = workshop.folder / "alpha_1.2.3-1_all.deb"
    subprocess.run(
        ["dpkg-deb", "--build", "--root-owner-group", str(root), str(package)], check=True, capture_output=True
    )
    shims = workshop.folder / "shims"
    shims.mkdir()
    (shims / "apt-get").write_text(f'#!/bin/sh\nfor last; do :; done\n[ "$last" = alpha ] && cp {package} .\n')
    (shims / "apt-get").chmod(0o755)
    workshop.entries.append("""
[[tool]]
name = "alpha"
purpose = "test"
version = "1.2"
programs = ["alpha"]
probe = ["alpha"]
accept = '^alpha 1\\.2'
minutes = 0
[tool.debian]
packages = ["alpha"]
files = ["usr/bin/alpha"]
""")
    result = workshop.run("--json", path=f"{shims}:{os.environ['PATH']}")
    assert result.returncode == 0, result.stderr
    entry = json.loads(result.stdout)["tools"][0]
    assert (entry["source"], entry["detail"]) == ("debian", "alpha_1.2.3-1_all")


def test_programs_of_another_release_bring_their_loader_and_libraries(workshop: Workshop) -> None:
    """A package with this machine's own `ls`, its libraries and its loader stands for the other release; apt-get is a script."""
    if not shutil.which("dpkg-deb"):
        pytest.skip("dpkg-deb is not here: no Debian")
    listed = subprocess.run(["ldd", "/bin/ls"], capture_output=True, text=True, check=True).stdout
    libraries = [Path(word) for word in listed.split() if word.startswith("/")]
    root = workshop.folder / "package"
    place = root / "usr/lib/some-triplet"
    for folder in (root / "DEBIAN", place, root / "usr/bin"):
        folder.mkdir(parents=True)
    (root / "DEBIAN/control").write_text(
        "Package: alpha\nVersion: 1:9.9-1\nArchitecture: all\nMaintainer: a <a@example.invalid>\nDescription: x\n"
    )
    shutil.copy("/bin/ls", root / "usr/bin/alpha")
    for library in libraries:
        shutil.copy(library.resolve(), place / library.name)
    package = workshop.folder / "alpha_1%3a9.9-1_all.deb"
    subprocess.run(
        ["dpkg-deb", "--build", "--root-owner-group", str(root), str(package)], check=True, capture_output=True
    )
    shims = workshop.folder / "shims"
    shims.mkdir()
    (shims / "apt-get").write_text(f"""#!/bin/sh
case "$*" in
  indextargets*) echo "Debian http://mirror.invalid/debian/ trixie" ;;
  *" install "*) for word; do case $word in Dir::Cache=*) cp '{package}' "${{word#*=}}/archives/" ;; esac; done ;;
esac
""")
    (shims / "apt-get").chmod(0o755)
    workshop.entries.append("""
[[tool]]
name = "alpha"
purpose = "test"
version = "9"
programs = ["alpha"]
probe = ["alpha", "--version"]
accept = 'coreutils'
minutes = 0
[tool.suite]
name = "next"
packages = ["alpha"]
files = ["usr/bin/alpha"]
""")
    path = f"{shims}:{os.environ['PATH']}"
    result = workshop.run("--json", path=path)
    assert result.returncode == 0, result.stderr
    entry = json.loads(result.stdout)["tools"][0]
    assert (entry["source"], entry["detail"]) == ("suite", "next: alpha_1:9.9-1_all")
    (libc,) = workshop.cache.glob("tools/alpha/*/lib/alpha/libc.so.6")
    maps = subprocess.run(
        [str(workshop.cache / "bin/alpha"), "-l", "/proc/self/map_files"], capture_output=True, text=True, check=False
    )
    assert str(libc.parent) in maps.stdout, "it runs with the libraries beside it, and not with this machine's"
    libc.write_bytes(libc.read_bytes()[:-1])
    assert workshop.run("--verify", path=path).returncode == 1, "a library that was changed is as bad as a program"
    assert workshop.run(path=path).returncode == 0
    assert workshop.run("--verify", path=path).returncode == 0


def go_on_path() -> str | None:
    """Return a PATH that has a Go toolchain: the machine's, or one that obtain.py fetched earlier."""
    if shutil.which("go"):
        return os.environ["PATH"]
    for folder in default_root().glob("tools/go/*/bin"):
        return f"{folder}:{os.environ['PATH']}"
    return None


def test_builds_a_go_program_when_nothing_else_is_there(workshop: Workshop) -> None:
    path = go_on_path()
    if path is None:
        pytest.skip("no Go on PATH or in the cache, and this test downloads none")
    caches = workshop.cache / "go" / "build"
    caches.mkdir(parents=True)
    module = workshop.folder / "go" / "tiny"
    module.mkdir(parents=True)
    (module / "go.mod").write_text("module example.invalid/tiny\n\ngo 1.20\n")
    (module / "go.sum").write_text("")
    (module / "main.go").write_text(
        'package main\n\nimport "fmt"\n\nvar version = "unset"\n\nfunc main() { fmt.Println("tiny", version) }\n'
    )
    workshop.modules.append('tiny = "-X main.version={version}"')
    workshop.entries.append("""
[[tool]]
name = "tiny"
purpose = "test"
version = "4.5.6"
programs = ["tiny"]
probe = ["tiny", "version"]
accept = '^tiny 4\\.5\\.6$'
minutes = 1
[tool.archive]
url = "http://127.0.0.1:9/tiny.tar.gz"
members = { tiny = "tiny" }
sha256.amd64 = "0000000000000000000000000000000000000000000000000000000000000000"
sha256.arm64 = "0000000000000000000000000000000000000000000000000000000000000000"
checksum_from = "this test: unreachable, so that the next way is taken"
[[tool.go]]
module = "tiny"
package = "example.invalid/tiny"
""")
    result = workshop.run("--json", path=path)
    assert result.returncode == 0, result.stderr
    entry = json.loads(result.stdout)["tools"][0]
    assert entry["source"] == "go"
    assert entry["detail"].startswith("go1.")
    assert workshop.answer("tiny") == "tiny 4.5.6"
    assert not caches.exists(), "with every tool ready, what only builds need is deleted"


def test_list_and_verify_only_look(workshop: Workshop) -> None:
    workshop.add_local("alpha")
    listed = workshop.run("--list")
    assert listed.returncode == 0
    assert "not obtained yet" in listed.stdout
    assert workshop.run("--verify").returncode == 1
    assert not workshop.cache.exists()


def test_an_unknown_tool_names_the_known_ones(workshop: Workshop) -> None:
    workshop.add_local("alpha")
    result = workshop.run("alhpa")
    assert result.returncode == 2
    assert "known: alpha" in result.stderr


def test_a_new_version_leaves_the_old_one_until_it_is_ready(workshop: Workshop) -> None:
    workshop.add_local("alpha")
    assert workshop.run().returncode == 0
    packed = release("alpha", "alpha 2.0.0")
    file = workshop.folder / "alpha2.tar.gz"
    file.write_bytes(packed[:-7])
    workshop.entries[:] = [recipe("alpha", file.as_uri(), hashlib.sha256(packed).hexdigest(), version="2.0.0")]
    assert workshop.run().returncode == 2
    assert workshop.answer("alpha") == "alpha 1.2.3"
    file.write_bytes(packed)
    assert workshop.run().returncode == 0
    assert workshop.answer("alpha") == "alpha 2.0.0"


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_told_to_stop_it_stops_at_once(
    workshop: Workshop, server: Server, add_served: Callable[[str], None], stop: signal.Signals
) -> None:
    add_served("alpha")
    server.gate.clear()
    running = subprocess.Popen(workshop.command(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert server.half_sent.wait(30)
    running.send_signal(stop)
    assert running.wait(5) == 128 + stop
