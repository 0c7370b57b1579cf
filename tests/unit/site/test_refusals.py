"""Values that look right and are not: each by itself, put into the site of the repository, is refused under its own code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import TypeAdapter

from pinion.plan import cluster, flows
from pinion.plan import package_sources as plan_of_sources
from pinion.site import concerns, model, node_concerns
from pinion.site.examples import EXAMPLES
from pinion.site.loader import charts_folder, read
from pinion.site.placeholders import VALUES
from pinion.site.rules import listening, package_sources

SITE = Path(__file__).parents[3] / "inventories" / "dc-rack-12" / "site.yml"
RACK = SITE.read_text(encoding="utf-8")


def _codes(text: str) -> list[str]:
    _, problems = read(text.encode(), "site.yml", charts=charts_folder(SITE))
    return [problem.code for problem in problems]


def _refused(old: str, new: str, code: str) -> None:
    assert old in RACK
    assert _codes(RACK.replace(old, new, 1)) == [code], new


def _accepted(old: str, new: str) -> None:
    assert old in RACK
    assert _codes(RACK.replace(old, new, 1)) == [], new


def test_the_site_itself_is_sound() -> None:
    assert _codes(RACK) == []


# --- glued words ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("numbers", ["1 8", "1-4 5-8", "1- 4 8", "1 -8 -9", '"1  - 8"', "1;8", "1, 2 3"])
def test_numbers_with_a_gap_are_not_one_number(numbers: str) -> None:
    _refused("numbers: 1-8", f"numbers: {numbers}", "SITE-011")


@pytest.mark.parametrize("numbers", ["1-4, 5-8", "1 - 8", "1-4 , 5,6,7,8", "1- 8"])
def test_spaces_around_a_comma_or_hyphen_mean_nothing(numbers: str) -> None:
    _accepted("numbers: 1-8", f"numbers: {numbers}")


@pytest.mark.parametrize(
    "ports",
    [
        "Ethernet1 8",
        "Ethernet1-4 5-8",
        "Ethernet1 Ethernet8",
        "Ether net1-8",
        "Ethernet 1-8",
        "Ethernet1 /1",
        "Ethernet1 0",
    ],
)
def test_ports_with_a_gap_are_not_one_port(ports: str) -> None:
    _refused("ports: tor-1 Ethernet1-8", f"ports: tor-1 {ports}", "SITE-012")


def test_spaces_around_a_hyphen_of_ports_mean_nothing() -> None:
    _accepted("ports: tor-1 Ethernet1-8", "ports: tor-1 Ethernet1 - 4, 5 -8")


# --- URLs -----------------------------------------------------------------------------------------------------------------

HOSTS = [
    "192.168.100.500",
    "192.168.100",
    "1.2.3.4.5",
    "host:99999",
    "host:65536",
    "host:0",
    "a..b",
    "-a.example",
    f"{'a' * 64}.example",
]


@pytest.mark.parametrize("host", HOSTS)
def test_no_artefact_is_had_from_a_host_that_cannot_be(host: str) -> None:
    _refused("https://models.dc-rack-12.example/", f"https://{host}/", "MODEL-013")


@pytest.mark.parametrize("host", [host.replace("host", "[fd00::1]") for host in HOSTS])
def test_no_package_is_had_from_a_host_that_cannot_be(host: str) -> None:
    _refused('"https://packages.dc-rack-12.example/debian"', f'"https://{host}/debian"', "BASE-005")


@pytest.mark.parametrize("host", [*HOSTS, "[fd00::1", "[fd00::12345]", "[::ffff:192.0.2.1]", "ca.example/path"])
def test_no_certificate_is_had_from_a_host_that_cannot_be(host: str) -> None:
    _refused("https://192.168.100.5:9000", f"https://{host}", "CA-004")


@pytest.mark.parametrize("host", ["192.168.100.5", "ca.example:65535", "[fd00::1]:9000", "[fd00::1]"])
def test_a_host_that_can_be_is_taken(host: str) -> None:
    _accepted("https://192.168.100.5:9000", f"https://{host}")


@pytest.mark.parametrize(
    "image", ["host:99999/pause:3", "host:0/pause:3", "1.2.3/pause:3", "registry.example/pause", "a..b/c:1"]
)
def test_no_image_is_had_from_a_host_that_cannot_be(image: str) -> None:
    _refused("container_runtime: {}", f'container_runtime: {{pause: "{image}"}}', "NODE-022")


# --- zones and mapped addresses -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("name_servers: [192.0.2.53", 'name_servers: ["fe80::1%eth0"', "BASE-006"),
        ("name_servers: [192.0.2.53", 'name_servers: ["::ffff:192.0.2.53"', "BASE-006"),
        ("  base:\n", '  base:\n    time_servers: ["fd00::1%1"]\n', "BASE-003"),
        ("  base:\n", '  base:\n    time_servers: ["::ffff:c000:201"]\n', "BASE-003"),
        ("operators: [192.168.100.0/24]", 'operators: ["fd00::%eth0/64"]', "FW-001"),
        ("operators: [192.168.100.0/24]", 'operators: ["::ffff:192.168.100.0/120"]', "FW-001"),
        ("purpose: control, prefix: 192.168.100.0/24", 'purpose: control, prefix: "fd00::%1/64"', "NET-007"),
        (
            "purpose: control, prefix: 192.168.100.0/24",
            'purpose: control, prefix: "::ffff:192.168.100.0/120"',
            "NET-007",
        ),
        (
            "purpose: control, prefix: 192.168.100.0/24",
            'purpose: control, prefix: 192.168.100.0/24, gateway: "::ffff:192.168.100.1"',
            "NET-020",
        ),
        ("unit: 20\n", 'unit: 20\n    address: "::ffff:192.168.100.20"\n', "ADDR-001"),
        ("unit: 20\n", 'unit: 20\n    address: "fe80::1%eno3"\n', "ADDR-001"),
        ("192.168.101.10-192.168.101.99", '"::ffff:192.168.101.10-::ffff:192.168.101.99"', "NET-013"),
    ],
)
def test_neither_a_zone_nor_a_mapped_address_is_an_address_of_the_site(old: str, new: str, code: str) -> None:
    _refused(old, new, code)


# --- prefixes of the cluster ----------------------------------------------------------------------------------------------

MANAGED = RACK.replace(
    "\npis:\n",
    "\nmanagement_hosts:\n  mgmt-1: {profile: generic-1u-2x10gbase-t, rack: r12, unit: 40, network: management, "
    "fabric_network: control, port: tor-1 Ethernet48}\n\npis:\n",
)


def _cluster(keys: str) -> list[str]:
    return _codes(MANAGED + f"\nkubernetes: {{control_plane: mgmt-1, pis_join: false, {keys}}}\n")


@pytest.mark.parametrize(
    "prefix",
    ["127.0.0.0/8", "126.0.0.0/7", "224.0.0.0/16", "169.254.0.0/16", "0.0.0.0/0", "240.0.0.0/16", "255.255.0.0/16"],
)
def test_pods_have_no_special_addresses(prefix: str) -> None:
    assert _cluster(f"pod_prefix: {prefix}") == ["K8S-011"]


@pytest.mark.parametrize("prefix", ["127.1.0.0/16", "239.0.0.0/16", '"ff02::/112"', '"fe80::/112"', '"::/112"'])
def test_services_have_no_special_addresses(prefix: str) -> None:
    assert _cluster(f"service_prefix: {prefix}") == ["K8S-011"]


@pytest.mark.parametrize("prefix", ["10.96.0.0/30", "10.96.0.0/31", "10.96.0.1/32"])
def test_services_have_the_eight_addresses_that_the_api_server_asks_for(prefix: str) -> None:
    assert _cluster(f"service_prefix: {prefix}") == ["K8S-012"]
    assert _cluster("service_prefix: 10.96.0.0/29") == []


@pytest.mark.parametrize(
    ("keys", "codes"),
    [
        ('service_prefix: "fd00:96::/112"', ["K8S-013"]),
        ('pod_prefix: "fd00:244::/48"', ["K8S-013"]),
        ('pod_prefix: "fd00:244::/48", service_prefix: 10.96.0.0/16', ["K8S-013"]),
        # The API server is reached by IPv4 here.
        ('pod_prefix: "fd00:244::/48", service_prefix: "fd00:96::/112"', ["K8S-014"]),
        ('pod_prefix: "::ffff:10.244.0.0/112"', ["K8S-004"]),
        ("pod_prefix: 10.244.0.1", ["K8S-004"]),
    ],
)
def test_pods_and_services_are_of_one_family(keys: str, codes: list[str]) -> None:
    assert _cluster(keys) == codes


# --- traffic classes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dscp", [1, 4, 7])
def test_two_classes_have_two_priorities(dscp: int) -> None:
    _refused("dscp: 16", f"dscp: {dscp}", "CLASS-008")


@pytest.mark.parametrize("dscp", [0, 1, 7])
def test_nothing_unmarked_is_paused(dscp: int) -> None:
    text = RACK.replace("dscp: 0}", "dscp: 8}").replace("dscp: 26", f"dscp: {dscp}")
    assert _codes(text) == ["CLASS-009"]


# --- ports kept for nodes to come -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ports", "code"),
    [
        ("Ethernet1-8,57", "PORT-002"),
        ("Ethernet1-99", "PORT-002"),
        ("Ethernet1-8,48/1", "PORT-002"),
        ("Ethernet1-8, Management1", "PORT-014"),
        ("Ethernet1-8,Port9", "PORT-002"),
    ],
)
def test_a_kept_port_is_one_that_the_switch_has_for_traffic(ports: str, code: str) -> None:
    text = RACK.replace("port: tor-1 Ethernet17", "port: tor-2 Ethernet17")
    assert _codes(text.replace("ports: tor-1 Ethernet1-8", f"ports: tor-1 {ports}")) == [code]


@pytest.mark.parametrize("ports", ["Ethernet20,12", "Ethernet20,9-12", "Ethernet20-21,10"])
def test_a_port_is_kept_for_one_group(ports: str) -> None:
    other = (
        "  cam: {numbers: 1, board: raspberry-pi-5-8gb, hat: ai-hat-plus-2, rack: r12, network: edge-inference, range: cams, "
        f'ports: "tor-1 {ports}"}}\n\ngpu_servers:\n'
    )
    text = RACK.replace("10-192.168.101.99}", "10-192.168.101.99, cams: 192.168.101.100-192.168.101.120}")
    text = text.replace("gpu_servers:\n", other, 1).replace("ports: tor-1 Ethernet1-8", "ports: tor-1 Ethernet1-12")
    assert _codes(text) == ["PORT-017"]


# --- ranges that fall back silently ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Pis", "PIS", "pi", "pies", "raspis", "p.is", "Pi", "spis"])
def test_a_misspelt_range_moves_nobody(name: str) -> None:
    _refused("ranges: {pis: ", f"ranges: {{{name}: ", "NET-026")


@pytest.mark.parametrize("name", ["GPU-servers", "gpu_servers", "gpuservers", "gpu-server"])
def test_a_misspelt_range_of_a_server_moves_nobody(name: str) -> None:
    old = "purpose: control, prefix: 192.168.100.0/24"
    _refused(old, f"{old}, ranges: {{{name}: 192.168.100.30-192.168.100.40}}", "NET-026")


@pytest.mark.parametrize("name", ["cameras", "reserved", "guests"])
def test_a_range_kept_for_others_is_fine(name: str) -> None:
    old = "purpose: control, prefix: 192.168.100.0/24"
    _accepted(old, f"{old}, ranges: {{{name}: 192.168.100.70-192.168.100.80}}")


# --- lengths --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("units: 42", "units: 42, description: {}"),
        ("region: eu-central\n", "region: eu-central\ndescription: {}\n"),
        ("vid: 99, ", "vid: 99, description: {}, "),
        ("    unit: 20\n", "    unit: 20\n    description: {}\n"),
        ("rack: r12, unit: 42", "rack: r12, unit: 42, description: {}"),
        ("    numbers: 1-8\n", "    numbers: 1-8\n    description: {}\n"),
    ],
)
def test_a_description_is_as_long_as_netbox_keeps(old: str, new: str) -> None:
    _accepted(old, new.format("x" * 200))
    _refused(old, new.format("\N{LATIN SMALL LETTER U WITH DIAERESIS}" * 201), "SITE-014")


# --- programs on one host -------------------------------------------------------------------------------------------------


def test_the_sources_that_take_the_place_of_others_are_those_of_the_plan() -> None:
    assert package_sources.REPLACING[0] == plan_of_sources.DEBIAN


def test_the_ports_are_those_of_the_plan() -> None:
    ports = (listening.SSH, listening.NETBOX[-1], listening.API_SERVER, listening.KUBELET, listening.NODE_METRICS)
    assert ports == (flows.SSH, flows.HTTPS, cluster.API_SERVER_PORT, flows.KUBELET, flows.NODE_METRICS)


@pytest.mark.parametrize("port", [22, 80, 443, 2379, 2380, 6443, 9100, 10250, 10257])
def test_the_authority_listens_where_nobody_else_does(port: int) -> None:
    text = MANAGED.replace(
        '  identity: {authority: "https://192.168.100.5:9000"}', f"  site_ca: {{port: {port}}}\n  identity: {{}}"
    )
    assert _codes(text + "\nkubernetes: {control_plane: mgmt-1, pis_join: false}\n") == ["HOST-001"]
    free = text.replace(f"site_ca: {{port: {port}}}", "site_ca: {port: 8443}")
    assert _codes(free + "\nkubernetes: {control_plane: mgmt-1, pis_join: false}\n") == []


@pytest.mark.parametrize("port", [9100])
def test_the_edge_runtime_listens_where_nobody_else_does(port: int) -> None:
    _refused("context: 256}", f"context: 256, port: {port}}}", "HOST-001")


@pytest.mark.parametrize("port", [10248, 10249, 10250, 10255, 10256])
def test_the_edge_runtime_leaves_the_kubelet_its_ports(port: int) -> None:
    text = MANAGED.replace("context: 256}", f"context: 256, memory: 50%, port: {port}}}") + "  edge_cluster: {}\n"
    assert _codes(text + "\nkubernetes: {control_plane: mgmt-1}\n") == ["HOST-001"]
    assert _codes(text.replace(f"port: {port}", "port: 8081") + "\nkubernetes: {control_plane: mgmt-1}\n") == []


# --- MIG ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mig", "code"),
    [
        ("3g.71gb", "NODE-023"),
        ("5g.50gb", "NODE-023"),
        ("1g.5gb", "NODE-023"),
        ("2g.20gb+me", "NODE-023"),
        ("3g.40gb, 3g.80gb", "NODE-023"),
        ("4g.40gb, 4g.40gb", "NODE-024"),
        ("3g.40gb, 3g.40gb, 1g.10gb", "NODE-024"),
        ("7g.80gb, 1g.10gb", "NODE-024"),
        ("2g.20gb, 2g.20gb, 2g.20gb, 2g.20gb", "NODE-024"),
        ("1g.10gb+me, 1g.10gb+me", "NODE-024"),
        ("4g.40gb, 2g.20gb, 2g.20gb", "NODE-024"),
    ],
)
def test_mig_instances_that_a_gpu_cannot_have(mig: str, code: str) -> None:
    _refused('version: "580.95.05"', f'version: "580.95.05", mig: [{mig}]', code)


@pytest.mark.parametrize(
    "mig",
    [
        "7g.80gb",
        "3g.40gb, 3g.40gb",
        "4g.40gb, 3g.40gb",
        "2g.20gb, 2g.20gb, 2g.20gb, 1g.10gb",
        "1g.20gb, 1g.20gb, 1g.20gb, 1g.20gb",
        ", ".join(["1g.10gb"] * 7),
        "1g.10gb+me, 1g.10gb, 2g.20gb, 3g.40gb",
    ],
)
def test_mig_instances_that_a_gpu_can_have(mig: str) -> None:
    _accepted('version: "580.95.05"', f'version: "580.95.05", mig: [{mig}]')


# --- names that meet ours -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["pis", "gpu-servers", "management-hosts", "switches", "all", "localhost"])
def test_neither_a_group_nor_a_device_is_called_like_a_kind(name: str) -> None:
    text = RACK.replace("hosts: [pis]", "hosts: [nv-1]")
    assert _codes(text.replace("\n  pi:\n", f"\n  {name}:\n", 1)) == ["SITE-022"]
    assert _codes(RACK.replace("  nv-1:\n", f"  {name}:\n", 1)) == ["SITE-022"]


def test_no_device_is_called_like_a_group() -> None:
    _refused("  nv-1:\n", "  pi:\n", "SITE-023")


# --- sizes ----------------------------------------------------------------------------------------------------------------


def test_groups_that_are_no_site_are_refused_before_their_nodes_are_looked_at() -> None:
    group = "board: raspberry-pi-5-8gb, rack: r12, network: edge-inference, ports: tor-1 Ethernet1"
    groups = "".join(f"  g{index}: {{numbers: 1-100000, {group}}}\n" for index in range(20))
    assert "SITE-024" in _codes(RACK.replace("\npis:\n", f"\npis:\n{groups}", 1))


# --- one bad value hides nothing ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "bad", "other", "codes"),
    [
        # The bad value, then another mistake of the same entry: both are told, and nothing else.
        ("numbers: 1-8", "numbers: 8-1", "hat: ai-hat-plus-2", "hat: ai-hat-plus-3", ["SITE-011", "HW-002"]),
        (
            "numbers: 1-8",
            "numbers: 8-1",
            "rack: r12\n    network: edge",
            "rack: r13\n    network: edge",
            ["SITE-011", "HW-008"],
        ),
        ("numbers: 1-8", "numbers: [1]", "network: edge-inference", "network: edge", ["SITE-003", "NET-030"]),
        ("    numbers: 1-8\n", "", "board: raspberry-pi-5-8gb", "board: pi", ["SITE-002", "HW-001"]),
        ("ports: tor-1 Ethernet1-8", "ports: tor-1", "board: raspberry-pi-5-8gb", "board: pi", ["SITE-012", "HW-001"]),
        ("ports: tor-1 Ethernet1-8", "ports: 8", "range: pis", "range: cats", ["SITE-003", "ADDR-009"]),
        ("port: tor-1 Ethernet17", "port: tor-1 17", "profile: dgx-h100", "profile: dgx", ["SITE-012", "HW-004"]),
        ("port: tor-1 Ethernet17", "port: 17", "unit: 20", "unit: 43", ["SITE-003", "HW-010"]),
        ("    port: tor-1 Ethernet17\n", "", "unit: 20", "unit: 43", ["SITE-002", "HW-010"]),
        (
            "vid: 101",
            "vid: 4095",
            "ranges: {pis: 192.168.101.10-",
            "ranges: {pis: 192.168.102.10-",
            ["NET-002", "NET-015"],
        ),
        ("vid: 99,", "vid: 0,", "prefix: 192.168.99.0/24", "prefix: 192.168.99.1/24", ["NET-002", "NET-008"]),
        ("vid: 99,", "", "prefix: 192.168.99.0/24", "prefix: 192.168.99.0", ["SITE-002", "NET-007"]),
        ("size: 1882976", "size: big", "url: https://models", "url: ftp://models", ["SITE-003", "MODEL-013"]),
        ('version: "580.95.05"', "version: latest, mig: [3g.71gb]", "", "", ["SITE-021", "NODE-023"]),
    ],
)
def test_a_bad_value_hides_no_other_mistake_of_its_entry(
    old: str, new: str, bad: str, other: str, codes: list[str]
) -> None:
    assert old in RACK
    assert bad in RACK
    assert sorted(_codes(RACK.replace(old, new, 1).replace(bad, other, 1))) == sorted(codes)
    assert _codes(RACK.replace(bad, other, 1) if bad else RACK) == [code for code in codes[1:] if bad]


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("numbers: 1-8", "numbers: 8-1", "SITE-011"),
        ("numbers: 1-8", "numbers: 8-1\n    nodes: {3: {serial: a}, 7: {serial: b}}", "SITE-011"),
        ("numbers: 1-8", "numbers: x\n    first: 4", "SITE-011"),
        ("ports: tor-1 Ethernet1-8", "ports: Ethernet1-8", "SITE-012"),
        ("port: tor-1 Ethernet17", "port: tor-1 Ethernet", "SITE-012"),
        ("vid: 101", "vid: 4095", "NET-002"),
        ("vid: 99", "vid: -1", "NET-002"),
        ("vid: 100", "vid: '100'", "SITE-003"),
        ("network: edge-inference", "network: 7", "SITE-003"),
        ("hat: ai-hat-plus-2\n    rack: r12\n", "hat: ai-hat-plus-2\n    rack: [r12]\n", "SITE-003"),
        ("profile: dgx-h100", "profile: 100", "SITE-003"),
        ("size: 1882976", "size: 0", "SITE-004"),
    ],
)
def test_a_bad_value_makes_no_other_problem(old: str, new: str, code: str) -> None:
    text = RACK.replace(
        "operators: [192.168.100.0/24]",
        "operators: [192.168.100.0/24], allow: {x: {sources: [control], hosts: [pi-03], ports: [1]}}",
    )
    text += "\ndecommissioned: [pi-04]\n"
    assert _codes(text) == []
    assert _codes(text.replace(old, new, 1)) == [code]


@pytest.mark.parametrize(("name", "key"), [(name, key) for name, keys in VALUES.items() for key in keys])
def test_a_placeholder_is_a_value_of_its_key(name: str, key: str) -> None:
    statement = next(found for module in (model, concerns, node_concerns) if (found := getattr(module, name, None)))
    field = statement.model_fields[key]
    assert field.is_required()
    whole: Any = Annotated[field.annotation, field]
    TypeAdapter(whole).validate_json(json.dumps(VALUES[name][key]), strict=True)


# --- places and words -----------------------------------------------------------------------------------------------------


def _line(text: str) -> int:
    _, problems = read(text.encode(), "site.yml")
    assert len(problems) == 1, problems
    return problems[0].line


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("region: eu-central", "region:eu-central"),
        ("racks:\n", "<<<<<<< HEAD\nracks:\n"),
        ("    board: raspberry", "=======\n    board: raspberry"),
        ("    board: raspberry", ">>>>>>> theirs\n    board: raspberry"),
        ("{units: 42}", "{units: 42"),
        ("networks:\n", "networks: [\n"),
        ("reg", "'reg"),
        (
            'debian: {uri: "https://packages.dc-rack-12.example/debian"',
            'debian: {uri: "https://packages.dc-rack-12.example/debian',
        ),
    ],
)
def test_what_never_ends_is_told_where_it_begins(old: str, new: str) -> None:
    assert old in RACK
    assert _line(RACK.replace(old, new, 1)) == RACK[: RACK.index(old)].count("\n") + 1


def test_a_key_that_is_a_word_for_yes_or_no_makes_one_problem() -> None:
    for name in ("no", "yes", "on", "off", "y", "n", "true", "null"):
        _refused("  nv-1:\n", f"  {name}:\n", "YAML-013")


def test_a_refused_item_does_not_leave_an_empty_list() -> None:
    _refused("suites: [debian13/]", "suites: [a b]", "SITE-021")
    _refused("suites: [debian13/]", "suites: [5]", "SITE-003")
    _refused("suites: [debian13/]", "suites: []", "SITE-013")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("suites: [debian13/]", "suites: [{}]"),
        ("components: [main,", "components: [{},"),
        ("identity: {", "identity: {{domain: {}, "),
        ("identity: {", "identity: {{reload: [{}], "),
        ('version: "580.95.05"', "version: {}"),
        ('version: "580.95.05"', 'version: "580.95.05", mig: [{}]'),
        ("edge_runtime: {", "edge_runtime: {{program: {}, "),
        ("sha256: 2b18d47c46ab268e94c1d14b335d54607d1c08d2704ebe66ca16b21124137db2", "sha256: {}"),
        ("key: 2t53vqyNuHrkgtfAmRvGWIyj1rm0cIKCf6C0Oy9IbVU=", "key: {}"),
        (
            "signature: YvPnDLaYrrW2mbiUO1Umf/O9O3aOoFdybkRgOhkbwK8T3yvo0E0EvID+wmZss7qZvsQVaYZFd7mTwKRtN9a4Cw==",
            "signature: {}",
        ),
        ("suites: [trixie, trixie-updates]", "keyring: {}, suites: [trixie, trixie-updates]"),
    ],
)
def test_the_fix_of_a_text_of_another_form_is_accepted(old: str, new: str) -> None:
    assert old in RACK
    _, problems = read(RACK.replace(old, new.format('"! no"'), 1).encode(), "site.yml")
    assert [problem.code for problem in problems] == ["SITE-021"]
    fix = problems[0].fix.removeprefix("write for example ")
    assert fix in EXAMPLES.values()
    # Another digest is that of another artefact, which the signature is not over.
    assert set(_codes(RACK.replace(old, new.format(fix), 1))) <= {"MODEL-015"}


def test_every_item_is_called_by_its_list() -> None:
    _, problems = read(RACK.replace("suites: [debian13/]", "suites: [debian13/, 5]", 1).encode(), "site.yml")
    assert "'suites, item 2' must be text" in problems[0].message


# --- a damaged key --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("mDMEawK7EhYJ", "mDMEawK7EhYK"),
        ("=bzCZ", "=bzCY"),
        ("          nrzcRR5WxnQXQQEAnZjZ1M5jyjnTxkmmAO/vO+hIYu7kouuZl+FAr9auGww=\n", ""),
        ("          ADgWIQRdAAWvw6TgJFXQHnSXnlQH8MGknwUCawK7EgIbAwULCQgHAgYVCgkICwIE\n", ""),
        (
            "bWVudGF0aW9uIG9ubHkpIDxyYXNwaUBkYy1yYWNrLTEyLmV4YW1wbGU",
            "bWVudGF0aW9uIG9ubHkpIDxyYXNwaUBkYy1yYWNrLTEyLmV4YW1wbGX",
        ),
    ],
)
def test_a_damaged_key_of_an_archive_is_refused(old: str, new: str) -> None:
    block = RACK[RACK.index("      raspi:") : RACK.index("      nvidia:")]
    assert old in block
    assert _codes(RACK.replace(block, block.replace(old, new, 1))) == ["BASE-009"]
