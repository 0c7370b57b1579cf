"""The application: OpenAI's endpoints, where each request is decided, asked of a place, and decided again when that place fails."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field

import aiohttp
from aiohttp import web

from pinion.routing import Decision, PiState, Reason, Request, Route, RoutingPolicy, State, decide
from pinion.routing.document import PolicyRefusedError, PolicyStore
from pinion.routing.record import Record
from pinion.services.edge_router import openai
from pinion.services.edge_router.engine import Engine
from pinion.services.edge_router.kserve import Pool
from pinion.services.edge_router.measuring import Kernel, Slots
from pinion.services.edge_router.openai import Asked, Endpoint, RefusedError
from pinion.services.edge_router.place import CutOffError, FailedError, Reply
from pinion.services.edge_router.settings import Settings
from pinion.services.edge_router.telling import Telling

_log = logging.getLogger(__name__)
#: Largest body that is read, in bytes: far more than a context.
_LARGEST = 1 << 20
#: Seconds between looks at the host, the engine and the policy's file.
_LOOK = 0.5
#: Tokens that an answer without a stated length is taken to have, where it has to be foretold.
_USUAL_LENGTH = 256
_PI, _POOL = "pi", "pool"


@dataclass(slots=True)
class _Course:
    """One request on its way: what it is, when it came, which places have failed it, and *why* in their words."""

    identity: str
    asked: Asked
    request: Request
    came: float
    failed: set[str] = field(default_factory=set)
    why: list[str] = field(default_factory=list)


class Router:
    """The router of one Pi. `application` serves it; it looks after itself while that runs."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._slots, self._kernel, self._telling = Slots(settings.engine.slots), Kernel(), Telling()
        self._policies = PolicyStore(settings.kept, settings.key, settings.planned.site)
        self._offered: bytes | None = None
        self._engine: Engine
        self._pool: Pool | None = None

    def application(self) -> web.Application:
        """The routes, and what runs beside them."""
        made = web.Application(client_max_size=_LARGEST, middlewares=[_in_openais_form])
        made.router.add_post("/v1/completions", self._completions)
        made.router.add_post("/v1/chat/completions", self._chat)
        made.router.add_get("/v1/models", self._models)
        made.router.add_get("/health", self._health)
        made.router.add_get("/metrics", self._metrics)
        made.router.add_get("/pinion/decisions/{identity}", self._decision)
        made.cleanup_ctx.append(self._beside)
        return made

    async def _beside(self, _: web.Application) -> AsyncIterator[None]:
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as session:
            self._engine = Engine(session, self._settings.engine.url)
            tasks = [asyncio.create_task(self._look())]
            if (stated := self._settings.pool) is not None:
                self._pool = Pool(session, stated.url, stated.models, on_site=stated.on_site, price=stated.price)
                tasks.append(asyncio.create_task(self._pool.watch()))
            yield
            for task in tasks:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    # --- what is known --------------------------------------------------------------------------------------------------

    @property
    def _policy(self) -> RoutingPolicy:
        """The last good policy that was published; until there is one, what follows from the site file."""
        return self._policies.policy or self._settings.planned

    async def _look(self) -> None:
        while True:
            self._take_policy()
            self._kernel.look(engine_idle=self._slots.free == self._settings.engine.slots)
            await self._engine.look()
            await asyncio.sleep(_LOOK)

    def _take_policy(self) -> None:
        """Take what lies in the policy's file, when it is another than before."""
        try:
            found = self._settings.policy.read_bytes()
        except OSError:
            return
        if found == self._offered:
            return
        self._offered = found
        try:
            taken = self._policies.offer(found)
        except (PolicyRefusedError, OSError) as refused:
            _log.warning("%s is refused, version %d stays: %s", self._settings.policy, self._policy.version, refused)
        else:
            _log.info("policy version %d", taken.version)

    def _state(self, failed: set[str], now: float) -> State:
        """What `decide` is told; a place that has *failed* this request is none."""
        engine, kernel = self._settings.engine, self._kernel
        pool = self._pool if _POOL not in failed else None
        pi = PiState(
            models={engine.model: engine.speed} if self._engine.healthy and _PI not in failed else {},
            free_slots=self._slots.free,
            queue_wait=self._slots.wait(),
            cpu=kernel.cpu,
            temperature=kernel.temperature,
            throttled=kernel.throttled,
            age=now - kernel.at,
        )
        return State(pi=pi, pool=pool.state(now) if pool else None, path=pool.path() if pool else ())

    def _known_models(self) -> list[str]:
        pool = self._settings.pool
        return list(dict.fromkeys([self._settings.engine.model, *(pool.models if pool else ())]))

    # --- requests -------------------------------------------------------------------------------------------------------

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, "completions")

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, "chat/completions")

    async def _answer(self, request: web.Request, endpoint: Endpoint) -> web.StreamResponse:
        came = time.monotonic()
        asked = openai.read(await request.read(), endpoint, self._settings.engine.model)
        if asked.model not in self._known_models():
            names = ", ".join(self._known_models())
            raise RefusedError(
                f"there is no model '{asked.model[:80]}'; there are {names}",
                "model",
                status=404,
                code="model_not_found",
            )
        wishes, length = asked.wishes, asked.length
        described = Request(
            prompt_tokens=await self._engine.tokens(asked),
            answer_tokens=_USUAL_LENGTH if length is None else length,
            model=asked.model,
            kind=wishes.kind,
            hint=wishes.hint,
            privacy=wishes.privacy,
            mode=wishes.mode,
            deadline=None if wishes.budget_ms is None else wishes.budget_ms / 1000,
            consent=wishes.consent,
            budget=wishes.budget,
        )
        course = _Course(f"req-{secrets.token_hex(12)}", asked, described, came)
        if not asked.pool_can:
            course.failed.add(_POOL)
        while True:
            decision = self._decided(course)
            if decision.route is Route.NOWHERE:
                raise _refusal(decision, course.why)
            async with AsyncExitStack() as stack:
                try:
                    place, reply = await self._asked_of(decision.route, course, stack)
                except FailedError as why:
                    _log.warning("%s: %s", course.identity, why)
                    continue
                return await self._given(request, course, decision, place, reply)

    def _decided(self, course: _Course) -> Decision:
        state, policy = self._state(course.failed, time.monotonic()), self._policy
        decision = decide(course.request, state, policy)
        self._telling.decided(course.identity, Record(course.request, state, policy, decision))
        return decision

    async def _asked_of(self, route: Route, course: _Course, stack: AsyncExitStack) -> tuple[str, Reply]:
        """The reply of the place of *route*, or of the first of both that gives one. Raises `FailedError` when none does."""
        if route is not Route.BOTH:
            place = _PI if route is Route.PI else _POOL
            return place, await self._begun(place, course, stack)
        own = {place: AsyncExitStack() for place in (_PI, _POOL)}
        tasks = {asyncio.create_task(self._begun(place, course, own[place])): place for place in own}
        waiting, why = set(tasks), FailedError("neither was asked")
        try:
            while waiting:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    if (error := task.exception()) is None:
                        await stack.enter_async_context(own.pop(tasks[task]))
                        return tasks[task], task.result()
                    if not isinstance(error, FailedError):
                        raise error
                    why = error
            raise why
        finally:
            for task in waiting:
                task.cancel()
                with suppress(asyncio.CancelledError, FailedError):
                    await task
            for rest in own.values():
                await rest.aclose()

    async def _begun(self, place: str, course: _Course, stack: AsyncExitStack) -> Reply:
        """The reply of *place*, which goes on as long as *stack* is open. Raises `FailedError`; the place is then out for this request."""
        asked, policy = course.asked, self._policy
        try:
            if place == _POOL and self._pool is not None:
                asking = self._pool.ask(asked, course.identity, course.request.prompt_tokens, policy.pool_timeout)
                return await stack.enter_async_context(asking)
            if not self._slots.free and self._slots.waiting >= self._settings.queue:
                raise FailedError("the queue is full")
            speed = self._settings.engine.speed
            took = course.request.prompt_tokens / speed.prefill + course.request.answer_tokens / speed.decode
            stack.enter_context(self._slots.taken(took))
            return await stack.enter_async_context(self._engine.ask(asked))
        except FailedError as failed:
            course.failed.add(place)
            course.why.append(str(failed))
            self._telling.failed(place)
            raise

    async def _given(
        self, request: web.Request, course: _Course, decision: Decision, place: str, reply: Reply
    ) -> web.StreamResponse:
        """Hand *reply* on as it comes."""
        degraded = decision.degraded or bool(course.failed - ({_POOL} if not course.asked.pool_can else set()))
        self._telling.answered(place, reply.status, time.monotonic() - course.came, degraded=degraded)
        headers = {
            "Content-Type": reply.content_type,
            "X-Pinion-Route": place,
            "X-Pinion-Reason": ",".join(decision.reasons),
            "X-Pinion-Decision": course.identity,
        }
        if degraded:
            headers["X-Pinion-Degraded"] = "true"
        response = web.StreamResponse(status=reply.status, headers=headers)
        response.enable_chunked_encoding()
        await response.prepare(request)
        try:
            async for piece in reply.pieces():
                await response.write(piece)
        except CutOffError as cut:
            _log.warning("%s: %s", course.identity, cut)
            await response.write(openai.event(openai.error_body(str(cut), 502, code="cut_off")))
        await response.write_eof()
        return response

    # --- what it tells --------------------------------------------------------------------------------------------------

    async def _models(self, _: web.Request) -> web.Response:
        listed = [{"id": name, "object": "model", "created": 0, "owned_by": "pinion"} for name in self._known_models()]
        return web.json_response({"object": "list", "data": listed})

    async def _health(self, _: web.Request) -> web.Response:
        pool = self._pool is not None and not self._pool.breaker.open
        told = {"engine": self._engine.healthy, "pool": pool, "policy": self._policy.version}
        up = self._engine.healthy or pool
        return web.json_response({"status": "ok" if up else "down", **told}, status=200 if up else 503)

    async def _metrics(self, _: web.Request) -> web.Response:
        text = self._telling.text(
            pool=self._pool is not None and not self._pool.breaker.open,
            waiting=self._slots.waiting,
            version=self._policy.version,
        )
        return web.Response(body=text, headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    async def _decision(self, request: web.Request) -> web.Response:
        record = self._telling.record(request.match_info["identity"])
        if record is None:
            raise RefusedError("no such decision is remembered", status=404)
        return web.Response(text=record.line(), content_type="application/json")


def _refusal(decision: Decision, failures: Sequence[str]) -> RefusedError:
    """Why nobody answers, as the client is told: what places that were asked have said, then the reasons."""
    told = "; ".join((*failures, ", ".join(decision.reasons)))
    if Reason.BEYOND_CONTEXT in decision.reasons:
        return RefusedError(
            f"prompt and answer are longer than the context ({told})", "max_tokens", code="context_length_exceeded"
        )
    return RefusedError(f"no place can answer now ({told})", status=503, code=decision.reasons[0])


@web.middleware
async def _in_openais_form(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Errors as OpenAI tells them."""
    try:
        return await handler(request)
    except RefusedError as error:
        status, body = error.status, openai.error_body(str(error), error.status, error.param, error.code)
    except web.HTTPException as error:
        status, body = error.status, openai.error_body(error.reason, error.status)
    return web.json_response(body, status=status, headers={"Retry-After": "1"} if status == 503 else None)
