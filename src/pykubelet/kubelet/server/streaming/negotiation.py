"""What an upgraded connection will speak: WebSocket with channels, SPDY, or SPDY inside a WebSocket.

In: the headers of the request and what it is for. Out: an agreement, or a refusal. The client's order counts.

Upstream: staging/src/k8s.io/apimachinery/pkg/util/httpstream/{httpstream.go,spdy/upgrade.go,wsstream/conn.go},
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
    """What carries the streams."""

    CHANNELS = "channels"
    SPDY = "spdy"
    TUNNEL = "tunnel"


class StreamProtocol(NamedTuple):
    """The carrier and the protocol, by its name on the wire."""

    carrier: Carrier
    protocol: str


class UpgradeOffer(NamedTuple):
    """What a client asks for in the headers of its request, lists already taken apart."""

    connection: str
    upgrade: str
    web_socket_protocols: Sequence[str]
    stream_protocols: Sequence[str]

    @property
    def is_web_socket(self) -> bool:
        """Whether the client wants a WebSocket."""
        return self.upgrade.lower() == "websocket" and "upgrade" in self.connection.lower()


def offer_of(headers: MultiMapping[str]) -> UpgradeOffer:
    """What the headers of a request offer."""
    return UpgradeOffer(
        headers.get("Connection", ""),
        headers.get("Upgrade", ""),
        listed(headers.getall("Sec-WebSocket-Protocol", ())),
        listed(headers.getall("X-Stream-Protocol-Version", ())),
    )


def listed(values: Sequence[str]) -> tuple[str, ...]:
    """The items of headers that hold comma-separated lists."""
    return tuple(item for value in values for item in map(str.strip, value.split(",")) if item)


def agree_on_command(offer: UpgradeOffer) -> StreamProtocol:
    """How exec and attach will be spoken; raises Refused."""
    if offer.is_web_socket:
        return _channels(offer, _COMMAND_CHANNELS)
    return _spdy(offer, _COMMAND_SPDY)


def agree_on_forward(offer: UpgradeOffer) -> StreamProtocol:
    """How port-forward will be spoken; raises Refused."""
    if not offer.is_web_socket:
        return _spdy(offer, (PORT_FORWARD,))
    if TUNNEL_PREFIX + PORT_FORWARD in offer.web_socket_protocols:
        return StreamProtocol(Carrier.TUNNEL, TUNNEL_PREFIX + PORT_FORWARD)
    return _channels(offer, _FORWARD_CHANNELS)


def has_resizes(agreement: StreamProtocol) -> bool:
    """Whether a terminal's size is told on a stream of its own; in the channel protocols it always has one."""
    return agreement.carrier is Carrier.CHANNELS or agreement.protocol in _COMMAND_SPDY[:2]


def has_exit_codes(agreement: StreamProtocol) -> bool:
    """Whether the end of a command is told as a Status."""
    return agreement.protocol.startswith(("v4.", "v5."))


def _channels(offer: UpgradeOffer, known: Sequence[str]) -> StreamProtocol:
    if not offer.web_socket_protocols:
        return StreamProtocol(Carrier.CHANNELS, ChannelProtocol.NONE)
    for protocol in offer.web_socket_protocols:
        if protocol in known:
            return StreamProtocol(Carrier.CHANNELS, protocol)
    asked = " ".join(offer.web_socket_protocols)
    raise HttpError(403, f"requested protocol(s) are not supported: [{asked}]; supports [{' '.join(known)}]")


def _spdy(offer: UpgradeOffer, known: Sequence[str]) -> StreamProtocol:
    if "upgrade" not in offer.connection.lower() or SPDY.lower() not in offer.upgrade.lower():
        raise HttpError(400, "unable to upgrade: missing upgrade headers in request")
    if not offer.stream_protocols:
        raise HttpError(400, "unable to upgrade: X-Stream-Protocol-Version is required")
    for protocol in offer.stream_protocols:
        if protocol in known:
            return StreamProtocol(Carrier.SPDY, protocol)
    asked = " ".join(offer.stream_protocols)
    accepted = tuple(("X-Accepted-Stream-Protocol-Versions", protocol) for protocol in known)
    raise HttpError(
        403,
        f"unable to upgrade: unable to negotiate protocol: client supports [{asked}], server accepts [{' '.join(known)}]",
        accepted,
    )
