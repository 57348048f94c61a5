"""Changes the network of one namespace through a rtnetlink socket: links, addresses, routes.

Each request is one message that the kernel has handled when `send` returns, so requests block for microseconds only.
Links are never deleted: they end with the namespace of one of them. docs/decisions/0012 says why this is not pyroute2.
"""

import os
import socket
import struct
from collections.abc import Iterator

LOOPBACK_INDEX = 1
"""The kernel gives it to the loopback link of every namespace."""
LINK_NAME_BYTES = 15
"""The longest name of a link."""

POD_LINKS = 7079
"""The group of all links that lead to pods: rules recognise them by it, whatever their number."""

_NEW_LINK, _NEW_ADDRESS, _DELETE_ADDRESS, _NEW_ROUTE, _DELETE_ROUTE, _GET_ROUTE = 16, 20, 21, 24, 25, 26
_ERROR = 2
"""Also the type of an acknowledgement, which is error 0."""
_REQUEST, _ACKNOWLEDGE, _EXCLUSIVE, _CREATE, _DUMP = 0x1, 0x4, 0x200, 0x400, 0x300
_DONE = 3
"""The type of the last message of a list."""

_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port
_ATTRIBUTE = struct.Struct("=HH")  # length, type
_LINK = struct.Struct("=BxHiII")  # family, device type, index, flags, mask of changed flags
_ADDRESS = struct.Struct("=BBBBI")  # family, prefix length, flags, scope, index
_ROUTE = struct.Struct(
    "=BBBBBBBBI"
)  # family, lengths of destination and source, tos, table, protocol, scope, type, flags
_ANSWER = struct.Struct("=IHHIIi")  # a header and an error number
_NUMBER = struct.Struct("=I")

_UP = 0x1
_LINK_NAME, _LINK_INFO, _LINK_GROUP, _LINK_NAMESPACE = 3, 18, 27, 28
_INFO_KIND, _INFO_DATA, _VETH_PEER = 1, 2, 1
_ADDRESS_ADDRESS, _ADDRESS_LOCAL, _ADDRESS_LABEL = 1, 2, 3
_ROUTE_DESTINATION, _ROUTE_DEVICE, _ROUTE_GATEWAY, _ROUTE_SOURCE = 1, 4, 5, 7
_MAIN_TABLE, _PROTOCOL, _UNICAST = 254, 4, 1  # protocol 4: made by an administrator, as `ip route` does
_UNIVERSE, _ON_LINK = 0, 253

_RECEIVE_BYTES = 4096
"""An acknowledgement has 36 bytes; that of a failed request repeats the request, which has at most some hundred."""
_LIST_BYTES = 65536
"""The kernel puts at most half of that into a packet of a list."""
_SECONDS = 10.0
"""How long the kernel may take to answer: another program may hold the lock of all network configuration meanwhile."""


class Netlink:
    """A socket of the network namespace that its thread is in when it is made. OSError says why a request fails."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
        self._socket.settimeout(_SECONDS)
        self._socket.bind((0, 0))
        self._sequence = 0

    def close(self) -> None:
        self._socket.close()

    def create_veth(self, name: str, *, peer: str, peer_index: int, namespace: int) -> None:
        """Create a pair of links: `name` here, up and in the group of pods, and `peer` in the open namespace, down."""
        inside = _LINK.pack(socket.AF_UNSPEC, 0, peer_index, 0, 0)
        inside += _text(_LINK_NAME, peer) + _number(_LINK_NAMESPACE, namespace)
        info = _text(_INFO_KIND, "veth") + _attribute(_INFO_DATA, _attribute(_VETH_PEER, inside))
        body = _LINK.pack(socket.AF_UNSPEC, 0, 0, _UP, _UP)
        body += _text(_LINK_NAME, name) + _number(_LINK_GROUP, POD_LINKS) + _attribute(_LINK_INFO, info)
        self._change(_NEW_LINK, body, _CREATE | _EXCLUSIVE)

    def set_up(self, index: int) -> None:
        self._change(_NEW_LINK, _LINK.pack(socket.AF_UNSPEC, 0, index, _UP, _UP))

    def join_group(self, index: int, group: int) -> None:
        """Put a link into a group of links, by which rules recognise it."""
        self._change(_NEW_LINK, _LINK.pack(socket.AF_UNSPEC, 0, index, 0, 0) + _number(_LINK_GROUP, group))

    def add_address(self, address: str, index: int, *, label: str = "") -> None:
        """Give a link an address of its own, without a subnet. A label begins with the name of the link and a colon."""
        body = _address(address, index) + (_text(_ADDRESS_LABEL, label) if label else b"")
        self._change(_NEW_ADDRESS, body, _CREATE | _EXCLUSIVE)

    def delete_address(self, address: str, index: int) -> None:
        self._change(_DELETE_ADDRESS, _address(address, index))

    def add_route(self, destination: str, index: int, *, source: str) -> None:
        """Route an address or range to a link; FileExistsError if it has a route. `source` is our address for it."""
        address, _, length = destination.partition("/")
        body = _ROUTE.pack(socket.AF_INET, int(length or 32), 0, 0, _MAIN_TABLE, _PROTOCOL, _ON_LINK, _UNICAST, 0)
        body += _attribute(_ROUTE_DESTINATION, socket.inet_aton(address)) + _number(_ROUTE_DEVICE, index)
        body += _attribute(_ROUTE_SOURCE, socket.inet_aton(source))
        self._change(_NEW_ROUTE, body, _CREATE | _EXCLUSIVE)

    def add_default_route(self, gateway: str, index: int) -> None:
        """Route all other addresses through a gateway that is reachable on a link."""
        body = _ROUTE.pack(socket.AF_INET, 0, 0, 0, _MAIN_TABLE, _PROTOCOL, _UNIVERSE, _UNICAST, 0)
        body += _attribute(_ROUTE_GATEWAY, socket.inet_aton(gateway)) + _number(_ROUTE_DEVICE, index)
        self._change(_NEW_ROUTE, body, _CREATE | _EXCLUSIVE)

    def add_gateway_route(self, destination: str, gateway: str, protocol: int) -> None:
        """Route a range to a gateway, which must be reachable directly; FileExistsError if the range has a route."""
        body = _gateway_route(destination, protocol) + _attribute(_ROUTE_GATEWAY, socket.inet_aton(gateway))
        self._change(_NEW_ROUTE, body, _CREATE | _EXCLUSIVE)

    def remove_gateway_route(self, destination: str, protocol: int) -> None:
        """Remove the route of a protocol to a range; ProcessLookupError if there is none."""
        self._change(_DELETE_ROUTE, _gateway_route(destination, protocol))

    def gateway_routes(self, protocol: int) -> dict[str, str]:
        """The gateways of a protocol's routes by destination."""
        self._sequence += 1
        body = _ROUTE.pack(socket.AF_INET, 0, 0, 0, 0, 0, 0, 0, 0)
        self._socket.send(
            _HEADER.pack(_HEADER.size + len(body), _GET_ROUTE, _REQUEST | _DUMP, self._sequence, 0) + body
        )
        found: dict[str, str] = {}
        while True:
            for kind, answer in self._messages():
                if kind == _DONE:
                    return found
                if kind == _ERROR:
                    (code,) = struct.unpack_from("=i", answer)
                    raise OSError(-code, os.strerror(-code))
                found.update(_read_gateway_route(answer, protocol))

    def _messages(self) -> Iterator[tuple[int, bytes]]:
        """The type and content of each message of one packet that belongs to the current request."""
        packet = self._socket.recv(_LIST_BYTES)
        while len(packet) >= _HEADER.size:
            size, kind, _, sequence, _ = _HEADER.unpack_from(packet)
            if sequence == self._sequence:
                yield kind, packet[_HEADER.size : size]
            packet = packet[_aligned(size) :]

    def _change(self, kind: int, body: bytes, flags: int = 0) -> None:
        """Send a request and wait for its acknowledgement."""
        self._sequence += 1
        size = _HEADER.size + len(body)
        self._socket.send(_HEADER.pack(size, kind, _REQUEST | _ACKNOWLEDGE | flags, self._sequence, 0) + body)
        while True:
            _, answer, _, sequence, _, code = _ANSWER.unpack_from(self._socket.recv(_RECEIVE_BYTES))
            # An earlier request may have timed out, and its answer come later.
            if answer == _ERROR and sequence == self._sequence:
                break
        if code:
            raise OSError(-code, os.strerror(-code))


def _gateway_route(destination: str, protocol: int) -> bytes:
    address, _, length = destination.partition("/")
    body = _ROUTE.pack(socket.AF_INET, int(length), 0, 0, _MAIN_TABLE, protocol, _UNIVERSE, _UNICAST, 0)
    return body + _attribute(_ROUTE_DESTINATION, socket.inet_aton(address))


def _read_gateway_route(message: bytes, protocol: int) -> dict[str, str]:
    """The gateway of a route by its destination; nothing for a route of another protocol or table."""
    family, length, _, _, table, found, _, _, _ = _ROUTE.unpack_from(message)
    if (family, table, found) != (socket.AF_INET, _MAIN_TABLE, protocol):
        return {}
    attributes: dict[int, bytes] = {}
    rest = message[_ROUTE.size :]
    while len(rest) >= _ATTRIBUTE.size:
        size, kind = _ATTRIBUTE.unpack_from(rest)
        if size < _ATTRIBUTE.size:
            break
        attributes[kind] = rest[_ATTRIBUTE.size : size]
        rest = rest[_aligned(size) :]
    if _ROUTE_DESTINATION not in attributes or _ROUTE_GATEWAY not in attributes:
        return {}
    destination = socket.inet_ntoa(attributes[_ROUTE_DESTINATION])
    return {f"{destination}/{length}": socket.inet_ntoa(attributes[_ROUTE_GATEWAY])}


def _aligned(length: int) -> int:
    return (length + 3) & ~3


def _attribute(kind: int, value: bytes) -> bytes:
    length = _ATTRIBUTE.size + len(value)
    return _ATTRIBUTE.pack(length, kind) + value + bytes(_aligned(length) - length)


def _address(address: str, index: int) -> bytes:
    packed = socket.inet_aton(address)
    body = _ADDRESS.pack(socket.AF_INET, 32, 0, _UNIVERSE, index)
    return body + _attribute(_ADDRESS_LOCAL, packed) + _attribute(_ADDRESS_ADDRESS, packed)


def _text(kind: int, text: str) -> bytes:
    return _attribute(kind, text.encode() + b"\0")


def _number(kind: int, number: int) -> bytes:
    return _attribute(kind, _NUMBER.pack(number))
