"""What the concerns of every host need: times that exist, bounds that hold, and a firewall that lets somebody in."""

from __future__ import annotations

import locale
import re
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from pinion.site.allocation import node_name
from pinion.site.concerns import COMMENT_BYTES, PRIVATE_DOMAIN, Base, Concerns, Firewall
from pinion.site.errors import Path
from pinion.site.internet import Prefix, is_this_host, server_address
from pinion.site.internet import prefix as ip_network
from pinion.site.model import Purpose
from pinion.site.rules.bounds import bounded
from pinion.site.rules.facts import Facts
from pinion.site.rules.networks import is_host

#: Flows that the plan states itself; tests/unit/plan/test_flows.py holds this to `pinion.plan.flows`.
PLANNED_FLOWS = frozenset(
    {
        "ssh",
        "switch-ssh",
        "netbox",
        "api-server",
        "api-server-operators",
        "kubelet",
        "pod-network",
        "roce",
        "time",
        "names",
        "names-tcp",
        "packages",
        "node-metrics",
        "gpu-metrics",
        "edge-runtime",
        "models",
        "site-ca",
    }
)
#: Section, key, lowest and highest. systemd pings a watchdog at half its time, and a board's own counter ends after some 16 s; beyond ten
#: minutes a hung host is found by people. 15 s is Prometheus' customary scrape interval. A certificate of a quarter of an hour leaves time
#: to try a renewal again; one of ninety days is as long as public ones.
_BOUNDS = (
    ("base", "step_limit", "1s", "1h"),
    ("watchdog", "timeout", "10s", "10min"),
    ("watchdog", "reboot_timeout", "1min", "30min"),
    ("node_metrics", "interval", "15s", "1h"),
    ("identity", "lifetime", "15min", "2160h"),
)
#: Locales of glibc 2.41 (its list SUPPORTED) that Python's table of them does not have.
_FURTHER_LOCALES = re.compile(
    "bhb_IN|crh_RU|de_LI|dsb_DE|en_SC|gbm_IN|kv_RU|ltg_LV|mdf_RU|mnw_MM|rif_MA|sah_RU|scn_IT|ssy_ER|su_ID|tcy_IN|zgh_MA"
)
#: Prefixes of operators and time servers, for examples (RFC 5737, RFC 2606).
OPERATORS = ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24")
TIME_SERVERS = ("ntp.example.net", *(f"ntp{number}.example.net" for number in range(1, 100)))
#: RFC 5280, A.1: ub-common-name.
_COMMON_NAME = 64
_LOCALE = re.compile(r"C\.UTF-8|[a-z]{2,3}_[A-Z]{2}\.UTF-8")
#: RFC 6890, RFC 4291: loopback, multicast, reserved.
NOWHERE: tuple[Prefix, ...] = tuple(map(ip_network, ("127.0.0.0/8", "224.0.0.0/3", "::1/128", "ff00::/8")))
_HOST_NAME = re.compile(
    r"(?=.{1,253}$)[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*\.?"
)


def check(facts: Facts) -> None:
    """All rules about the concerns of every host."""
    stated = facts.site.concerns
    for section, key, low, high in _BOUNDS:
        written = getattr(getattr(stated, section), key, None)
        if written is not None:
            bounded(facts, ("concerns", section, key), written, low, high)
    if stated.base is not None:
        _base(facts, stated.base)
    if stated.firewall is not None:
        _firewall(facts, stated.firewall)
    _identity(facts, stated)


def _base(facts: Facts, stated: Base) -> None:
    if not _is_zone(stated.time_zone):
        near = facts.report.near(stated.time_zone, sorted(available_timezones())) or "Europe/Berlin"
        facts.report.on("BASE-001", ("concerns", "base", "time_zone"), name=stated.time_zone, near=near)
    if not _is_locale(stated.locale):
        near = _near_locale(stated.locale)
        facts.report.on("BASE-002", ("concerns", "base", "locale"), name=stated.locale, near=near)
    first: dict[str, int] = {}
    for index, server in enumerate(stated.time_servers):
        path: Path = ("concerns", "base", "time_servers", index)
        if not is_server_of_hosts(facts, server) and not _is_name_of_another(server):
            facts.report.on(
                "BASE-003",
                path,
                name=server,
                example=next(each for each in TIME_SERVERS if each not in stated.time_servers),
            )
        elif first.setdefault(server.lower(), index) != index:
            facts.report.on("BASE-004", path, name=server, position=first[server.lower()] + 1)


def _firewall(facts: Facts, stated: Firewall) -> None:
    for index, written in enumerate(stated.operators):
        if (why := _not_a_prefix(written)) is not None:
            where: Path = ("concerns", "firewall", "operators", index)
            known = (str(_meant(written) or OPERATORS[0]), *OPERATORS)
            good = next((each for each in known if each not in stated.operators), None)
            facts.report.on("FW-001", where, value=written, why=why, example=good)
    managed = any(network.purpose is Purpose.MANAGEMENT for network in facts.site.networks.values())
    if not managed and not facts.stated("management_hosts") and not stated.operators:
        facts.report.on_key("FW-002", ("concerns", "firewall"))
    networks, hosts = facts.stated("networks"), host_names(facts)
    for name, flow in stated.allow.items():
        path: Path = ("concerns", "firewall", "allow", name)
        size, room = len(" ".join(flow.why.split()).encode()), COMMENT_BYTES - len(f"{name}: ")
        if size > room:
            facts.report.on("FW-006", (*path, "why"), bytes=size, limit=room)
        if name in PLANNED_FLOWS:
            facts.report.on_key("FW-005", path, name=name)
        for index, source in enumerate(flow.sources):
            if source not in networks and _not_a_prefix(source) is not None:
                hint = facts.report.hint(source, networks, flow.sources)
                facts.report.on("FW-003", (*path, "sources", index), name=source, hint=hint)
        for index, host in enumerate(flow.hosts):
            if host not in hosts and not facts.may_be_node(host):
                facts.report.on(
                    "FW-004", (*path, "hosts", index), name=host, hint=facts.report.hint(host, hosts, flow.hosts)
                )


def host_names(facts: Facts) -> list[str]:
    """What a flow may end at: groups of Pis, and every host by its name."""
    nodes = (node_name(name, number) for name, _, members in facts.pis() for number in members)
    return [*facts.stated("pis"), *facts.stated("gpu_servers"), *facts.stated("management_hosts"), *nodes]


def _is_zone(written: str) -> bool:
    """Whether the IANA database has the zone. A machine without the database cannot judge, and lets it pass."""
    try:
        ZoneInfo(written)
    except (ValueError, OSError):
        return False
    except ZoneInfoNotFoundError:
        return not available_timezones()
    return True


def _is_locale(written: str) -> bool:
    """Whether glibc has the locale; one that it does not have falls back to English without a word."""
    name = written.partition(".")[0]
    return bool(_LOCALE.fullmatch(written)) and (
        name.lower() in locale.locale_alias or bool(_FURTHER_LOCALES.fullmatch(name))
    )


def _near_locale(written: str) -> str:
    """The locale that *written* probably is: language and country in their letters, with the encoding."""
    parts = re.match(r"([A-Za-z]{2,3})[_-]?([A-Za-z]{2})?", written)
    language = parts[1].lower() if parts is not None else ""
    country = (parts[2] or language).upper() if parts is not None else ""
    found = f"{language}_{country}.UTF-8"
    return found if _is_locale(found) else "C.UTF-8"


def _meant(written: str) -> Prefix | None:
    """The prefix that the address *written*, with a length, lies in; None where it is another mistake."""
    try:
        found = ip_network(written, strict=False)
    except ValueError:
        return None
    return None if _is_nowhere(found) else found


def is_server_of_hosts(facts: Facts, written: str) -> bool:
    """Whether *written* is an address that hosts can ask: not their own, and no network's own or broadcast address."""
    try:
        found = server_address(written)
    except ValueError:
        return False
    homes = [home for subnet in facts.subnets.values() if (home := subnet.home(found)) is not None]
    return not found.is_loopback and all(is_host(found, home) for home in homes)


def _is_name_of_another(written: str) -> bool:
    """Whether *written* is the name of a host that is not the one that asks."""
    return bool(_HOST_NAME.fullmatch(written)) and not re.fullmatch(r"[0-9.]+", written) and not is_this_host(written)


def _not_a_prefix(written: str) -> str | None:
    """What is wrong with a prefix that packets are to come from; None when it is one."""
    try:
        found = ip_network(written)
    except ValueError as error:
        return str(error)
    return "no packet comes from there" if _is_nowhere(found) else None


def _is_nowhere(prefix: Prefix) -> bool:
    """Whether all of *prefix* is loopback, multicast or reserved; what holds the whole of a family, or a link's own addresses, is not."""
    first, last = prefix[0], prefix[-1]
    return any(first in special and last in special for special in NOWHERE if special.version == prefix.version)


def _identity(facts: Facts, stated: Concerns) -> None:
    """Somebody must vouch for the hosts: one authority, and a host that it runs on."""
    if stated.site_ca is not None and not facts.site.management_hosts:
        facts.report.on_key("CA-001", ("concerns", "site_ca"))
    if stated.identity is None:
        return
    # One that was refused for its shape is stated all the same.
    named = any(map(facts.has, (("concerns", "identity", "authority"), ("concerns", "site_ca"))))
    if not named:
        facts.report.on_key("CA-002", ("concerns", "identity"))
    domain = stated.identity.domain or f"{facts.site.site}.{PRIVATE_DOMAIN}"
    longest = max((node.name for node in facts.nodes() if node.kind != "switches"), key=len, default="")
    if len(f"{longest}.{domain}") > _COMMON_NAME:
        where: Path = ("concerns", "identity", "domain") if stated.identity.domain is not None else ("site",)
        facts.report.on("CA-005", where, name=f"{longest}.{domain}", limit=_COMMON_NAME, example="rack.internal")
    if stated.identity.authority is not None and stated.site_ca is not None:
        facts.report.on("CA-003", ("concerns", "identity", "authority"), url=stated.identity.authority)
