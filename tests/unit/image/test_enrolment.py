"""What an image brings so that its node gets a certificate by itself, how long its token stays, and what is said when there is none."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from doubles.hosts import MemoryHost
from unit.hosts.sites import DC, LAB, plan_of_file, planned

from pinion.cli import main
from pinion.drivers.hosts.onhost.engine import check, converge
from pinion.drivers.hosts.onhost.machine import FileState, UnitState
from pinion.drivers.hosts.onhost.wanted import concern
from pinion.drivers.hosts.requests import filled, selection
from pinion.drivers.identity.authority import Authority
from pinion.drivers.identity.place import VARIABLE
from pinion.drivers.identity.tokens import enrolment as new_token
from pinion.drivers.identity.tokens import read
from pinion.image import base as bases
from pinion.image import disk
from pinion.image.base import Base
from pinion.image.choice import note
from pinion.image.enrolment import LIFE_SECONDS, Enrolment, Sources, enrolment, handed_out
from pinion.image.errors import ImageError
from pinion.image.identity import Given, SeedFile, identity, node_of, seed_files, time_servers
from pinion.image.kinds import Kind
from pinion.image.layout import BOOT, MIB, ROOT, SEED, layout
from pinion.image.recipe import PACKAGES
from pinion.image.store import Store
from pinion.image.write import FileCard
from pinion.plan import Plan
from pinion.plan.concerns.identity import CONFIG_FILE, ROOT_CA_FILE, SEED_TOKEN_FILE, SERVICE, TIMER, TOKEN_FILE
from pinion.plan.programs import program_path

NODE = "pi-01"
NOW = 1_800_000_000.0
DAY = 86400
JOURNAL = "/var/lib/pinion/concerns/identity.json"
BROUGHT = {
    program_path("identity"),
    CONFIG_FILE,
    f"/etc/systemd/system/{SERVICE}",
    f"/etc/systemd/system/{TIMER}",
}


@pytest.fixture(params=[LAB, DC], ids=["lab", "dc-rack-12"])
def plan(request: pytest.FixtureRequest) -> Plan:
    return plan_of_file(request.param)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("PINION_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("PINION_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("PINION_SSH_KEY", raising=False)
    return Store.of("rack")


def authority_of(plan: Plan, folder: Path) -> Authority:
    """The site's authority on this machine."""
    made = Authority(folder)
    assert plan.authority is not None
    made.make(plan.site, plan.authority.domain, plan.authority.networks)
    return made


@pytest.fixture
def authority(plan: Plan, tmp_path: Path) -> Authority:
    return authority_of(plan, tmp_path / "authority" / plan.site)


def seeded(plan: Plan, found: Enrolment, node: str = NODE) -> dict[str, SeedFile]:
    """The files of the node's seed, by path."""
    given = Given(b"key", "ssh-ed25519 AAAA", ("ssh-ed25519 BBBB admin",), root_ca=found.root, token=found.token)
    return {file.path: file for file in identity(plan, node_of(plan, node), given)}


# --- what is in the seed ----------------------------------------------------------------------------------------------


def test_the_seed_holds_what_the_concern_plans_and_a_token_on_the_disk(
    plan: Plan, store: Store, authority: Authority
) -> None:
    found = enrolment(store, plan, NODE, Sources(authority.folder), NOW)
    seed = seeded(plan, found)
    (host,) = [host for host in plan.hosts if host.name == NODE]
    stated = {file.path: file for file in host.concerns["identity"].files}
    assert set(stated) == BROUGHT | {TOKEN_FILE}, "a new file of the concern is to be thought of here"
    for path in BROUGHT:
        assert seed[path].content.decode() == stated[path].content.replace("@root@", authority.fingerprint)
        assert seed[path].mode == int(stated[path].mode, 8)
        assert seed[path].owner == 0
    assert TOKEN_FILE not in seed, "a token in memory does not last until the authority is reached"
    assert seed[ROOT_CA_FILE].content.decode() == authority.root
    token = seed[SEED_TOKEN_FILE]
    assert token.mode == 0o600
    told = json.loads(seed[CONFIG_FILE].content)
    assert told["root"] == authority.fingerprint
    assert told["seed_token"] == SEED_TOKEN_FILE
    said = read(token.content.decode())
    assert list(said.names) == told["names"], "for exactly this node"
    assert said.audience == f"{told['authority']}/1.0/sign"
    assert said.ends - NOW == LIFE_SECONDS == 7 * DAY
    units = json.loads(seed_files(plan, NODE, list(seed.values()), 1)["identity.json"])["units"]
    assert units == [TIMER]


def test_without_a_token_there_is_nothing_that_would_ask_in_vain(plan: Plan, store: Store) -> None:
    found = enrolment(store, plan, NODE, Sources(None, b"-----BEGIN CERTIFICATE-----"), NOW)
    seed = seeded(plan, found)
    assert not (BROUGHT | {SEED_TOKEN_FILE, JOURNAL}) & set(seed)
    assert "units" not in json.loads(seed_files(plan, NODE, list(seed.values()), 1)["identity.json"])


def test_a_node_asks_for_the_time_whom_it_will_ask_once_it_is_converged() -> None:
    """A board without a battery wakes in the past, where no certificate is good."""
    plan = planned(DC, concerns={"base": {"time_servers": ["192.168.100.2", "ntp.example.net"]}})
    assert time_servers(plan, NODE) == ("192.168.100.2", "ntp.example.net")
    text = seeded(plan, Enrolment())["/etc/systemd/timesyncd.conf.d/10-pinion.conf"].content.decode()
    assert text.endswith("[Time]\nNTP=192.168.100.2 ntp.example.net\n")
    assert "systemd-timesyncd" in PACKAGES
    assert time_servers(planned(DC, concerns={}), NODE) == ()


# --- the host's own program: what the image brought is the concern's --------------------------------------------------


def booted(plan: Plan, found: Enrolment) -> MemoryHost:
    """The node after its first boot, before anybody converged it."""
    seed = seeded(plan, found)
    host = MemoryHost(packages={"openssl"}, holding={"good"}, units={TIMER: UnitState(enabled=True, active=True)})
    for path in (*BROUGHT, ROOT_CA_FILE, SEED_TOKEN_FILE):
        file = seed[path]
        host.files[path] = FileState(file.content.decode(), "root", "root", file.mode)
    host.journals["identity"] = seed[JOURNAL].content.decode()
    return host


def test_a_converge_finds_all_as_it_should_be_and_takes_it_away_when_the_site_no_longer_has_it(
    plan: Plan, store: Store, authority: Authority
) -> None:
    host = booted(plan, enrolment(store, plan, NODE, Sources(authority.folder), NOW))
    (stated,) = [entry for entry in plan.hosts if entry.name == NODE]
    asked = selection(stated.model_dump(mode="json"), ["identity"], ["identity"])
    variables = {VARIABLE: str(authority.folder.parent)}
    wanted = concern(filled(asked, variables)["concerns"][0])
    (token,) = [file for file in wanted.files if file.unless is not None]
    host.holding.add(token.unless or "")  # it has enrolled itself by now
    machine = host.machine()
    assert check(machine, [wanted]).changes == ()
    assert converge(machine, [wanted], wait=0, who="t", name="r1").changes == ()
    gone = converge(machine, [], wait=0, who="t", name="r2", whole=True)
    assert {change.subject for change in gone.changes if change.kind == "file"} == BROUGHT
    assert not BROUGHT & set(host.files)
    assert host.units[TIMER] == UnitState(enabled=False, active=False)
    (line,) = [file.run[0] for file in wanted.files if file.path == CONFIG_FILE]
    assert line in host.read_by, "the concern's own line takes key, token and root certificate"
    assert "openssl" in host.packages, "the image had it before"
    assert "identity" not in host.journals


# --- how long a token stays -------------------------------------------------------------------------------------------


def kept(store: Store, plan: Plan, authority: Authority, after: float, life: float = LIFE_SECONDS) -> bytes:
    token = enrolment(store, plan, NODE, Sources(authority.folder, life=life), NOW + after).token
    assert token is not None
    return token


def test_a_token_stays_in_the_image_for_half_of_its_life(plan: Plan, store: Store, authority: Authority) -> None:
    first = kept(store, plan, authority, 0)
    assert kept(store, plan, authority, 3 * DAY) == first, "so the image stays the same"
    assert (store.tokens / NODE).stat().st_mode & 0o777 == 0o600
    assert store.tokens.stat().st_mode & 0o777 == 0o700
    second = kept(store, plan, authority, 3.6 * DAY)
    assert second != first
    assert read(second.decode()).ends == NOW + 3.6 * DAY + LIFE_SECONDS
    assert kept(store, plan, authority, 4 * DAY) == second


def test_another_life_takes_another_token(plan: Plan, store: Store, authority: Authority) -> None:
    week = kept(store, plan, authority, 0)
    hour = kept(store, plan, authority, 0, 3600)
    assert read(hour.decode()).ends == NOW + 3600, "not a week, because a week was asked for before"
    assert kept(store, plan, authority, 0, LIFE_SECONDS) not in {week, hour}


def test_a_token_goes_to_one_card(plan: Plan, store: Store, authority: Authority) -> None:
    first = kept(store, plan, authority, 0)
    handed_out(store, NODE)
    handed_out(store, NODE)
    assert kept(store, plan, authority, 0) != first


def test_a_token_that_is_not_this_nodes_any_more_is_replaced(
    plan: Plan, store: Store, authority: Authority, tmp_path: Path
) -> None:
    first = kept(store, plan, authority, 0)
    other = authority_of(plan, tmp_path / "other" / plan.site)
    second = kept(store, plan, other, 0)
    assert read(second.decode()).root == other.fingerprint
    (store.tokens / NODE).write_bytes(first[: len(first) // 2])
    assert read(kept(store, plan, authority, 0).decode()).root == authority.fingerprint, "a torn file is no token"
    assert plan.authority is not None
    moved = new_token(authority, "https://ca.example.net", read(first.decode()).names, LIFE_SECONDS, now=NOW)
    (store.tokens / NODE).write_text(moved)
    assert kept(store, plan, authority, 0) != moved.encode()
    renamed = new_token(authority, plan.authority.url, [f"pi-99.{plan.authority.domain}"], LIFE_SECONDS, now=NOW)
    (store.tokens / NODE).write_text(renamed)
    assert kept(store, plan, authority, 0) != renamed.encode()


# --- what the operator states, and what is said when there is nothing -------------------------------------------------


def test_a_machine_without_the_authority_says_so_and_fails_nothing(plan: Plan, store: Store, tmp_path: Path) -> None:
    found = enrolment(store, plan, NODE, Sources(tmp_path / "nothing" / plan.site), NOW)
    assert (found.root, found.token) == (None, None)
    assert found.why_not is not None
    assert f"pinion identity init {plan.site}" in found.why_not
    assert ("run elsewhere" in found.why_not) == (plan.authority is not None and plan.authority.host is None)


def test_an_authority_without_its_key_for_tokens_gives_the_root_alone(
    plan: Plan, store: Store, authority: Authority
) -> None:
    (authority.folder / "provisioner.key").unlink()
    found = enrolment(store, plan, NODE, Sources(authority.folder), NOW)
    assert found.root == authority.root.encode()
    assert found.token is None
    assert "provisioner.key" in (found.why_not or "")


def test_what_the_operator_states_counts(plan: Plan, store: Store, authority: Authority) -> None:
    names = read(kept(store, plan, authority, 0).decode()).names
    mine = new_token(authority, "https://elsewhere.example.net", names, DAY, now=NOW).encode()
    found = enrolment(store, plan, NODE, Sources(authority.folder, token=mine), NOW)
    assert (found.token, found.ends) == (mine, NOW + DAY)
    assert (store.tokens / NODE).read_bytes() != mine, "not ours to keep"


def test_another_root_than_the_authoritys_gets_no_token_of_that_authority(
    plan: Plan, store: Store, authority: Authority, tmp_path: Path
) -> None:
    other = authority_of(plan, tmp_path / "other" / plan.site).root.encode()
    found = enrolment(store, plan, NODE, Sources(authority.folder, root=other), NOW)
    assert (found.root, found.token) == (other, None)
    assert "--root-ca is not the root" in (found.why_not or "")


@pytest.mark.parametrize("case", ["junk", "another node's", "old", "without a root"])
def test_a_token_that_the_node_could_not_use_is_refused_now(
    plan: Plan, store: Store, authority: Authority, case: str
) -> None:
    names = read(kept(store, plan, authority, 0).decode()).names
    token, said, folder = b"junk", "no enrolment token", authority.folder
    if case == "another node's":
        token, said = new_token(authority, "https://a", ["pi-02.x"], now=NOW).encode(), r"--token is for pi-02.x, and"
    elif case == "old":
        token, said = new_token(authority, "https://a", names, now=NOW - DAY).encode(), "has run out"
    elif case == "without a root":
        folder, said = authority.folder / "nothing", "--root-ca"
    with pytest.raises(ImageError, match=said) as raised:
        enrolment(store, plan, NODE, Sources(folder, token=token), NOW)
    assert token.decode() not in str(raised.value) or case == "junk"


def test_where_the_site_wants_no_certificate_a_token_is_refused_and_nothing_is_said(store: Store) -> None:
    plan = planned(DC, concerns={})
    assert enrolment(store, plan, NODE, Sources(Path("/nonexistent")), NOW) == Enrolment()
    with pytest.raises(ImageError, match="no concern `identity`"):
        enrolment(store, plan, NODE, Sources(token=b"t"), NOW)


def test_no_secret_is_in_what_a_traceback_would_show(plan: Plan, store: Store, authority: Authority) -> None:
    found = enrolment(store, plan, NODE, Sources(authority.folder), NOW)
    assert found.token is not None
    given = Given(b"private", "p", ("a",), root_ca=found.root, token=found.token)
    for shown in (repr(found), repr(given), repr(Sources(token=found.token))):
        assert found.token.decode() not in shown
        assert "private" not in shown


# --- the command, on a base of a few mebibytes ------------------------------------------------------------------------

needs_tools = pytest.mark.skipif(
    os.geteuid() != 0
    or not all(map(shutil.which, ("sfdisk", "mkfs.fat", "mcopy", "mmdebstrap", "qemu-aarch64-static"))),
    reason="builds images: as root, with the Debian packages of tools/image-packages.txt",
)


@pytest.fixture
def small_base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: Store) -> Base:
    """A base image whose root is empty, in the place of the real one."""
    folder = tmp_path / "base"
    folder.mkdir()
    planned_disk = layout(7, root=MIB, boot=17 * MIB, seed=16 * MIB)
    disk.fat(folder / "boot", planned_disk[BOOT].size, "A", {}, key="k", epoch=1_700_000_000)
    disk.fat(folder / "seed", planned_disk[SEED].size, "B", {}, key="k", epoch=1_700_000_000)
    (folder / "root").write_bytes(bytes(planned_disk[ROOT].size))
    parts = {name: folder / name for name in (BOOT, SEED, ROOT)}
    disk.assemble(folder / bases.IMAGE, planned_disk, parts)
    found = Base(folder, planned_disk, "k", disk.digest(folder / bases.IMAGE), 1_700_000_000, "nothing")
    note(Store.of("dc-rack-12"), Kind.DEBIAN)
    monkeypatch.setattr(bases, "ensure", lambda *_given, **_named: found)
    return found


def built(*arguments: str) -> tuple[str, dict[str, object]]:
    """What `pinion image build` says about the one node, in words and as JSON."""
    runner = CliRunner()
    command = ["image", "build", "dc-rack-12", "--node", NODE, *arguments]
    words, data = runner.invoke(main, command), runner.invoke(main, [*command, "--json"])
    assert words.exit_code == data.exit_code == 0, words.output + data.output
    return words.output, json.loads(data.stdout)["nodes"][0]


@needs_tools
def test_the_command_makes_root_and_token_and_tells_until_when(
    small_base: Base, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = authority_of(plan_of_file(DC), tmp_path / "authorities" / "dc-rack-12")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "authorities"))
    words, data = built()
    token = (Store.of("dc-rack-12").tokens / NODE).read_text()
    image = Path(str(data["image"]))
    seed = disk.take(image, small_base.disk[SEED].start, "identity.tar")
    assert token.encode() in seed
    assert authority.root.encode() in seed
    assert read(token).ends - read(token).begins == LIFE_SECONDS
    ends = dt.datetime.fromtimestamp(read(token).ends, dt.UTC)
    assert f"enrols itself at its first boot, until {ends:%Y-%m-%d %H:%M} UTC" in words
    assert data["enrolment"] == {"at_first_boot": True, "token_until": ends.isoformat(), "why_not": None}
    assert token not in words + json.dumps(data) + image.with_suffix(".json").read_text()
    made = image.stat().st_mtime_ns
    assert built()[1]["sha256"] == data["sha256"]
    assert image.stat().st_mtime_ns == made, "not built again"
    shorter = built("--token-life", "24h")[1]
    assert shorter["sha256"] != data["sha256"]


@needs_tools
def test_the_command_says_that_a_node_will_not_enrol_itself_and_what_to_do(
    small_base: Base, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "nothing"))
    words, data = built()
    assert f"note: {NODE} will not enrol itself: {tmp_path}/nothing/dc-rack-12/root.crt" in words
    assert "pinion identity init dc-rack-12" in words
    assert "--root-ca and --token" in words
    assert "pinion converge" in words
    told = data["enrolment"]
    assert isinstance(told, dict)
    assert (told["at_first_boot"], told["token_until"]) == (False, None)


@needs_tools
def test_a_card_takes_its_token_with_it(small_base: Base, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority_of(plan_of_file(DC), tmp_path / "authorities" / "dc-rack-12")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "authorities"))
    card = tmp_path / "card"
    card.write_bytes(bytes(40 * MIB))
    monkeypatch.setattr("pinion.cli.image.card", lambda path: FileCard(path))
    first = built()[1]
    write = ["image", "write", "dc-rack-12", "--node", NODE, "--to", str(card), "--yes"]
    refused = CliRunner().invoke(main, [*write, "another"])
    assert refused.exit_code == 1
    assert built()[1]["sha256"] == first["sha256"], "it went nowhere"
    done = CliRunner().invoke(main, [*write, "card"])
    assert done.exit_code == 0, done.output
    assert "enrols itself at its first boot" in done.output
    assert first["sha256"] == disk.digest(Path(str(first["image"])))
    assert str(first["sha256"]) in done.output
    assert built()[1]["sha256"] != first["sha256"], "the next card has a token of its own"


@pytest.mark.parametrize("written", ["7d", "1min", "721h", "0s", "soon"])
def test_a_life_that_is_none_or_out_of_bounds_is_refused(written: str, store: Store) -> None:
    done = CliRunner().invoke(main, ["image", "build", "dc-rack-12", "--token-life", written])
    assert done.exit_code == 2
    assert "--token-life" in done.output
    assert ("15min to 720h" in done.output) == (written in {"1min", "721h", "0s"})


def test_a_token_by_hand_lives_as_long_as_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority_of(plan_of_file(DC), tmp_path / "dc-rack-12")
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    done = CliRunner().invoke(main, ["identity", "token", "dc-rack-12", NODE, "--life", "48h", "--json"])
    said = json.loads(done.stdout)
    found = read(said["token"])
    assert found.ends - found.begins == said["seconds"] == 2 * DAY
