"""The concern `edge_runtime`: the program that answers requests on a Raspberry Pi, fenced in; one switch chooses which."""

from __future__ import annotations

import json
import re
from functools import cache
from importlib import resources

from pinion.plan import edge_pod, edge_units, hailo_ollama
from pinion.plan.cluster import NODE_LABELS
from pinion.plan.concerns.edge_cluster import joins
from pinion.plan.concerns.model_store import FOLDER as STORE_FOLDER
from pinion.plan.concerns.model_store import current
from pinion.plan.context import HostContext
from pinion.plan.edge_units import (
    DRAIN_PROGRAM,
    HEALTH_PROGRAM,
    HEALTH_SERVICE,
    HEALTH_TIMER,
    NAME,
    PATH_UNIT,
    POD_PROGRAM,
    SERVE_PROGRAM,
    SERVICE,
    START,
    USER,
)
from pinion.plan.flows import edge_port
from pinion.plan.model import (
    CLAIM_SECONDS,
    Concern,
    DeviceKind,
    HostClaim,
    HostDirectory,
    HostFile,
    HostUnit,
    HostUser,
)
from pinion.plan.programs import FOLDER as PROGRAMS
from pinion.plan.programs import program_file, program_path
from pinion.plan.texts import kept_by
from pinion.site.catalog import Board
from pinion.site.edge_models import served
from pinion.site.node_concerns import EdgeCluster, EdgeRuntime

POD_FILE = "/etc/pinion/edge-pod.json"
#: Seconds that a claim gives a runtime that is just being started with another model.
_LOAD = 90
_SERVER_FOLDER = f"{PROGRAMS}/onnx-model-server"
#: The server's files, and the packages of Debian 13 that they import.
_SERVER_FILES = ("__init__", "__main__", "engine", "server", "tokenizer")
_SERVER_PACKAGES = ("python3-aiohttp", "python3-numpy", "python3-onnxruntime")


def edge_runtime(host: HostContext) -> Concern | None:
    """The concern for *host*: Pis only, and there is something to serve."""
    settings, board = host.settings.edge_runtime, host.board
    if settings is None or host.kind is not DeviceKind.PI or board is None:
        return None
    if settings.engine == "hailo-ollama":
        return _concern(host, settings, hailo_ollama.COMMAND, [*hailo_ollama.service(), *_limits(settings, board)])
    model = served(host.site)
    if model is None:
        return None
    if (cluster := joins(host)) is not None:
        return _pod_concern(host, settings, cluster, board, model)
    command = _command(host, settings, board, model)
    return _concern(host, settings, command, _engine(settings, board), model=model)


def llama_program(stated: Concern) -> str | None:
    """Where *stated*, an entry of a plan, starts llama.cpp's server; None where another engine serves."""
    for file in stated.files:
        if file.path == POD_FILE:
            program, *words = json.loads(file.content)["pod"]["spec"]["containers"][0]["command"]
            return str(program) if words[:1] == ["--model"] else None
    (unit,) = [file.content for file in stated.files if file.path == f"/etc/systemd/system/{SERVICE}"]
    found = re.search(r"^ExecStart=.* --answers \S+ (\S+) --model ", unit, re.MULTILINE)
    return None if found is None else found[1]


def _address(host: HostContext) -> str:
    return (host.device.primary_address or "").partition("/")[0]


def _url(host: HostContext, settings: EdgeRuntime) -> str:
    address = _address(host)
    path = hailo_ollama.HEALTH if settings.engine == "hailo-ollama" else "/health"
    return f"http://{f'[{address}]' if ':' in address else address}:{edge_port(settings)}{path}"


def share(settings: EdgeRuntime, board: Board) -> tuple[int, int]:
    """Cores and MiB of memory that it may use on *board* at most."""
    return _cores(settings, board), settings.memory_mib(board.memory_mib)


def _cores(settings: EdgeRuntime, board: Board) -> int:
    return settings.cores if settings.cores is not None else max(board.cores - 1, 1)


def _concern(
    host: HostContext, settings: EdgeRuntime, command: str, service: list[str], *, model: str | None = None
) -> Concern:
    url, onnx = _url(host, settings), settings.engine == "onnx-model-server"
    started = PATH_UNIT if model is not None else SERVICE
    hailo = settings.engine == "hailo-ollama"
    files = [
        program_file(HEALTH_PROGRAM),
        program_file(DRAIN_PROGRAM),
        program_file(SERVE_PROGRAM, restart=(SERVICE,)),
        *(_server_files() if onnx else ()),
        HostFile(
            path=f"/etc/systemd/system/{SERVICE}",
            content=edge_units.service(settings, command, service, url, model),
            restart=(SERVICE,),
        ),
        HostFile(path=f"/etc/systemd/system/{HEALTH_SERVICE}", content=edge_units.health(url)),
        HostFile(path=f"/etc/systemd/system/{HEALTH_TIMER}", content=edge_units.health_timer()),
    ]
    if hailo:
        told = hailo_ollama.settings(_address(host), edge_port(settings))
        files.append(HostFile(path=hailo_ollama.SETTINGS, content=told, restart=(SERVICE,)))
    if model is not None:
        files.append(
            HostFile(path=f"/etc/systemd/system/{PATH_UNIT}", content=edge_units.path(model), restart=(PATH_UNIT,))
        )
    units = [HostUnit(name=started, enabled=True, active=True)]
    units.append(HostUnit(name=HEALTH_TIMER, enabled=True, active=True))
    return Concern(
        name=NAME,
        packages=("nftables", *(_SERVER_PACKAGES if onnx else ())),
        directories=(HostDirectory(path=hailo_ollama.STORE, owner=USER, group=USER, mode="0750"),) if hailo else (),
        users=(
            HostUser(
                name=USER,
                system=True,
                comment="Edge runtime",
                home="/nonexistent",
                create_home=False,
                shell="/usr/sbin/nologin",
            ),
        ),
        files=tuple(files),
        units=tuple(units),
        claims=_claims(settings, url),
    )


def _command(host: HostContext, settings: EdgeRuntime, board: Board, model: str) -> str:
    """How the engine is started."""
    cores = _cores(settings, board)
    if settings.engine == "llama-server":
        words = [
            settings.program, f"--model {current(model)}", f"--alias {model}", f"--host {_address(host)}", f"--port {settings.port}",
            f"--threads {cores}", f"--parallel {settings.slots}", f"--ctx-size {settings.context * settings.slots}",
            "--metrics --slots --no-ui --offline",
        ]  # fmt: skip
    else:
        words = [
            "/usr/bin/python3 -m pinion.services.onnx_model_server", f"--model {current(model)}", f"--host {_address(host)}",
            f"--port {settings.port}", f"--threads {cores}", f"--slots {settings.slots}",
        ]  # fmt: skip
    return " ".join(words)


def _environment(settings: EdgeRuntime) -> dict[str, str]:
    if settings.engine == "llama-server":
        return {}
    return {"PYTHONPATH": _SERVER_FOLDER, "PYTHONDONTWRITEBYTECODE": "1"}


def _engine(settings: EdgeRuntime, board: Board) -> list[str]:
    """What the engine's unit says beside its command."""
    environment = " ".join(f"{name}={value}" for name, value in _environment(settings).items())
    return [
        *([f"Environment={environment}"] if environment else []),
        "PrivateDevices=yes",
        *_limits(settings, board),
    ]


def _pod_concern(host: HostContext, settings: EdgeRuntime, cluster: EdgeCluster, board: Board, model: str) -> Concern:
    """The runtime as a pod of the host's kubelet; units of the same names place it and take it away."""
    url, onnx, address = _url(host, settings), settings.engine == "onnx-model-server", _address(host)
    cores, memory = share(settings, board)
    runtime = edge_pod.Runtime(
        command=_command(host, settings, board, model).split(),
        environment=_environment(settings),
        image=cluster.pause,
        address=address,
        port=settings.port,
        health="/health",
        models=STORE_FOLDER,
        cores=cores,
        memory=memory,
        start=START,
    )
    told = {
        "pod": edge_pod.pod(runtime, NODE_LABELS[host.kind]),
        "placed": edge_pod.PLACED,
        "if_there": edge_pod.if_there(),
        "model": current(model),
        "address": address,
        "port": settings.port,
    }
    return Concern(
        name=NAME,
        packages=("nftables", *(_SERVER_PACKAGES if onnx else ())),
        files=(
            program_file(HEALTH_PROGRAM),
            program_file(DRAIN_PROGRAM),
            program_file(SERVE_PROGRAM, restart=(SERVICE,)),
            program_file(POD_PROGRAM, restart=(SERVICE,)),
            *(_server_files() if onnx else ()),
            HostFile(path=POD_FILE, content=json.dumps(told, indent=1) + "\n", restart=(SERVICE,)),
            HostFile(
                path=f"/etc/systemd/system/{SERVICE}",
                content=edge_units.pod_service(settings, url, model),
                restart=(SERVICE,),
            ),
            HostFile(path=f"/etc/systemd/system/{PATH_UNIT}", content=edge_units.path(model), restart=(PATH_UNIT,)),
        ),
        units=(HostUnit(name=PATH_UNIT, enabled=True, active=True),),
        claims=_claims(settings, url, pod=True),
    )


def _limits(settings: EdgeRuntime, board: Board) -> list[str]:
    cores, memory = share(settings, board)
    return [
        f"# {settings.memory} of the {board.memory_mib} MiB of a {board.model}; {cores} of its {board.cores} cores.",
        f"MemoryMax={memory}M",
        "MemorySwapMax=0",
        f"CPUQuota={cores * 100}%",
        "TasksMax=256",
    ]


@cache
def _server_files() -> tuple[HostFile, ...]:
    """onnx-model-server as it lies on a host: a folder of its own with the few modules that it consists of."""
    source = resources.files("pinion.services.onnx_model_server")
    empty = f"{kept_by(NAME)}\n"
    return (
        HostFile(path=f"{_SERVER_FOLDER}/pinion/__init__.py", content=empty),
        HostFile(path=f"{_SERVER_FOLDER}/pinion/services/__init__.py", content=empty),
        *(
            HostFile(
                path=f"{_SERVER_FOLDER}/pinion/services/onnx_model_server/{name}.py",
                content=(source / f"{name}.py").read_text(encoding="utf-8"),
                restart=(SERVICE,),
            )
            for name in _SERVER_FILES
        ),
    )


def _claims(settings: EdgeRuntime, url: str, *, pod: bool = False) -> tuple[HostClaim, ...]:
    address = url.split("/")[2]
    port = edge_port(settings)
    answers = f"{program_path(HEALTH_PROGRAM)} --wait {_LOAD} {url}"
    patient = _LOAD + CLAIM_SECONDS
    show = f"systemctl show --property=ProtectSystem,NoNewPrivileges,User --value {SERVICE} | sort | tr '\\n' ' ' | sed 's/ $//'"
    return (
        HostClaim(
            name="answers",
            claim="the edge runtime answers at its planned address",
            command=f"{answers} && echo yes",
            expected="yes",
            seconds=patient,
        ),
        _fenced_pod(port, answers)
        if pod
        else HostClaim(name="fenced", claim="the edge runtime runs with", command=show, expected=f"{USER} strict yes"),
        HostClaim(
            name="listens",
            claim=f"what listens on port {port} does so at",
            # It may be on its way up, as after the first run that brought its model.
            command=f"{answers} >/dev/null; ss -Hltn 'sport = :{port}' | awk '{{print $4}}' | sort -u | tr '\\n' ' ' | sed 's/ $//'",
            expected=address,
            seconds=patient,
        ),
    )


def _fenced_pod(port: int, answers: str) -> HostClaim:
    """As the kernel says of the process that listens: its user, its capabilities, no new privileges, system calls filtered, its root."""
    process = f"$(ss -Hltnp 'sport = :{port}' | sed -n 's/.*,pid=\\([0-9]*\\),.*/\\1/p' | head -n 1)"
    status = "awk '/^(Uid|CapEff|NoNewPrivs|Seccomp):/ {print $2}' /proc/$process/status"
    root = "awk '$5 == \"/\" {print $6}' /proc/$process/mountinfo | cut -d, -f1"
    return HostClaim(
        name="fenced",
        claim="the edge runtime runs as user, with capabilities, no new privileges, filtered calls, a root that is",
        command=f"{answers} >/dev/null; process={process}; {{ {status}; {root}; }} | paste -sd ' '",
        expected=f"{edge_pod.USER} 0000000000000000 1 2 ro",
        seconds=_LOAD + CLAIM_SECONDS,
    )
