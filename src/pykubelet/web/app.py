"""HTTP: the bytes on the wire between a browser and the page.

There is no router and no chain of middleware: one handler makes an `Asked` of a request, has it answered by `Page` and
sends what comes back. The socket is on loopback, so there is no TLS (docs/decisions/0008).
"""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import hdrs, web
from multidict import CIMultiDict

from pykubelet.aio import http_serving
from pykubelet.web.guard import HEADERS, Caller
from pykubelet.web.page import Asked, Page
from pykubelet.web.replies import Flow, Reply, text

# How long requests under way may take when the program stops.
_STOP_SECONDS = 1.0
_LIMITS = http_serving.Limits(
    line_bytes=16 * 1024, field_bytes=16 * 1024, headers=64, idle_seconds=60.0, stop_seconds=_STOP_SECONDS
)
# A browser that takes nothing for so long is cut off, so that what it holds is given back.
_STALLED_SECONDS = 20.0


def listen(port: int) -> socket.socket:
    """A socket on loopback; any free port if this one is taken."""
    try:
        return socket.create_server(("127.0.0.1", port))
    except OSError:
        if not port:
            raise
        return socket.create_server(("127.0.0.1", 0))


class App:
    """The HTTP side of the page; `serving` runs it."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._long: set[asyncio.Task[Any]] = set()

    @asynccontextmanager
    async def serving(self, listener: socket.socket) -> AsyncIterator[None]:
        """Serves a socket as long as the context lasts; at its end, whatever is connected is cut off."""
        async with http_serving.serving(listener, None, self.respond, limits=_LIMITS, refuse=_not_http):
            try:
                yield
            finally:
                for task in self._long:
                    task.cancel()

    async def respond(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answers one request."""
        outcome = await self._page.answer(_asked(request))
        if isinstance(outcome, Reply):
            return _response(outcome)
        task = asyncio.current_task()
        assert task is not None
        self._long.add(task)
        try:
            return await _send(outcome, request)
        finally:
            self._long.discard(task)


def _asked(request: web.BaseRequest) -> Asked:
    headers = request.headers
    caller = Caller(
        headers.get(hdrs.HOST, ""), "; ".join(headers.getall(hdrs.COOKIE, ())), headers.get("Sec-Fetch-Site", "")
    )
    return Asked(request.method, request.raw_path, caller)


def _headers(content_type: str, more: tuple[tuple[str, str], ...] = ()) -> CIMultiDict[str]:
    return CIMultiDict([("Content-Type", content_type), ("Server", http_serving.SERVER), *HEADERS, *more])


def _response(reply: Reply) -> web.Response:
    return web.Response(status=reply.code, body=reply.body, headers=_headers(reply.content_type, reply.headers))


def _not_http() -> web.StreamResponse:
    return _response(text(400, "this is no request"))


async def _send(flow: Flow, request: web.BaseRequest) -> web.StreamResponse:
    response = web.StreamResponse(headers=_headers(flow.content_type))

    async def write(data: bytes) -> None:
        await http_serving.write(response, data, stalled_seconds=_STALLED_SECONDS)

    try:
        await response.prepare(request)
        if request.method != hdrs.METH_HEAD:
            await flow.copy(write)
    except (ConnectionError, FileNotFoundError):
        # The browser has left, or the log has gone.
        response.force_close()
    except TimeoutError:
        http_serving.cut_off(request)
    return response
