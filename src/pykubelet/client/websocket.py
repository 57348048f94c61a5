"""A WebSocket to an API server: messages both ways, for exec and port-forward.

In: where to, with what to show. Out: a connection that speaks one of the protocols asked for, or the answer that says why
there is none, which the HTTP library itself throws away.

Upstream: staging/src/k8s.io/client-go/transport/websocket/roundtripper.go.

What passes over the channels of a WebSocket between a command in a container and whoever runs it.

In: bytes for a channel, sizes of a terminal. Out: messages; and from the last message how the command ended.

Upstream: client-go/tools/remotecommand/{websocket,v4,v5}.go.
"""

import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import aiohttp
from yarl import URL

from pykubelet.api.serializer import DecodeError, decode_document, encode

V5 = "v5.channel.k8s.io"
V4 = "v4.channel.k8s.io"
PROTOCOLS = (V5, V4)
"""Only the newer one can tell that there is no more input."""
STDIN, STDOUT, STDERR, ERROR, RESIZE = range(5)
_CLOSE = 255


@dataclass(frozen=True, slots=True)
class ExecOutcome:
    """How a command ended: with an exit code, or not as it should, for a reason."""

    exit_code: int
    failure: str = ""


def message(channel: int, data: bytes) -> bytes:
    """Data for a channel."""
    return bytes([channel]) + data


def size_message(columns: int, rows: int) -> bytes:
    """How large the terminal is."""
    return message(RESIZE, encode({"Width": columns, "Height": rows}))


def end_of_input(protocol: str) -> bytes | None:
    """That no more input comes; None if the protocol has no word for it."""
    return bytes([_CLOSE, STDIN]) if protocol == V5 else None


def read_exec_outcome(data: bytes) -> ExecOutcome:
    """How a command ended, by what came on the error channel."""
    try:
        status = decode_document(data)
    except DecodeError:
        status = None
    if not isinstance(status, dict):
        return ExecOutcome(1, data.decode(errors="replace") or "the connection ended before the command did")
    if status.get("status") == "Success":
        return ExecOutcome(0)
    for cause in (status.get("details") or {}).get("causes") or ():
        code = str(cause.get("message", ""))
        if status.get("reason") == "NonZeroExitCode" and cause.get("reason") == "ExitCode" and code.isdecimal():
            return ExecOutcome(int(code))
    return ExecOutcome(1, str(status.get("message") or "the command failed"))


MAX_MESSAGE_BYTES = 16 << 20
"""Nodes send pieces of some 32 kB."""
_LINGER_SECONDS = 2.0
# An example out of RFC 6455: nobody will speak over the connection for which it is shown.
_ANY_KEY = "dGhlIHNhbXBsZSBub25jZQ=="
_MOST_WORDS = 64 * 1024


@dataclass(frozen=True, slots=True)
class WebSocketTarget:
    """Where to connect, and with what to show; the headers hold secrets."""

    url: URL
    tls: ssl.SSLContext | None
    server_name: str
    """What the server's certificate must name, if not its host."""
    headers: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class UpgradeRefused:
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


async def open_web_socket(
    session: aiohttp.ClientSession, way: WebSocketTarget, protocols: Sequence[str]
) -> WebSocket | UpgradeRefused:
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


async def _why_not(session: aiohttp.ClientSession, way: WebSocketTarget, code: int) -> UpgradeRefused:
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
            return UpgradeRefused(code, b"")
        return UpgradeRefused(answer.status, await answer.content.read(_MOST_WORDS))
