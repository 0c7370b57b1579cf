"""The tiny model in its engines: llama-server, onnx-model-server, Triton and the numpy network that was trained give one answer.

All are real processes on loopback. The numpy network's answer stands in the model's manifest.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from itertools import combinations
from pathlib import Path
from typing import Any

import httpx
import pytest
from unit.lab.models.engines import close, infer, reference, serving

from pinion.lab.models.artefacts import Artefacts


def test_it_is_small_and_says_what_it_is(model: Artefacts) -> None:
    assert model.gguf.stat().st_size <= 5_000_000
    assert model.onnx.stat().st_size <= 5_000_000
    judged = model.manifest["perplexity"]
    assert isinstance(judged, dict)
    if "steps" not in model.folder.name:
        assert judged["model"] < judged["unigram"] / 10 < judged["uniform"] / 10


def ask_llama(address: str, wanted: dict[str, Any]) -> dict[str, Any]:
    asked = {
        "prompt": wanted["prompt"],
        "n_predict": len(wanted["tokens"]),
        "temperature": 0,
        "n_probs": 1,
        "return_tokens": True,
    }
    found: dict[str, Any] = httpx.post(f"{address}/completion", json=asked, timeout=60).json()
    return found | {"log_probabilities": [step["logprob"] for step in found["completion_probabilities"]]}


def ask_onnx(address: str, wanted: dict[str, Any]) -> dict[str, Any]:
    asked = {"prompt": wanted["prompt"], "max_tokens": len(wanted["tokens"]), "temperature": 0, "logprobs": 1}
    found: dict[str, Any] = httpx.post(f"{address}/v1/completions", json=asked, timeout=60).json()
    (choice,) = found["choices"]
    return found | choice | {"log_probabilities": choice["logprobs"]["token_logprobs"]}


def ask_triton(address: str, model: Artefacts, wanted: dict[str, Any]) -> dict[str, Any]:
    asked = {"text_input": wanted["prompt"], "max_tokens": len(wanted["tokens"]), "temperature": 0.0}
    status, found = infer(address, model, asked)
    assert status == 200, found
    return found


def test_llama_server_gives_the_tokens_and_probabilities_of_the_reference(model: Artefacts, llama: str) -> None:
    wanted = reference(model)
    answer = ask_llama(llama, wanted)
    assert answer["tokens"] == wanted["tokens"]
    assert answer["tokens_evaluated"] == len(wanted["prompt_tokens"])
    assert close(answer["log_probabilities"], wanted["log_probabilities"])
    assert answer["timings"]["predicted_per_second"] > 0
    assert "llamacpp:tokens_predicted_total" in httpx.get(f"{llama}/metrics", timeout=10).text


def test_onnx_model_server_gives_them_too(model: Artefacts, onnx: str) -> None:
    wanted = reference(model)
    answer = ask_onnx(onnx, wanted)
    assert answer["tokens"] == wanted["tokens"]
    assert answer["text"] == wanted["text"]
    assert close(answer["log_probabilities"], wanted["log_probabilities"])
    assert answer["usage"]["prompt_tokens"] == len(wanted["prompt_tokens"])


@pytest.mark.timeout(1800)
def test_llama_server_onnx_model_server_and_triton_agree(model: Artefacts, llama: str, onnx: str, triton: str) -> None:
    """Each pair of them, not only each with the reference."""
    wanted = reference(model)
    answers = [ask_llama(llama, wanted), ask_onnx(onnx, wanted), ask_triton(triton, model, wanted)]
    assert [answer["tokens"] for answer in answers] == [wanted["tokens"]] * 3
    for one, other in combinations([wanted, *answers], 2):
        assert close(one["log_probabilities"], other["log_probabilities"])


TEXTS = [
    "The concern that keeps the ",
    "two  spaces",
    "a\ttab and\na line",
    "Zürich, naïve \U0001f600",
    "x" * 40,
    " ",
    "\u2581odd",
]


@pytest.mark.parametrize("text", TEXTS)
def test_both_read_a_text_as_the_same_tokens(model: Artefacts, llama: str, text: str) -> None:
    pytest.importorskip("onnxruntime", reason="onnx-model-server needs requirements/onnx_server.in")
    from pinion.services.onnx_model_server.engine import Engine

    theirs = httpx.post(f"{llama}/tokenize", json={"content": text, "add_special": True}, timeout=30).json()["tokens"]
    assert list(Engine(model.onnx).encode(text)) == theirs


@pytest.mark.parametrize(
    "body",
    ["nonsense", "[]", "{}", '{"prompt": 1}', '{"prompt": "a", "max_tokens": -1}', '{"prompt": "a", "temperature": NaN}',
     '{"prompt": "a", "logprobs": 99}', '{"prompt": "a", "stream": true}', '{"prompt": "' + "word " * 400 + '"}'],
)  # fmt: skip
def test_onnx_model_server_says_what_is_wrong_with_a_request(onnx: str, body: str) -> None:
    answer = httpx.post(f"{onnx}/v1/completions", content=body, timeout=30)
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"


def test_onnx_model_server_counts(onnx: str) -> None:
    httpx.post(f"{onnx}/v1/completions", json={"prompt": "The ", "max_tokens": 3, "temperature": 0}, timeout=30)
    said = dict(line.split() for line in httpx.get(f"{onnx}/metrics", timeout=10).text.splitlines() if line[0] != "#")
    assert float(said["onnx:tokens_predicted_total"]) >= 3
    assert float(said["onnx:requests_processing"]) == float(said["onnx:requests_deferred"]) == 0
    assert httpx.get(f"{onnx}/nothing", timeout=10).status_code == 404


def test_onnx_model_server_refuses_a_file_that_is_no_model(tmp_path: Path, model: Artefacts) -> None:
    pytest.importorskip("onnxruntime", reason="onnx-model-server needs requirements/onnx_server.in")
    for content in (b"nothing", model.onnx.read_bytes()[:10_000]):
        (tmp_path / "bad.onnx").write_bytes(content)
        command = [sys.executable, "-m", "pinion.services.onnx_model_server", "--model", str(tmp_path / "bad.onnx")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 2
        assert "onnx-model-server:" in done.stderr


def test_onnx_model_server_tells_nobody_what_it_runs(model: Artefacts, tmp_path: Path) -> None:
    """ONNX Runtime's own releases keep what they will report to their maker in the user's folders."""
    pytest.importorskip("onnxruntime", reason="onnx-model-server needs requirements/onnx_server.in")
    program = "import sys, pathlib; from pinion.services.onnx_model_server.engine import Engine; Engine(pathlib.Path(sys.argv[1]))"
    home = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache"), "XDG_DATA_HOME": str(tmp_path / "data")}
    subprocess.run([sys.executable, "-c", program, str(model.onnx)], env=os.environ | home, check=True, timeout=60)
    assert not list(tmp_path.iterdir())


def test_onnx_model_server_turns_away_what_it_has_no_room_for_and_drops_what_nobody_waits_for(
    model: Artefacts, tmp_path: Path
) -> None:
    """One slot, no queue: a second request is refused at once; when the first client goes away, the slot is free before the end."""
    pytest.importorskip("onnxruntime", reason="onnx-model-server needs requirements/onnx_server.in")
    command = [sys.executable, "-m", "pinion.services.onnx_model_server", "--model", str(model.onnx), "--queue", "0"]
    long = {"prompt": "The ", "max_tokens": 250, "temperature": 0}
    with serving(command, tmp_path / "log") as address:

        def busy() -> float:
            said = httpx.get(f"{address}/metrics", timeout=10).text.splitlines()
            return next(float(line.split()[1]) for line in said if line.startswith("onnx:requests_processing "))

        with socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])), timeout=10) as first:
            body = json.dumps(long).encode()
            head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
            first.sendall(head.encode() + body)
            while busy() == 0:
                time.sleep(0.01)
            second = httpx.post(f"{address}/v1/completions", json=long, timeout=30)
            assert (second.status_code, second.headers["Retry-After"]) == (503, "1")
        began = time.monotonic()
        while busy():
            assert time.monotonic() - began < 20
            time.sleep(0.01)
        said = httpx.get(f"{address}/metrics", timeout=10).text
        assert "onnx:tokens_predicted_total 0" in said.splitlines(), "the first answer was never finished"
        assert httpx.post(f"{address}/v1/completions", json=long | {"max_tokens": 1}, timeout=30).status_code == 200
