"""Connections that are taken away from HTTP: WebSockets, and raw ones for SPDY.

In: a request that was answered with an `Upgrade`. Out: nothing more over HTTP; the connection ends with the session.

Upstream: staging/src/k8s.io/apimachinery/pkg/util/httpstream/{spdy/upgrade,wsstream/conn}.go
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from aiohttp import WSMsgType, web

from pykubelet.aio.http_serving import AlreadyAnswered, take_over
from pykubelet.aio.log import get_logger
from pykubelet.nodeapi.front import Upgrade
from pykubelet.nodeapi.streaming import port_forward, remote_command
from pykubelet.nodeapi.streaming.channels import ChannelProtocol
from pykubelet.nodeapi.streaming.link import MessageBytes
from pykubelet.nodeapi.streaming.negotiate import SPDY, Carrier
from pykubelet.nodeapi.streaming.sessions import CommandSession
from pykubelet.runtime.spdy_connection import ByteLink

log = get_logger(__name__)

# A kubelet's streamingConnectionIdleTimeout.
IDLE_SECONDS = 4 * 3600.0
# After our last word the client has time to close: what it still sends must not cut off what it has not read yet.
_LINGER_SECONDS = 5.0
_CHUNK_BYTES = 64 * 1024

Touch = Callable[[], None]


async def serve_upgrade(upgrade: Upgrade, request: web.BaseRequest) -> web.StreamResponse:
    """Speak with the client until the session is over, or nothing has been said for too long."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(IDLE_SECONDS) as idle:

            def touch() -> None:
                idle.reschedule(loop.time() + IDLE_SECONDS)

            if upgrade.agreement.carrier is Carrier.SPDY:
                return await _serve_raw(upgrade, request, touch)
            return await _serve_web_socket(upgrade, request, touch)
    except TimeoutError:
        log.info("nothing was said for too long, connection ended", target=request.raw_path[:200])
        return AlreadyAnswered(request)


class _WebSocketLink:
    """MessageLink."""

    def __init__(self, web_socket: web.WebSocketResponse, touch: Touch) -> None:
        self._web_socket, self._touch = web_socket, touch

    async def receive(self) -> bytes | None:
        message = await self._web_socket.receive()
        self._touch()
        if message.type is WSMsgType.BINARY:
            binary: bytes = message.data
            return binary
        if message.type is WSMsgType.TEXT:
            return str(message.data).encode()
        return None

    async def send(self, message: bytes, *, is_text: bool = False) -> None:
        self._touch()
        if is_text:
            await self._web_socket.send_str(message.decode())
        else:
            await self._web_socket.send_bytes(message)


async def _serve_web_socket(upgrade: Upgrade, request: web.BaseRequest, touch: Touch) -> web.StreamResponse:
    session, agreement = upgrade
    protocols = (agreement.protocol,) if agreement.protocol else ()
    web_socket = web.WebSocketResponse(protocols=protocols, compress=False, timeout=_LINGER_SECONDS)
    try:
        await web_socket.prepare(request)
    except web.HTTPException as error:
        # The headers of the handshake are wrong.
        return web.Response(status=error.status, text=error.text)
    link = _WebSocketLink(web_socket, touch)
    try:
        if isinstance(session, CommandSession):
            await remote_command.serve_channels(session, link, agreement)
        elif agreement.carrier is Carrier.TUNNEL:
            await port_forward.SpdyForward(session, MessageBytes(link)).serve()
        else:
            await port_forward.serve_channels(session, link, ChannelProtocol(agreement.protocol))
    except ConnectionError as error:
        log.debug("caller is gone", why=str(error))
    await web_socket.close()
    return web_socket


class _RawLink:
    """ByteLink."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, touch: Touch) -> None:
        self._reader, self._writer, self._touch = reader, writer, touch

    async def read(self) -> bytes:
        data = await self._reader.read(_CHUNK_BYTES)
        self._touch()
        return data

    async def write(self, data: bytes) -> None:
        self._touch()
        self._writer.write(data)
        await self._writer.drain()


async def _serve_raw(upgrade: Upgrade, request: web.BaseRequest, touch: Touch) -> web.StreamResponse:
    session, agreement = upgrade
    reader, writer = take_over(request)
    link = _RawLink(reader, writer, touch)
    lines = [
        "HTTP/1.1 101 Switching Protocols",
        "Connection: Upgrade",
        f"Upgrade: {SPDY}",
        f"X-Stream-Protocol-Version: {agreement.protocol}",
    ]
    try:
        await link.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        if isinstance(session, CommandSession):
            await remote_command.serve_spdy(session, link, agreement)
        else:
            await port_forward.SpdyForward(session, link).serve()
        await _linger(link)
    except ConnectionError as error:
        log.debug("caller is gone", why=str(error))
    return AlreadyAnswered(request)


async def _linger(link: ByteLink) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(_LINGER_SECONDS):
            while await link.read():
                pass
