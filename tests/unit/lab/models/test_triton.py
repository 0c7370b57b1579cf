"""The small model for Triton: its repository, and its answers, from Triton itself and from a stand-in in memory."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from google.protobuf.text_format import ParseError
from unit.lab.models import model_config as proto
from unit.lab.models.engines import KSERVE, close, few_steps, infer, reference, triton_layers

from pinion.lab.errors import LabError
from pinion.lab.models.artefacts import Artefacts
from pinion.lab.triton.__main__ import main
from pinion.lab.triton.repository import write_repository
from pinion.lab.triton.standalone import standalone
from pinion.plan.triton_config import Batching, ModelConfig, model_config
from pinion.services.onnx_model_server.engine import Engine
from pinion.services.triton_model.generation import Asked, AskedError, answered
from pinion.services.triton_model.tensors import INPUTS, OUTPUTS, Kind, Tensor

#: Inputs by name; the status, and outputs by name.
Ask = Callable[[dict[str, object]], tuple[int, dict[str, Any]]]


@pytest.fixture(scope="module")
def model() -> Artefacts:
    """Which one makes no difference here: the whole one's answers are compared in test_agreement."""
    return few_steps()


@pytest.fixture(scope="module")
def in_memory(model: Artefacts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """model.py as the repository has it, in a process that finds nothing else of Pinion."""
    pytest.importorskip("onnxruntime", reason="the model needs requirements/onnx_server.in")
    place = write_repository(tmp_path_factory.mktemp("triton") / "models", model)
    stated = json.dumps(proto.read((place / "config.pbtxt").read_text()))
    program = Path(__file__).with_name("triton_stand_in.py")
    with subprocess.Popen(
        [sys.executable, str(program), str(place / "1"), stated],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=place,
    ) as process:

        def ask(asked: dict[str, object]) -> tuple[int, dict[str, Any]]:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps([asked]) + "\n")
            process.stdin.flush()
            ((status, outputs),) = json.loads(process.stdout.readline())
            return status, outputs

        yield ask
        process.communicate(timeout=20)


@pytest.fixture(scope="module", params=["in_memory", "triton"])
def ask(request: pytest.FixtureRequest, model: Artefacts) -> Ask:
    """The model behind one of the two."""
    found = request.getfixturevalue(request.param)
    return (lambda asked: infer(found, model, asked)) if isinstance(found, str) else found


pytestmark = pytest.mark.timeout(1800)  # for the layer, where CI_FULL=1 builds it


def test_it_answers_as_the_reference_does(model: Artefacts, ask: Ask) -> None:
    wanted = reference(model)
    status, found = ask({"text_input": wanted["prompt"], "max_tokens": len(wanted["tokens"])})
    assert status == 200
    assert found["tokens"] == wanted["tokens"]
    assert found["text_output"] == [wanted["text"]]
    assert close(found["log_probabilities"], wanted["log_probabilities"])


def test_what_is_not_asked_has_a_default(ask: Ask) -> None:
    found = ask({"text_input": "The "})
    assert found == ask({"text_input": "The ", "max_tokens": 16, "temperature": 0.0, "seed": 0})
    assert len(found[1]["tokens"]) == 16
    assert ask({"text_input": "The ", "max_tokens": 0}) == (
        200,
        {"text_output": [""], "tokens": [], "log_probabilities": []},
    )


def test_a_seed_decides_what_is_not_the_likeliest(ask: Ask) -> None:
    asked = {"text_input": "The ", "max_tokens": 12, "temperature": 1.5}
    answers = [ask(asked | {"seed": seed})[1]["tokens"] for seed in (1, 1, 2)]
    assert answers[0] == answers[1] != answers[2]


BAD: list[tuple[dict[str, object], str]] = [
    ({"max_tokens": -1}, "max_tokens must be"),
    ({"max_tokens": 257}, "max_tokens must be"),
    ({"temperature": 2.5}, "temperature must be"),
    ({"seed": -1}, "seed must not"),
    ({"text_input": "word " * 400}, "the context 256"),
]


@pytest.mark.parametrize(("asked", "said"), BAD, ids=[said for _, said in BAD])
def test_it_says_what_is_wrong_with_a_request(ask: Ask, asked: dict[str, object], said: str) -> None:
    status, found = ask({"text_input": "The "} | asked)
    assert status == 400
    assert said in found["error"]
    assert ask({"text_input": "The ", "max_tokens": 1})[0] == 200, "and goes on"


def test_an_answer_is_made_without_triton(model: Artefacts) -> None:
    pytest.importorskip("onnxruntime", reason="the model needs requirements/onnx_server.in")
    engine, wanted = Engine(model.onnx), reference(model)
    good = Asked(wanted["prompt"].encode(), len(wanted["tokens"]))
    bad = (Asked(b"\xff"), Asked(b"", temperature=float("nan")))
    first, found, last = answered(engine, [bad[0], good, bad[1]])
    assert isinstance(first, AskedError)
    assert isinstance(last, AskedError)
    assert not isinstance(found, AskedError)
    assert list(found.tokens) == wanted["tokens"]


def test_a_batch_answers_as_each_alone_would(model: Artefacts) -> None:
    """Of several lengths, lukewarm and cold, one that needs no step, and one that ends before the others."""
    pytest.importorskip("onnxruntime", reason="the model needs requirements/onnx_server.in")
    engine = Engine(model.onnx)
    texts = ("The ", "The concern that keeps the models of a node", "", "x")
    batch = [Asked(text.encode(), 3 * number, 0.7 * (number % 2), number) for number, text in enumerate(texts)]
    together = answered(engine, batch)
    for asked, found in zip(batch, together, strict=True):
        (alone,) = answered(engine, [asked])
        assert not isinstance(alone, AskedError)
        assert not isinstance(found, AskedError)
        assert found.tokens == alone.tokens
        assert close(list(found.log_probabilities), list(alone.log_probabilities))


def test_the_repository_is_laid_out_as_triton_wants_it(model: Artefacts, tmp_path: Path) -> None:
    (tmp_path / "pinion-tiny").mkdir(mode=0o700)
    (tmp_path / "pinion-tiny" / "left over").write_text("")
    batching = Batching(8, 0.0025, (4, 8))
    place = write_repository(tmp_path, model, instances=2, threads=3, batching=batching)
    assert list(tmp_path.iterdir()) == [place], "nothing half-written beside it"
    files = {str(path.relative_to(place)) for path in place.rglob("*") if path.is_file()}
    assert files == {
        "config.pbtxt", "1/model.py", "1/model.onnx", "1/pinion/__init__.py", "1/pinion/services/__init__.py",
        "1/pinion/services/onnx_model_server/__init__.py", "1/pinion/services/onnx_model_server/engine.py",
        "1/pinion/services/onnx_model_server/tokenizer.py",
        "1/pinion/services/triton_model/__init__.py", "1/pinion/services/triton_model/generation.py",
        "1/pinion/services/triton_model/tensors.py",
    }  # fmt: skip
    assert (place / "1/model.onnx").read_bytes() == model.onnx.read_bytes()
    # Triton is another user
    assert all(
        path.stat().st_mode & 0o777 == (0o755 if path.is_dir() else 0o644) for path in (place, *place.rglob("*"))
    )
    assert proto.read((place / "config.pbtxt").read_text()) == {
        "name": "pinion-tiny",
        "backend": "python",
        "max_batch_size": 8,
        "dynamic_batching": {"preferred_batch_size": [4, 8], "max_queue_delay_microseconds": "2500"},
        "input": [
            {"name": "text_input", "data_type": "TYPE_STRING", "dims": [1]},
            {"name": "max_tokens", "data_type": "TYPE_INT32", "dims": [1], "optional": True},
            {"name": "temperature", "data_type": "TYPE_FP32", "dims": [1], "optional": True},
            {"name": "seed", "data_type": "TYPE_INT64", "dims": [1], "optional": True},
        ],
        "output": [
            {"name": "text_output", "data_type": "TYPE_STRING", "dims": [1]},
            {"name": "tokens", "data_type": "TYPE_INT64", "dims": [-1]},
            {"name": "log_probabilities", "data_type": "TYPE_FP32", "dims": [-1]},
        ],
        "instance_group": [{"kind": "KIND_CPU", "count": 2}],
        "parameters": {
            "threads": {"string_value": "3"},
            "sha256": {"string_value": hashlib.sha256(model.onnx.read_bytes()).hexdigest()},
        },
    }


def test_a_name_cannot_leave_its_quotes() -> None:
    hostile = 'a" backend: "b\\\n\u00e9'
    found = proto.read(ModelConfig(hostile, "python", (Tensor("x", Kind.INT64),), ()).text())
    assert (found["name"], found["backend"]) == (hostile, "python")
    with pytest.raises(ParseError):
        proto.read(model_config("a", "0").text() + "unknown: 1\n")


def test_triton_reads_what_was_written(model: Artefacts, triton: str) -> None:
    named = f"{triton}/v2/models/{model.manifest['name']}"
    assert httpx.get(f"{triton}/v2/health/ready", timeout=10).status_code == 200
    assert httpx.get(f"{named}/ready", timeout=10).status_code == 200
    said = httpx.get(named, timeout=10).json()
    assert (said["platform"], said["versions"]) == ("python", ["1"])
    for key, tensors in (("inputs", INPUTS), ("outputs", OUTPUTS)):
        assert said[key] == [
            {"name": tensor.name, "datatype": KSERVE.get(tensor.kind, tensor.kind.removeprefix("TYPE_")), "shape": [-1, *tensor.dims]}
            for tensor in tensors
        ]  # fmt: skip
    (group,) = httpx.get(f"{named}/config", timeout=10).json()["instance_group"]
    assert (group["kind"], group["count"], group["gpus"]) == ("KIND_CPU", 1, [])


def test_triton_generates_text(model: Artefacts, triton: str) -> None:
    """Its own protocol for language models, beside KServe's."""
    wanted = reference(model)
    asked = {"text_input": wanted["prompt"], "max_tokens": len(wanted["tokens"])}
    answer = httpx.post(f"{triton}/v2/models/{model.manifest['name']}/generate", json=asked, timeout=60)
    assert answer.json()["text_output"] == wanted["text"]


def test_a_port_that_is_taken_is_refused(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(LabError, match=f"port {port} of loopback"), standalone(tmp_path, port=port, layers=()):
            pass


@pytest.mark.parametrize("wrong", [["--port", "70000"], ["--instances", "0"], ["--write", "x", "--obtain"]])
def test_the_program_says_what_it_does_not_take(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(wrong)
    assert wrong[0] in capsys.readouterr().err


def test_triton_refuses_a_file_that_is_no_model(model: Artefacts, tmp_path: Path) -> None:
    layers = triton_layers()
    place = write_repository(tmp_path / "models", model)
    (place / "1/model.onnx").write_bytes(model.onnx.read_bytes()[:10_000])
    with pytest.raises(LabError, match=r"(?s)Triton ended.*failed to load"), standalone(place.parent, layers=layers):
        pass


_PROGRAM = """
import sys
from pathlib import Path
from pinion.lab.triton.standalone import standalone
with standalone(Path(sys.argv[1])) as triton:
    print(triton.url, triton.log.parent, flush=True)
    sys.stdin.read()
"""


def test_kill_9_leaves_no_process_and_no_mount(model: Artefacts, tmp_path: Path) -> None:
    triton_layers()
    place = write_repository(tmp_path / "models", model)
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, str(place.parent)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    ) as user:
        assert user.stdout is not None
        url, folder = user.stdout.readline().split()
        running = psutil.Process(user.pid).children(recursive=True)
        servers = [one for one in running if one.name().startswith("triton")]
        assert servers
        for one in servers:
            assert one.uids().real != 0
            status = Path(f"/proc/{one.pid}/status").read_text()
            assert "CapEff:\t0000000000000000\n" in status
            assert "NoNewPrivs:\t1\n" in status
        user.send_signal(signal.SIGKILL)
        user.wait()
    deadline = time.monotonic() + 30
    while any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in running):
        assert time.monotonic() < deadline, "processes outlive their user"
        time.sleep(0.1)
    assert folder not in Path("/proc/self/mountinfo").read_text()
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/v2/health/ready", timeout=5)
    assert [str(left.relative_to(folder)) for left in sorted(Path(folder).rglob("*"))] == ["log", "root"]
