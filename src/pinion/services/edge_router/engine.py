"""The Pi's own engine, a server of OpenAI's protocol on this host: llama-server, or onnx-model-server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp

from pinion.services.edge_router.openai import END, Asked
from pinion.services.edge_router.place import CutOffError, FailedError, Reply, while_up

#: Answers that say nothing of the request, so that another place may still answer it.
_FAILED = frozenset({429, 500, 502, 503, 504})
#: Seconds that a question of the router's own may take, and how many in a row may go unanswered before those who wait are sent elsewhere.
_SOON, _MISSED = 2.0, 3


class Engine:
    """The engine at *url*. *healthy* is what its last look said, or the last request.

    Whoever waits for an answer waits as long as it takes, while looks are answered: a prompt of a thousand tokens takes a Pi a minute.
    """

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session, self._url = session, url.rstrip("/")
        self._counts = True
        self._down, self._missed = asyncio.Event(), 0
        self.healthy = True

    async def look(self) -> None:
        """Ask whether it serves; `healthy` says so then."""
        try:
            async with self._session.get(f"{self._url}/health", timeout=aiohttp.ClientTimeout(total=_SOON)) as answer:
                self.healthy = answer.status == 200
            self._missed = 0
            self._down.clear()
        except (aiohttp.ClientError, TimeoutError):
            self.healthy, self._missed = False, self._missed + 1
            if self._missed >= _MISSED:
                self._down.set()

    async def tokens(self, asked: Asked) -> int:
        """Length of the prompt of *asked* in tokens, by the model's own tokenizer; where that cannot be asked, at most so many."""
        text = asked.text
        most = len(text.encode(errors="replace"))
        if not self.healthy or not self._counts:
            return most
        try:
            if asked.endpoint == "chat/completions":
                text = str((await self._told("/apply-template", {"messages": asked.body["messages"]}))["prompt"])
            found = (await self._told("/tokenize", {"content": text, "add_special": True, "parse_special": True}))[
                "tokens"
            ]
        except (aiohttp.ClientError, TimeoutError, KeyError, ValueError, TypeError):
            return most
        return len(found) if isinstance(found, list) else most

    async def _told(self, path: str, body: dict[str, object]) -> dict[str, object]:
        timeout = aiohttp.ClientTimeout(total=_SOON)
        async with self._session.post(f"{self._url}{path}", json=body, timeout=timeout) as answer:
            if answer.status == 404:  # an engine without these questions
                self._counts = False
            answer.raise_for_status()
            said = await answer.json()
            if not isinstance(said, dict):
                raise TypeError("no object")
            return said

    @asynccontextmanager
    async def ask(self, asked: Asked) -> AsyncIterator[Reply]:
        """The engine's own answer, as it is."""
        asking = self._session.post(
            f"{self._url}/v1/{asked.endpoint}", json=asked.body, timeout=aiohttp.ClientTimeout(total=None)
        )
        try:
            async with await while_up(asking, self._down) as answer:
                if answer.status in _FAILED:
                    raise FailedError(f"the engine answers {answer.status}")
                streamed = answer.content_type == "text/event-stream"
                first = await while_up(answer.content.readany() if streamed else answer.read(), self._down)
                if not first or (not streamed and not _is_json(first)):
                    raise FailedError("the engine's answer is cut off")

                async def pieces() -> AsyncIterator[bytes]:
                    async for piece in self._streamed(first, answer.content) if streamed else _one(first):
                        yield piece

                yield Reply(answer.status, answer.content_type, pieces)
        except (aiohttp.ClientError, TimeoutError) as error:
            self.healthy = False
            raise FailedError(f"the engine does not answer: {type(error).__name__}") from None

    async def _streamed(self, first: bytes, rest: aiohttp.StreamReader) -> AsyncIterator[bytes]:
        """A stream of events, which must end as such."""
        last = first
        yield first
        try:
            while piece := await while_up(rest.readany(), self._down):
                last = (last + piece)[-len(END) :]
                yield piece
        except (aiohttp.ClientError, TimeoutError, FailedError):
            raise CutOffError("the engine's answer was cut off") from None
        if END.strip() not in last:
            raise CutOffError("the engine's answer was cut off")


async def _one(piece: bytes) -> AsyncIterator[bytes]:
    yield piece


def _is_json(data: bytes) -> bool:
    try:
        return isinstance(json.loads(data), dict)
    except ValueError:
        return False
