"""A WebSocket to an API server: messages both ways, for exec and port-forward.

In: where to, with what to show. Out: a connection that speaks one of the protocols asked for, or the answer that says why
there is none, which the HTTP library itself throws away.

Upstream: staging/src/k8s.io/client-go/transport/websocket/roundtripper.go.
"""

import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import aiohttp
from yarl import URL

MAX_MESSAGE_BYTES = 16 << 20
"""Nodes send pieces of some 32 kB."""
_LINGER_SECONDS = 2.0
# An example out of RFC 6455: nobody will speak over the connection for which it is shown.
_ANY_KEY = "dGhlIHNhbXBsZSBub25jZQ=="
_MOST_WORDS = 64 * 1024


@dataclass(frozen=True, slots=True)
class Way:
    """Where to connect, and with what to show; the headers hold secrets."""

    url: URL
    tls: ssl.SSLContext | None
    server_name: str
    """What the server's certificate must name, if not its host."""
    headers: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class NoUpgrade:
    """An answer that is none to a WebSocket."""

    code: int
    body: bytes


class WebSocket:
    """One connection; messages are bytes. ConnectionError if the other side is gone."""

    def __init__(self, socket: "aiohttp.ClientWebSocketResponse[bool]") -> None:
        self._socket = socket
        self.protocol = socket.protocol or ""

    async def receive(self) -> bytes | None:
        """A message; None when the other side has closed the connection."""
        message = await self._socket.receive()
        if message.type is aiohttp.WSMsgType.BINARY:
            return bytes(message.data)
        if message.type is aiohttp.WSMsgType.TEXT:
            return str(message.data).encode()
        return None

    async def send(self, message: bytes) -> None:
        """Send a message; waits while the other side is slow."""
        await self._socket.send_bytes(message)

    async def close(self) -> None:
        await self._socket.close()


async def open_web_socket(session: aiohttp.ClientSession, way: Way, protocols: Sequence[str]) -> WebSocket | NoUpgrade:
    """A connection, or the answer that says why not."""
    timeout = aiohttp.ClientWSTimeout(ws_close=_LINGER_SECONDS)
    try:
        socket = await session.ws_connect(
            way.url,
            protocols=protocols,
            headers=dict(way.headers),
            timeout=timeout,
            max_msg_size=MAX_MESSAGE_BYTES,
            ssl=way.tls or True,
            server_hostname=way.server_name or None,
        )
    except aiohttp.WSServerHandshakeError as error:
        return await _why_not(session, way, error.status)
    return WebSocket(socket)


async def _why_not(session: aiohttp.ClientSession, way: Way, code: int) -> NoUpgrade:
    """What the server says to the same request, once more."""
    headers = {
        **way.headers,
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": _ANY_KEY,
    }
    asking = session.get(
        way.url,
        headers=headers,
        allow_redirects=False,
        ssl=way.tls or True,
        server_hostname=way.server_name or None,
    )
    async with asking as answer:
        if answer.status < 400:
            return NoUpgrade(code, b"")
        return NoUpgrade(answer.status, await answer.content.read(_MOST_WORDS))
