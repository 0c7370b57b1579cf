"""A pool of KServe's protocol that does on demand what pools do: goes silent, is slow, fails, lies.

It answers a prompt with its words backwards.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys

from aiohttp import web

WAYS = ("well", "slow", "frozen", "error", "busy", "garbage", "cut", "other-model", "no-text", "refuses", "endless")


class PoolDouble:
    """*way*: how it behaves now, one of `WAYS`. *asked*: how many inferences were begun, *left* how many a client has left."""

    def __init__(self) -> None:
        self.way = "well"
        self.asked = self.left = self.at_once = 0

    def application(self) -> web.Application:
        made = web.Application()
        made.router.add_get("/v2/health/ready", self._ready)
        made.router.add_post("/v2/models/{model}/infer", self._infer)
        made.router.add_post("/way/{way}", self._set)
        made.router.add_get("/count", self._count)
        return made

    async def _set(self, request: web.Request) -> web.Response:
        self.way, self.asked, self.left = request.match_info["way"], 0, 0
        return web.Response()

    async def _count(self, _: web.Request) -> web.Response:
        return web.json_response({"asked": self.asked, "left": self.left})

    async def _ready(self, _: web.Request) -> web.Response:
        if self.way == "frozen":
            await asyncio.sleep(60)
        return web.Response()

    async def _infer(self, request: web.Request) -> web.StreamResponse:
        self.asked += 1
        body, model = await request.json(), request.match_info["model"]
        inputs = {item["name"]: item["data"][0] for item in body["inputs"]}
        try:
            await asyncio.sleep({"slow": 2.0, "frozen": 60.0}.get(self.way, 0))
        except asyncio.CancelledError:
            self.left += 1
            raise
        if self.way == "cut" and request.transport is not None:
            request.transport.close()
        plain = {
            "error": (500, b""),
            "busy": (429, b""),
            "garbage": (200, b"\xff\xfe<html>"),
            "refuses": (400, b'{"error": "no"}'),
        }
        if self.way in plain:
            status, data = plain[self.way]
            return web.Response(status=status, body=data)
        if self.way == "endless":
            response = web.StreamResponse()
            await response.prepare(request)
            while True:
                await response.write(b" " * (1 << 20))
        words = str(inputs["text_input"]).split()[::-1][: int(inputs["max_tokens"])]
        outputs = [
            {"name": "text_output", "data": [" ".join(words)]},
            {"name": "tokens", "data": list(range(len(words)))},
        ]
        said = {
            "model_name": "other" if self.way == "other-model" else model,
            "outputs": outputs[self.way == "no-text" :],
        }
        return web.Response(body=json.dumps(said).encode(), content_type="application/json")


if __name__ == "__main__":
    listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
    web.run_app(PoolDouble().application(), sock=listener, print=None, handler_cancellation=True)
