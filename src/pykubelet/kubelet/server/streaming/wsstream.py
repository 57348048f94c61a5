"""Channels over a WebSocket: each message starts with a byte for the channel.

`v5` adds a message that closes one channel. The `base64` protocols have a digit for the channel and encoded data.

Upstream: staging/src/k8s.io/apimachinery/pkg/util/httpstream/wsstream/conn.go
"""

import base64
import binascii
from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple, Protocol

from pykubelet.aio.log import get_logger
from pykubelet.httpserver.spdy.connection import BytePipe

log = get_logger(__name__)

CLOSE_CHANNEL = 255


class ChannelProtocol(StrEnum):
    NONE = ""
    V1 = "channel.k8s.io"
    V1_BASE64 = "base64.channel.k8s.io"
    V4 = "v4.channel.k8s.io"
    V4_BASE64 = "v4.base64.channel.k8s.io"
    V5 = "v5.channel.k8s.io"

    @property
    def is_base64(self) -> bool:
        return "base64" in self.value


class ChannelMessage(NamedTuple):
    """The data of a channel; with `is_close`, its end."""

    channel: int
    data: bytes
    is_close: bool = False


def read_message(protocol: ChannelProtocol, message: bytes) -> ChannelMessage | None:
    """Decode a message; None if it is empty. Raises ValueError if it violates the protocol."""
    if not message:
        return None
    channel, data = message[0], message[1:]
    if protocol is ChannelProtocol.V5 and channel == CLOSE_CHANNEL:
        if len(data) != 1:
            raise ValueError("a close message must name exactly one channel")
        return ChannelMessage(data[0], b"", is_close=True)
    if not protocol.is_base64:
        return ChannelMessage(channel, data)
    try:
        return ChannelMessage(channel - ord("0"), base64.b64decode(data, validate=True))
    except binascii.Error:
        # Upstream ignores such a message, too.
        return None


def write_message(protocol: ChannelProtocol, channel: int, data: bytes) -> bytes:
    if protocol.is_base64:
        return bytes([ord("0") + channel]) + base64.b64encode(data)
    return bytes([channel]) + data


class MessageLink(Protocol):
    """A connection that carries messages: a WebSocket, or a test's."""

    async def receive(self) -> bytes | None:
        """One message; None when the client has closed the connection."""

    async def send(self, message: bytes, *, is_text: bool = False) -> None:
        """Send one message; raises ConnectionError if the client has disconnected."""


class MessageBytes:
    """A byte stream in messages of any size. Implements ByteLink."""

    def __init__(self, link: MessageLink) -> None:
        self._link = link

    async def read(self) -> bytes:
        while (message := await self._link.receive()) == b"":
            pass
        return message or b""

    async def write(self, data: bytes) -> None:
        await self._link.send(data)


class ChannelSink:
    """Writes to one channel. Implements ByteSink."""

    def __init__(self, connection: "ChannelConnection", channel: int) -> None:
        self._connection, self._channel = connection, channel

    async def write(self, data: bytes) -> None:
        await self._connection.write(self._channel, data)


class ChannelConnection:
    """The server side of a WebSocket with channels."""

    def __init__(self, link: MessageLink, protocol: ChannelProtocol, readable: Iterable[int]) -> None:
        self._link, self.protocol = link, protocol
        self.pipes = {channel: BytePipe() for channel in readable}

    def sink(self, channel: int) -> ChannelSink:
        return ChannelSink(self, channel)

    async def write(self, channel: int, data: bytes) -> None:
        """Send to a channel; raises ConnectionError if the client has disconnected."""
        await self._link.send(write_message(self.protocol, channel, data), is_text=self.protocol.is_base64)

    async def run(self) -> None:
        """Read until the client closes; data for unread channels is dropped."""
        try:
            while (raw := await self._link.receive()) is not None:
                message = read_message(self.protocol, raw)
                pipe = self.pipes.get(message.channel) if message is not None else None
                if message is None or pipe is None:
                    continue
                if message.is_close:
                    pipe.end()
                else:
                    await pipe.feed(message.data)
        except (ConnectionError, ValueError) as error:
            log.debug("connection ended", why=str(error))
        finally:
            for pipe in self.pipes.values():
                pipe.end()
