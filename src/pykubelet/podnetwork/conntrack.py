"""Reads and deletes UDP connections that the kernel tracks.

The kernel remembers where it sent the first packet of a connection. TCP clients see a reset when their server is gone; UDP
clients that keep their port would be sent to nowhere for as long as they go on.

The kernel filters by protocol, and by port if only one is of interest (since Linux 5.8; before, all are read). Nothing here
needs the program conntrack. The functions block for a moment; OSError says why they fail.
"""

import os
import socket
import struct
from collections.abc import Iterable, Iterator
from ipaddress import ip_address
from typing import NamedTuple

Target = tuple[str, int]
"""An address and a port."""
NETLINK_NETFILTER = 12
_GET, _DELETE = 0x101, 0x102
_REQUEST, _ACK, _DUMP = 0x1, 0x4, 0x300
_ERROR, _DONE = 0x2, 0x3
_NESTED = 0x8000
# Attributes of a connection and of its parts, from linux/netfilter/nfnetlink_conntrack.h.
_ORIGINAL, _REPLY, _ZONE, _FILTER = 1, 2, 18, 25
_IP, _PROTOCOL = 1, 2
_PROTOCOL_NUMBER, _SOURCE_PORT, _DESTINATION_PORT = 1, 2, 3
_FILTER_ORIGINAL, _FILTER_REPLY = 1, 2
_BY_PROTOCOL, _BY_DESTINATION_PORT = 1 << 3, 1 << 5
_SOURCES, _DESTINATIONS = (1, 3), (2, 4)
_HEADER, _GENERIC, _ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=BBH"), struct.Struct("=HH")
_BUFFER = 1 << 17
_TIMEOUT_SECONDS = 10.0


class Flow(NamedTuple):
    """A UDP connection: where its client sent it, who answers, and its identity as the kernel wrote it."""

    destination: Target
    answers: Target
    identity: bytes


def open_conntrack() -> socket.socket:
    """A socket for the connections of this thread's network namespace."""
    return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER)


def read_flows(netlink: socket.socket, family: int, port: int | None = None) -> list[Flow]:
    """The UDP connections of the socket's network namespace, all or those to one port.

    The kernel could compare addresses too, but with IPv6 it takes those that differ.
    """
    flags, wanted = _BY_PROTOCOL, _attribute(_PROTOCOL_NUMBER, bytes((socket.IPPROTO_UDP,)))
    if port is not None:
        flags |= _BY_DESTINATION_PORT
        wanted += _attribute(_DESTINATION_PORT, struct.pack(">H", port))
    original = _attribute(_ORIGINAL | _NESTED, _attribute(_PROTOCOL | _NESTED, wanted))
    by = _attribute(_FILTER_ORIGINAL, struct.pack("=I", flags)) + _attribute(_FILTER_REPLY, struct.pack("=I", 0))
    body = original + _attribute(_FILTER | _NESTED, by)
    netlink.settimeout(_TIMEOUT_SECONDS)
    netlink.send(_message(_GET, _REQUEST | _DUMP, family, body))
    return [flow for payload in _answers(netlink) for flow in _flow(payload)]


def delete_flows(netlink: socket.socket, family: int, flows: Iterable[Flow]) -> int:
    """Delete connections; returns how many there still were."""
    netlink.settimeout(_TIMEOUT_SECONDS)
    count = 0
    for flow in flows:
        netlink.send(_message(_DELETE, _REQUEST | _ACK, family, flow.identity))
        try:
            list(_answers(netlink))
        except FileNotFoundError:
            continue
        count += 1
    return count


def _message(kind: int, flags: int, family: int, body: bytes) -> bytes:
    return (
        _HEADER.pack(_HEADER.size + _GENERIC.size + len(body), kind, flags, 1, 0) + _GENERIC.pack(family, 0, 0) + body
    )


def _answers(netlink: socket.socket) -> Iterator[bytes]:
    """The payloads of the messages of one answer."""
    while True:
        data = memoryview(netlink.recv(_BUFFER))
        while data:
            length, kind, _, _, _ = _HEADER.unpack_from(data)
            if kind == _DONE:
                return
            if kind == _ERROR:
                (code,) = struct.unpack_from("=i", data, _HEADER.size)
                if code:
                    raise OSError(-code, os.strerror(-code))
                return
            yield bytes(data[_HEADER.size + _GENERIC.size : length])
            data = data[_aligned(length) :]


def _flow(payload: bytes) -> Iterator[Flow]:
    parts = _attributes(payload)
    original, reply = _tuple(parts.get(_ORIGINAL, b"")), _tuple(parts.get(_REPLY, b""))
    if original is None or reply is None:
        return
    zone = _attribute(_ZONE, parts[_ZONE]) if _ZONE in parts else b""
    identity = _attribute(_ORIGINAL | _NESTED, parts[_ORIGINAL]) + zone
    yield Flow(original[1], reply[0], identity)


def _tuple(data: bytes) -> tuple[Target, Target] | None:
    """The source and the destination of one direction; None if it is not UDP."""
    parts = _attributes(data)
    addresses, protocol = _attributes(parts.get(_IP, b"")), _attributes(parts.get(_PROTOCOL, b""))
    if protocol.get(_PROTOCOL_NUMBER) != bytes((socket.IPPROTO_UDP,)):
        return None
    source, destination = (
        next((str(ip_address(addresses[kind])) for kind in kinds if kind in addresses), "")
        for kinds in (_SOURCES, _DESTINATIONS)
    )
    ports = (int.from_bytes(protocol.get(kind, b"")) for kind in (_SOURCE_PORT, _DESTINATION_PORT))
    return (source, next(ports)), (destination, next(ports))


def _attributes(data: bytes) -> dict[int, bytes]:
    found, place = {}, 0
    while place + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, place)
        if length < _ATTRIBUTE.size:
            break
        found[kind & 0x3FFF] = data[place + _ATTRIBUTE.size : place + length]
        place += _aligned(length)
    return found


def _attribute(kind: int, value: bytes) -> bytes:
    length = _ATTRIBUTE.size + len(value)
    return _ATTRIBUTE.pack(length, kind) + value.ljust(_aligned(len(value)), b"\0")


def _aligned(length: int) -> int:
    return (length + 3) & ~3
