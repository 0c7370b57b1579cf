"""What the plan says of the concerns model_store and edge_runtime; and what it says, done: a store, an engine, an answer."""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from unit.hosts.nodes import JOINED, concern, file, stated
from unit.hosts.sites import DC
from unit.services.artefact_server import serving

from pinion.lab.models.artefacts import ModelError, default_cache, obtain
from pinion.lab.ports import free_ports
from pinion.plan import hailo_ollama
from pinion.plan.concerns.edge_runtime import llama_program
from pinion.plan.concerns.model_store import CONFIG_FILE, FOLDER, TIMER
from pinion.plan.edge_units import HEALTH_SERVICE, PATH_UNIT, SERVICE, USER
from pinion.plan.model import Concern, DeviceKind
from pinion.plan.programs import FOLDER as PROGRAMS
from pinion.site.edge_models import served, stored
from pinion.site.loader import load

PI = DeviceKind.PI
KEY = yaml.safe_load(DC.read_text())["concerns"]["model_store"]["key"]
MODELS = yaml.safe_load(DC.read_text())["models"]
#: What the small model is trained for here: it need not be good.
STEPS = 8


def planned(engine: str = "llama-server", **settings: object) -> dict[str, Any]:
    return {"model_store": {"key": KEY}, "edge_runtime": {"engine": engine, **settings}}


def onnx_models() -> dict[str, Any]:
    source = MODELS["tiny"]["edge"]["source"] | {"format": "onnx", "url": "https://models.example.org/tiny.onnx"}
    return {"tiny": {"edge": {"artefact": "pinion-tiny", "source": source}}}


def service(found: Concern) -> list[str]:
    return file(found, f"/etc/systemd/system/{SERVICE}").content.splitlines()


def runtime(engine: str = "llama-server", **settings: object) -> Concern:
    changes = {"models": onnx_models()} if engine == "onnx-model-server" else {}
    return concern(stated(DC, planned(engine, **settings), **changes), PI, "edge_runtime")


def test_only_pis_have_them_and_only_with_something_to_serve() -> None:
    plan = stated(DC, planned())
    for name in ("model_store", "edge_runtime"):
        assert {host.kind for host in plan.hosts if name in host.concerns} == {PI}
    nothing = stated(DC, planned(), models=None)
    assert not any("edge_runtime" in host.concerns for host in nothing.hosts)


def test_every_pi_listens_at_its_own_planned_address_and_nowhere_else() -> None:
    plan = stated(DC, planned(port=8181))
    for host in plan.hosts:
        if host.kind is PI:
            (line,) = [line for line in service(host.concerns["edge_runtime"]) if line.startswith("ExecStart=")]
            assert f"--host {host.address} --port 8181 " in line


@pytest.mark.parametrize(
    ("settings", "lines"),
    [
        ({}, ["MemoryMax=6144M", "CPUQuota=300%"]),
        ({"memory": "50%", "cores": 2}, ["MemoryMax=4096M", "CPUQuota=200%"]),
        ({"cores": 4}, ["CPUQuota=400%"]),
    ],
)
def test_limits_follow_from_the_board(settings: dict[str, object], lines: list[str]) -> None:
    found = service(runtime(**settings))
    assert set(lines) <= set(found)
    assert {
        "ProtectSystem=strict",
        "NoNewPrivileges=yes",
        f"User={USER}",
        "CapabilityBoundingSet=",
        "MemorySwapMax=0",
    } <= set(found)


def test_every_slot_has_the_whole_context() -> None:
    (line,) = [line for line in service(runtime(slots=3, context=1000)) if line.startswith("ExecStart=")]
    assert "--parallel 3 --ctx-size 3000 " in line


def test_one_switch_chooses_the_engine_and_the_names_stay() -> None:
    llama, onnx, hailo = runtime(), runtime("onnx-model-server"), runtime("hailo-ollama")
    checked = f"--usable {FOLDER}/tiny/current --answers http://192.168.101.10:8080/health"
    starts = [
        f"{checked} /usr/bin/llama-server ",
        f"{checked} /usr/bin/python3 -m pinion.services.onnx_model_server ",
        "--answers http://192.168.101.10:8000/hailo/v1/list /usr/bin/hailo-ollama",
    ]
    for found, start in zip((llama, onnx, hailo), starts, strict=True):
        (line,) = [line for line in service(found) if line.startswith("ExecStart=")]
        assert line.startswith(f"ExecStart={PROGRAMS}/edge-serve {start}")
    assert [llama_program(found) for found in (llama, onnx, hailo)] == ["/usr/bin/llama-server", None, None]
    assert (llama.packages, hailo.packages) == (("nftables",), ("nftables",)), "Pinion installs no engine"
    assert "python3-onnxruntime" in onnx.packages
    assert [unit.name for unit in llama.units] == [unit.name for unit in onnx.units]


def test_hailos_server_listens_at_the_planned_address_alone_and_its_claims_say_so() -> None:
    found = runtime("hailo-ollama")
    host = next(host for host in stated(DC, planned("hailo-ollama")).hosts if host.kind is PI)
    told = json.loads(file(host.concerns["edge_runtime"], hailo_ollama.SETTINGS).content)
    assert told["server"] == {"host": host.address, "port": 8000}
    lines = service(found)
    folder, name, settings = hailo_ollama.SETTINGS.rsplit("/", 2)
    assert f"Environment=HOME=/nonexistent XDG_CONFIG_HOME={folder}" in lines
    assert (name, settings) == ("hailo-ollama", "hailo-ollama.json"), "as its source looks for it"
    assert "BindPaths=/var/lib/hailo-ollama:/usr/share/hailo-ollama/models/blob" in lines
    assert "DeviceAllow=/dev/hailo0 rw" in lines
    assert [(folder.path, folder.owner) for folder in found.directories] == [(hailo_ollama.STORE, USER)]
    assert [unit.name for unit in found.units] == [SERVICE, "pinion-edge-health.timer"]
    assert {claim.name: claim.expected for claim in host.concerns["edge_runtime"].claims} == {
        "answers": "yes",
        "fenced": f"{USER} strict yes",
        "listens": f"{host.address}:8000",
    }


@pytest.mark.parametrize("engine", ["llama-server", "onnx-model-server", "hailo-ollama"])
def test_whoever_stops_it_lets_nobody_new_in_and_waits_for_who_is_being_answered(engine: str) -> None:
    lines = service(runtime(engine))
    (stop,) = [line for line in lines if line.startswith("ExecStop=")]
    words = stop.split()
    assert words[0] == f"ExecStop=-+{PROGRAMS}/edge-drain", "the firewall is root's, and a late answer no failure"
    bound = float(words[words.index("--for") + 1])
    (patience,) = [line for line in lines if line.startswith("TimeoutStopSec=")]
    assert 0 < bound < float(patience.removeprefix("TimeoutStopSec=").removesuffix("s")) <= 60
    assert f"ExecStopPost=+{PROGRAMS}/edge-drain --end" in lines, (
        "what starts again is asked again, or the unit has failed"
    )
    assert "After=network-online.target" in lines, "so it ends before the network does"


def test_a_pod_goes_when_it_is_out_of_service_and_goes_in_any_case() -> None:
    source = {"url": "https://files.example/kubelet", "sha256": "ab" * 32}
    lines = service(concern(stated(DC, planned() | {"edge_cluster": {"source": source}}, **JOINED), PI, "edge_runtime"))
    drain, remove = [line for line in lines if line.startswith("ExecStop=")]
    assert drain.startswith(f"ExecStop=-{PROGRAMS}/edge-drain --for ")
    assert remove == f"ExecStop={PROGRAMS}/edge-pod remove"
    assert f"ExecStopPost={PROGRAMS}/edge-drain --end" in lines, "whether that fails is the unit's result"


@pytest.mark.parametrize(("engine", "port"), [("llama-server", 8080), ("hailo-ollama", 8000)])
def test_the_flow_has_the_engines_port(engine: str, port: int) -> None:
    (flow,) = [flow for flow in stated(DC, planned(engine)).flows if flow.name == "edge-runtime"]
    assert (flow.ports, flow.kinds) == ((port,), (PI,))


def test_the_store_restarts_who_serves_and_nobody_else() -> None:
    models = MODELS | {"coder": MODELS["tiny"]}
    told = json.loads(
        file(concern(stated(DC, planned(model="coder"), models=models), PI, "model_store"), CONFIG_FILE).content
    )
    assert {name: entry["units"] for name, entry in told["models"].items()} == {"tiny": [], "coder": [SERVICE]}


def test_the_service_starts_when_its_model_is_there() -> None:
    found = runtime()
    path = file(found, f"/etc/systemd/system/{PATH_UNIT}").content.splitlines()
    assert f"PathExists={FOLDER}/tiny/current" in path
    assert {unit.name for unit in found.units} >= {PATH_UNIT}
    assert any(line.startswith(f"ExecStart={PROGRAMS}/edge-health --restart {SERVICE} ") for line in file(
        found, f"/etc/systemd/system/{HEALTH_SERVICE}").content.splitlines())  # fmt: skip


@pytest.mark.parametrize("keep", [True, False])
def test_models_stay_or_go_with_the_concern_as_the_site_says(tmp_path: Path, keep: bool) -> None:
    site = planned() | {"model_store": {"key": KEY, "keep": keep}}
    found = file(concern(stated(DC, site), PI, "model_store"), CONFIG_FILE)
    store, settings = tmp_path / "store", tmp_path / "settings"
    (store / "tiny").mkdir(parents=True)
    settings.touch()

    def run() -> None:
        for command in found.run:
            here = command.replace(FOLDER, str(store)).replace(CONFIG_FILE, str(settings))
            subprocess.run(["/bin/sh", "-ec", here], check=True)

    run()
    assert (store / "tiny").exists(), "the file is placed"
    settings.unlink()
    run()
    assert (store / "tiny").exists() is keep, "the file is gone"
    other = stated(DC, site | {"model_store": {"key": KEY, "keep": not keep}})
    assert file(concern(other, PI, "model_store"), CONFIG_FILE).content != found.content, (
        "so the host notes the other command"
    )


def test_a_model_that_comes_leaves_others_a_share_of_the_disk() -> None:
    found = concern(stated(DC, planned() | {"model_store": {"key": KEY, "write_mib": 5}}), PI, "model_store")
    lines = file(found, "/etc/systemd/system/pinion-model-store.service").content.splitlines()
    assert f"IOWriteBandwidthMax={FOLDER} {5 * 2**20}" in lines


def test_a_changed_setting_tries_at_once() -> None:
    found = concern(stated(DC, planned()), PI, "model_store")
    assert file(found, CONFIG_FILE).restart == (TIMER,)


def test_the_rules_and_the_plan_speak_of_the_same_model() -> None:
    site = load(DC)
    assert served(site) == "tiny"
    assert list(stored(site)) == ["tiny"]


# --- what the plan says, done ---------------------------------------------------------------------------------------------


#: Where the site says that models lie: no site file takes an address of the machine that reads it.
ELSEWHERE = "http://models.example.org"


class Board:
    """A folder that stands for a Pi: the plan's files with paths and addresses rewritten, and a systemctl that notes what it is told.

    *models_at*: what `ELSEWHERE` is here.
    """

    def __init__(self, folder: Path, site: dict[str, Any], models: dict[str, Any], models_at: str) -> None:
        self.folder = folder
        self.models_at = models_at
        plan = stated(DC, site, models=models)
        self.store, self.runtime = (concern(plan, PI, name) for name in ("model_store", "edge_runtime"))
        self.address = next(host.address for host in plan.hosts if host.kind is PI)
        (self.port,) = free_ports(1)
        (folder / "bin").mkdir()
        (folder / "bin/systemctl").write_text(f'#!/bin/sh\necho "$@" >> {folder}/systemctl.log\n')
        (folder / "bin/systemctl").chmod(0o755)
        for each in (self.store, self.runtime):
            for entry in each.files:
                target = Path(self.here(entry.path))
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(self.here(entry.content) if entry.path.startswith("/etc") else entry.content)
                target.chmod(int(entry.mode, 8))

    def here(self, text: str) -> str:
        """*text* with the board's paths and addresses as they are here."""
        for path in (FOLDER, PROGRAMS, "/etc/"):
            text = text.replace(path, f"{self.folder}{path}")
        llama = shutil.which("llama-server", path=f"{default_cache() / 'bin'}:{os.environ['PATH']}")
        text = text.replace("/usr/bin/llama-server", str(llama)).replace("/usr/bin/python3", sys.executable)
        text = text.replace(self.address, "127.0.0.1").replace("8080", str(self.port))
        return text.replace(ELSEWHERE, self.models_at)

    def lines(self, key: str) -> list[str]:
        """The values of *key* in the runtime's unit."""
        text = self.here("\n".join(service(self.runtime)))
        return re.findall(rf"^{key}=(.*)$", text, re.MULTILINE)

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"PATH": f"{self.folder}/bin:{os.environ['PATH']}"}
        return subprocess.run(
            shlex.split(command), capture_output=True, text=True, timeout=120, check=False, env=environment
        )

    def converge(self) -> subprocess.CompletedProcess[str]:
        return self.run(f"{self.folder}{PROGRAMS}/model-store --config {self.folder}{CONFIG_FILE}")


@pytest.mark.parametrize("engine", ["llama-server", "onnx-model-server"])
def test_a_model_comes_by_the_store_and_the_unit_serves_it(engine: str, tmp_path: Path) -> None:
    """Signed by `pinion artefact`, fetched by the plan's store, served by the unit's own command line, asked by its health program."""
    if engine == "onnx-model-server":
        pytest.importorskip("onnxruntime", reason="onnx-model-server needs requirements/onnx_server.in")
    elif shutil.which("llama-server", path=f"{default_cache() / 'bin'}:{os.environ['PATH']}") is None:
        pytest.skip("llama-server is not obtained yet: tools/obtain.py llama-server")
    try:
        made = obtain(steps=STEPS)
    except ModelError as error:
        pytest.skip(str(error))
    model, form = (made.onnx, "onnx") if engine == "onnx-model-server" else (made.gguf, "gguf")
    pinion = [sys.executable, "-m", "pinion", "artefact"]
    key_file = str(tmp_path / "signing.pem")
    key = json.loads(subprocess.run([*pinion, "key", key_file, "--json"], capture_output=True, check=True).stdout)[
        "key"
    ]
    assert Path(key_file).stat().st_mode & 0o777 == 0o600
    with serving() as server:
        server.files["/model"] = model.read_bytes()
        sign = [
            "sign",
            str(model),
            "--key",
            key_file,
            "--name",
            "tiny-1",
            "--url",
            f"{ELSEWHERE}/model",
            "--format",
            form,
            "--json",
        ]
        entry = json.loads(subprocess.run([*pinion, *sign], capture_output=True, check=True).stdout)
        site = {"model_store": {"key": key}, "edge_runtime": {"engine": engine, "context": 256, "cores": 1}}
        board = Board(tmp_path, site, {"tiny": {"edge": entry}}, server.address)
        (start,) = board.lines("ExecStart")
        refused = board.run(start)
        assert (refused.returncode, "was not checked" in refused.stderr) == (1, True), "not here yet"
        server.break_after += [100_000]
        done = board.converge()
        assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "systemctl.log").read_text() == f"--no-block restart {SERVICE}\n"
    environment = os.environ | dict(word.split("=", 1) for line in board.lines("Environment") for word in line.split())
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(shlex.split(start), stdout=log, stderr=log, env=environment, cwd=tmp_path)
    try:
        began = time.monotonic()
        (health,) = re.findall(r" --answers (\S+) ", start)
        healthy = f"{tmp_path}{PROGRAMS}/edge-health --wait 60 {health}"
        assert board.run(healthy).returncode == 0, (tmp_path / "log").read_text()[-2000:]
        assert time.monotonic() - began < 60
        asked = {"prompt": "The ", "max_tokens": 4, "temperature": 0}
        answer = httpx.post(f"http://127.0.0.1:{board.port}/v1/completions", json=asked, timeout=60).json()
        assert answer["usage"]["completion_tokens"] == 4
        assert "tokens_predicted_total" in httpx.get(f"http://127.0.0.1:{board.port}/metrics", timeout=10).text
    finally:
        process.terminate()
        process.wait(timeout=20)
    watch = f"{tmp_path}{PROGRAMS}/edge-health --restart {SERVICE} http://127.0.0.1:{board.port}/health"
    assert board.run(watch).returncode == 1
    assert (tmp_path / "systemctl.log").read_text().splitlines()[1:] == [
        f"is-active --quiet {SERVICE}", f"kill --signal=KILL {SERVICE}", f"--no-block restart {SERVICE}"
    ]  # fmt: skip


def test_the_signature_in_dc_rack_12_is_by_its_key(tmp_path: Path) -> None:
    """The file behind it cannot be fetched here; what the site states of it is signed all the same."""
    told = json.loads(file(concern(stated(DC, planned()), PI, "model_store"), CONFIG_FILE).content)
    entry = told["models"]["tiny"]
    statement = "pinion artefact 1\n" + "".join(
        f"{key} {entry[key]}\n" for key in ("artefact", "format", "architecture", "size", "sha256")
    )
    (tmp_path / "key").write_text(told["key"])
    (tmp_path / "statement").write_text(statement)
    (tmp_path / "signature").write_bytes(base64.b64decode(entry["signature"]))
    command = "openssl pkeyutl -verify -pubin -inkey key -rawin -in statement -sigfile signature"
    assert subprocess.run(command.split(), cwd=tmp_path, capture_output=True, check=False).returncode == 0
