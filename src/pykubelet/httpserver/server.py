"""The door to HTTP for whoever serves: listening, bodies, slow readers, connections taken over.

In: a socket, a TLS context (none on loopback), limits, and a function that answers a request. It has no router and no middleware; what is
asked and what is answered is known to those who use it.

Upstream: Go's net/http, whose place it takes.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_exceptions import HttpProcessingError

from pykubelet.aio.log import get_logger

log = get_logger(__name__)

SERVER = "pykubelet"
"""What an answer's `Server` says: without a name of its own the HTTP library would tell everybody its version."""

# More at once would be taken by TLS whole, and nobody would notice that the reader takes none of it.
PIECE_BYTES = 256 * 1024

Respond = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
Refuse = Callable[[], web.StreamResponse]


class ConnectionLimits(NamedTuple):
    """What one connection may take."""

    line_bytes: int
    field_bytes: int
    headers: int
    idle_seconds: float
    """How long it may stay without a request."""
    stop_seconds: float
    """How long a request may still take when the server stops."""


class BodyTooLarge(Exception):
    """The body of a request is beyond the limit."""


class BodyUnreadable(Exception):
    """The body of a request is not as HTTP wants it, or its sender is gone."""


@asynccontextmanager
async def serving(
    listener: socket.socket,
    tls: ssl.SSLContext | None,
    respond: Respond,
    *,
    limits: ConnectionLimits,
    refuse: Refuse,
) -> AsyncIterator[web.BaseSite]:
    """Serves a socket as long as the context lasts, and then cuts off who is still connected.

    `refuse` answers what is not HTTP, or not HTTP within the limits. Whoever wants to end in order stops the site,
    which takes no new connections from then on, and lets the requests under way come to their end.
    """
    server = _Server(respond, limits, refuse)
    runner = web.ServerRunner(server, shutdown_timeout=limits.stop_seconds)
    await runner.setup()
    try:
        site = web.SockSite(runner, listener, ssl_context=tls)
        await site.start()
        yield site
    finally:
        await runner.cleanup()


class _Server(web.Server):
    def __init__(self, respond: Respond, limits: ConnectionLimits, refuse: Refuse) -> None:
        super().__init__(
            respond,
            handler_cancellation=True,
            access_log=None,
            auto_decompress=False,
            keepalive_timeout=limits.idle_seconds,
            max_line_size=limits.line_bytes,
            max_field_size=limits.field_bytes,
            max_headers=limits.headers,
        )
        self._refuse = refuse

    def __call__(self) -> web.RequestHandler:
        protocol = _Protocol(self, loop=self._loop, **self._kwargs)
        protocol.refuse = self._refuse
        return protocol


class _Protocol(web.RequestHandler):
    """A connection whose broken requests are answered by the server's owner."""

    __slots__ = ("refuse",)
    refuse: Refuse

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answers what is not HTTP, or not HTTP within the limits; everything else never gets here."""
        log.debug("not HTTP", source=request.remote, code=status, reason=message or type(exc).__name__)
        response = self.refuse()
        response.force_close()
        return response


def client_certificate(request: web.BaseRequest) -> bytes | None:
    """The client's certificate in DER, which TLS has checked."""
    transport = request.transport
    if transport is None or not transport.get_extra_info("peercert"):
        return None
    found: bytes | None = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
    return found


async def read_body(request: web.BaseRequest, most_bytes: int) -> bytes:
    """The body of a request; BodyTooLarge as soon as it is known to be, or BodyUnreadable."""
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


async def write(response: web.StreamResponse, data: bytes, *, stalled_seconds: float) -> None:
    """Sends a part of an answer; TimeoutError if the reader takes nothing of it for so long."""
    for start in range(0, len(data), PIECE_BYTES):
        async with asyncio.timeout(stalled_seconds):
            await response.write(memoryview(data)[start : start + PIECE_BYTES])


def cut_off(request: web.BaseRequest) -> None:
    """Ends a connection at once: what waits to be sent is given up, where closing would wait for it to be taken."""
    if request.transport is not None:
        request.transport.abort()


def hijack(request: web.BaseRequest) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """The connection of a request without HTTP; when all is said its owner returns `AlreadyAnswered`."""
    transport = request.transport
    if transport is None:
        raise ConnectionResetError("the caller is gone")
    reader = asyncio.StreamReader()
    protocol = _TakenOver(reader, transport.get_protocol())
    transport.set_protocol(protocol)
    protocol.connection_made(transport)
    return reader, asyncio.StreamWriter(transport, protocol, reader, asyncio.get_running_loop())


class _TakenOver(asyncio.StreamReaderProtocol):
    """Reads the caller's bytes as they come; the HTTP library still hears of the end, to forget the connection."""

    def __init__(self, reader: asyncio.StreamReader, before: asyncio.BaseProtocol) -> None:
        super().__init__(reader)
        self._before = before

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._before.connection_lost(exc)


class HijackedResponse(web.StreamResponse):
    """What the HTTP library is given back for a connection that was taken over: nothing is left to send."""

    def __init__(self, request: web.BaseRequest, *, code: int = 200) -> None:
        super().__init__(status=code)
        self.force_close()
        if request.transport is not None:
            request.transport.close()

    async def prepare(self, _request: web.BaseRequest) -> AbstractStreamWriter | None:
        return None

    async def write_eof(self, _data: bytes | bytearray | memoryview = b"") -> None:
        return
