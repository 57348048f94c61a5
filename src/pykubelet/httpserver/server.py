"""The HTTP server of the API server, the kubelet and the page: one handler, no router.

`HttpServer` turns each request into an `HttpRequest`, has the handler answer it and sends the result. Clients that send
slowly, send too much or stop reading are disconnected within the given limits. A stopping server accepts no new
connections, cancels long-running responses and waits for the other ones.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from http import HTTPStatus
from typing import Any, NamedTuple

from aiohttp import hdrs, web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader
from multidict import CIMultiDict, MultiMapping

from pykubelet.aio.log import get_logger
from pykubelet.aio.tasks import background_task
from pykubelet.httpserver.connections import BoundedListener, Connection, ConnectionLimits
from pykubelet.httpserver.request import BodyTooLarge, BodyUnreadable, HttpRequest, text_of
from pykubelet.httpserver.response import HandlerResult, Handover, Headers, HttpResponse, HttpStream

log = get_logger(__name__)

# Without an explicit `Server` header aiohttp would disclose its version.
_SERVER = "pykubelet"
# Larger writes would be buffered by TLS as a whole, and a client that stopped reading would go unnoticed.
_PIECE_BYTES = 256 * 1024


class ServerLimits(NamedTuple):
    """How much a connection may send, and how long it may take."""

    line_bytes: int
    field_bytes: int
    headers: int
    idle_seconds: float
    """How long a connection may stay open without a request."""
    stop_seconds: float
    """How long requests in flight may take once the server stops."""
    stalled_seconds: float
    """After how long a client that reads nothing is disconnected."""
    body_bytes: int = 0
    connections: ConnectionLimits = ConnectionLimits()


class HttpServer:
    """Serves HTTP on a socket."""

    def __init__(
        self,
        handler: Callable[[HttpRequest], Awaitable[HandlerResult]],
        *,
        limits: ServerLimits,
        malformed: HttpResponse,
        headers: Headers = (),
        new_id: Callable[[], str] | None = None,
        accepts: Callable[[str], bool] | None = None,
    ) -> None:
        """`malformed` answers what is not HTTP; `headers` are those of every response, unless it sets them itself.

        With `new_id`, each request has an audit ID, the client's or a new one, which its response repeats.
        With `accepts`, connections from other addresses are closed before TLS.
        """
        self._handler, self._limits, self._malformed, self._new_id = handler, limits, malformed, new_id
        self._accepts = accepts
        self._headers: Mapping[str, str] = {hdrs.SERVER: _SERVER, **dict(headers)}
        self._long_running: set[asyncio.Task[Any]] = set()
        self._in_flight = 0
        self._stopping = False
        self._idle = asyncio.Event()

    @asynccontextmanager
    async def serving(self, listener: socket.socket, tls: ssl.SSLContext | None) -> AsyncIterator[None]:
        """Serve a socket for the duration of the context; without `tls`, in plain text."""
        server = _Server(self, self._limits, self._accepts)
        runner = web.ServerRunner(server, shutdown_timeout=self._limits.stop_seconds)
        await runner.setup()
        try:
            try:
                async with background_task(server.listener.run(listener, tls), "listener"):
                    yield
            finally:
                await self._drain()
        finally:
            await runner.cleanup()

    async def _drain(self) -> None:
        self._stopping = True
        for task in self._long_running:
            task.cancel()
        if self._in_flight:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._limits.stop_seconds):
                    await self._idle.wait()

    async def respond(self, request: web.BaseRequest) -> web.StreamResponse:
        protocol = request.protocol
        assert isinstance(protocol, _Protocol)
        self._in_flight += 1
        protocol.begun()
        try:
            return await self._respond(request, protocol.authenticated)
        finally:
            protocol.ended()
            self._in_flight -= 1
            if self._stopping and not self._in_flight:
                self._idle.set()

    async def _respond(self, request: web.BaseRequest, authenticated: Callable[[], None]) -> web.StreamResponse:
        headers = _readable(request.headers)
        audit_id = "" if self._new_id is None else headers.get("Audit-ID", "")[:64] or self._new_id()
        limit = self._limits.body_bytes
        received = HttpRequest(
            request.method,
            request.raw_path,
            headers,
            _client_certificate(request),
            request.remote or "",
            lambda: read_body(request, limit),
            audit_id,
            authenticated,
        )
        result = await self._handler(received)
        if type(result) is HttpResponse:
            return await self._send(result, request, audit_id)
        assert isinstance(result, HttpStream | Handover)
        return await self._run_long(result, request, audit_id)

    async def _run_long(
        self, result: HttpStream | Handover, request: web.BaseRequest, audit_id: str
    ) -> web.StreamResponse:
        task = asyncio.current_task()
        assert task is not None
        self._long_running.add(task)
        code = 500
        try:
            if isinstance(result, HttpStream):
                response = await self._send_stream(result, request, audit_id)
            else:
                served = await result.serve(request)
                response = await self._send(served, request, audit_id) if isinstance(served, HttpResponse) else served
            code = response.status
        finally:
            self._long_running.discard(task)
            if result.ended is not None:
                result.ended(code)
        return response

    async def _send(self, reply: HttpResponse, request: web.BaseRequest, audit_id: str) -> web.StreamResponse:
        """Send a response; a large one in pieces, so that a client that stopped reading is noticed."""
        headers = self._all_headers(reply.content_type, reply.headers, audit_id)
        if len(reply.body) <= _PIECE_BYTES and reply.parts is None:
            return web.Response(status=reply.code, body=reply.body, headers=headers)
        response = web.StreamResponse(status=reply.code, headers=headers)
        if reply.parts is None:
            response.content_length = len(reply.body)
        await response.prepare(request)
        try:
            await self._write(response, reply.body)
            if reply.parts is not None:
                async with aclosing(reply.parts) as parts:
                    async for part in parts:
                        await self._write(response, part)
        except TimeoutError:
            _disconnect(request)
        except ValueError as error:
            log.error("response broke off", error=error, target=request.raw_path[:200])
            _disconnect(request)
        return response

    async def _send_stream(self, stream: HttpStream, request: web.BaseRequest, audit_id: str) -> web.StreamResponse:
        response = web.StreamResponse(headers=self._all_headers(stream.content_type, stream.headers, audit_id))
        try:
            # Sends the head at once, though it may be long until there is something to write.
            await response.prepare(request)
            if request.method != hdrs.METH_HEAD:
                await stream.copy(lambda data: self._write(response, data))
        except TimeoutError:
            _disconnect(request)
        except ConnectionError:
            response.force_close()
        except FileNotFoundError:
            log.info("file was removed while it was sent", target=request.raw_path[:200])
            response.force_close()
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not (stream.ends_cleanly and self._stopping) or task is None or task.uncancel():
                raise
        return response

    async def _write(self, response: web.StreamResponse, data: bytes) -> None:
        for start in range(0, len(data), _PIECE_BYTES):
            async with asyncio.timeout(self._limits.stalled_seconds):
                await response.write(memoryview(data)[start : start + _PIECE_BYTES])

    def _all_headers(self, content_type: str, more: Headers, audit_id: str) -> CIMultiDict[str]:
        headers = CIMultiDict(self._headers)
        if audit_id:
            headers["Audit-Id"] = audit_id
        if content_type:
            headers[hdrs.CONTENT_TYPE] = content_type
        for name, value in more:
            if name in self._headers:
                headers[name] = value
            else:
                headers.add(name, value)
        return headers

    def malformed_bytes(self) -> bytes:
        """The same response as it is sent."""
        reply = self._malformed
        headers = self._all_headers(reply.content_type, reply.headers, "")
        headers.update({hdrs.CONTENT_LENGTH: str(len(reply.body)), hdrs.CONNECTION: "close"})
        lines = (f"HTTP/1.1 {reply.code} {HTTPStatus(reply.code).phrase}", *map(": ".join, headers.items()))
        return "\r\n".join((*lines, "", "")).encode() + reply.body

    def malformed(self) -> web.StreamResponse:
        """The response to what is not HTTP, or exceeds the limits."""
        reply = self._malformed
        response = web.Response(
            status=reply.code, body=reply.body, headers=self._all_headers(reply.content_type, reply.headers, "")
        )
        response.force_close()
        return response


class _Server(web.Server):
    """The connections of an HttpServer."""

    def __init__(self, owner: HttpServer, limits: ServerLimits, accepts: Callable[[str], bool] | None) -> None:
        super().__init__(
            owner.respond,
            handler_cancellation=True,
            access_log=None,
            auto_decompress=False,
            keepalive_timeout=limits.idle_seconds,
            max_line_size=limits.line_bytes,
            max_field_size=limits.field_bytes,
            max_headers=limits.headers,
        )
        self._owner = owner
        self.listener = BoundedListener(limits.connections, self._new_protocol, accepts=accepts)

    def _new_protocol(self, connection: Connection) -> web.RequestHandler:
        protocol = _Protocol(self, loop=self._loop, **self._kwargs)
        protocol.owner, protocol.listener, protocol.connection = self._owner, self.listener, connection
        return protocol


class _Protocol(web.RequestHandler):
    """One connection; reports what happens on it, and answers malformed requests as the HttpServer says."""

    __slots__ = ("_body", "connection", "listener", "owner")
    owner: HttpServer
    listener: BoundedListener
    connection: Connection
    _body: StreamReader

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._body, self.connection.transport = EMPTY_PAYLOAD, transport
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        self.listener.lost(self.connection)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        requests, is_body = self._request_count, not self._body.is_eof()
        super().data_received(data)
        if self._messages:
            self._body = self._messages[-1][1]
        # What follows an upgrade is no head; aiohttp stops reading when it has too much of it.
        if is_body or self._upgraded or not data:
            return
        if self._request_count > requests and len(self._messages) == 1 and not self._request_in_progress:
            self.listener.head_complete(self.connection)
        elif not self.listener.head_arriving(self.connection, len(data)):
            self._reject()

    def _reject(self) -> None:
        """Answer that the head is too large, unless the client waits for another response."""
        transport = self.transport
        if transport is None:
            return
        if self._request_in_progress or self._messages:
            transport.abort()
        else:
            transport.write(self.owner.malformed_bytes())
            self.force_close()

    def begun(self) -> None:
        """A request of this connection is handled from now on."""
        self.listener.begun(self.connection)
        if self.connection.head_bytes and not self._messages:
            self.listener.head_complete(self.connection)

    def authenticated(self) -> None:
        """The request that is handled comes from a user."""
        self.listener.authenticated(self.connection)

    def ended(self) -> None:
        """The request has been handled."""
        self.listener.ended(self.connection)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        log.debug("malformed request", source=request.remote, code=status, reason=message or type(exc).__name__)
        return self.owner.malformed()


async def read_body(request: web.BaseRequest, most_bytes: int) -> bytes:
    """The body of a request; raises BodyTooLarge as soon as the limit is exceeded, or BodyUnreadable."""
    if (request.content_length or 0) > most_bytes:
        raise BodyTooLarge
    if request.headers.get("Expect", "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0
    body = bytearray()
    try:
        while chunk := await request.content.readany():
            body += chunk
            if len(body) > most_bytes:
                raise BodyTooLarge
    except (HttpProcessingError, web.RequestPayloadError) as error:
        raise BodyUnreadable from error
    return bytes(body)


def _readable(headers: MultiMapping[str]) -> MultiMapping[str]:
    """The headers without lone surrogates, which could not be written to responses and logs."""
    if all(map(str.isascii, headers.values())):
        return headers
    return CIMultiDict((name, text_of(value)) for name, value in headers.items())


def _client_certificate(request: web.BaseRequest) -> bytes | None:
    transport = request.transport
    if transport is None or not transport.get_extra_info("peercert"):
        return None
    found: bytes | None = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
    return found


def _disconnect(request: web.BaseRequest) -> None:
    """Close the connection at once; a normal close would wait for the client to read what is buffered."""
    if request.transport is not None:
        request.transport.abort()
