"""A request's way through the router: who answers, what the client is told, and what it sees when a place fails."""

from __future__ import annotations

import json
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from unit.services.edge_router.conftest import MODEL, Site, engine, site_of

from pinion.routing.record import read

LONG = "word " * 80
#: What the pool's double makes of it.
BACKWARDS = "rack The"


def told(answer: httpx.Response) -> tuple[str, str]:
    return answer.headers["x-pinion-route"], answer.headers["x-pinion-reason"]


def text(answer: httpx.Response) -> str:
    (choice,) = answer.json()["choices"]
    return str(choice["text"])


# --- the ways -----------------------------------------------------------------------------------------------------------


def test_a_short_prompt_is_answered_on_the_pi_as_the_engine_answers_it(site: Site) -> None:
    answer = site.ask()
    assert answer.status_code == 200, answer.text
    assert told(answer) == ("pi", "pi-fits")
    assert "x-pinion-degraded" not in answer.headers
    own = site.client.post(
        f"{site.engine}/v1/completions", json={"model": MODEL, "prompt": "The rack", "max_tokens": 4, "temperature": 0}
    )
    assert text(answer) == text(own)


def test_a_long_prompt_goes_to_the_pool(site: Site) -> None:
    answer = site.ask(LONG)
    assert told(answer) == ("pool", "long-prompt")
    found = answer.json()
    assert found["usage"]["prompt_tokens"] > 64
    assert found["choices"][0]["text"] == "word word word word"


@pytest.mark.parametrize(
    ("wishes", "route", "reason"),
    [
        ({"hint": "pool"}, "pool", "pool-asked-for"),
        ({"hint": "pi"}, "pi", "pi-fits"),
        ({"privacy": "on-device", "hint": "pool"}, "pi", "on-device-only,pool-asked-for"),
        ({"consent": False, "hint": "pool"}, "pi", "no-consent,pool-asked-for"),
        ({"kind": "batch"}, "pool", "kind-of-request"),
    ],
)
def test_a_client_says_where(site: Site, wishes: dict[str, Any], route: str, reason: str) -> None:
    assert told(site.ask(pinion=wishes)) == (route, reason)


def test_what_the_pools_protocol_cannot_say_stays_on_the_pi(site: Site) -> None:
    answer = site.ask(LONG, logprobs=1)
    assert told(answer)[0] == "pi"
    assert answer.json()["choices"][0]["logprobs"] is not None
    assert site.pool_counts()["asked"] == 0


def test_speculative_takes_the_first_and_leaves_the_other(site: Site) -> None:
    site.pool_way("slow")
    answer = site.ask(pinion={"mode": "speculative"})
    assert told(answer) == ("pi", "speculative")
    site.until(lambda: site.pool_counts() == {"asked": 1, "left": 1})


def test_a_decision_is_told_and_replays_to_the_same(site: Site) -> None:
    answer = site.ask("A secret that nobody may find in a record")
    found = site.client.get(f"{site.url}/pinion/decisions/{answer.headers['x-pinion-decision']}")
    assert "secret" not in found.text
    record = read(found.text)
    assert record.decision.route == "pi"
    assert record.replayed() == record.decision


# --- clients ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wishes", [{"hint": "pi"}, {"hint": "pool"}])
def test_openais_own_client_is_served_alike(site: Site, wishes: dict[str, str]) -> None:
    with openai.OpenAI(base_url=f"{site.url}/v1", api_key="none", http_client=httpx.Client(trust_env=False)) as client:
        assert [model.id for model in client.models.list()] == [MODEL]
        extra = {"pinion": wishes}
        whole = client.completions.create(model=MODEL, prompt="The rack", max_tokens=4, temperature=0, extra_body=extra)
        assert whole.choices[0].finish_reason in {"stop", "length"}
        assert whole.usage is not None
        assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens
        pieces = client.completions.create(
            model=MODEL, prompt="The rack", max_tokens=4, temperature=0, stream=True, extra_body=extra
        )
        assert "".join(piece.choices[0].text for piece in pieces if piece.choices) == whole.choices[0].text
        said = [{"role": "user", "content": "Where is the rack?"}]
        chat = client.chat.completions.create(model=MODEL, messages=said, max_tokens=4, temperature=0, extra_body=extra)  # type: ignore[call-overload]
        streamed = client.chat.completions.create(  # type: ignore[call-overload]
            model=MODEL, messages=said, max_tokens=4, temperature=0, stream=True,
            stream_options={"include_usage": True}, extra_body=extra,
        )  # fmt: skip
        pieces = list(streamed)
        assert (
            "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)
            == chat.choices[0].message.content
        )
        assert pieces[-1].usage is not None
        with pytest.raises(openai.NotFoundError) as unknown:
            client.completions.create(model="no-such", prompt="x")
        assert unknown.value.code == "model_not_found"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b"\xff", None),
        (b"[]", None),
        (b"[" * 100_000, None),
        (b'{"prompt": 3}', "prompt"),
        (b'{"prompt": "\\ud800"}', "prompt"),
        (b'{"prompt": "x", "max_tokens": -1}', "max_tokens"),
        (b'{"prompt": "x", "max_tokens": 1e999}', "max_tokens"),
        (b'{"prompt": "x", "temperature": NaN}', "temperature"),
        (b'{"prompt": "x", "stream": "yes"}', "stream"),
        (b'{"prompt": "x", "stop": [1]}', "stop"),
        (b'{"prompt": "x", "pinion": {"hint": "moon"}}', "pinion.hint"),
        (b'{"prompt": "x", "pinion": {"speed": 1}}', "pinion.speed"),
        (b'{"prompt": "x", "pinion": {"budget_ms": "NaN"}}', None),
    ],
)
def test_a_bad_request_is_told_in_openais_form(site: Site, body: bytes, param: str | None) -> None:
    answer = site.client.post(f"{site.url}/v1/completions", content=body)
    if body.endswith(b'"NaN"}}'):
        assert answer.status_code in {200, 400}
        return
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["param"] == param
    assert answer.json()["error"]["type"] == "invalid_request_error"


def test_what_is_longer_than_the_context_is_told(site: Site) -> None:
    answer = site.ask("word " * 400, pinion={"privacy": "on-device"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "context_length_exceeded")


def test_a_large_body_is_refused(site: Site) -> None:
    answer = site.client.post(f"{site.url}/v1/completions", content=b'{"prompt": "' + b"x" * (2 << 20) + b'"}')
    assert answer.status_code == 413
    assert answer.json()["error"]["type"] == "invalid_request_error"


def test_a_client_that_goes_frees_the_pool_at_once(site: Site) -> None:
    site.pool_way("slow")
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{site.url}/v1/completions", json={"prompt": LONG, "max_tokens": 4}, timeout=0.5, trust_env=False)
    site.until(lambda: site.pool_counts()["left"] == 1, 2)
    assert site.health()["pool"], "that is not the pool's fault"


def test_a_client_that_goes_frees_the_engines_slot_at_once(site: Site) -> None:
    body = {"prompt": "The", "max_tokens": 240, "stream": True, "ignore_eos": True}
    with site.client.stream("POST", f"{site.url}/v1/completions", json=body) as answer:
        next(answer.iter_bytes())
    metrics = f"{site.engine}/metrics"
    site.until(lambda: "llamacpp:requests_processing 0" in site.client.get(metrics).text, 3)


# --- faults -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["error", "busy", "garbage", "cut", "other-model", "no-text", "endless"])
def test_a_pool_that_lies_or_fails_is_replaced_by_the_pi(site: Site, way: str) -> None:
    site.pool_way(way)
    answer = site.ask(LONG)
    assert answer.status_code == 200, answer.text
    assert told(answer)[0] == "pi"
    assert answer.headers["x-pinion-degraded"] == "true"
    assert site.pool_counts()["asked"] == 1, "asked once, answered once"


def test_what_the_pool_refuses_is_the_clients_to_mend(site: Site) -> None:
    site.pool_way("refuses")
    answer = site.ask(LONG)
    assert (answer.status_code, answer.json()["error"]["message"]) == (400, "no")
    assert site.health()["pool"]


def test_a_pool_that_fails_is_left_alone_and_taken_back(site: Site) -> None:
    site.pool_way("error")
    for _ in range(3):
        assert told(site.ask(LONG))[0] == "pi"
    assert not site.health()["pool"]
    asked = site.pool_counts()["asked"]
    assert told(site.ask(LONG)) == ("pi", "pool-down,long-prompt")
    assert site.pool_counts()["asked"] == asked, "nobody asks what is down"
    site.pool_way("well")
    ways = []

    def back() -> bool:
        ways.append(told(site.ask(LONG))[0])
        return ways[-1] == "pool"

    site.until(back)
    assert set(ways[:-1]) == {"pi"}
    assert [told(site.ask(LONG))[0] for _ in range(5)] == ["pool"] * 5


def test_a_frozen_pool_holds_nobody(site: Site) -> None:
    """It takes connections and says nothing, as a stopped process does: the Pi answers within a second of when it froze."""
    site.pool_process.send_signal(signal.SIGSTOP)
    try:
        began = time.monotonic()
        answer = site.ask(LONG)
        took = time.monotonic() - began
        assert told(answer)[0] == "pi"
        assert told(site.ask(LONG)) == ("pi", "pool-down,long-prompt")
    finally:
        site.pool_process.send_signal(signal.SIGCONT)
    assert took < site_limit(site), f"{took:.2f} s"


def site_limit(site: Site) -> float:
    """A second, and what the engine itself takes for that prompt, measured now."""
    began = time.monotonic()
    site.client.post(f"{site.engine}/v1/completions", json={"prompt": LONG, "max_tokens": 4})
    return 1.0 + 3 * (time.monotonic() - began)


def test_a_dead_pool_costs_no_request(llama: str, tmp_path: Path) -> None:
    with site_of(llama, tmp_path) as site:
        site.publish(cpu=1.0)
        assert told(site.ask(LONG))[0] == "pool"
        site.pool_process.kill()
        site.pool_process.wait()
        answers = [site.ask(LONG) for _ in range(5)]
        assert [answer.status_code for answer in answers] == [200] * 5
        assert {told(answer)[0] for answer in answers} == {"pi"}


def test_without_its_engine_the_pool_answers(tmp_path: Path) -> None:
    with site_of("http://127.0.0.1:9", tmp_path, engine_there=False) as site:
        assert told(site.ask()) == ("pool", "not-on-pi")
        assert site.health() == {"status": "ok", "engine": False, "pool": True, "policy": 0}
        refused = site.ask(pinion={"privacy": "on-device"})
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert refused.json()["error"]["code"] == "not-on-pi"


def test_a_full_queue_is_told_and_a_free_slot_needs_none(llama: str, tmp_path: Path) -> None:
    with site_of(llama, tmp_path, queue=0) as site:
        own = {"privacy": "on-device"}
        assert told(site.ask(pinion=own))[0] == "pi"
        with ThreadPoolExecutor(20) as clients:
            answers = list(clients.map(lambda _: site.ask(max_tokens=200, ignore_eos=True, pinion=own), range(20)))
        refused = [answer for answer in answers if answer.status_code == 503]
        assert 0 < len(refused) < len(answers)
        assert {answer.status_code for answer in answers} == {200, 503}
        (message,) = {answer.json()["error"]["message"] for answer in refused}
        assert message == "no place can answer now (the queue is full; not-on-pi, on-device-only)"
        site.until(lambda: site.ask(pinion=own).status_code == 200)


def test_an_engine_that_goes_silent_holds_nobody(tmp_path: Path) -> None:
    with engine(tmp_path / "engine.log") as (url, process), site_of(url, tmp_path) as site:
        site.publish(cpu=1.0)
        body = {"prompt": "The", "max_tokens": 240, "stream": True, "ignore_eos": True, "pinion": {"hint": "pi"}}
        with site.client.stream("POST", f"{site.url}/v1/completions", json=body) as answer:
            events = answer.iter_lines()
            next(events)
            process.send_signal(signal.SIGSTOP)
            last = [line for line in events if line][-1]
        assert json.loads(last.removeprefix("data: "))["error"]["code"] == "cut_off"
        assert told(site.ask(pinion={"hint": "pi"})) == ("pool", "not-on-pi")
        process.send_signal(signal.SIGCONT)
        site.until(lambda: told(site.ask())[0] == "pi")


# --- policy -------------------------------------------------------------------------------------------------------------


def test_a_new_policy_holds_within_two_seconds_and_a_bad_one_never(site: Site) -> None:
    began = time.monotonic()
    version = site.publish(cpu=1.0, prompt_tokens=1)
    assert time.monotonic() - began < 2
    assert told(site.ask()) == ("pool", "long-prompt")
    good = (site.folder / "policy.json").read_bytes()
    stated = json.loads(good)
    site.place(
        json.dumps(stated | {"policy": stated["policy"].replace('"prompt_tokens":1', '"prompt_tokens":9')}).encode()
    )
    site.until(lambda: "is refused" in (site.folder / "router.log").read_text())
    assert site.health()["policy"] == version
    assert told(site.ask()) == ("pool", "long-prompt")


# --- what it tells ------------------------------------------------------------------------------------------------------


def test_metrics_count_answers_by_place(site: Site) -> None:
    def count(place: str) -> float:
        lines = site.client.get(f"{site.url}/metrics").text.splitlines()
        wanted = f'pinion_router_answers_total{{place="{place}",status="200"}} '
        return sum(float(line.removeprefix(wanted)) for line in lines if line.startswith(wanted))

    before = count("pi"), count("pool")
    site.ask()
    site.ask(LONG)
    assert (count("pi"), count("pool")) == (before[0] + 1, before[1] + 1)
