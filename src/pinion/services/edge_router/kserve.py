"""The pool, asked by KServe's protocol, version 2, in JSON over HTTP, as Triton speaks it; and what is known of it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from pinion.routing import Hop, PoolState
from pinion.services.edge_router.breaker import Breaker
from pinion.services.edge_router.openai import Asked, Written, answer_body, answer_events, error_body
from pinion.services.edge_router.place import FailedError, Reply, while_up

#: Seconds between looks, and what one may take: a pool that dies is found out within the sum, and half a second stays to answer.
LOOK_EVERY, LOOK_TAKES = 0.25, 0.25
#: Largest answer that is read, in bytes: a context of text is a fraction of it.
_LARGEST = 4 << 20
#: Share of the newest measurement in a mean that forgets.
_NEWEST = 0.2


class Pool:
    """The pool at *url*, which serves *models*, each with its context in tokens."""

    def __init__(
        self, session: aiohttp.ClientSession, url: str, models: Mapping[str, int], *, on_site: bool, price: float
    ) -> None:
        self._session, self._url, self._models = session, url.rstrip("/"), dict(models)
        self._on_site, self._price = on_site, price
        self.breaker = Breaker()
        self._down = asyncio.Event()
        self._rtt = self._first = 0.0
        self._looked = -float("inf")

    def state(self, now: float) -> PoolState:
        """What `decide` is told of the pool at *now*, on the clock of `time.monotonic`."""
        return PoolState(
            models=tuple(self._models),
            healthy=self.breaker.lets(now),
            on_site=self._on_site,
            first_token=self._first,
            price=self._price,
            age=now - self._looked,
        )

    def path(self) -> tuple[Hop, ...]:
        """The way there as one hop, measured from end to end."""
        return (Hop(rtt=self._rtt),)

    async def watch(self) -> None:
        """Look at the pool until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_EVERY)

    async def look(self) -> None:
        """Ask whether it is ready, and how long the way takes."""
        began = time.monotonic()
        try:
            timeout = aiohttp.ClientTimeout(total=LOOK_TAKES)
            async with self._session.get(f"{self._url}/v2/health/ready", timeout=timeout) as answer:
                ready = answer.status == 200
        except (aiohttp.ClientError, TimeoutError):
            ready = False
        now = self._looked = time.monotonic()
        self.breaker.looked(now, ready=ready)
        if ready:
            self._rtt = _mean(self._rtt, now - began)
            self._down.clear()
        else:
            self._down.set()

    @asynccontextmanager
    async def ask(self, asked: Asked, identity: str, prompt_tokens: int, patience: float) -> AsyncIterator[Reply]:
        """The pool's answer, put in OpenAI's form; it must be there after *patience* seconds. Raises `FailedError`."""
        began = time.monotonic()
        self.breaker.begun()
        try:
            body = _question(asked, self._length(asked, prompt_tokens))
            status, said = await while_up(self._post(asked.model, body), self._down, patience)
            if status == 400:  # its own fault, whoever answers
                self.breaker.succeeded()
                yield _reply(400, json.dumps(error_body(_why(said), 400)).encode(), "application/json")
                return
            if status != 200:
                raise FailedError(f"the pool answers {status}")
            written = _written(said, asked, prompt_tokens, self._length(asked, prompt_tokens))
        except FailedError:
            self.breaker.failed(time.monotonic())
            raise
        except aiohttp.ClientConnectorError as refused:
            self.breaker.failed(time.monotonic(), certain=True)
            raise FailedError(f"the pool takes no connection: {refused.strerror or type(refused).__name__}") from None
        except (aiohttp.ClientError, TimeoutError) as error:
            self.breaker.failed(time.monotonic())
            raise FailedError(f"the pool gives no answer: {type(error).__name__}") from None
        except asyncio.CancelledError:
            self.breaker.left()
            raise
        self.breaker.succeeded()
        self._first = _mean(self._first, time.monotonic() - began)
        if asked.stream:
            yield _reply(200, answer_events(written, asked, identity, asked.model), "text/event-stream")
        else:
            yield _reply(
                200, json.dumps(answer_body(written, asked, identity, asked.model)).encode(), "application/json"
            )

    def _length(self, asked: Asked, prompt_tokens: int) -> int:
        left = max(self._models[asked.model] - prompt_tokens, 0)
        return left if asked.length is None else min(asked.length, left)

    async def _post(self, model: str, body: dict[str, Any]) -> tuple[int, object]:
        async with self._session.post(
            f"{self._url}/v2/models/{model}/infer", json=body, timeout=aiohttp.ClientTimeout(total=None)
        ) as answer:
            data = await answer.content.read(_LARGEST + 1)
            while len(data) <= _LARGEST and (more := await answer.content.read(_LARGEST + 1 - len(data))):
                data += more
        if len(data) > _LARGEST:
            raise FailedError("the pool's answer has no end")
        try:
            return answer.status, json.loads(data)
        except (ValueError, RecursionError):
            return answer.status, None


def _question(asked: Asked, length: int) -> dict[str, Any]:
    """A request of one text, by the names of Triton's own language models."""
    inputs = [_tensor("text_input", "BYTES", asked.text), _tensor("max_tokens", "INT32", length)]
    inputs.append(_tensor("temperature", "FP32", asked.temperature))
    return {"inputs": [*inputs, _tensor("seed", "INT64", abs(asked.seed))]}


def _tensor(name: str, kind: str, value: object) -> dict[str, Any]:
    return {"name": name, "datatype": kind, "shape": [1, 1], "data": [value]}


def _written(said: object, asked: Asked, prompt_tokens: int, length: int) -> Written:
    """The answer that *said* is. Raises `FailedError` for what is none, and for another model's."""
    if not isinstance(said, dict) or not isinstance(said.get("outputs"), list):
        raise FailedError("the pool's answer is none")
    if said.get("model_name") != asked.model:
        raise FailedError(f"the pool answers for another model, {str(said.get('model_name'))[:60]}")
    outputs = {output.get("name"): output.get("data") for output in said["outputs"] if isinstance(output, dict)}
    text, tokens = outputs.get("text_output"), outputs.get("tokens")
    if not (isinstance(text, list) and len(text) == 1 and isinstance(text[0], str) and isinstance(tokens, list)):
        raise FailedError("the pool's answer has no text")
    whole, cut = len(tokens) < length, text[0]
    for word in asked.stop:
        before, found, _ = cut.partition(word)
        whole, cut = whole or bool(found), before
    return Written(cut, prompt_tokens, len(tokens), whole)


def _why(said: object) -> str:
    return str(said.get("error"))[:300] if isinstance(said, dict) else "the pool refuses the request"


def _reply(status: int, data: bytes, kind: str) -> Reply:
    async def pieces() -> AsyncIterator[bytes]:
        yield data

    return Reply(status, kind, pieces)


def _mean(before: float, newest: float) -> float:
    """The mean that forgets; the first measurement is its own."""
    return newest if before == 0 else before + _NEWEST * (newest - before)
