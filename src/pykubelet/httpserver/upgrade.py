"""Connections after HTTP: hijacked ones that carry bytes, and WebSockets that carry messages.

Upstream: staging/src/k8s.io/apimachinery/pkg/util/httpstream/spdy/upgrade.go,
staging/src/k8s.io/apimachinery/pkg/util/httpstream/wsstream/conn.go,
staging/src/k8s.io/apimachinery/pkg/util/httpstream/wsstream/stream.go
"""

import asyncio
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from aiohttp import ClientResponse, WSMsgType, web
from aiohttp.abc import AbstractStreamWriter

from pykubelet.aio.tasks import background_task
from pykubelet.httpserver.response import Write

_CHUNK_BYTES = 64 * 1024
_BASE64 = "base64.binary.k8s.io"
READER_PROTOCOLS = ("binary.k8s.io", _BASE64)
"""The subprotocols for a stream of bytes; without one the messages are binary."""
_LINGER_SECONDS = 5.0
_MAX_RECEIVED_BYTES = 64 * 1024

Touch = Callable[[], None]
"""Called for everything that is sent or received."""


def hijack(request: web.BaseRequest) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Take the connection of a request away from HTTP; afterwards its handler returns a `HijackedResponse`."""
    if request.transport is None:
        raise ConnectionResetError("the client has disconnected")
    return _streams(request.transport, asyncio.StreamReader())


def hijack_client(response: ClientResponse) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Take the connection of a response with status 101 away from the HTTP client; the response is closed afterwards."""
    connection = response.connection
    if connection is None or connection.transport is None or connection.protocol is None:
        raise ConnectionResetError("the server has disconnected")
    reader = asyncio.StreamReader()
    # Takes what has already arrived after the head.
    connection.protocol.set_parser(_Collector(reader), None)
    assert isinstance(connection.transport, asyncio.Transport)
    return _streams(connection.transport, reader)


def _streams(
    transport: asyncio.Transport, reader: asyncio.StreamReader
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    protocol = _HijackedProtocol(reader, transport.get_protocol())
    transport.set_protocol(protocol)
    protocol.connection_made(transport)
    return reader, asyncio.StreamWriter(transport, protocol, reader, asyncio.get_running_loop())


class _Collector:
    """Passes bytes on, in the place of aiohttp's parser of WebSockets."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        self._reader.feed_data(data)
        return False, b""

    def feed_eof(self) -> None:
        self._reader.feed_eof()


class _HijackedProtocol(asyncio.StreamReaderProtocol):
    """Passes bytes to a reader; aiohttp's own protocol still learns that the connection is closed."""

    def __init__(self, reader: asyncio.StreamReader, http: asyncio.BaseProtocol) -> None:
        super().__init__(reader)
        self._http = http

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._http.connection_lost(exc)


class HijackedResponse(web.StreamResponse):
    """Returned to aiohttp for a hijacked connection: nothing is left to send."""

    def __init__(self, request: web.BaseRequest, *, code: int = 200) -> None:
        super().__init__(status=code)
        self.force_close()
        if request.transport is not None:
            request.transport.close()

    async def prepare(self, _request: web.BaseRequest) -> AbstractStreamWriter | None:
        return None

    async def write_eof(self, _data: bytes | bytearray | memoryview = b"") -> None:
        return


class HijackedLink:
    """The bytes of a hijacked connection. Implements ByteLink."""

    def __init__(self, request: web.BaseRequest, touch: Touch) -> None:
        self._reader, self._writer = hijack(request)
        self._touch = touch

    async def read(self) -> bytes:
        data = await self._reader.read(_CHUNK_BYTES)
        self._touch()
        return data

    async def write(self, data: bytes) -> None:
        self._touch()
        self._writer.write(data)
        await self._writer.drain()

    async def linger(self, seconds: float) -> None:
        """Read until the client closes, so that data it still sends does not reset what it has not read yet."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while await self.read():
                    pass


class WebSocketLink:
    """The messages of a WebSocket. Implements MessageLink."""

    def __init__(self, web_socket: web.WebSocketResponse, touch: Touch) -> None:
        self._web_socket, self._touch = web_socket, touch

    async def receive(self) -> bytes | None:
        """One message; None when the client has closed the connection."""
        message = await self._web_socket.receive()
        self._touch()
        if message.type is WSMsgType.BINARY:
            binary: bytes = message.data
            return binary
        if message.type is WSMsgType.TEXT:
            return str(message.data).encode()
        return None

    async def send(self, message: bytes, *, is_text: bool = False) -> None:
        """Send one message; ConnectionError if the client is gone."""
        self._touch()
        if is_text:
            await self._web_socket.send_str(message.decode())
        else:
            await self._web_socket.send_bytes(message)


def is_web_socket(headers: Mapping[str, str]) -> bool:
    """Whether the client requests a WebSocket."""
    is_upgrade = "upgrade" in headers.get("Connection", "").lower()
    return is_upgrade and headers.get("Upgrade", "").lower() == "websocket"


class OneWayWebSocket(NamedTuple):
    """A WebSocket whose messages the server writes as they arise."""

    copy: Callable[[Write], Awaitable[None]]
    """Gets a function that sends one message. The connection is closed when it returns."""
    stalled_seconds: float
    """After how long a client that reads nothing is disconnected."""
    protocols: Sequence[str] | None = None
    """The subprotocols the client may choose from; None: any one, without a meaning."""
    is_binary: bool = False
    """Whether messages without such subprotocols are binary."""

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        """Sends until `copy` returns or the client closes; returns a refusal if the handshake fails."""
        requested = [one.strip() for one in request.headers.get("Sec-WebSocket-Protocol", "").split(",") if one.strip()]
        offered = requested[:1] if self.protocols is None else self.protocols
        chosen = next((one for one in requested if one in offered), "")
        if requested and not chosen:
            known = " ".join(("", *offered))
            text = f"requested protocol(s) are not supported: [{' '.join(requested)}]; supports [{known}]"
            return web.Response(status=403, text=text)
        web_socket = web.WebSocketResponse(
            protocols=[chosen] if chosen else (),
            compress=False,
            timeout=_LINGER_SECONDS,
            max_msg_size=_MAX_RECEIVED_BYTES,
        )
        try:
            await web_socket.prepare(request)
        except web.HTTPException as error:
            # The headers of the handshake are invalid.
            return web.Response(status=error.status, text=error.text)

        with suppress(ConnectionError):
            async with background_task(_ignore_received(web_socket), "received messages"):
                await self.copy(partial(self._send, web_socket, request, chosen))
        await web_socket.close()
        return web_socket

    async def _send(
        self, web_socket: web.WebSocketResponse, request: web.BaseRequest, protocol: str, data: bytes
    ) -> None:
        try:
            async with asyncio.timeout(self.stalled_seconds):
                if self.protocols is None and not self.is_binary:
                    await web_socket.send_str(data.decode())
                elif self.protocols is not None and protocol == _BASE64:
                    await web_socket.send_str(b64encode(data).decode())
                else:
                    await web_socket.send_bytes(data)
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()
            raise ConnectionResetError("the client reads nothing") from None


async def _ignore_received(web_socket: web.WebSocketResponse) -> None:
    """Reads until the client closes, which ends the connection and with it the request."""
    async for _ in web_socket:
        pass
