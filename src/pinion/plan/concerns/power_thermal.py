"""The concern `power_thermal`: how hot a Raspberry Pi is and whether its firmware holds it back, for Prometheus and for routers."""

from __future__ import annotations

import json

from pinion.plan.concerns.node_metrics import FOLDER as TEXTFILES
from pinion.plan.context import HostContext
from pinion.plan.model import Concern, DeviceKind, HostClaim, HostDirectory, HostFile, HostUnit
from pinion.plan.programs import program_file, program_path
from pinion.plan.texts import unit_text
from pinion.site.node_concerns import PowerThermal
from pinion.site.quantities import seconds

NAME = "power_thermal"
PROGRAM = "power_thermal"
CONFIG_FILE = "/etc/pinion/power-thermal.json"
SERVICE = "pinion-power-thermal.service"
METRICS_FILE = f"{TEXTFILES}/pinion_power_thermal.prom"
#: What routers read; see the program for its fields.
STATE_FILE = "/run/pinion/power-thermal.json"
#: How far below `warm_at` a warm node is cool again: the hysteresis of the fan's steps.
HYSTERESIS = 5
#: Looks that may be missed until a state is no longer believed.
_MISSED = 3


def power_thermal(host: HostContext) -> Concern | None:
    """The concern for *host*: Pis only."""
    settings = host.settings.power_thermal
    if settings is None or host.kind is not DeviceKind.PI:
        return None
    return Concern(
        name=NAME,
        # The exporter's package brings the folder of textfiles; without it, there must be one all the same.
        directories=(HostDirectory(path=TEXTFILES),) if host.settings.node_metrics is None else (),
        files=(
            program_file(PROGRAM, restart=(SERVICE,)),
            HostFile(path=CONFIG_FILE, content=config(settings), restart=(SERVICE,)),
            HostFile(path=f"/etc/systemd/system/{SERVICE}", content=_service(), restart=(SERVICE,)),
        ),
        units=(HostUnit(name=SERVICE, enabled=True, active=True),),
        claims=_claims(host),
    )


def config(settings: PowerThermal) -> str:
    """What the program is told."""
    wanted = {
        "warm_at": settings.warm_at,
        "hysteresis": HYSTERESIS,
        "interval": seconds(settings.interval),
        "good_for": seconds(settings.interval) * _MISSED,
        "metrics": METRICS_FILE,
        "state": STATE_FILE,
    }
    return json.dumps(wanted, indent=1) + "\n"


def _service() -> str:
    return unit_text(
        NAME,
        Unit=[
            "Description=Temperature, throttling and undervoltage, for Prometheus and routers",
        ],
        Service=[
            "# Started when there is a first state.",
            "Type=notify",
            f"ExecStart={program_path(PROGRAM)}",
            "Restart=always",
            "RestartSec=5",
            "# systemd.exec(5): it reads sysfs and asks the firmware (/dev/vcio), and writes two files.",
            "ProtectSystem=strict",
            "RuntimeDirectory=pinion",
            "RuntimeDirectoryMode=0755",
            "RuntimeDirectoryPreserve=yes",
            f"ReadWritePaths={TEXTFILES}",
            "ProtectHome=yes",
            "PrivateNetwork=yes",
            "NoNewPrivileges=yes",
            "# An interpreter and two small files.",
            "MemoryMax=64M",
            "TasksMax=8",
        ],
        Install=[
            "WantedBy=multi-user.target",
        ],
    )


def _claims(host: HostContext) -> tuple[HostClaim, ...]:
    good = f'python3 -c \'import json, time; print("yes" if json.load(open("{STATE_FILE}"))["expires"] > time.time() else "no")\''
    found = [HostClaim(name="state", claim="the state for routers is good", command=good, expected="yes")]
    if not host.lab:  # a container has neither firmware nor a temperature of its own
        found.append(
            HostClaim(
                name="known",
                claim="the board's temperature and flags can be read",
                command=f'grep -q \'"state": "unknown"\' {STATE_FILE} && echo no || echo yes',
                expected="yes",
            )
        )
    return tuple(found)
