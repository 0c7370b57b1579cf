"""The concern `site_ca`: the site's certificate authority, step-ca, on one management host.

What it signs with comes from the operator's machine (`pinion identity init`): the intermediate and its key. The root's key never gets here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from pinion.plan import identity
from pinion.plan.context import HostContext
from pinion.plan.model import Concern, HostClaim, HostDirectory, HostFile, HostMaterial, HostUnit, HostUser
from pinion.plan.texts import unit_text

NAME = "site_ca"
PROGRAM = "/usr/local/bin/step-ca"
FOLDER = "/etc/pinion/site-ca"
CONFIG_FILE = f"{FOLDER}/ca.json"
ROOT_FILE, INTERMEDIATE_FILE, KEY_FILE = (
    f"{FOLDER}/root.crt",
    f"{FOLDER}/intermediate.crt",
    f"{FOLDER}/intermediate.key",
)
#: What step-ca has issued, revoked, and which tokens were used: its database, made by systemd (StateDirectory=).
DATA = "/var/lib/pinion-ca"
UNIT = "pinion-ca.service"
USER = "pinion-ca"
#: Stands for the provisioners, a JSON list: one for each host, so that a host that leaves takes its own away.
PROVISIONERS_PLACEHOLDER = "@provisioners@"
#: step-ca refuses to sign for less than this unless told.
_SHORTEST = "5m"


def site_ca(host: HostContext) -> Concern | None:
    """The concern for *host*: the one management host that `identity.authority_host` names."""
    settings = host.settings.site_ca
    if settings is None or identity.authority_host(host.site) != host.name:
        return None
    subjects = identity.subjects(host.site, host.devices)
    configured = configuration(
        [identity.authority_address(host.site, host.name, host.devices), f"{host.name}.{identity.domain(host.site)}"],
        f":{settings.port}",
        identity.lifetime(host.site),
        identity.domain(host.site),
        identity.networks(host.vlans),
    )

    def material(kind: str, placeholder: str, names: tuple[str, ...] = ()) -> HostMaterial:
        found = {"placeholder": placeholder, "kind": kind, "site": host.site.site, "names": names}
        return HostMaterial.model_validate(found)

    def held(path: str, kind: str, *, secret: bool = False) -> HostFile:
        return HostFile(
            path=path,
            owner=USER,
            group=USER,
            mode="0600" if secret else "0644",
            content="@material@",
            materials=(material(kind, "@material@"),),
            secret=secret,
            restart=(UNIT,),
        )

    return Concern(
        name=NAME,
        users=(
            HostUser(
                name=USER,
                system=True,
                comment="Pinion certificate authority",
                home=DATA,
                create_home=False,
                shell="/usr/sbin/nologin",
            ),
        ),
        directories=(HostDirectory(path=FOLDER, owner=USER, group=USER, mode="0700"),),
        files=(
            held(ROOT_FILE, "root"),
            held(INTERMEDIATE_FILE, "intermediate"),
            held(KEY_FILE, "intermediate-key", secret=True),
            HostFile(
                path=CONFIG_FILE,
                owner=USER,
                group=USER,
                mode="0600",
                content=configured,
                materials=(material("provisioners", PROVISIONERS_PLACEHOLDER, subjects),),
                restart=(UNIT,),
            ),
            HostFile(path=f"/etc/systemd/system/{UNIT}", content=_unit(), restart=(UNIT,)),
        ),
        units=(HostUnit(name=UNIT, enabled=True, active=True),),
        claims=_claims(settings.port),
    )


def configuration(
    names: Sequence[str],
    address: str,
    lifetime: int,
    domain: str,
    networks: Sequence[str],
    *,
    folder: str = FOLDER,
    data: str = DATA,
) -> str:
    """step-ca's configuration: it answers as *names* on *address*, and signs for *domain* and *networks* for *lifetime* seconds.

    There is no `logger`: step-ca would write the tokens that it is shown into its log.
    """
    claims = {
        "minTLSCertDuration": _SHORTEST,
        "maxTLSCertDuration": f"{lifetime}s",
        "defaultTLSCertDuration": f"{lifetime}s",
        "disableRenewal": False,
        "allowRenewalAfterExpiry": False,
        "enableSSHCA": False,
    }
    stated = {
        "root": f"{folder}/root.crt",
        "crt": f"{folder}/intermediate.crt",
        "key": f"{folder}/intermediate.key",
        "address": address,
        "dnsNames": list(names),
        "db": {"type": "badgerv2", "dataSource": f"{data}/db"},
        "tls": {"minVersion": 1.2, "maxVersion": 1.3, "renegotiation": False},
        "authority": {
            # Used tokens are in the database, which a restart keeps: a token from before the start is as good as any.
            "disableIssuedAtCheck": True,
            "claims": claims,
            "provisioners": PROVISIONERS_PLACEHOLDER,
            "policy": {
                "x509": {"allow": {"dns": [f"*.{domain}"], "ip": list(networks)}, "allowWildcardNames": False},
            },
        },
    }
    # A list and no text: what stands there gives way to JSON.
    return json.dumps(stated, indent=1).replace(f'"{PROVISIONERS_PLACEHOLDER}"', PROVISIONERS_PLACEHOLDER) + "\n"


def _unit() -> str:
    return unit_text(
        NAME,
        Unit=[
            "Description=Certificate authority of the site (step-ca)",
            "After=network-online.target",
            "Wants=network-online.target",
            "StartLimitIntervalSec=0",
        ],
        Service=[
            f"ExecStart={PROGRAM} {CONFIG_FILE}",
            f"Environment=STEPPATH={DATA} HOME={DATA}",
            f"User={USER}",
            f"Group={USER}",
            "StateDirectory=pinion-ca",
            "StateDirectoryMode=0700",
            "UMask=0077",
            "Restart=always",
            "RestartSec=5s",
            "# systemd.exec(5): it reads its folder, writes its database, and answers TCP; it needs nothing else of the host.",
            "ProtectSystem=strict",
            "ProtectHome=yes",
            "PrivateTmp=yes",
            "PrivateDevices=yes",
            "ProtectKernelTunables=yes",
            "ProtectKernelModules=yes",
            "ProtectKernelLogs=yes",
            "ProtectControlGroups=yes",
            "ProtectClock=yes",
            "ProtectHostname=yes",
            "RestrictNamespaces=yes",
            "RestrictRealtime=yes",
            "RestrictSUIDSGID=yes",
            "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX",
            "LockPersonality=yes",
            "MemoryDenyWriteExecute=yes",
            "SystemCallFilter=@system-service",
            "SystemCallFilter=~@privileged @resources",
            "SystemCallErrorNumber=EPERM",
            "CapabilityBoundingSet=",
            "NoNewPrivileges=yes",
            "MemoryMax=512M",
            "TasksMax=128",
        ],
        Install=[
            "WantedBy=multi-user.target",
        ],
    )


def _claims(port: int) -> tuple[HostClaim, ...]:
    fetch = (
        "python3 -c 'import ssl, urllib.request as u; c = ssl._create_unverified_context(); "  # it asks for health alone
        f'print(u.urlopen("https://127.0.0.1:{port}/health", timeout=10, context=c).read().decode().strip())\' 2>/dev/null'
    )
    return (
        HostClaim(
            name="answers",
            claim="the authority says of itself",
            command=f'for i in $(seq 20); do v=$({fetch}); [ -n "$v" ] && break; sleep 0.5; done; echo "$v"',
            expected='{"status":"ok"}',
        ),
        HostClaim(
            name="user",
            claim="the authority runs as",
            command=f"ps -o user= -p $(systemctl show --property=MainPID --value {UNIT})",
            expected=USER,
        ),
        HostClaim(
            name="no-root-key",
            claim="private keys in the authority's folder are",
            command=f"cd {FOLDER} && grep -l 'PRIVATE KEY' -r . | tr '\\n' ' ' | sed 's/ $//'",
            expected="./intermediate.key",
        ),
    )
