"""OpenAI's protocol as far as a router reads it: requests, errors, and answers that are made here. Pure.

What is not read here is handed on to an engine as it came, so a client may use whatever the engine knows.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from pinion.routing import Hint, Kind, Mode, Privacy

Endpoint = Literal["completions", "chat/completions"]
#: OpenAI's default length of a completion (API reference); a chat's answer goes on to the end of the context.
DEFAULT_LENGTH = 16
#: Keys that the pool's protocol has a word for, or that change nothing of an answer; a request with others is the engine's alone.
_COMMON = frozenset({
    "model", "prompt", "messages", "max_tokens", "max_completion_tokens", "temperature", "seed", "stop", "stream", "stream_options", "user",
})  # fmt: skip


class RefusedError(Exception):
    """A request that is not answered: the HTTP *status*, and in OpenAI's form the key (*param*) and *code*."""

    def __init__(self, message: str, param: str | None = None, *, status: int = 400, code: str | None = None) -> None:
        super().__init__(message)
        self.status, self.param, self.code = status, param, code


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a client may add under `pinion`: where and how its answer is to be made.

    *budget_ms* is the time until the first token is due, *budget* the most that the answer may cost in the site's currency.
    """

    mode: Mode | None = None
    hint: Hint = Hint.NONE
    privacy: Privacy = Privacy.ANY
    kind: Kind = Kind.CHAT
    budget_ms: float | None = None
    budget: float | None = None
    consent: bool = True

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - pydantic reads it from the class


_WISHES: TypeAdapter[Wishes] = TypeAdapter(Wishes)


@dataclass(frozen=True, slots=True)
class Asked:
    """One request. *body* is what an engine is given: as it came, without what is ours.

    Attributes:
        prompt: the text of a completion; empty for a chat.
        messages: role and text of each of a chat.
        length: longest answer in tokens; None: to the end of the context.
        pool_can: whether the pool's protocol can say all of it.
    """

    endpoint: Endpoint
    body: dict[str, Any]
    model: str
    prompt: str
    messages: tuple[tuple[str, str], ...]
    length: int | None
    temperature: float
    seed: int
    stop: tuple[str, ...]
    stream: bool
    usage_wanted: bool
    pool_can: bool
    wishes: Wishes = field(default_factory=Wishes)

    @property
    def text(self) -> str:
        """What the pool goes on with. A chat is told in lines, as nobody here knows the template of the pool's model."""
        if self.endpoint == "completions":
            return self.prompt
        return "".join(f"{role}: {said}\n" for role, said in self.messages) + "assistant:"


def read(data: bytes, endpoint: Endpoint, default_model: str) -> Asked:
    """The request that *data* holds; *default_model* is meant where it names none. Raises `RefusedError`."""
    try:
        body = json.loads(data)
    except (ValueError, RecursionError) as error:  # also what is no UTF-8
        raise RefusedError(f"the body is no JSON: {str(error)[:100]}") from None
    if not isinstance(body, dict):
        raise RefusedError("the body must be an object")
    wishes = _wishes(body.pop("pinion", {}))
    chat = endpoint == "chat/completions"
    messages = _messages(body.get("messages")) if chat else ()
    plain = all(isinstance(said, str) for _, said in messages)
    prompt = "" if chat else _text(body, "prompt")
    limit = "max_completion_tokens" if body.get("max_completion_tokens") is not None else "max_tokens"
    length = _number(body, limit, None if chat else DEFAULT_LENGTH, 0, 1 << 30)
    return Asked(
        endpoint=endpoint,
        body=body,
        model=_text(body, "model") if body.get("model") else default_model,
        prompt=prompt,
        messages=tuple((role, said if isinstance(said, str) else "") for role, said in messages),
        length=None if length is None else int(length),
        temperature=float(_number(body, "temperature", 1.0, 0, 2) or 0),
        seed=int(_number(body, "seed", 0, -(1 << 63), (1 << 63) - 1) or 0),
        stop=_stop(body.get("stop")),
        stream=_flag(body, "stream"),
        usage_wanted=_usage_wanted(body.get("stream_options")),
        pool_can=plain and _COMMON.issuperset(key for key, value in body.items() if value is not None),
        wishes=wishes,
    )


def error_body(message: str, status: int, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    """An error in OpenAI's form."""
    kinds = {
        400: "invalid_request_error",
        404: "invalid_request_error",
        413: "invalid_request_error",
        429: "rate_limit_error",
    }
    return {"error": {"message": message, "type": kinds.get(status, "server_error"), "param": param, "code": code}}


@dataclass(frozen=True, slots=True)
class Written:
    """An answer that is made here, since its server does not speak OpenAI's protocol."""

    text: str
    prompt_tokens: int
    answer_tokens: int
    whole: bool  #: whether it ended by itself, and not at its longest


def answer_body(written: Written, asked: Asked, identity: str, model: str) -> dict[str, Any]:
    """*written* as OpenAI's answer to *asked*, in one piece."""
    finish = "stop" if written.whole else "length"
    choice: dict[str, Any] = {"index": 0, "finish_reason": finish, "logprobs": None}
    if asked.endpoint == "completions":
        choice["text"] = written.text
    else:
        choice["message"] = {"role": "assistant", "content": written.text, "refusal": None}
    kind = "text_completion" if asked.endpoint == "completions" else "chat.completion"
    return _head(identity, kind, model) | {"choices": [choice], "usage": _usage(written)}


def answer_events(written: Written, asked: Asked, identity: str, model: str) -> bytes:
    """*written* as OpenAI's stream of events: the text, how it ended, and the end of the stream."""
    kind = "text_completion" if asked.endpoint == "completions" else "chat.completion.chunk"
    head, finish = _head(identity, kind, model), "stop" if written.whole else "length"
    if asked.endpoint == "completions":
        pieces: list[dict[str, Any]] = [{"text": written.text}, {"text": ""}]
    else:
        pieces = [{"delta": {"role": "assistant", "content": written.text}}, {"delta": {}}]
    events = [
        head | {"choices": [{"index": 0, "logprobs": None, "finish_reason": ended, **piece}]}
        for piece, ended in zip(pieces, (None, finish), strict=True)
    ]
    if asked.usage_wanted:
        events.append(head | {"choices": [], "usage": _usage(written)})
    return b"".join(event(item) for item in events) + END


#: The last event of a stream; one without it was cut off.
END = b"data: [DONE]\n\n"


def event(body: Mapping[str, Any]) -> bytes:
    """One event of a stream."""
    return b"data: " + json.dumps(body, separators=(",", ":")).encode() + b"\n\n"


def _head(identity: str, kind: str, model: str) -> dict[str, Any]:
    return {"id": identity, "object": kind, "created": int(time.time()), "model": model}


def _usage(written: Written) -> dict[str, int]:
    prompt, answer = written.prompt_tokens, written.answer_tokens
    return {"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": prompt + answer}


def _wishes(stated: object) -> Wishes:
    try:
        return _WISHES.validate_python(stated)
    except ValidationError as wrong:
        first = wrong.errors(include_url=False)[0]
        key = ".".join(("pinion", *map(str, first["loc"])))
        raise RefusedError(f"{key}: {first['msg']}; there are {', '.join(Wishes.__slots__)}", key) from None


def _messages(stated: object) -> Sequence[tuple[str, object]]:
    if not isinstance(stated, list) or not stated:
        raise RefusedError("messages must be a list of at least one message", "messages")
    found = []
    for index, message in enumerate(stated):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise RefusedError("each message must be an object with a role", f"messages.{index}")
        found.append((message["role"], message.get("content")))
    return found


def _stop(stated: object) -> tuple[str, ...]:
    if stated is None:
        return ()
    words = [stated] if isinstance(stated, str) else stated
    if not isinstance(words, list) or len(words) > 4 or not all(isinstance(word, str) and word for word in words):
        raise RefusedError("stop must be a string or a list of at most four", "stop")
    return tuple(words)


def _text(body: Mapping[str, object], key: str) -> str:
    value = body.get(key)
    if not isinstance(value, str):
        raise RefusedError(f"{key} must be a string", key)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise RefusedError(f"{key} has half a surrogate pair, which is no text", key) from None
    return value


def _usage_wanted(stated: object) -> bool:
    if stated is not None and not isinstance(stated, dict):
        raise RefusedError("stream_options must be an object", "stream_options")
    return bool(stated and stated.get("include_usage"))


def _flag(body: Mapping[str, object], key: str) -> bool:
    value = body.get(key)
    if value is not None and not isinstance(value, bool):
        raise RefusedError(f"{key} must be true or false", key)
    return bool(value)


def _number(body: Mapping[str, object], key: str, default: float | None, low: float, high: float) -> float | None:
    value = body.get(key)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise RefusedError(f"{key} must be a number from {low:g} to {high:g}", key)
    return value
