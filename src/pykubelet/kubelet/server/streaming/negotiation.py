"""Negotiates the protocol of an upgraded connection: WebSocket channels, SPDY, or SPDY over WebSocket.

The client's order of preference decides.

Upstream: staging/src/k8s.io/apimachinery/pkg/util/httpstream/httpstream.go,
staging/src/k8s.io/apimachinery/pkg/util/httpstream/spdy/upgrade.go,
staging/src/k8s.io/apimachinery/pkg/util/httpstream/wsstream/conn.go,
staging/src/k8s.io/apiserver/pkg/util/proxy/streamtunnel.go
"""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from multidict import MultiMapping

from pykubelet.httpserver.response import HttpError
from pykubelet.kubelet.server.streaming.wsstream import ChannelProtocol

SPDY = "SPDY/3.1"
TUNNEL_PREFIX = "SPDY/3.1+"
PORT_FORWARD = "portforward.k8s.io"

_COMMAND_SPDY = ("v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io")
_COMMAND_CHANNELS = tuple(protocol for protocol in ChannelProtocol if protocol)
_FORWARD_CHANNELS = (ChannelProtocol.V4, ChannelProtocol.V4_BASE64)


class Carrier(Enum):
    CHANNELS = "channels"
    SPDY = "spdy"
    TUNNEL = "tunnel"


class StreamProtocol(NamedTuple):
    """The transport, and the name of the subprotocol."""

    carrier: Carrier
    protocol: str


class UpgradeOffer(NamedTuple):
    """The upgrade headers of a request, with lists split into their items."""

    connection: str
    upgrade: str
    web_socket_protocols: Sequence[str]
    stream_protocols: Sequence[str]

    @property
    def is_web_socket(self) -> bool:
        """Whether the client requests a WebSocket."""
        return self.upgrade.lower() == "websocket" and "upgrade" in self.connection.lower()


def offer_of(headers: MultiMapping[str]) -> UpgradeOffer:
    return UpgradeOffer(
        headers.get("Connection", ""),
        headers.get("Upgrade", ""),
        listed(headers.getall("Sec-WebSocket-Protocol", ())),
        listed(headers.getall("X-Stream-Protocol-Version", ())),
    )


def listed(values: Sequence[str]) -> tuple[str, ...]:
    """The items of headers with comma-separated lists."""
    return tuple(item for value in values for item in map(str.strip, value.split(",")) if item)


def agree_on_command(offer: UpgradeOffer) -> StreamProtocol:
    """The protocol for exec and attach; raises HttpError."""
    if offer.is_web_socket:
        return _channels(offer, _COMMAND_CHANNELS)
    return _spdy(offer, _COMMAND_SPDY)


def agree_on_forward(offer: UpgradeOffer) -> StreamProtocol:
    """The protocol for port-forward; raises HttpError."""
    if not offer.is_web_socket:
        return _spdy(offer, (PORT_FORWARD,))
    if TUNNEL_PREFIX + PORT_FORWARD in offer.web_socket_protocols:
        return StreamProtocol(Carrier.TUNNEL, TUNNEL_PREFIX + PORT_FORWARD)
    return _channels(offer, _FORWARD_CHANNELS)


def has_resizes(agreement: StreamProtocol) -> bool:
    """Whether there is a stream for terminal sizes; the channel protocols always have one."""
    return agreement.carrier is Carrier.CHANNELS or agreement.protocol in _COMMAND_SPDY[:2]


def has_exit_codes(agreement: StreamProtocol) -> bool:
    """Whether the end of a command is sent as a Status."""
    return agreement.protocol.startswith(("v4.", "v5."))


def _channels(offer: UpgradeOffer, known: Sequence[str]) -> StreamProtocol:
    if not offer.web_socket_protocols:
        return StreamProtocol(Carrier.CHANNELS, ChannelProtocol.NONE)
    for protocol in offer.web_socket_protocols:
        if protocol in known:
            return StreamProtocol(Carrier.CHANNELS, protocol)
    requested = " ".join(offer.web_socket_protocols)
    raise HttpError(403, f"requested protocol(s) are not supported: [{requested}]; supports [{' '.join(known)}]")


def _spdy(offer: UpgradeOffer, known: Sequence[str]) -> StreamProtocol:
    if "upgrade" not in offer.connection.lower() or SPDY.lower() not in offer.upgrade.lower():
        raise HttpError(400, "unable to upgrade: missing upgrade headers in request")
    if not offer.stream_protocols:
        raise HttpError(400, "unable to upgrade: X-Stream-Protocol-Version is required")
    for protocol in offer.stream_protocols:
        if protocol in known:
            return StreamProtocol(Carrier.SPDY, protocol)
    requested = " ".join(offer.stream_protocols)
    accepted = tuple(("X-Accepted-Stream-Protocol-Versions", protocol) for protocol in known)
    raise HttpError(
        403,
        f"unable to upgrade: unable to negotiate protocol: client supports [{requested}], server accepts [{' '.join(known)}]",
        accepted,
    )
