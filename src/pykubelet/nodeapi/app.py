"""HTTP: connections, TLS and the bytes on the wire.

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
from aiohttp.http_exceptions import HttpProcessingError
from multidict import CIMultiDict

from pykubelet.aio.log import get_logger
from pykubelet.nodeapi.front import Asked, Front, Upgrade
from pykubelet.nodeapi.logs import LogOutput
from pykubelet.nodeapi.replies import TEXT, Refused, Reply, text_reply
from pykubelet.nodeapi.stats.requests import RequestCounts
from pykubelet.nodeapi.streaming.negotiate import Offer, listed
from pykubelet.nodeapi.upgrades import serve_upgrade

log = get_logger(__name__)

# Go's IdleTimeout in a kubelet.
_IDLE_SECONDS = 90.0
# A command line, which comes in the query, may be long; a service account's token has about a kilobyte.
_MAX_LINE_BYTES = 1024 * 1024
_MAX_FIELD_BYTES = 64 * 1024
_MAX_HEADERS = 128
_MAX_BODY_BYTES = 64 * 1024
# A reader that takes nothing for so long is cut off, so that what it holds is given back.
_STALLED_SECONDS = 30.0
# How long requests under way may take when the node stops.
_STOP_SECONDS = 2.0


class App:
    """The HTTP side of the node's API; `serving` runs it."""

    def __init__(self, front: Front, counts: RequestCounts) -> None:
        self._front, self._counts = front, counts
        self._long: set[asyncio.Task[Any]] = set()

    @asynccontextmanager
    async def serving(self, listener: socket.socket, tls: ssl.SSLContext) -> AsyncIterator[None]:
        """Serves a socket as long as the context lasts; at its end, whatever is connected is cut off."""
        server = _Server(
            self.respond,
            handler_cancellation=True,
            access_log=None,
            auto_decompress=False,
            keepalive_timeout=_IDLE_SECONDS,
            max_line_size=_MAX_LINE_BYTES,
            max_field_size=_MAX_FIELD_BYTES,
            max_headers=_MAX_HEADERS,
        )
        runner = web.ServerRunner(server, shutdown_timeout=_STOP_SECONDS)
        await runner.setup()
        try:
            await web.SockSite(runner, listener, ssl_context=tls).start()
            yield
        finally:
            await self._cut_off()
            await runner.cleanup()

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


class _Protocol(web.RequestHandler):
    """A connection whose broken requests are answered in a word."""

    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answers what is not HTTP, or not HTTP within the limits; everything else never gets here."""
        log.debug("not HTTP", source=request.remote, code=status, reason=message or type(exc).__name__)
        response = _response(text_reply(400, "400 Bad Request"))
        response.force_close()
        return response


class _Server(web.Server):
    def __call__(self) -> web.RequestHandler:
        return _Protocol(self, loop=self._loop, **self._kwargs)


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
        _certificate(request),
        offer,
        request.content_type == "application/x-www-form-urlencoded",
        lambda: _read_body(request),
    )


def _certificate(request: web.BaseRequest) -> bytes | None:
    """The client's certificate, which TLS has checked."""
    transport = request.transport
    if transport is None or not transport.get_extra_info("peercert"):
        return None
    found: bytes | None = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
    return found


async def _read_body(request: web.BaseRequest) -> bytes:
    body = bytearray()
    try:
        while chunk := await request.content.readany():
            body += chunk
            if len(body) > _MAX_BODY_BYTES:
                raise Refused(413, "the body of the request is too large")
    except (HttpProcessingError, web.RequestPayloadError) as error:
        raise Refused(400, "the body of the request could not be read") from error
    return bytes(body)


def _headers(reply: Reply) -> CIMultiDict[str]:
    # Without a name of its own the HTTP library would tell everybody its version.
    return CIMultiDict([("Content-Type", reply.content_type), ("Server", "pykubelet"), *reply.headers])


def _response(reply: Reply) -> web.Response:
    return web.Response(status=reply.code, body=reply.body, headers=_headers(reply))


async def _send_log(output: LogOutput, request: web.BaseRequest) -> web.StreamResponse:
    response = web.StreamResponse(headers=_headers(Reply(200, b"", TEXT)))

    async def write(data: bytes) -> None:
        async with asyncio.timeout(_STALLED_SECONDS):
            await response.write(data)

    try:
        # The client hears at once that there is a log, though it may be long until something is written to it.
        await response.prepare(request)
        await output.copy(write)
    except FileNotFoundError:
        log.info("log is gone", target=request.raw_path[:200])
        response.force_close()
    except (ConnectionError, TimeoutError):
        response.force_close()
    return response
