"""HTTP: the bytes on the wire.

There is no router and no chain of middleware: one handler makes an `Asked` of a request, has it answered by `Front`
and sends what comes back.

Upstream: staging/src/k8s.io/apiserver/pkg/server/secure_serving.go, endpoints/handlers/responsewriters/writers.go.
"""

import asyncio
import socket
import ssl
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any

from aiohttp import web
from multidict import CIMultiDict

from pykubelet.api.errors import BadRequest
from pykubelet.apiserver.filters import limits
from pykubelet.apiserver.filters.chain import HandlerChain, ProxiedRequest, ServerRequest, WatchResponse, error_response
from pykubelet.apiserver.handlers.responsewriters import JSON, HttpResponse, accepts_gzip, error_reply, warning_headers
from pykubelet.apiserver.request import ApiRequest
from pykubelet.httpserver import server
from pykubelet.httpserver.request_target import text_of
from pykubelet.httpserver.server import BodyTooLarge, BodyUnreadable

Connect = Callable[[ApiRequest, str, web.BaseRequest], Awaitable[web.StreamResponse]]
"""Answers a request by passing it on: gets the call, the rest of its path, and the request as it came."""

# Upstream's threshold and level: below it, compressing costs more than it saves.
_GZIP_BYTES = 128 * 1024
_GZIP_LEVEL = 1
_GZIP_WINDOW = 31
_CACHE_CONTROL = "no-cache, private"
# How long requests under way may take when the server stops.
STOP_SECONDS = 5.0
_LIMITS = server.ConnectionLimits(
    line_bytes=limits.MAX_LINE_BYTES,
    field_bytes=limits.MAX_LINE_BYTES,
    headers=limits.MAX_HEADERS,
    idle_seconds=limits.IDLE_SECONDS,
    stop_seconds=STOP_SECONDS,
)


class ApiHttpServer:
    """The server's HTTP side; `serving` runs it."""

    def __init__(
        self, front: HandlerChain, *, connect: Mapping[tuple[str, str], Connect], new_id: Callable[[], str]
    ) -> None:
        self._front, self._connect, self._new_id = front, connect, new_id
        self._long: set[asyncio.Task[Any]] = set()
        self._under_way = 0
        self._stopping = False
        self._idle = asyncio.Event()

    @asynccontextmanager
    async def serving(self, listener: socket.socket, tls: ssl.SSLContext) -> AsyncIterator[None]:
        """Serves a socket as long as the context lasts.

        At the end watches are ended, requests under way are answered, then connections are closed.
        """
        async with server.serving(listener, tls, self.respond, limits=_LIMITS, refuse=_not_http) as site:
            yield
            await site.stop()
            await self._drained()

    async def _drained(self) -> None:
        """Waits until watches are ended and requests under way are answered, but not for ever."""
        self._stopping = True
        for task in self._long:
            task.cancel()
        if self._under_way:
            with suppress(TimeoutError):
                async with asyncio.timeout(STOP_SECONDS):
                    await self._idle.wait()

    async def respond(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answers one request."""
        self._under_way += 1
        try:
            return await self._respond(request)
        finally:
            self._under_way -= 1
            if self._stopping and not self._under_way:
                self._idle.set()

    async def _respond(self, request: web.BaseRequest) -> web.StreamResponse:
        headers = _readable(request.headers)
        asked = ServerRequest(
            request.method,
            request.raw_path,
            headers,
            server.client_certificate(request),
            request.remote or "",
            lambda: read_body(request),
            headers.get("Audit-ID", "")[:64] or self._new_id(),
        )
        outcome, exchange = await self._front.answer(asked)
        if type(outcome) is HttpResponse:
            return await _sent(await _response(outcome, asked), request)
        code = 500
        task = asyncio.current_task()
        assert task is not None
        self._long.add(task)
        try:
            if isinstance(outcome, WatchResponse):
                response = await self._watch(outcome, request, asked, lambda count: self._front.sent(exchange, count))
            else:
                assert isinstance(outcome, ProxiedRequest)
                response = await self._connected(outcome, request, asked)
            code = response.status
        finally:
            self._long.discard(task)
            self._front.long_ended(asked, exchange, code)
        return response

    async def _connected(
        self, connection: ProxiedRequest, request: web.BaseRequest, asked: ServerRequest
    ) -> web.StreamResponse:
        call = connection.call
        connect = self._connect[call.served.resource.group_resource, call.subresource]
        try:
            return await connect(call, connection.rest, request)
        except Exception as error:  # noqa: BLE001  whatever it is, the client gets a Status
            return await _response(error_response(error, asked), asked)

    async def _watch(
        self, watch: WatchResponse, request: web.BaseRequest, asked: ServerRequest, sent: Callable[[int], None]
    ) -> web.StreamResponse:
        warnings = warning_headers(watch.stream.warnings)
        response = web.StreamResponse(headers=_headers(HttpResponse(200, b"", JSON, warnings), asked))
        try:
            await response.prepare(request)
            async with aclosing(watch.stream.batches) as batches:
                async for batch in batches:
                    if batch:
                        await _write(response, watch.lines(batch))
                        sent(len(batch))
        except ConnectionError:
            response.force_close()
        except TimeoutError:
            server.cut_off(request)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self._stopping or task is None or task.uncancel():
                raise
        return response


def _not_http() -> web.StreamResponse:
    reply = error_reply(BadRequest("the request is not valid HTTP, or its headers are too large"), "", {}, "")
    headers = {"Content-Type": JSON, "Server": server.SERVER}
    return web.Response(status=reply.code, body=reply.body, headers=headers)


def _headers(reply: HttpResponse, asked: ServerRequest) -> CIMultiDict[str]:
    headers = CIMultiDict({"Audit-Id": asked.id, "Cache-Control": _CACHE_CONTROL, "Server": server.SERVER})
    if reply.content_type:
        headers["Content-Type"] = reply.content_type
    for name, value in reply.headers:
        if name == "Cache-Control":
            headers[name] = value
        else:
            headers.add(name, value)
    return headers


async def _response(reply: HttpResponse, asked: ServerRequest) -> web.Response:
    headers = _headers(reply, asked)
    body = reply.body
    if len(body) > _GZIP_BYTES and accepts_gzip(asked.headers.get("Accept-Encoding", "")):
        headers["Content-Encoding"] = "gzip"
        headers.add("Vary", "Accept-Encoding")
        # The loop goes on meanwhile: zlib lets go of the interpreter.
        body = await asyncio.to_thread(_gzipped, body)
    return web.Response(status=reply.code, body=body, headers=headers)


async def _sent(response: web.Response, request: web.BaseRequest) -> web.StreamResponse:
    """The response; a large one is sent in pieces, so that a client that takes none of it is noticed."""
    body = response.body
    if not isinstance(body, bytes) or len(body) <= server.PIECE_BYTES:
        return response
    streamed = web.StreamResponse(status=response.status, headers=response.headers)
    streamed.content_length = len(body)
    await streamed.prepare(request)
    try:
        await _write(streamed, body)
    except TimeoutError:
        server.cut_off(request)
    return streamed


async def _write(response: web.StreamResponse, data: bytes) -> None:
    await server.write(response, data, stalled_seconds=limits.STALLED_SECONDS)


def _gzipped(body: bytes) -> bytes:
    compressor = zlib.compressobj(_GZIP_LEVEL, wbits=_GZIP_WINDOW)
    return compressor.compress(body) + compressor.flush()


def _readable(headers: Mapping[str, str]) -> Mapping[str, str]:
    """The headers as text that can be written again, into answers and the audit log."""
    if all(map(str.isascii, headers.values())):
        return headers
    return CIMultiDict((name, text_of(value)) for name, value in headers.items())


async def read_body(request: web.BaseRequest) -> bytes:
    """The body of a request, up to the limit."""
    try:
        return await server.read_body(request, limits.MAX_BODY_BYTES)
    except BodyTooLarge:
        raise limits.too_large() from None
    except BodyUnreadable as error:
        raise BadRequest("the body of the request could not be read") from error
