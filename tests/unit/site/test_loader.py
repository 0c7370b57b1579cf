"""The loader as a whole: good sites load, bad ones say everything at once, and nothing but problems ever comes out."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from thoroughness import points

from pinion.plan import plan
from pinion.site.errors import MAXIMUM_PROBLEMS, SiteErrors
from pinion.site.loader import charts_folder, check, load, read
from pinion.site.model import Delivery, Purpose

ROOT = Path(__file__).resolve().parents[3]
SITES = sorted((ROOT / "inventories").glob("*/site.yml"))
LAB = (ROOT / "inventories" / "lab" / "site.yml").read_text(encoding="utf-8")
RACK = (ROOT / "inventories" / "dc-rack-12" / "site.yml").read_text(encoding="utf-8")


def _codes(text: str) -> list[str]:
    _, problems = read(text.encode(), "site.yml")
    return [problem.code for problem in problems]


# --- good sites -----------------------------------------------------------------------------------------------------------


def test_every_site_of_the_repository_loads_and_plans() -> None:
    assert {path.parent.name for path in SITES} >= {"lab", "dc-rack-12"}
    for path in SITES:
        site = load(path)
        assert site.site == path.parent.name
        assert plan(site).site == site.site


def test_values_arrive_as_written() -> None:
    site = load(ROOT / "inventories" / "dc-rack-12" / "site.yml")
    assert site.networks["edge-inference"].vid == 101
    assert site.networks["edge-inference"].purpose is Purpose.EDGE
    assert site.networks["edge-inference"].prefix == "192.168.101.0/24"
    assert site.traffic_classes["rdma"].delivery is Delivery.LOSSLESS
    assert site.traffic_classes["rdma"].share == "60%"
    assert site.pis["pi"].numbers == "1-8"


def test_a_lone_number_is_a_list_of_numbers() -> None:
    site, problems = read(RACK.replace("numbers: 1-8", "numbers: 3").encode(), "x")
    assert problems == ()
    assert site is not None
    assert site.pis["pi"].numbers == "3"


def test_both_families_and_stated_details_are_fine() -> None:
    text = (
        RACK.replace("    prefix: 192.168.101.0/24\n", '    prefixes: [192.168.101.0/24, "fd00:101::/64"]\n')
        .replace(
            "ranges: {pis: ", "dhcp: 192.168.101.200-192.168.101.250\n    gateway: 192.168.101.254\n    ranges: {pis: "
        )
        .replace(
            "    range: pis\n",
            "    range: pis\n    nodes:\n      3: {serial: 10000000abcd, mac: '2c:cf:67:00:00:03', address: 192.168.101.150}\n"
            "      4: {port: tor-2 Ethernet4}\n",
        )
    )
    site, problems = read(text.encode(), "x")
    assert [str(problem) for problem in problems] == []
    assert site is not None
    assert site.pis["pi"].nodes[3].address == "192.168.101.150"
    assert plan(site).device("pi-03").primary_address == "192.168.101.150/24"


# --- bad sites ------------------------------------------------------------------------------------------------------------


def test_load_raises_with_every_problem() -> None:
    path = ROOT / "tests" / "errors" / "twelve-mistakes" / "site.yml"
    with pytest.raises(SiteErrors) as raised:
        load(path)
    assert len(raised.value.problems) == 12
    assert str(raised.value).count("fix: ") == 12


def test_problems_come_in_the_order_of_the_file() -> None:
    _, problems = check(ROOT / "tests" / "errors" / "twelve-mistakes" / "site.yml")
    places = [(problem.line, problem.column) for problem in problems]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("old", "new", "codes"),
    [
        # One mistake, told once: what hangs on it keeps quiet.
        ("vid: 101", "vid: 5000", ["NET-002"]),
        ("vid: 101", "vid: many", ["SITE-003"]),
        ("purpose: edge", "purpose: egde", ["SITE-005"]),
        ("    prefix: 192.168.101.0/24\n", "    prefx: 192.168.101.0/24\n", ["SITE-001"]),
        ("  edge-inference:\n", "  edge inference:\n", ["SITE-007"]),
        ("192.168.101.10-192.168.101.99", "192.168.101.10-192.168.101.999", ["NET-013"]),
        ("    board: raspberry-pi-5-8gb\n", "", ["SITE-002"]),
        ("    board: raspberry-pi-5-8gb\n", "    bord: raspberry-pi-5-8gb\n", ["SITE-001"]),
        ("numbers: 1-8", "numbers: 0-8", ["SITE-011"]),
        ("numbers: 1-8", "numbers:", ["YAML-014"]),
        ("  nv-1:\n", "  NV_1:\n", ["SITE-006"]),
        ("model: 7050SX3-48YC8, rack: r12, unit: 42", "model: nothing, rack: r12, unit: 42", ["HW-003"]),
        ("racks:\n  r12: {units: 42}\n", "", ["SITE-002"]),
        ("racks:\n  r12: {units: 42}\n", "racks: r12\n", ["SITE-003"]),
        ("racks:\n  r12: {units: 42}\n", "racks: [r12]\n", ["SITE-003"]),
        ("version: 1\n", "", ["SITE-002"]),
        ("version: 1\n", "version: '1'\n", ["SITE-003"]),
        ("version: 1\n", "version: 3\n", ["SITE-008"]),
        ("purpose: edge", "purpose: [edge]", ["SITE-003"]),
        ("site: dc-rack-12\nregion: eu-central\n", "", ["SITE-002", "SITE-002"]),
    ],
)
def test_one_mistake_is_told_once(old: str, new: str, codes: list[str]) -> None:
    assert RACK.count(old) >= 1
    assert _codes(RACK.replace(old, new, 1)) == codes


def test_a_mistake_of_shape_does_not_hide_the_rules() -> None:
    text = RACK.replace("hat: ai-hat-plus-2", "hats: ai-hat-plus-3").replace("tor-1 Ethernet17", "tor-1 Ethernet99")
    assert _codes(text) == ["SITE-001", "HW-002", "PORT-002"]


def test_problems_are_bounded() -> None:
    text = RACK.replace("models:\n", "models:\n" + "".join(f"  m{index}: {{}}\n" for index in range(5000)))
    _, problems = read(text.encode(), "x")
    assert len(problems) == MAXIMUM_PROBLEMS + 1
    assert problems[-1].code == "FILE-003"


def test_messages_hold_nothing_that_a_terminal_obeys() -> None:
    text = RACK.replace("hat: ai-hat-plus-2", 'hat: "\\e[31m\\u202e\\nred"').replace("numbers: 1-8", 'numbers: "\\a1"')
    _, problems = read(text.encode(), "x")
    assert len(problems) == 2
    for problem in problems:
        assert all(letter.isprintable() for letter in problem.message + problem.fix)


def test_the_nearest_charts_folder_counts(tmp_path: Path) -> None:
    (tmp_path / "charts" / "mine").mkdir(parents=True)
    (tmp_path / "charts" / "mine" / "Chart.yaml").write_text("name: mine\n")
    inventory = tmp_path / "inventories" / "a"
    inventory.mkdir(parents=True)
    text = LAB.replace("chart: hello", "chart: mine")
    (inventory / "site.yml").write_text(text, encoding="utf-8")
    assert charts_folder(inventory / "site.yml") == tmp_path / "charts"
    assert check(inventory / "site.yml")[1] == ()
    (inventory / "site.yml").write_text(LAB, encoding="utf-8")
    assert [problem.code for problem in check(inventory / "site.yml")[1]] == ["K8S-003"]


@pytest.mark.parametrize("path", ["/nonexistent/site.yml", "/", "/dev/null/x", "\0"])
def test_what_cannot_be_read_is_a_problem_too(path: str) -> None:
    site, problems = check(Path(path))
    assert site is None
    assert [problem.code for problem in problems] == ["FILE-001"]


# --- anything at all ------------------------------------------------------------------------------------------------------

#: Pieces that make interesting YAML when they meet.
PIECES = st.sampled_from(
    [
        *(
            "\n",
            "\n  ",
            "\n    ",
            " ",
            ": ",
            "- ",
            "? ",
            "[",
            "]",
            "{",
            "}",
            ", ",
            "&a ",
            "*a",
            "!!t ",
            "|\n",
            ">",
            "'",
            '"',
            "#",
            "<<",
        ),
        *(
            "---\n",
            "...\n",
            "%YAML 1.2\n",
            "\t",
            "\r\n",
            "\ufeff",
            "\u2028",
            "\x00",
            "@",
            "`",
            "\\",
            "é",
            "no",
            "~",
            "0o17",
            "1:30",
        ),
        *(
            "version: 1",
            "site: a",
            "racks",
            "networks",
            "switches",
            "pis",
            "gpu_servers",
            "nodes",
            "numbers: 1-9",
            "vid: 100",
        ),
        *(
            "prefix: 10.0.0.0/24",
            "ports: tor-1 Ethernet1",
            "purpose: edge",
            "rdma",
            "access",
            "admins",
            "kubernetes",
            "services",
        ),
    ]
)


def _is_sound(data: bytes) -> None:
    site, problems = read(data, "x")
    assert (site is None) == bool(problems)
    for problem in problems:
        assert problem.line >= 1
        assert problem.column >= 1
        assert problem.message
        assert problem.fix
    if site is not None:
        plan(site)


@given(st.binary(max_size=400))
def test_any_bytes(data: bytes) -> None:
    _is_sound(data)


@given(st.text(max_size=400))
def test_any_text(text: str) -> None:
    _is_sound(text.encode("utf-8", "surrogatepass"))


@settings(max_examples=points(75, 300))
@given(st.lists(PIECES, max_size=60))
def test_anything_that_looks_like_yaml(pieces: list[str]) -> None:
    _is_sound("".join(pieces).encode())


@settings(max_examples=points(37, 150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from([LAB, RACK]), st.data())
def test_a_damaged_site_file(text: str, data: st.DataObject) -> None:
    """Cut out, double or overwrite a piece of a good file."""
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        end = min(len(text), start + data.draw(st.integers(0, 40)))
        text = text[:start] + data.draw(st.one_of(PIECES, st.just(text[start:end] * 2), st.just(""))) + text[end:]
    _is_sound(text.encode())


VALUES = st.one_of(
    st.integers(-2, 300).map(str),
    st.sampled_from(
        [
            *(
                "1-3",
                "2,5",
                "7-90",
                "none",
                "pis",
                "rdma",
                "lab",
                "edge",
                "control",
                "management",
                "lossless",
                "lossy",
                "tor-2",
                "mgmt-1",
            ),
            *(
                "10.77.101.5",
                "10.77.101.1",
                "10.77.101.0/24",
                "10.77.0.0/16",
                "192.168.101.0/25",
                "192.168.101.255",
                "'fd00::/64'",
            ),
            *(
                "192.168.101.2-192.168.101.9",
                "10.77.100.16-10.77.100.17",
                "tor-1 Ethernet3",
                "tor-1 Ethernet1-48",
                "Ethernet1-2",
            ),
            *(
                "raspberry-pi-4b-4gb",
                "lab-tor-16",
                "7060CX2-32S",
                "dgx-h100",
                "lab-gpu-server",
                "lab-management-host",
                "arista-eos",
            ),
            *(
                "{}",
                "[]",
                "x-0",
                "a-10",
                "50%",
                "5s",
                "ai-hat-plus-13",
                "debian-13",
                "gpu-rdma",
                "edge-inference",
                "[10.77.101.0/24]",
            ),
        ]
    ),
)
SCALAR = re.compile(r"(?<=: )[^\s{}\[\],#][^{}\[\],#\n]*")


@settings(max_examples=points(100, 400), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from([LAB, RACK]), st.data())
def test_what_loads_also_plans(text: str, data: st.DataObject) -> None:
    """The contract between rules and plan: no site that the rules accept makes the plan fail."""
    for _ in range(data.draw(st.integers(1, 4))):
        places = list(SCALAR.finditer(text))
        place = places[data.draw(st.integers(0, len(places) - 1))]
        text = text[: place.start()] + data.draw(VALUES) + text[place.end() :]
    _is_sound(text.encode())


@settings(max_examples=points(50, 200), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from([LAB, RACK]), st.data())
def test_optional_keys_also_plan(text: str, data: st.DataObject) -> None:
    """The same, with keys that the two sites do not use."""
    extra = data.draw(
        st.lists(
            st.sampled_from(
                [
                    ("    network: edge-inference\n", "    network: edge-inference\n    first: 2\n"),
                    (
                        "    network: edge-inference\n",
                        "    network: edge-inference\n    nodes: {1: {port: tor-1 Ethernet12}}\n",
                    ),
                    (
                        "    network: edge-inference\n",
                        "    network: edge-inference\n    nodes: {2: {address: 10.77.101.200}}\n",
                    ),
                    (
                        "    network: edge-inference\n",
                        "    network: edge-inference\n    nodes: {3: {mac: '2c:cf:67:00:00:01'}}\n",
                    ),
                    ("    range: pis\n", ""),
                    ("    purpose: edge\n", "    purpose: edge\n    gateway: none\n"),
                    ("    purpose: edge\n", "    purpose: edge\n    mtu: 1400\n"),
                    ("    purpose: edge\n", "    purpose: control\n"),
                    ("    unit: 8\n", "    range: rdma\n"),
                    ("    unit: 8\n", "    address: 10.77.100.77\n"),
                    ("    unit: 20\n", "    address: 192.168.100.77\n"),
                    ("numbers: 1-8", "numbers: 2-8,15"),
                    ("numbers: 1-4", "numbers: 4-8"),
                    ("  nv-1:\n", "  nv-7:\n"),
                    ("  nv-1:\n", "  nv:\n"),
                    (', pair: tor-2, pair_ports: "Ethernet55/1-56/1"', ", uplinks: Ethernet55/1"),
                    (', pair: tor-1, pair_ports: "Ethernet55/1-56/1"', ", uplinks: Ethernet55/1"),
                ]
            ),
            max_size=5,
        )
    )
    for old, new in extra:
        text = text.replace(old, new, 1)
    _is_sound(text.encode())


MUCH = 1_000_000


@pytest.mark.parametrize(
    "data",
    [
        *(
            piece * (MUCH // len(piece))
            for piece in (b"[", b"{", b'"', b"'", b"- ", b"? ", b"a: ", b"&a ", b"*a ", b"!", b"%", b"#", b"\n")
        ),
        *(
            piece * (MUCH // len(piece))
            for piece in (b"\t", b"\tx\n", b"\0", b"\xef\xbb\xbf", b"\xff", b"a: 1\n", b"a: 1\r", b"a: |\n x\n")
        ),
        b"version: [" + b"1," * (MUCH // 2 - 10) + b"1]",
        b"".join(b"key-%d: 1\n" % index for index in range(MUCH // 16)),
        b"".join(b"k%d: &a%d [*a%d, *a%d]\n" % (index, index, index - 1, index - 1) for index in range(1, MUCH // 40)),
        b'pis: {pi: {numbers: "' + b"1-100000," * (MUCH // 10) + b'1"}}',
        b"racks: {" + b"".join(b"r%d: {units: x}," % index for index in range(MUCH // 22)) + b"}",
    ],
    ids=lambda data: repr(bytes(data[:12])),
)
def test_nothing_blows_up(data: bytes) -> None:
    """Bounded work for whatever a megabyte holds: far less than the 30 s of processor time that would mean it is not."""
    began = time.process_time()
    site, problems = read(data, "x")
    assert site is None
    assert problems
    assert time.process_time() - began < 30
