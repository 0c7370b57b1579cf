"""The systemd units of the edge runtime: the service, fenced in, or a pod's; what starts it, and what asks whether it answers. Pure."""

from __future__ import annotations

from pinion.plan.concerns.model_store import RUNTIME_SERVICE, current
from pinion.plan.kubelet import UNIT
from pinion.plan.programs import program_path
from pinion.plan.texts import unit_text
from pinion.site.node_concerns import EdgeRuntime

NAME = "edge_runtime"
USER = "pinion-edge"
SERVICE = RUNTIME_SERVICE
PATH_UNIT = "pinion-edge-runtime.path"
HEALTH_SERVICE = "pinion-edge-health.service"
HEALTH_TIMER = "pinion-edge-health.timer"
HEALTH_PROGRAM = "edge_health"
SERVE_PROGRAM = "edge_serve"
POD_PROGRAM = "edge_pod"
DRAIN_PROGRAM = "edge_drain"
#: Seconds from start to the first healthy answer at most: the founding figures have 10 s for the load of a model from a HAT, and a model
#: of 4 GiB takes a minute from an SD card of 90 MB/s.
START = 180
#: Seconds that requests under way have to end when it is stopped: 200 tokens at the slowest decode of a 3B model in the hardware figures
#: take longer, but a reboot or a new model must not wait for ever.
DRAIN = 30


def _serve(model: str | None) -> str:
    """What starts a command. A file that changed on the disk since it was checked is not served."""
    return f"{program_path(SERVE_PROGRAM)}{f' --usable {current(model)}' if model is not None else ''}"


def pod_service(settings: EdgeRuntime, url: str, model: str) -> str:
    """Has the host's kubelet run the engine that serves *model* and answers at *url*, and ends it."""
    program = program_path(POD_PROGRAM)
    return unit_text(
        NAME,
        Unit=[
            f"Description=Edge runtime as a pod: {settings.engine} with the model {model}",
            f"After={UNIT}",
            f"PartOf={PATH_UNIT}",
            "StartLimitIntervalSec=0",
        ],
        Service=[
            "Type=oneshot",
            "RemainAfterExit=yes",
            f"ExecStart={_serve(model)} {program} place",
            "# Started means that it answers.",
            f"ExecStartPost={program_path(HEALTH_PROGRAM)} --wait {START} {url}",
            f"TimeoutStartSec={START + 20}s",
            "# Whether all had their answer or not: the pod goes. Nobody is let in while it ends, and a failure of either is the unit's.",
            f"ExecStop=-{_drain(url)}",
            f"ExecStop={program} remove",
            f"ExecStopPost={program_path(DRAIN_PROGRAM)} --end",
            "TimeoutStopSec=60s",
            "Restart=on-failure",
            "RestartSec=5s",
        ],
    )


def _drain(url: str) -> str:
    """A command that lets in nobody new and waits for those who are being answered."""
    return f"{program_path(DRAIN_PROGRAM)} --for {DRAIN} {url}"


def service(settings: EdgeRuntime, command: str, engine: list[str], url: str, model: str | None) -> str:
    """Runs *command*, which serves *model* (None: models of its own) and answers at *url*; *engine* are further lines of its own."""
    return unit_text(
        NAME,
        Unit=[
            f"Description=Edge runtime: {settings.engine}{f' with the model {model}' if model is not None else ''}",
            "Wants=network-online.target",
            "After=network-online.target",
            # Who stops what starts it means it too, as when the concern is taken away.
            *([f"PartOf={PATH_UNIT}"] if model is not None else []),
            "StartLimitIntervalSec=0",
        ],
        Service=[
            "# Started means that it answers, which a process beside it says.",
            "Type=notify",
            "NotifyAccess=all",
            f"User={USER}",
            f"ExecStart={_serve(model)} --answers {url} {command}",
            f"TimeoutStartSec={START}s",
            *engine,
            "# Whoever stops it, also the system on its way down: nobody new is let in (by root), and who is being answered has a while.",
            f"ExecStop=-+{_drain(url)}",
            "# Where that fails the unit has failed, and says so.",
            f"ExecStopPost=+{program_path(DRAIN_PROGRAM)} --end",
            f"TimeoutStopSec={DRAIN + 5}s",
            "Restart=always",
            "RestartSec=5s",
            "NoNewPrivileges=yes",
            "CapabilityBoundingSet=",
            "ProtectSystem=strict",
            "ProtectHome=yes",
            "PrivateTmp=yes",
            "ProtectProc=invisible",
            "ProtectClock=yes",
            "ProtectHostname=yes",
            "ProtectKernelTunables=yes",
            "ProtectKernelModules=yes",
            "ProtectKernelLogs=yes",
            "ProtectControlGroups=yes",
            "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX",
            "RestrictNamespaces=yes",
            "RestrictRealtime=yes",
            "RestrictSUIDSGID=yes",
            "LockPersonality=yes",
            "SystemCallArchitectures=native",
            "SystemCallFilter=@system-service",
            "SystemCallErrorNumber=EPERM",
        ],
        **({} if model is not None else {"Install": ["WantedBy=multi-user.target"]}),
    )


def path(model: str) -> str:
    """Starts the service as soon as there is a model; the store restarts it when there is another."""
    return unit_text(
        NAME,
        Unit=[
            "Description=Start the edge runtime when its model is there",
            "StartLimitIntervalSec=0",
        ],
        Path=[
            f"PathExists={current(model)}",
            f"Unit={SERVICE}",
        ],
        Install=[
            "WantedBy=multi-user.target",
        ],
    )


def health(url: str) -> str:
    """Asks *url* once, and has a server that hangs restarted."""
    return unit_text(
        NAME,
        Unit=[
            "Description=Whether the edge runtime answers",
            f"After={SERVICE}",
        ],
        Service=[
            "Type=oneshot",
            f"ExecStart={program_path(HEALTH_PROGRAM)} --restart {SERVICE} {url}",
            "# 1: it did not answer, and was restarted where it ran.",
            "SuccessExitStatus=1",
            "CapabilityBoundingSet=",
            "NoNewPrivileges=yes",
            "ProtectSystem=strict",
            "ProtectHome=yes",
            "PrivateTmp=yes",
            "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX",
            "MemoryMax=64M",
        ],
    )


def health_timer() -> str:
    """Has it asked twice a minute."""
    return unit_text(
        NAME,
        Unit=[
            "Description=Whether the edge runtime answers, again and again",
        ],
        Timer=[
            "OnActiveSec=30",
            "OnUnitInactiveSec=30",
            "AccuracySec=1",
        ],
        Install=[
            "WantedBy=timers.target",
        ],
    )
