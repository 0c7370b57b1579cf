"""The concern `base`, for every host: packages and their archives, time zone, locale, names, clock, journal limits and security updates."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pinion.plan import flows, package_sources
from pinion.plan.addressing import host as without_mask
from pinion.plan.addressing import named_addresses
from pinion.plan.context import HostContext
from pinion.plan.model import Concern, DeviceKind, HostClaim, HostFile, HostSysctl, HostUnit
from pinion.plan.texts import kept_by
from pinion.site.allocation import natural
from pinion.site.catalog import Evidence
from pinion.site.concerns import Base
from pinion.site.model import Site
from pinion.site.quantities import seconds, window

NAME = "base"
CHRONY_FILE = "/etc/chrony/chrony.conf"
NAMES_FILE = "/etc/resolv.conf"
#: NetworkManager.conf(5): it writes resolv.conf unless it is told not to, and one platform of the catalogue brings it.
NETWORK_MANAGER_FILE = "/etc/NetworkManager/conf.d/20-pinion.conf"
_WITH_NETWORK_MANAGER = "raspberry-pi-os"
#: After the image's own and before pi_tuning's 60, which may know better what a card stands.
JOURNAL_FILE = "/etc/systemd/journald.conf.d/20-pinion.conf"
#: After Debian's 50unattended-upgrades, whose list it clears.
UPDATES_FILE = "/etc/apt/apt.conf.d/52pinion"
TIMER = "apt-daily-upgrade.timer"
TIMER_FILE = f"/etc/systemd/system/{TIMER}.d/10-pinion.conf"
HOSTNAME_KEY = "kernel.hostname"

#: What systemd has given up on, whoever brought it: a run that went well may have left something behind that did not.
FAILED_UNITS = (
    "systemctl list-units --state=failed --no-legend --plain | cut -d ' ' -f 1 | paste -sd ' ' | grep . || echo none"
)

_BUILT_IN_LOCALE = "C.UTF-8"
#: What a security update of a small host takes at most: none begins later than this before the window ends.
_LAST_START_MINUTES = 30
_ZONES = "/usr/share/zoneinfo"
#: /etc/timezone is the one file that says the zone; the link follows from it, also when the file is put back.
_LINK_ZONE = f'ln -sfn "{_ZONES}/$(cat /etc/timezone 2>/dev/null || echo Etc/UTC)" /etc/localtime'
#: chronyc(1), its fields with -c: 14 of the tracking is the leap status; 6 and 9 of a source say whether it has answered, and by how many
#: seconds the clock was off it. What is further off than `step_limit` stays so until a person steps it, so the answer says that.
_CLOCK = (
    'if [ "$(chronyc -c tracking | cut -d, -f14)" = Normal ]; then echo synchronised; else chronyc -c sources | awk -F, -v most={limit} '
    "'$6 > 0 {{ heard = 1; off = $9 < 0 ? -$9 : $9; if (off > far) far = off }} END {{ if (far > most) "
    'printf "%.0f s off, more than step_limit allows by itself: `chronyc makestep` sets it\\n", far; '
    'else print (heard ? "not set yet" : "not set: no time server answers") }}\'; fi'
)
_ADDRESS = re.compile(r"[0-9.]+|[0-9a-f:]*:[0-9a-f:.]*")


def base(host: HostContext) -> Concern | None:
    """The concern for *host*; None when the site does not state it."""
    settings = host.settings.base
    if settings is None:
        return None
    packages = ["chrony", "libnss-myhostname", "tzdata", "unattended-upgrades"]
    if settings.locale != _BUILT_IN_LOCALE:
        packages.append("locales-all")
    return Concern(
        name=NAME,
        packages=tuple(sorted(packages)),
        files=(
            *_names(host, settings),
            *package_sources.source_files(NAME, package_sources.stated_sources(host)),
            HostFile(path="/etc/hostname", content=f"{host.name}\n"),
            HostFile(path="/etc/timezone", content=f"{settings.time_zone}\n", run=(_LINK_ZONE,)),
            HostFile(path="/etc/locale.conf", content=f"LANG={settings.locale}\n"),
            _chrony(host, settings),
            _journal(settings),
            _updates(),
            _timer(settings),
        ),
        sysctls=_hostname(host),
        units=_units(host),
        claims=_claims(host, settings),
    )


def _hostname(host: HostContext) -> tuple[HostSysctl, ...]:
    """The name at once: /etc/hostname is read at boot only. A container has its name from whoever started it."""
    if host.lab:
        return ()
    source = (
        "Linux Documentation/admin-guide/sysctl/kernel.rst: the running host name; /etc/hostname is read at boot only"
    )
    return (HostSysctl(key=HOSTNAME_KEY, value=host.name, source=source, namespaced=False, live=True),)


# --- names and packages -----------------------------------------------------------------------------------------------


def _names(host: HostContext, settings: Base) -> Iterator[HostFile]:
    """Who is asked for names; nothing where the site does not say it."""
    if not settings.name_servers:
        return
    if host.stated.platform == _WITH_NETWORK_MANAGER:
        lines = [kept_by(NAME), "[main]", f"# {NAMES_FILE} is not NetworkManager's.", "dns=none"]
        yield HostFile(
            path=NETWORK_MANAGER_FILE,
            content="\n".join(lines) + "\n",
            notify=("NetworkManager.service",),
        )
    lines = [
        kept_by(NAME),
        *(f"nameserver {server}" for server in settings.name_servers),
        "# resolv.conf(5): a server that is silent for 2 s, not 5, gives way to the next; each is asked twice, as by default.",
        "options timeout:2 attempts:2",
    ]
    yield HostFile(path=NAMES_FILE, content="\n".join(lines) + "\n", for_packages=True)


# --- clock ------------------------------------------------------------------------------------------------------------


def _chrony(host: HostContext, settings: Base) -> HostFile:
    lines = [kept_by(NAME), *_sources(host, settings)]
    if clients := [source for flow in host.flows if flow.name == flows.TIME for source in flow.sources]:
        lines += [
            "# chrony.conf(5): who may ask, as the flows have it; they get one time also while the outside is gone."
        ]
        lines += [f"allow {prefix}" for source in clients for prefix in flows.prefixes_of(source)]
        lines.append("local stratum 10 orphan")
    lines += [
        "# As Debian's own file has it: what was learnt of this clock, keys, leap seconds, and the board's clock kept in step.",
        "driftfile /var/lib/chrony/chrony.drift",
        "keyfile /etc/chrony/chrony.keys",
        "ntsdumpdir /var/lib/chrony",
        "logdir /var/log/chrony",
        "maxupdateskew 100.0",
        f"leapseclist {_ZONES}/leap-seconds.list",
        "rtcsync",
        "# chrony.conf(5): at start the first three updates may step, by any amount, for a board without a battery wakes in the past.",
        "makestep 1 3",
        "# After those three a correction beyond the limit is refused, for good: a server that lies must not move a running host.",
        f"maxchange {seconds(settings.step_limit):g} 3 -1",
    ]
    return HostFile(
        path=CHRONY_FILE,
        content="\n".join(lines) + "\n",
        restart=("chrony.service",),
        validate_command="/usr/sbin/chronyd -p -f %s",
        evidence=Evidence.RENDERED if host.lab else None,
    )


def _sources(host: HostContext, settings: Base) -> list[str]:
    if settings.time_servers:
        return ["# The site's own servers.", *(f"server {name} iburst" for name in settings.time_servers)]
    servers = () if host.kind is DeviceKind.MANAGEMENT_HOST else _time_servers(host.site)
    if servers:
        return ["# The site's management hosts.", *(f"server {address} iburst" for address in servers)]
    return ["# Debian's own choice.", "pool 2.debian.pool.ntp.org iburst"]


def named_servers(chrony: str) -> tuple[str, ...]:
    """The servers that *chrony*, the content of `CHRONY_FILE`, names."""
    return tuple(re.findall(r"^(?:server|pool) (\S+)", chrony, re.MULTILINE))


def _time_servers(site: Site) -> tuple[str, ...]:
    """The address of each management host that the other hosts reach: its leg on the fabric."""
    legs = (
        named_addresses(site.networks[stated.fabric_network], name, "management-hosts", None, stated.fabric_address)
        for name, stated in sorted(site.management_hosts.items(), key=lambda item: natural(item[0]))
    )
    return tuple(without_mask(leg[0]) for leg in legs)


# --- journal and updates ----------------------------------------------------------------------------------------------


def _journal(settings: Base) -> HostFile:
    lines = [
        kept_by(NAME),
        "[Journal]",
        "# journald.conf(5): kept over a reboot, so that the minutes before a crash can be read.",
        "Storage=persistent",
        f"SystemMaxUse={settings.journal_mib}M",
        "# journald.conf(5): at least this much stays free for everything else.",
        f"SystemKeepFree={settings.journal_mib}M",
        "# A month answers most questions; older lines are in the site's log store, or nowhere.",
        "MaxRetentionSec=1month",
        "# journald.conf(5), its defaults, stated because some images raise them: one unit that floods does not push out the others.",
        "RateLimitIntervalSec=30s",
        "RateLimitBurst=10000",
    ]
    return HostFile(path=JOURNAL_FILE, content="\n".join(lines) + "\n", restart=("systemd-journald.service",))


def _updates() -> HostFile:
    lines = [
        kept_by(NAME).replace("#", "//", 1),
        'APT::Periodic::Update-Package-Lists "1";',
        'APT::Periodic::Unattended-Upgrade "1";',
        "// Security updates only: all else comes with pinion upgrade, in waves.",
        "#clear Unattended-Upgrade::Origins-Pattern;",
        "Unattended-Upgrade::Origins-Pattern {",
        '  "origin=Debian,codename=${distro_codename}-security,label=Debian-Security";',
        "};",
        "// A reboot drains first: that is a person's or a wave's decision.",
        'Unattended-Upgrade::Automatic-Reboot "false";',
        "// A power cut between two packages leaves a host that the next run can finish.",
        'Unattended-Upgrade::MinimalSteps "true";',
        'Unattended-Upgrade::SyslogEnable "true";',
    ]
    return HostFile(
        path=UPDATES_FILE,
        content="\n".join(lines) + "\n",
        validate_command="/usr/bin/apt-config -c %s dump >/dev/null",
    )


def calendar(settings: Base) -> str:
    """The start of the update window as systemd.time(7) writes it."""
    stated = window(settings.update_window)
    day = f"{stated.day.capitalize()} " if stated.day is not None else ""
    return f"{day}*-*-* {stated.start}:00"


def _timer(settings: Base) -> HostFile:
    spread = window(settings.update_window).minutes - _LAST_START_MINUTES
    lines = [
        kept_by(NAME),
        "[Timer]",
        "# Once in the window, each host at a moment of its own, and not at boot for a window that has passed.",
        "OnCalendar=",
        f"OnCalendar={calendar(settings)}",
        f"RandomizedDelaySec={spread}min",
        "FixedRandomDelay=true",
        "Persistent=false",
    ]
    return HostFile(path=TIMER_FILE, content="\n".join(lines) + "\n")


# --- what must then hold ----------------------------------------------------------------------------------------------


def _units(host: HostContext) -> tuple[HostUnit, ...]:
    """A container may not set the clock, so chronyd does not start there; and nothing in a lab updates itself."""
    clock = HostUnit(
        name="chrony.service",
        enabled=True,
        active=not host.lab,
        evidence=Evidence.RENDERED if host.lab else None,
    )
    return (clock,) if host.lab else (clock, HostUnit(name=TIMER, enabled=True, active=True))


def _claims(host: HostContext, settings: Base) -> tuple[HostClaim, ...]:
    found = [
        HostClaim(
            name="hostname", claim="the host calls itself", command="cat /proc/sys/kernel/hostname", expected=host.name
        ),
        HostClaim(
            name="time-zone",
            claim="local time is that of",
            command=f"readlink /etc/localtime | sed 's|^.*{_ZONES}/||'",
            expected=settings.time_zone,
        ),
        HostClaim(
            name="updates.origins",
            claim="updates install themselves from",
            command="apt-config dump --format '%v%n' Unattended-Upgrade::Origins-Pattern | grep .",
            expected="origin=Debian,codename=${distro_codename}-security,label=Debian-Security",
            evidence=Evidence.PARSED if host.lab else None,
        ),
        HostClaim(
            name="updates.window",
            claim="systemd understands the update window as",
            command=f"systemd-analyze calendar '{calendar(settings)}' | sed -n 's/^ *Normalized form: //p'",
            expected=calendar(settings),
            evidence=Evidence.PARSED if host.lab else None,
        ),
        HostClaim(
            name="clock.configuration",
            claim="chronyd finds its configuration",
            command=f"chronyd -p -f {CHRONY_FILE} >/dev/null 2>&1 && echo valid || echo invalid",
            expected="valid",
            evidence=Evidence.PARSED if host.lab else None,
        ),
        HostClaim(name="units", claim="units that failed", command=FAILED_UNITS, expected="none"),
    ]
    if not host.lab:
        command = _CLOCK.format(limit=f"{seconds(settings.step_limit):g}")
        found.append(
            HostClaim(name="clock.synchronised", claim="the clock is", command=command, expected="synchronised")
        )
    named = [server for server in _archives(host) if settings.name_servers and not _ADDRESS.fullmatch(server)]
    if named:
        found.append(
            HostClaim(
                name="names.resolved",
                claim=f"{NAMES_FILE} names a server that knows",
                command=f"for name in {' '.join(named)}; do getent ahosts $name >/dev/null && echo $name; done | paste -sd ' '",
                expected=" ".join(named),
            )
        )
    return tuple(found)


def _archives(host: HostContext) -> list[str]:
    """The hosts that *host* takes packages from, each once."""
    sources = package_sources.stated_sources(host).values()
    return list(dict.fromkeys(package_sources.archive(source)[0] for source in sources))
