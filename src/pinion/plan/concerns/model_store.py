"""The concern `model_store`: the models of a Raspberry Pi by digest, signed, swapped at once, the one before kept."""

from __future__ import annotations

import json

from pinion.plan.artefacts import artefact_facts, public_key
from pinion.plan.context import HostContext
from pinion.plan.model import Concern, DeviceKind, HostDirectory, HostFile, HostUnit
from pinion.plan.programs import as_planned, program_file, program_path
from pinion.plan.texts import unit_text
from pinion.site.edge_models import served, stored
from pinion.site.model import Site
from pinion.site.node_concerns import ModelStore
from pinion.site.quantities import seconds

NAME = "model_store"
PROGRAM, FORMAT_PROGRAM = "model_store", "model_format"
CONFIG_FILE = "/etc/pinion/model-store.json"
FOLDER = "/var/lib/pinion-models"
SERVICE = "pinion-model-store.service"
TIMER = "pinion-model-store.timer"
#: The unit that serves; the store restarts it when its model changes. It is the concern edge_runtime's.
RUNTIME_SERVICE = "pinion-edge-runtime.service"


def model_store(host: HostContext) -> Concern | None:
    """The concern for *host*: Pis only, where a model has a form for them that says where it is had from."""
    settings = host.settings.model_store
    if settings is None or host.kind is not DeviceKind.PI or not stored(host.site):
        return None
    return Concern(
        name=NAME,
        # openssl(1) checks signatures.
        packages=("openssl",),
        directories=(HostDirectory(path=FOLDER),),
        files=(
            program_file(PROGRAM),
            program_file(FORMAT_PROGRAM),
            HostFile(
                path=CONFIG_FILE,
                content=config(host.site, settings),
                restart=(TIMER,),
                # The file goes with the concern, and the models with the file.
                run=() if settings.keep else (f"test -e {CONFIG_FILE} || rm -rf {FOLDER}",),
            ),
            HostFile(path=f"/etc/systemd/system/{SERVICE}", content=_service(settings)),
            HostFile(path=f"/etc/systemd/system/{TIMER}", content=_timer(settings), restart=(TIMER,)),
        ),
        units=(HostUnit(name=TIMER, enabled=True, active=True),),
        claims=(
            # Gigabytes come for minutes after the run that asked for them.
            as_planned(
                PROGRAM, "models", "the models in use are those that the site states, as they were hashed", settles=True
            ),
        ),
    )


def current(model: str) -> str:
    """The link to the file of *model* that is in use."""
    return f"{FOLDER}/{model}/current"


def config(site: Site, settings: ModelStore) -> str:
    """What the program is told."""
    models = {}
    for name, (edge, source) in stored(site).items():
        models[name] = {
            **artefact_facts(edge.artefact, source),
            "units": [RUNTIME_SERVICE] if name == served(site) else [],
        }
    wanted = {"folder": FOLDER, "budget": settings.budget_mib << 20, "key": public_key(settings.key), "models": models}
    # Not the program's, but said here: what becomes of the models is placed with this file.
    wanted["keep"] = settings.keep
    return json.dumps(wanted, indent=1) + "\n"


def _service(settings: ModelStore) -> str:
    return unit_text(
        NAME,
        Unit=[
            "Description=Fetch, check and put in use the models of this node",
            "Wants=network-online.target",
            "After=network-online.target",
            # Restarted or stopped with it: a long fetch ends with the setting that it follows.
            f"PartOf={TIMER}",
        ],
        Service=[
            "Type=oneshot",
            f"ExecStart={program_path(PROGRAM)}",
            "# A large model on a slow line; what it has by then, the next run goes on from.",
            "TimeoutStartSec=6h",
            "Nice=10",
            "IOSchedulingClass=idle",
            f"IOWriteBandwidthMax={FOLDER} {settings.write_mib * 2**20}",
            "# Root, so that who serves a model cannot change it; of root's rights it has none but to ask systemd for a restart.",
            "CapabilityBoundingSet=",
            "NoNewPrivileges=yes",
            "ProtectSystem=strict",
            f"ReadWritePaths={FOLDER}",
            "ProtectHome=yes",
            "PrivateTmp=yes",
            "PrivateDevices=yes",
            "ProtectKernelTunables=yes",
            "ProtectKernelModules=yes",
            "ProtectKernelLogs=yes",
            "ProtectControlGroups=yes",
            "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX",
            "RestrictNamespaces=yes",
            "RestrictSUIDSGID=yes",
            "LockPersonality=yes",
            "MemoryDenyWriteExecute=yes",
            "SystemCallArchitectures=native",
            "UMask=0022",
            "MemoryMax=256M",
            "TasksMax=32",
        ],
    )


def _timer(settings: ModelStore) -> str:
    return unit_text(
        NAME,
        Unit=[
            "Description=Models of this node, again and again",
        ],
        Timer=[
            "OnActiveSec=1",
            f"OnUnitInactiveSec={seconds(settings.interval):g}",
            "AccuracySec=1",
        ],
        Install=[
            "WantedBy=timers.target",
        ],
    )
