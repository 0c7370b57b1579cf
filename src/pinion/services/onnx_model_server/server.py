"""The HTTP side: OpenAI's /v1/completions and /v1/models, /health and /metrics, on aiohttp.

Answers are computed in as many threads as there are slots; who finds all taken waits, and who finds the queue full is told so at once
(503, Retry-After). A client that goes away ends its computation at the next token.
"""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from aiohttp import web

from pinion.services.onnx_model_server.engine import Engine, Request, Step
from pinion.services.onnx_model_server.tokenizer import END

#: Longest body that is read, in bytes: far more than a context.
_LARGEST = 1 << 20
#: OpenAI's bounds: completions API reference.
_MOST_LIKELIEST, _HOTTEST, _DEFAULT_LENGTH = 5, 2.0, 16


class BadRequestError(Exception):
    """A request that cannot be answered; *field* is what is wrong with it."""

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


@dataclass
class Counters:
    """What /metrics tells, in llama-server's words where it has them."""

    prompt_tokens: int = 0
    predicted_tokens: int = 0
    predicted_seconds: float = 0.0
    busy: int = 0
    waiting: int = 0
    answers: dict[int, int] = field(default_factory=dict)

    def text(self) -> str:
        """Prometheus' text format."""
        said = [
            ("prompt_tokens_total", "counter", "Tokens of prompts.", self.prompt_tokens),
            ("tokens_predicted_total", "counter", "Tokens of answers.", self.predicted_tokens),
            ("tokens_predicted_seconds_total", "counter", "Time that answers took.", self.predicted_seconds),
            ("requests_processing", "gauge", "Requests that are being answered.", self.busy),
            ("requests_deferred", "gauge", "Requests that wait for a slot.", self.waiting),
        ]
        lines = []
        for name, kind, meaning, value in said:
            lines += [f"# HELP onnx:{name} {meaning}", f"# TYPE onnx:{name} {kind}", f"onnx:{name} {value:.10g}"]
        lines += ["# HELP onnx:responses_total Answers by status.", "# TYPE onnx:responses_total counter"]
        lines += [
            f'onnx:responses_total{{status="{status}"}} {count}' for status, count in sorted(self.answers.items())
        ]
        return "\n".join(lines) + "\n"


class Server:
    """The application around one *engine*."""

    def __init__(self, engine: Engine, slots: int, queue: int) -> None:
        self._engine, self._slots, self._queue = engine, slots, queue
        self._pool = ThreadPoolExecutor(max_workers=slots, thread_name_prefix="slot")
        self.counters = Counters()

    def application(self) -> web.Application:
        """The routes."""
        made = web.Application(client_max_size=_LARGEST, middlewares=[self._counted])
        made.router.add_get("/health", self._health)
        made.router.add_get("/metrics", self._metrics)
        made.router.add_get("/v1/models", self._models)
        made.router.add_post("/v1/completions", self._completions)
        return made

    @web.middleware
    async def _counted(self, request: web.Request, handler: object) -> web.StreamResponse:
        try:
            response: web.StreamResponse = await handler(request)  # type: ignore[operator]
        except BadRequestError as error:
            response = _refusal(400, str(error), error.field)
        except web.HTTPException as error:
            response = _refusal(error.status, error.reason)
        self.counters.answers[response.status] = self.counters.answers.get(response.status, 0) + 1
        return response

    async def _health(self, _: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(
            text=self.counters.text(), content_type="text/plain", headers={"X-Content-Type-Options": "nosniff"}
        )

    async def _models(self, _: web.Request) -> web.Response:
        return web.json_response(
            {"object": "list", "data": [{"id": self._engine.name, "object": "model", "owned_by": "pinion"}]}
        )

    async def _completions(self, request: web.Request) -> web.Response:
        asked, shown = self._asked(await _body(request))
        if self.counters.busy + self.counters.waiting >= self._slots + self._queue:
            refused = _refusal(503, "all slots are taken and the queue is full")
            refused.headers["Retry-After"] = "1"
            return refused
        began = time.monotonic()
        steps = await self._computed(asked)
        self.counters.predicted_seconds += time.monotonic() - began
        self.counters.prompt_tokens += len(asked.prompt)
        self.counters.predicted_tokens += len(steps)
        return web.json_response(self._answer(asked, steps, shown))

    async def _computed(self, asked: Request) -> list[Step]:
        """The answer, from a slot; the computation ends early when whoever waits for it is cancelled."""
        gone = threading.Event()
        self.counters.waiting += 1
        loop = asyncio.get_running_loop()

        def started() -> None:
            self.counters.waiting -= 1
            self.counters.busy += 1

        def work() -> list[Step]:
            if gone.is_set():
                return []
            return self._engine.answer(asked, gone.is_set)

        def slot() -> list[Step]:
            loop.call_soon_threadsafe(started)
            return work()

        future = loop.run_in_executor(self._pool, slot)
        future.add_done_callback(lambda _: self._freed())
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            gone.set()
            raise

    def _freed(self) -> None:
        self.counters.busy -= 1

    def _asked(self, body: dict[str, object]) -> tuple[Request, int | None]:
        """A request in our words, and how many likeliest tokens its answer shows (None: no probabilities)."""
        prompt = body.get("prompt")
        if not isinstance(prompt, str):
            raise BadRequestError("prompt must be a string", "prompt")
        if body.get("stream"):
            raise BadRequestError("this server does not stream", "stream")
        shown = _number(body, "logprobs", None, 0, _MOST_LIKELIEST)
        tokens = self._engine.encode(prompt)
        if len(tokens) >= self._engine.context:
            raise BadRequestError(f"the prompt has {len(tokens)} tokens, the context {self._engine.context}", "prompt")
        made = Request(
            prompt=tokens,
            length=int(_number(body, "max_tokens", _DEFAULT_LENGTH, 0, self._engine.context) or 0),
            temperature=float(_number(body, "temperature", 1.0, 0, _HOTTEST) or 0),
            seed=int(_number(body, "seed", 0, 0, 2**63 - 1) or 0),
            likeliest=int(shown or 0),
        )
        return made, None if shown is None else int(shown)

    def _answer(self, asked: Request, steps: list[Step], shown: int | None) -> dict[str, object]:
        said = [step for step in steps if step.token != END]
        text = self._engine.tokenizer.decode(step.token for step in said)
        choice: dict[str, object] = {
            "index": 0,
            "text": text,
            "finish_reason": "stop" if len(said) < len(steps) else "length",
            # Not OpenAI's: tokens by number, as llama-server gives them.
            "tokens": [step.token for step in said],
            "logprobs": None,
        }
        if shown is not None:
            choice["logprobs"] = {
                "tokens": [self._engine.tokenizer.name(step.token) for step in said],
                "token_logprobs": [step.log_probability for step in said],
                "top_logprobs": [
                    {self._engine.tokenizer.name(token): chance for token, chance in step.likeliest} for step in said
                ],
            }
        usage = {"prompt_tokens": len(asked.prompt), "completion_tokens": len(steps)}
        return {
            "object": "text_completion",
            "model": self._engine.name,
            "choices": [choice],
            "usage": usage | {"total_tokens": sum(usage.values())},
        }


async def _body(request: web.Request) -> dict[str, object]:
    try:
        body = await request.json()
    except ValueError as error:
        raise BadRequestError("the body is no JSON") from error
    if not isinstance(body, dict):
        raise BadRequestError("the body must be an object")
    return body


def _number(body: dict[str, object], name: str, default: float | None, low: float, high: float) -> float | None:
    value = body.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise BadRequestError(f"{name} must be a number from {low:g} to {high:g}", name)
    return value


def _refusal(status: int, message: str, field: str | None = None) -> web.Response:
    """An error in OpenAI's form."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    return web.json_response({"error": {"message": message, "type": kind, "param": field}}, status=status)
