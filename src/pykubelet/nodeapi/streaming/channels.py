"""Messages of the channel protocols over WebSocket: a byte that says which channel, then the data.

`v5` adds a message that closes one channel. The `base64` protocols have a digit for the channel and text for the data.

Upstream: staging/src/k8s.io/apimachinery/pkg/util/httpstream/wsstream/conn.go
"""

import base64
import binascii
from enum import StrEnum
from typing import NamedTuple

CLOSE_CHANNEL = 255


class ChannelProtocol(StrEnum):
    """The subprotocols, by their names on the wire."""

    NONE = ""
    V1 = "channel.k8s.io"
    V1_BASE64 = "base64.channel.k8s.io"
    V4 = "v4.channel.k8s.io"
    V4_BASE64 = "v4.base64.channel.k8s.io"
    V5 = "v5.channel.k8s.io"

    @property
    def is_base64(self) -> bool:
        """Whether messages are text."""
        return "base64" in self.value


class ChannelMessage(NamedTuple):
    """What came for a channel; with `is_close`, that nothing more will come."""

    channel: int
    data: bytes
    is_close: bool = False


def read_message(protocol: ChannelProtocol, message: bytes) -> ChannelMessage | None:
    """The meaning of a message; None for one without. ValueError if it breaks the protocol."""
    if not message:
        return None
    channel, data = message[0], message[1:]
    if protocol is ChannelProtocol.V5 and channel == CLOSE_CHANNEL:
        if len(data) != 1:
            raise ValueError("one channel is to follow the signal that closes it")
        return ChannelMessage(data[0], b"", is_close=True)
    if not protocol.is_base64:
        return ChannelMessage(channel, data)
    try:
        return ChannelMessage(channel - ord("0"), base64.b64decode(data, validate=True))
    except binascii.Error:
        # Upstream passes over such a message, too.
        return None


def write_message(protocol: ChannelProtocol, channel: int, data: bytes) -> bytes:
    """The message for a channel."""
    if protocol.is_base64:
        return bytes([ord("0") + channel]) + base64.b64encode(data)
    return bytes([channel]) + data
