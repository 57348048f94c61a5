"""WebSocket connections to an API server, and the channel protocol of remote commands.

`open_web_socket` returns a connection or the server's response that explains the refusal, which aiohttp discards.

Upstream: staging/src/k8s.io/client-go/transport/websocket/roundtripper.go,
staging/src/k8s.io/client-go/tools/remotecommand/websocket.go, staging/src/k8s.io/client-go/tools/remotecommand/v4.go,
staging/src/k8s.io/client-go/tools/remotecommand/v5.go
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
"""Only v5 can signal the end of input."""
STDIN, STDOUT, STDERR, ERROR, RESIZE = range(5)
_CLOSE = 255
MAX_MESSAGE_BYTES = 16 << 20
"""Nodes send chunks of about 32 kB."""
_LINGER_SECONDS = 2.0
# The example key of RFC 6455; the connection is never used.
_EXAMPLE_KEY = "dGhlIHNhbXBsZSBub25jZQ=="
_MAX_REFUSAL_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class ExecOutcome:
    """How a command ended: its exit code, or a failure."""

    exit_code: int
    failure: str = ""


def message(channel: int, data: bytes) -> bytes:
    """A message with data for a channel."""
    return bytes([channel]) + data


def size_message(columns: int, rows: int) -> bytes:
    return message(RESIZE, encode({"Width": columns, "Height": rows}))


def end_of_input(protocol: str) -> bytes | None:
    """The message that ends standard input; None if the protocol has none."""
    return bytes([_CLOSE, STDIN]) if protocol == V5 else None


def read_exec_outcome(data: bytes) -> ExecOutcome:
    """The outcome of a command from its error channel."""
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


@dataclass(frozen=True, slots=True)
class WebSocketTarget:
    """Where and how to connect; the headers hold secrets."""

    url: URL
    tls: ssl.SSLContext | None
    server_name: str
    """The name expected in the server's certificate, if not its host."""
    headers: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class UpgradeRefused:
    """The server's response instead of a WebSocket."""

    code: int
    body: bytes


class WebSocket:
    """An open connection; messages are bytes. ConnectionError if the peer is gone."""

    def __init__(self, socket: "aiohttp.ClientWebSocketResponse[bool]") -> None:
        self._socket = socket
        self.protocol = socket.protocol or ""

    async def receive(self) -> bytes | None:
        """The next message; None when the peer closed the connection."""
        message = await self._socket.receive()
        if message.type is aiohttp.WSMsgType.BINARY:
            return bytes(message.data)
        if message.type is aiohttp.WSMsgType.TEXT:
            return str(message.data).encode()
        return None

    async def send(self, message: bytes) -> None:
        """Send a message; waits while the peer is slow."""
        await self._socket.send_bytes(message)

    async def close(self) -> None:
        await self._socket.close()


async def open_web_socket(
    session: aiohttp.ClientSession, target: WebSocketTarget, protocols: Sequence[str]
) -> WebSocket | UpgradeRefused:
    """Open a connection, or return the response that refuses it."""
    timeout = aiohttp.ClientWSTimeout(ws_close=_LINGER_SECONDS)
    try:
        socket = await session.ws_connect(
            target.url,
            protocols=protocols,
            headers=dict(target.headers),
            timeout=timeout,
            max_msg_size=MAX_MESSAGE_BYTES,
            ssl=target.tls or True,
            server_hostname=target.server_name or None,
        )
    except aiohttp.WSServerHandshakeError as error:
        return await _read_refusal(session, target, error.status)
    return WebSocket(socket)


async def _read_refusal(session: aiohttp.ClientSession, target: WebSocketTarget, code: int) -> UpgradeRefused:
    """Repeat the request to read the response that aiohttp discarded."""
    headers = {
        **target.headers,
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": _EXAMPLE_KEY,
    }
    request = session.get(
        target.url,
        headers=headers,
        allow_redirects=False,
        ssl=target.tls or True,
        server_hostname=target.server_name or None,
    )
    async with request as answer:
        if answer.status < 400:
            return UpgradeRefused(code, b"")
        return UpgradeRefused(answer.status, await answer.content.read(_MAX_REFUSAL_BYTES))
