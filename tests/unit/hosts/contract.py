"""What any `Machine` must do, in memory or real: each function gets a machine and asserts. Plain Python, so it also runs on a lab host.

*FOLDER* and the names below belong to the contract; on a real host they are made and removed again.
"""

from __future__ import annotations

from collections.abc import Callable

from pinion.drivers.hosts.onhost.history import History
from pinion.drivers.hosts.onhost.journal import Journal, Original
from pinion.drivers.hosts.onhost.machine import DirectoryState, FileState, HostError, Machine, UnitState
from pinion.drivers.hosts.onhost.wanted import File, Unit, User

FOLDER = "/etc/pinion-contract"
#: In Debian and on no lab host; needs nothing that a lab host lacks.
PACKAGE = "hostname-contract-none"
#: Installed on every Debian host, and needed by others.
NEEDED = "libc6"
USER = User(
    "contract",
    system=True,
    comment="Contract",
    home="/var/lib/contract",
    create_home=True,
    shell="/bin/sh",
    groups=("adm",),
)
UNIT = "ssh.service"
SYSCTL = "net.ipv4.tcp_keepalive_time"


def file(content: str, *, validate: str | None = None) -> File:
    """A file of the contract."""
    return File(f"{FOLDER}/a.conf", "root", "root", 0o640, content, (), validate, confirm=False)


def refused(action: Callable[[], object], words: str) -> None:
    """Assert that *action* is refused with *words*."""
    said = ""
    try:
        action()
    except HostError as error:
        said = str(error)
    assert words in said


def a_file_is_replaced_whole(machine: Machine) -> None:
    path = f"{FOLDER}/a.conf"
    assert machine.files.read(path) is None
    first = FileState("ä\x00\udcff\n", "root", "root", 0o640)
    machine.files.put(path, first)
    assert machine.files.read(path) == first
    second = FileState("", "root", "root", 0o600)
    machine.files.put(path, second)
    assert machine.files.read(path) == second
    machine.files.remove(path)
    machine.files.remove(path)
    assert machine.files.read(path) is None


def a_folder_is_made_changed_and_removed_when_it_is_empty(machine: Machine) -> None:
    assert machine.files.read_directory(f"{FOLDER}/inner") is None
    machine.files.put_directory(FOLDER, DirectoryState("root", "root", 0o755))
    machine.files.put_directory(f"{FOLDER}/inner", DirectoryState("root", "adm", 0o750))
    assert machine.files.read_directory(f"{FOLDER}/inner") == DirectoryState("root", "adm", 0o750)
    machine.files.put_directory(f"{FOLDER}/inner", DirectoryState("root", "root", 0o700))
    assert machine.files.read_directory(f"{FOLDER}/inner") == DirectoryState("root", "root", 0o700)
    assert "not empty" in str(machine.files.remove_directory(FOLDER))
    assert machine.files.remove_directory(f"{FOLDER}/inner") is None
    assert machine.files.remove_directory(f"{FOLDER}/inner") is None
    assert machine.files.remove_directory(FOLDER) is None


def a_missing_package_is_not_installed(machine: Machine) -> None:
    assert machine.packages.installed([PACKAGE, NEEDED]) == {NEEDED}
    assert machine.packages.installed([]) == frozenset()
    refused(lambda: machine.packages.install([PACKAGE]), PACKAGE)


def a_needed_package_is_not_removed(machine: Machine) -> None:
    refusal = machine.packages.remove(NEEDED)
    assert refusal
    assert machine.packages.installed([NEEDED]) == {NEEDED}


def a_user_is_made_changed_and_removed(machine: Machine) -> None:
    assert machine.accounts.read(USER) is None
    assert not machine.accounts.exists(USER.name)
    machine.accounts.put(USER)
    made = machine.accounts.read(USER)
    assert made is not None
    assert (made.comment, made.home, made.shell, made.groups) == ("Contract", USER.home, "/bin/sh", {"adm"})
    assert made.home_exists
    assert made.whole
    changed = User(USER.name, True, "Changed", USER.home, True, "/usr/sbin/nologin", ("adm", "mail"))
    machine.accounts.put(changed)
    now = machine.accounts.read(changed)
    assert now is not None
    assert (now.comment, now.shell, now.groups) == ("Changed", "/usr/sbin/nologin", {"adm", "mail"})
    assert machine.accounts.remove(USER.name) is None
    assert machine.accounts.read(USER) is None
    assert machine.accounts.remove(USER.name) is None


def a_sysctl_is_set_and_an_unknown_one_refused(machine: Machine) -> None:
    before = machine.kernel.read(SYSCTL)
    assert before is not None
    machine.kernel.set(SYSCTL, "1234")
    assert machine.kernel.read(SYSCTL) == "1234"
    machine.kernel.set(SYSCTL, before)
    assert machine.kernel.read("net.ipv4.no_such_parameter") is None
    refused(lambda: machine.kernel.set("net.ipv4.no_such_parameter", "1"), "no_such_parameter")


def units_are_read_and_an_unknown_one_is_off(machine: Machine) -> None:
    states = machine.units.read([UNIT, "no-such.service"])
    assert states == {
        UNIT: UnitState(enabled=True, active=True),
        "no-such.service": UnitState(enabled=False, active=False),
    }
    machine.units.put(Unit(UNIT, enabled=True, active=True))
    machine.units.put(Unit("pinion-contract.service", enabled=False, active=False, masked=True))
    assert machine.units.read(["pinion-contract.service"])["pinion-contract.service"].masked
    machine.units.put(Unit("pinion-contract.service", enabled=False, active=False))
    assert not machine.units.read(["pinion-contract.service"])["pinion-contract.service"].masked
    machine.units.reload(UNIT)
    machine.units.restart(UNIT)
    assert machine.units.read([UNIT])[UNIT].active
    refused(lambda: machine.units.put(Unit("no-such.service", enabled=True, active=True)), "no-such.service")


def a_journal_is_kept_and_dropped_when_empty(machine: Machine) -> None:
    assert not machine.journals.read("contract")
    kept = Journal(
        packages=["b", "a"],
        users=["u"],
        files={
            "/x": Original(None, None, None, None, ["ssh.service"], True),
            "/y": Original("\udcff", "root", "adm", 0o640, [], False),
        },
        directories={"/d": None, "/e": ("root", "adm", 0o750)},
        arguments={"/boot/firmware/cmdline.txt": {"a=1": ["a=2"]}},
        sysctls={"a.b": "1 2"},
        units={"x.service": (True, False, False)},
        run=["b", "a"],
        restart=["y.service"],
        reload=["ssh.service"],
    )
    machine.journals.write("contract", kept)
    assert "contract" in machine.journals.names()
    assert machine.journals.read("contract").to_json() == kept.to_json()
    machine.journals.write("contract", Journal())
    assert not machine.journals.read("contract")
    assert "contract" not in machine.journals.names()


def the_history_is_kept(machine: Machine) -> None:
    before = machine.journals.read_history()
    kept = History({"a": {"name": "a", "files": []}}, "run-1", {"b": None, "a": {"name": "a", "files": []}})
    machine.journals.write_history(kept)
    assert machine.journals.read_history() == kept
    machine.journals.write_history(before)
    assert machine.journals.read_history() == before


def the_vault_keeps_and_forgets(machine: Machine) -> None:
    one, two = machine.vault.keep("one\udcff"), machine.vault.keep("two")
    assert machine.vault.keep("two") == two
    assert machine.vault.fetch(one) == "one\udcff"
    machine.vault.prune(frozenset({two}))
    refused(lambda: machine.vault.fetch(one), "is gone")
    assert machine.vault.fetch(two) == "two"
    machine.vault.prune(frozenset())


def what_waits_for_a_boot_is_remembered(machine: Machine) -> None:
    before = machine.boots.waiting()
    machine.boots.note(["contract b", "contract a"])
    machine.boots.note(["contract a"])
    assert machine.boots.waiting() == tuple(sorted({*before, "contract a", "contract b"}))


def a_module_that_does_not_exist_is_refused(machine: Machine) -> None:
    assert not machine.kernel.loaded("pinion_contract_none")
    refused(lambda: machine.kernel.load("pinion_contract_none"), "pinion_contract_none")


def a_command_that_fails_is_told(machine: Machine) -> None:
    machine.commands.run("true")
    refused(lambda: machine.commands.run("echo why >&2; exit 3"), "why")


def a_condition_holds_or_not(machine: Machine) -> None:
    assert not machine.commands.holds("test -e /nowhere/at/all")


def only_one_run_at_a_time(machine: Machine) -> None:
    with machine.guard.lock(0, "first") as waited:
        assert waited < 5
        refused(lambda: machine.guard.lock(0, "second").__enter__(), "first")
    with machine.guard.lock(0, "third"):
        pass


def a_guard_is_armed_until_it_is_disarmed(machine: Machine) -> None:
    assert not machine.guard.armed("contract")
    assert not machine.guard.disarm("contract")
    machine.guard.arm("contract", {f"{FOLDER}/a.conf": None}, [], 600)
    machine.guard.arm("contract", {f"{FOLDER}/a.conf": FileState("later", "root", "root", 0o644)}, [], 600)
    assert machine.guard.armed("contract")
    assert machine.guard.disarm("contract")
    assert not machine.guard.armed("contract")
    assert not machine.guard.undone("contract")


CONTRACT: tuple[Callable[[Machine], None], ...] = (
    a_file_is_replaced_whole,
    a_folder_is_made_changed_and_removed_when_it_is_empty,
    a_missing_package_is_not_installed,
    a_needed_package_is_not_removed,
    a_user_is_made_changed_and_removed,
    a_sysctl_is_set_and_an_unknown_one_refused,
    units_are_read_and_an_unknown_one_is_off,
    a_journal_is_kept_and_dropped_when_empty,
    the_history_is_kept,
    the_vault_keeps_and_forgets,
    what_waits_for_a_boot_is_remembered,
    a_module_that_does_not_exist_is_refused,
    a_command_that_fails_is_told,
    a_condition_holds_or_not,
    only_one_run_at_a_time,
    a_guard_is_armed_until_it_is_disarmed,
)
