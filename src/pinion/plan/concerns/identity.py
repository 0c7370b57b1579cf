"""The concern `identity`: a certificate of the site's authority on every host, asked for with a one-time token and renewed by itself."""

from __future__ import annotations

import json

from pinion.plan import identity as site_identity
from pinion.plan.concerns.node_metrics import FOLDER as TEXTFILES
from pinion.plan.context import HostContext
from pinion.plan.model import Concern, HostClaim, HostFile, HostMaterial, HostUnit
from pinion.plan.programs import program_file, program_path
from pinion.plan.texts import unit_text
from pinion.site.concerns import Identity
from pinion.site.quantities import seconds

NAME = "identity"
PROGRAM = "identity"
CONFIG_FILE = "/etc/pinion/identity.json"
#: Keys and certificates; `current` in it is what services use.
FOLDER = "/var/lib/pinion-identity"
#: In memory: a token does not outlive a boot.
TOKEN_FILE = "/run/pinion-identity/token"
#: On the disk: the token that an image brings lasts until the authority was reached, over any number of boots.
SEED_TOKEN_FILE = f"{FOLDER}/enrolment-token"
#: The site's root certificate where an image has it, for all programs of the node.
ROOT_CA_FILE = "/usr/local/share/ca-certificates/pinion-site.crt"
#: Stands for the provisioner that the host's certificate is to be from; nothing stands there where the operator's machine is not asked.
ISSUER_PLACEHOLDER = "@issuer@"
METRICS_FILE = f"{TEXTFILES}/pinion_identity.prom"
SERVICE, TIMER = "pinion-identity.service", "pinion-identity.timer"
#: Seconds that an enrolment waits for an authority that is only coming up, in the same run as this host.
_WAIT = 120
#: Looks at a certificate in its life, and the longest between two: with what the timer adds, a renewal that is due at
#: five eighths at the latest is done before two thirds.
_LOOKS, _LONGEST = 48, 3600
#: The most that the timer adds, in seconds: a rack that starts at once asks within a minute, and renewals are spread by themselves.
_SPREAD = 60


def identity(host: HostContext) -> Concern | None:
    """The concern for *host*; None when the site does not state it."""
    settings = host.settings.identity
    url = site_identity.authority_url(host.site, host.devices)
    if settings is None or url is None:
        return None
    names = site_identity.names(host.site, host.device, host.vlans)
    issuer = site_identity.issuer(host.site, host.name)
    program = program_path(PROGRAM)
    # a renewal that failed for want of what an enrolment brings is over
    over = f"{{ systemctl reset-failed {SERVICE} 2>/dev/null || true; }}"
    run = f"if test -e {CONFIG_FILE}; then {program} enrol && {over}; else {_gone()}; fi"
    return Concern(
        name=NAME,
        packages=("openssl",),
        files=(
            program_file(PROGRAM),
            HostFile(
                path=CONFIG_FILE,
                content=config(settings, url, names),
                materials=(HostMaterial(placeholder="@root@", kind="fingerprint", site=host.site.site),),
                run=(run,),
            ),
            HostFile(
                path=TOKEN_FILE,
                mode="0600",
                content="@token@",
                secret=True,
                materials=(
                    HostMaterial(
                        placeholder="@token@",
                        kind="token",
                        site=host.site.site,
                        authority=url,
                        names=names,
                        issuer=issuer,
                    ),
                    HostMaterial(placeholder=ISSUER_PLACEHOLDER, kind="issuer", site=host.site.site, issuer=issuer),
                ),
                unless=f"{program} good --lifetime {int(seconds(settings.lifetime))} --issuer '{ISSUER_PLACEHOLDER}' {' '.join(names)}",
                run=(run,),
            ),
            HostFile(path=f"/etc/systemd/system/{SERVICE}", content=_service()),
            HostFile(path=f"/etc/systemd/system/{TIMER}", content=_timer(settings), restart=(TIMER,)),
        ),
        units=(HostUnit(name=TIMER, enabled=True, active=True),),
        claims=_claims(names),
    )


def _gone() -> str:
    """For a host without the concern: its key, and what an image brought for it, go as well. May be cut anywhere and run again."""
    moved = f"{FOLDER}/untrusted"
    out = f"! test -e {ROOT_CA_FILE} || {{ mkdir -p {FOLDER} && mv {ROOT_CA_FILE} {moved}; }}"
    forget = f"{{ ! test -e {moved} || update-ca-certificates --fresh >/dev/null; }}"
    return f"{out}; {forget} && rm -rf {FOLDER} {METRICS_FILE} {TOKEN_FILE}"


def config(settings: Identity, url: str, names: tuple[str, ...]) -> str:
    """What the program is told; the root's fingerprint is put in by the operator's machine."""
    wanted = {
        "authority": url,
        "root": "@root@",
        "names": names,
        "lifetime": int(seconds(settings.lifetime)),
        "folder": FOLDER,
        "token": TOKEN_FILE,
        "seed_token": SEED_TOKEN_FILE,
        "metrics": METRICS_FILE,
        "reload": settings.reload,
        "wait": _WAIT,
    }
    return json.dumps(wanted, indent=1) + "\n"


def interval(settings: Identity) -> int:
    """Seconds between two looks at the certificate."""
    return int(min(_LONGEST, seconds(settings.lifetime) / _LOOKS))


def _service() -> str:
    return unit_text(
        NAME,
        Unit=[
            "Description=Renew this host's certificate when it is time",
            "After=network-online.target",
            "Wants=network-online.target",
        ],
        Service=[
            "Type=oneshot",
            f"ExecStart={program_path(PROGRAM)} renew",
            "TimeoutStartSec=300s",
            "# systemd.exec(5): it asks the authority, writes its own folder and its metrics, and has systemd reload units.",
            "ProtectSystem=strict",
            f"StateDirectory={FOLDER.removeprefix('/var/lib/')}",
            "StateDirectoryMode=0755",
            f"RuntimeDirectory={TOKEN_FILE.split('/')[2]}",
            "RuntimeDirectoryPreserve=yes",
            f"ReadWritePaths=-{TEXTFILES}",
            "ProtectHome=yes",
            "PrivateTmp=yes",
            "PrivateDevices=yes",
            "ProtectKernelTunables=yes",
            "ProtectKernelModules=yes",
            "ProtectControlGroups=yes",
            "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX",
            "# Root, because the key is root's alone; of root's rights only that to write where the exporter reads.",
            "CapabilityBoundingSet=CAP_DAC_OVERRIDE",
            "NoNewPrivileges=yes",
            "MemoryMax=128M",
        ],
    )


def _timer(settings: Identity) -> str:
    every = interval(settings)
    return unit_text(
        NAME,
        Unit=[
            "Description=Look whether this host's certificate is to be renewed, again and again",
        ],
        Timer=[
            "OnActiveSec=1s",
            f"OnUnitActiveSec={every}s",
            f"RandomizedDelaySec={min(every // 4, _SPREAD)}s",
            "AccuracySec=1s",
        ],
        Install=[
            "WantedBy=timers.target",
        ],
    )


def _claims(names: tuple[str, ...]) -> tuple[HostClaim, ...]:
    current = f"{FOLDER}/current"
    return (
        HostClaim(
            name="good",
            claim="the certificate is good for the host's names",
            command=f"{program_path(PROGRAM)} good {' '.join(names)} && echo yes",
            expected="yes",
        ),
        HostClaim(
            name="chain",
            claim="openssl finds the certificate",
            command=f"openssl verify -CAfile {current}/root.pem -untrusted {current}/chain.pem {current}/cert.pem | sed 's/.*: //'",
            expected="OK",
        ),
        HostClaim(
            name="key",
            claim="the private key is",
            command=f"stat -L -c '%U:%G %a' {current}/key.pem",
            expected="root:root 600",
        ),
        HostClaim(
            name="token",
            claim="enrolment tokens that are left on the host number",
            command=f"ls {TOKEN_FILE} {SEED_TOKEN_FILE} 2>/dev/null | wc -l",
            expected="0",
        ),
    )
