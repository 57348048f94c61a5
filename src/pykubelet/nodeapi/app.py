"""HTTP: the bytes on the wire.

There is no router and no chain of middleware: one handler makes an `Asked` of a request, has it answered by `Front`
and sends what comes back.

Upstream: ListenAndServeKubeletServer in pkg/kubelet/server/server.go
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import hdrs, web
from multidict import CIMultiDict

from pykubelet.aio import http_serving
from pykubelet.aio.http_serving import BodyTooLarge, BodyUnreadable
from pykubelet.aio.log import get_logger
from pykubelet.nodeapi.front import Asked, Front, Upgrade
from pykubelet.nodeapi.logs import LogOutput
from pykubelet.nodeapi.replies import TEXT, Refused, Reply, text_reply
from pykubelet.nodeapi.stats.requests import RequestCounts
from pykubelet.nodeapi.streaming.negotiate import Offer, listed
from pykubelet.nodeapi.upgrades import serve_upgrade

log = get_logger(__name__)

# How long requests under way may take when the node stops.
_STOP_SECONDS = 2.0
_LIMITS = http_serving.Limits(
    # A command line, which comes in the query, may be long; a service account's token has about a kilobyte.
    line_bytes=1024 * 1024,
    field_bytes=64 * 1024,
    headers=128,
    # Go's IdleTimeout in a kubelet.
    idle_seconds=90.0,
    stop_seconds=_STOP_SECONDS,
)
_MAX_BODY_BYTES = 64 * 1024
# A reader that takes nothing for so long is cut off, so that what it holds is given back.
_STALLED_SECONDS = 30.0


class App:
    """The HTTP side of the node's API; `serving` runs it."""

    def __init__(self, front: Front, counts: RequestCounts) -> None:
        self._front, self._counts = front, counts
        self._long: set[asyncio.Task[Any]] = set()

    @asynccontextmanager
    async def serving(self, listener: socket.socket, tls: ssl.SSLContext) -> AsyncIterator[None]:
        """Serves a socket as long as the context lasts; at its end, whatever is connected is cut off."""
        async with http_serving.serving(listener, tls, self.respond, limits=_LIMITS, refuse=_not_http):
            try:
                yield
            finally:
                await self._cut_off()

    async def _cut_off(self) -> None:
        """Ends what would go on, and gives it time to let go of what it opened."""
        long = tuple(self._long)
        for task in long:
            task.cancel()
        if long:
            await asyncio.wait(long, timeout=_STOP_SECONDS)

    async def respond(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answers one request."""
        with self._counts.counting(request.method, request.raw_path.partition("?")[0]):
            outcome = await self._front.answer(_asked(request))
            if isinstance(outcome, Reply):
                return _response(outcome)
            task = asyncio.current_task()
            assert task is not None
            self._long.add(task)
            try:
                if isinstance(outcome, Upgrade):
                    return await serve_upgrade(outcome, request)
                return await _send_log(outcome, request)
            finally:
                self._long.discard(task)


def _not_http() -> web.StreamResponse:
    return _response(text_reply(400, "400 Bad Request"))


def _asked(request: web.BaseRequest) -> Asked:
    headers = request.headers
    offer = Offer(
        headers.get(hdrs.CONNECTION, ""),
        headers.get(hdrs.UPGRADE, ""),
        listed(headers.getall(hdrs.SEC_WEBSOCKET_PROTOCOL, ())),
        listed(headers.getall("X-Stream-Protocol-Version", ())),
    )
    return Asked(
        request.method,
        request.raw_path,
        headers.get(hdrs.AUTHORIZATION, ""),
        http_serving.client_certificate(request),
        offer,
        request.content_type == "application/x-www-form-urlencoded",
        lambda: _read_body(request),
    )


async def _read_body(request: web.BaseRequest) -> bytes:
    try:
        return await http_serving.read_body(request, _MAX_BODY_BYTES)
    except BodyTooLarge:
        raise Refused(413, "the body of the request is too large") from None
    except BodyUnreadable as error:
        raise Refused(400, "the body of the request could not be read") from error


def _headers(reply: Reply) -> CIMultiDict[str]:
    return CIMultiDict([("Content-Type", reply.content_type), ("Server", http_serving.SERVER), *reply.headers])


def _response(reply: Reply) -> web.Response:
    return web.Response(status=reply.code, body=reply.body, headers=_headers(reply))


async def _send_log(output: LogOutput, request: web.BaseRequest) -> web.StreamResponse:
    response = web.StreamResponse(headers=_headers(Reply(200, b"", TEXT)))

    async def write(data: bytes) -> None:
        await http_serving.write(response, data, stalled_seconds=_STALLED_SECONDS)

    try:
        # The client hears at once that there is a log, though it may be long until something is written to it.
        await response.prepare(request)
        await output.copy(write)
    except FileNotFoundError:
        log.info("log is gone", target=request.raw_path[:200])
        response.force_close()
    except ConnectionError:
        response.force_close()
    except TimeoutError:
        http_serving.cut_off(request)
    return response
