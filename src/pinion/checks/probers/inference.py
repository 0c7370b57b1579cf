"""Ask a model server what it serves, for a text, and for many of them at once, through the API server's service proxy."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pinion.checks.model import ANSWERED, Check, Finding, InferenceProbe, Outcome, judge
from pinion.drivers.cluster import ClusterReader

#: The load: so many texts, so many at a time; enough for a 95th percentile, and soon over.
REQUESTS, AT_ONCE = 40, 4
#: What is asked: the beginning of a text, and how many tokens are to follow.
PROMPT, TOKENS = "The ", 8
#: Of Triton's own configuration, the parameter that its model program compares the model's file with when it loads it.
_DIGEST = "sha256"


def probe(reader: ClusterReader, check: Check, asked: InferenceProbe) -> Finding:
    """The finding of *check*, whose probe *asked* is. Raises `ClusterError`."""
    started = time.monotonic()
    if asked.asks == "latency":
        return _latency(reader, check, asked)
    found = _digest(reader, asked) if asked.asks == "digest" else _answer(reader, asked)
    return judge(check, found, time.monotonic() - started)


def _digest(reader: ClusterReader, asked: InferenceProbe) -> str:
    """The SHA-256 of the model that is loaded: its program refuses to load another than its configuration names."""
    status, _ = _ask(reader, asked, "/ready")
    if status != 200:
        return f"not ready ({status})"
    status, said = _ask(reader, asked, "/config")
    return str(_within(said, "parameters", _DIGEST, "string_value") or f"not told ({status})")


def _answer(reader: ClusterReader, asked: InferenceProbe) -> str:
    status, said = _ask(reader, asked, "/infer", _request())
    outputs = {output.get("name"): output for output in _within(said, "outputs") or ()}
    if status == 200 and _within(outputs, "tokens", "data") and _within(outputs, "text_output", "data"):
        return ANSWERED
    return f"status {status}: {json.dumps(said)[:200]}"


def _latency(reader: ClusterReader, check: Check, asked: InferenceProbe) -> Finding:
    """How long the texts of the load took, as a client here sees it; every one must be answered."""
    assert asked.within is not None

    def one(_: int) -> tuple[bool, float]:
        began = time.monotonic()
        return _answer(reader, asked) == ANSWERED, time.monotonic() - began

    started = time.monotonic()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(pool.map(one, range(REQUESTS)))
    took = sorted(seconds for _, seconds in answers)
    # the smallest that at least 95 of 100 do not exceed
    p95 = took[-(-len(took) * 95 // 100) - 1]
    lost = sum(1 for answered, _ in answers if not answered)
    found = f"{p95 * 1000:.0f} ms; median {took[len(took) // 2] * 1000:.0f} ms, {len(answers) - lost} of {len(answers)} answered"
    good = p95 <= asked.within and not lost
    return Finding(
        check=check,
        outcome=Outcome.PROVED if good else Outcome.FAILED,
        found=found,
        evidence=check.best,
        seconds=time.monotonic() - started,
    )


def _request() -> dict[str, Any]:
    text = {"name": "text_input", "datatype": "BYTES", "shape": [1, 1], "data": [PROMPT]}
    return {"inputs": [text, {"name": "max_tokens", "datatype": "INT32", "shape": [1, 1], "data": [TOKENS]}]}


def _ask(
    reader: ClusterReader, asked: InferenceProbe, path: str, body: dict[str, Any] | None = None
) -> tuple[int, object]:
    """Status and answer of *path* of the model; what is no JSON is given as text."""
    status, answer = reader.answer(asked.namespace, asked.service, asked.port, f"/v2/models/{asked.model}{path}", body)
    try:
        return status, json.loads(answer)
    except ValueError:
        return status, answer[:200].decode(errors="replace")


def _within(said: object, *keys: str) -> Any:  # noqa: ANN401 - whatever the server says
    """What *said* has under *keys*; None where it has not."""
    for key in keys:
        said = said.get(key) if isinstance(said, dict) else None
    return said
