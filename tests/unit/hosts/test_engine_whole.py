"""All concerns of a host together: every kind of part, kills at every step, retired concerns, secrets, reboots."""

from __future__ import annotations

import copy
import dataclasses
import json
from dataclasses import replace

import pytest
from doubles.hosts import APT, MemoryHost

from pinion.drivers.hosts.onhost import engine
from pinion.drivers.hosts.onhost.history import freeze, thaw
from pinion.drivers.hosts.onhost.machine import DirectoryState, FileState, HostError, UnitState
from pinion.drivers.hosts.onhost.placing import RELOAD_SYSTEMD
from pinion.drivers.hosts.onhost.wanted import Argument, Concern, Directory, File, Module, Sysctl, Unit, User

CMDLINE = "/boot/firmware/cmdline.txt"
CONFIG = "/boot/firmware/config.txt"
SERVICE = "/etc/systemd/system/edge.service"
PIN = "/etc/apt/preferences.d/edge"


def file(path: str, content: str = "", **more: object) -> File:
    """A file of root's."""
    return replace(File(path, "root", "root", 0o644, content, (), None, confirm=False), **more)  # type: ignore[arg-type]


EDGE = Concern(
    name="edge",
    packages=("llama",),
    users=(User("edge", True, "Edge", "/var/lib/edge", False, "/bin/false", ()),),
    directories=(Directory("/var/lib/edge", "edge", "edge", 0o750), Directory("/etc/edge", "root", "root", 0o755)),
    files=(
        file(SERVICE, "[Service]\n", restart=("edge.service",)),
        file("/etc/edge/key", "sesame-2\n", secret=True, mode=0o600, restart=("edge.service",)),
        file(PIN, "Pin: version 2\n", for_packages=True, run=("bring-others",)),
    ),
    units=(Unit("edge.service", enabled=True, active=True), Unit("old.service", False, False, masked=True)),
)
BOOT = Concern(
    name="pi_boot",
    packages=("eeprom",),
    files=(file(CONFIG, "dtparam=pciex1_gen=3\n", needs_reboot=True, run=("check-config",)),),
    arguments=(Argument("cgroup_enable=memory", CMDLINE, live=True), Argument("quiet", CMDLINE, live=True)),
    modules=(Module("br_netfilter"),),
    sysctls=(Sysctl("net.a", "1"),),
)
BOTH = (BOOT, EDGE)


def fresh() -> MemoryHost:
    """A host as its image left it."""
    host = MemoryHost(
        known={"llama", "eeprom"},
        loadable={"br_netfilter"},
        sysctls={"net.a": "0"},
        directories={"/etc/edge": DirectoryState("root", "root", 0o777)},
        files={
            CMDLINE: FileState("root=/dev/sda1 cgroup_enable=cpuset\n", "root", "root", 0o755),
            CONFIG: FileState("dtparam=pciex1_gen=2\n", "root", "root", 0o644),
            "/etc/edge/key": FileState("sesame-1\n", "root", "root", 0o600),
        },
        units={"old.service": UnitState(enabled=True, active=True)},
    )
    host.reload("old.service")
    return host


def converge(host: MemoryHost, *concerns: Concern, whole: bool = True, name: str = "run-1") -> engine.Report:
    return engine.converge(host.machine(), concerns, wait=0, who="test", whole=whole, name=name)


def seen(host: MemoryHost) -> dict[str, object]:
    """Everything about *host* that matters to anybody but the program itself."""
    own = {"step", "history", "read_by", "restarts", "secrets", "waiting", "modules"}
    fields = [field.name for field in dataclasses.fields(host) if field.name not in own]
    return {name: copy.deepcopy(getattr(host, name)) for name in fields}


def test_every_kind_of_part_comes_about_as_foretold() -> None:
    host = fresh()
    foretold = engine.check(host.machine(), BOTH, whole=True)
    report = converge(host, *BOTH)
    assert report.changes == foretold.changes
    assert {(change.concern, change.kind, change.subject) for change in report.changes} == {
        ("pi_boot", "package", "eeprom"),
        ("pi_boot", "file", CONFIG),
        ("pi_boot", "kernel argument", "cgroup_enable=memory"),
        ("pi_boot", "kernel argument", "quiet"),
        ("pi_boot", "module", "br_netfilter"),
        ("pi_boot", "sysctl", "net.a"),
        ("edge", "package", "llama"),
        ("edge", "user", "edge"),
        ("edge", "folder", "/var/lib/edge"),
        ("edge", "folder", "/etc/edge"),
        ("edge", "file", SERVICE),
        ("edge", "file", "/etc/edge/key"),
        ("edge", "file", PIN),
        ("edge", "unit", "edge.service"),
        ("edge", "unit", "old.service"),
    }
    assert host.files[CMDLINE] == FileState("root=/dev/sda1 cgroup_enable=memory quiet\n", "root", "root", 0o755)
    assert host.directories["/var/lib/edge"] == DirectoryState("edge", "edge", 0o750)
    assert host.units["edge.service"] == UnitState(enabled=True, active=True)
    assert host.units["old.service"] == UnitState(enabled=False, active=False, masked=True)
    assert host.modules == {"br_netfilter"}
    assert "check-config" in host.read_by
    assert host.restarts == []  # it has just started, with the new files
    assert report.reboot == (CMDLINE, CONFIG)
    again = converge(host, *BOTH)
    assert again.changes == ()
    assert again.reboot == (CMDLINE, CONFIG)  # until it was booted


def test_packages_of_all_concerns_come_at_once() -> None:
    host = fresh()
    steps: list[str] = []
    host.step = steps.append
    converge(host, *BOTH)
    assert steps.count("install") == 1
    assert host.packages == {"llama", "eeprom"}
    assert json.loads(host.journals["edge"])["packages"] == ["llama"]


def test_what_the_package_system_reads_is_there_before_any_package_comes() -> None:
    host = fresh()
    steps: list[str] = []
    host.step = steps.append
    converge(host, *BOTH)
    assert host.read_by[APT][PIN].content == "Pin: version 2\n"
    assert host.read_by["bring-others"][PIN].content == "Pin: version 2\n"
    assert steps.index("command") < steps.index("install")
    converge(host, BOOT, name="run-2")
    assert PIN not in host.files


def test_a_pin_that_cannot_be_placed_keeps_its_packages_away_and_no_others() -> None:
    host = fresh()
    host.refuse[PIN] = "no version"
    pinned = replace(EDGE.files[2], validate_command="check %s")
    with pytest.raises(HostError, match=r"edge: .*preferences.d/edge: refused by its validation"):
        converge(host, BOOT, replace(EDGE, files=(*EDGE.files[:2], pinned)))
    assert host.packages == {"eeprom"}


def test_a_package_that_counts_from_the_next_boot_on_has_the_host_ask_for_one() -> None:
    host = fresh()
    driver = Concern("driver", packages=("llama", "eeprom"), packages_need_reboot=("llama",))
    kill_at(host, 10_000)
    assert converge(host, driver).reboot == ("package llama",)
    assert converge(host, driver).reboot == ("package llama",)
    host.waiting.clear()  # it was booted
    assert converge(host, driver).reboot == ()


def test_a_unit_that_waits_for_a_boot_is_enabled_and_not_started() -> None:
    host = fresh()
    waits = Unit("edge.service", enabled=True, active=True, after_boot=(SERVICE,))
    edge = replace(EDGE, files=(replace(EDGE.files[0], needs_reboot=True), *EDGE.files[1:]), units=(waits,))
    assert converge(host, edge).reboot == (SERVICE,)
    assert host.units["edge.service"] == UnitState(enabled=True, active=False)
    assert converge(host, edge).changes == ()
    host.waiting.clear()
    assert [change.subject for change in converge(host, edge).changes] == ["edge.service"]
    assert host.units["edge.service"] == UnitState(enabled=True, active=True)
    converge(host, name="run-2")
    assert "edge.service" not in {name for name, state in host.units.items() if state.active or state.enabled}


def test_a_package_that_cannot_be_had_fails_its_own_concern_only() -> None:
    host = fresh()
    nowhere = Concern("nowhere", packages=("unknown",))
    with pytest.raises(HostError, match=r"nowhere: apt-get install unknown: Unable to locate package unknown"):
        converge(host, BOOT, nowhere, EDGE)
    assert host.packages == {"eeprom"}
    assert CONFIG in host.files  # the concern before it is done
    assert SERVICE not in host.files
    assert json.loads(host.journals["nowhere"])["packages"] == ["unknown"]
    converge(host, BOOT, EDGE)  # the site gives it up
    assert "nowhere" not in host.journals


def test_a_changed_file_restarts_its_unit_once_and_makes_systemd_read_it() -> None:
    host = fresh()
    converge(host, *BOTH)
    service = file(SERVICE, "[Service]\nNice=1\n", restart=("edge.service",), notify=("edge.service",))
    steps: list[str] = []
    host.step = steps.append
    converge(host, BOOT, replace(EDGE, files=(service, *EDGE.files[1:])))
    assert host.restarts == ["edge.service"]
    assert "reload" not in steps
    assert host.read_by[RELOAD_SYSTEMD][SERVICE].content == "[Service]\nNice=1\n"


def test_a_command_that_failed_runs_again() -> None:
    host = fresh()
    host.fail["check-config"] = "line 1"
    with pytest.raises(HostError, match=r"pi_boot: .*check-config.*line 1"):
        converge(host, *BOTH)
    assert ("command", "check-config") in {(c.kind, c.subject) for c in engine.check(host.machine(), BOTH).changes}
    host.fail.clear()
    converge(host, *BOTH)
    assert "check-config" in host.read_by
    assert converge(host, *BOTH).changes == ()


class Killed(BaseException):
    """The process was killed: nothing of it runs on, not even `except Exception`."""


def kill_at(host: MemoryHost, number: int) -> list[str]:
    """Kill the run before its *number*-th step; the names of the steps that it came to."""
    steps: list[str] = []

    def step(name: str) -> None:
        if len(steps) >= number:
            raise Killed
        steps.append(name)

    host.step = step
    return steps


def count() -> int:
    host = fresh()
    steps = kill_at(host, 10_000)
    converge(host, *BOTH)
    return len(steps)


STEPS = count()


@pytest.mark.parametrize("number", range(STEPS))
def test_a_run_killed_before_any_step_is_finished_by_the_next_and_wholly_undone(number: int) -> None:
    done, untouched = fresh(), fresh()
    converge(done, *BOTH)
    host = fresh()
    kill_at(host, number)
    with pytest.raises(Killed):
        converge(host, *BOTH)
    host.locked_by, host.step = None, lambda _: None
    converge(host, *BOTH, name="run-2")
    assert seen(host) == seen(done)
    assert host.read_by["edge.service"] == done.read_by["edge.service"]
    assert PIN in host.read_by[APT]
    assert host.waiting == done.waiting
    assert converge(host, *BOTH).changes == ()
    converge(host, name="run-3")  # a whole run without any concern
    host.units.pop("edge.service")  # off; systemd forgets a unit that has no file
    assert seen(host) == seen(untouched)
    assert host.secrets.keys() <= {name for name in host.secrets if name in str(host.history)}


def test_a_concern_that_the_site_no_longer_has_goes_and_check_says_so() -> None:
    host = fresh()
    converge(host, *BOTH)
    foretold = engine.check(host.machine(), [BOOT], whole=True)
    assert {change.concern for change in foretold.changes} == {"edge"}
    report = converge(host, BOOT)
    assert report.changes == foretold.changes
    assert "edge.service" not in {name for name, state in host.units.items() if state.active or state.enabled}
    assert SERVICE not in host.files
    assert host.files["/etc/edge/key"].content == "sesame-1\n"
    assert host.directories == {"/etc/edge": DirectoryState("root", "root", 0o777)}
    assert host.packages == {"eeprom"}
    assert list(host.journals) == ["pi_boot"]
    assert converge(host, BOOT).changes == ()


def test_a_run_of_some_concerns_leaves_the_others() -> None:
    host = fresh()
    converge(host, *BOTH)
    assert converge(host, BOOT, whole=False).changes == ()
    assert sorted(host.journals) == ["edge", "pi_boot"]


def test_what_cannot_go_stays_with_a_note() -> None:
    host = fresh()
    converge(host, *BOTH)
    host.busy["edge"] = "user edge is currently used by process 7"
    host.needs["llama"] = {"vim"}
    host.packages.add("vim")
    host.files["/var/lib/edge/model"] = FileState("", "edge", "edge", 0o644)
    report = converge(host, BOOT)
    assert report.notes == (
        "package llama stays: needed by vim",
        "user edge stays: user edge is currently used by process 7",
        "folder /var/lib/edge stays: Directory not empty",
    )
    assert converge(host, BOOT).changes == ()


def test_a_package_that_another_concern_wants_stays() -> None:
    host = fresh()
    other = Concern("other", packages=("llama",))
    converge(host, EDGE, other)
    report = converge(host, other)
    assert ("package", "llama") not in {(change.kind, change.subject) for change in report.changes}
    assert "llama" in host.packages


def test_a_missing_command_line_file_is_an_error_only_where_a_kernel_boots_from_it() -> None:
    host = fresh()
    del host.files[CMDLINE]
    with pytest.raises(HostError, match="is the boot partition mounted"):
        converge(host, BOOT)
    container = replace(BOOT, arguments=(Argument("quiet", CMDLINE, live=False),))
    converge(host, container)
    assert host.files[CMDLINE].content == "quiet\n"
    converge(host)
    assert CMDLINE not in host.files


def test_an_argument_that_was_there_before_stays() -> None:
    host = fresh()
    host.files[CMDLINE] = FileState("root=/dev/sda1 quiet\n", "root", "root", 0o755)
    converge(host, BOOT)
    converge(host)
    assert host.files[CMDLINE].content == "root=/dev/sda1 quiet\n"


# --- secrets ----------------------------------------------------------------------------------------------------------


def test_a_frozen_concern_thaws_whole() -> None:
    vault: dict[str, str] = {}

    def keep(content: str) -> str:
        vault["name"] = content
        return "name"

    for concern in BOTH:
        frozen = json.loads(json.dumps(freeze(concern, keep)))
        assert thaw(frozen, vault.__getitem__) == concern
    assert vault == {"name": "sesame-2\n"}


def test_a_secret_is_in_no_diff_journal_or_history() -> None:
    host = fresh()
    report = converge(host, *BOTH)
    other = replace(EDGE, files=(EDGE.files[0], replace(EDGE.files[1], content="sesame-3\n"), EDGE.files[2]))
    more = converge(host, BOOT, other, name="run-2")
    kept = [*map(str, report.changes), *map(str, more.changes), *host.journals.values(), str(host.history)]
    assert [text for text in kept if "sesame" in text] == []
    change = next(change for change in report.changes if change.subject == "/etc/edge/key")
    assert (change.before, change.after) == ("(secret, not shown)", "(another secret, not shown)")
    assert sorted(host.secrets.values()) == ["sesame-1\n", "sesame-2\n", "sesame-3\n"]  # was, before, is
    host.refuse["/etc/edge/key"] = "bad line: sesame-4"
    checked = replace(EDGE.files[1], content="sesame-4", validate_command="check %s")
    with pytest.raises(HostError, match="its words are not shown") as refused:
        converge(host, BOOT, replace(EDGE, files=(EDGE.files[0], checked)))
    assert "sesame" not in str(refused.value)


def test_secrets_that_nobody_needs_are_forgotten() -> None:
    host = fresh()
    converge(host, *BOTH)
    converge(host, name="run-2")
    assert sorted(host.secrets.values()) == ["sesame-2\n"]  # the way back needs it
    converge(host, BOOT, name="run-3")
    assert host.secrets == {}
