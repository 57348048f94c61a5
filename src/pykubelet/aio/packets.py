"""Messages over Unix sockets that keep packets apart: one JSON object each, possibly with open files.

Small programs that outlive the kubelet use it too, so it imports only a little of the standard library.
"""

import json
import socket
import struct
from collections.abc import Sequence
from typing import Any

MAX_BYTES = 128 * 1024
"""The maximum size of a packet; the kernel lets ordinary users send that much."""
_MAX_FILES = 4
_FILE_BYTES = struct.calcsize("i")


class MessageTooLong(ValueError):
    """The message does not fit into one packet."""


def encode(message: dict[str, Any]) -> bytes:
    packet = json.dumps(message).encode()
    if len(packet) > MAX_BYTES:
        raise MessageTooLong(f"a message of {len(packet)} bytes is too long")
    return packet


def send(connection: socket.socket, message: dict[str, Any], files: Sequence[int] = ()) -> None:
    packet = encode(message)
    if files:
        socket.send_fds(connection, [packet], list(files))
    else:
        connection.send(packet)


def receive(connection: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    """The next message, None at the end, and the files that came with it."""
    # Not socket.recv_fds, which ignores the flag: programs started meanwhile would inherit the files.
    room = socket.CMSG_SPACE(_MAX_FILES * _FILE_BYTES)
    packet, ancillary, _, _ = connection.recvmsg(MAX_BYTES, room, socket.MSG_CMSG_CLOEXEC)
    files: list[int] = []
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            files += struct.unpack(f"{len(data) // _FILE_BYTES}i", data[: len(data) // _FILE_BYTES * _FILE_BYTES])
    return decode(packet), files


def decode(packet: bytes) -> dict[str, Any] | None:
    """Decodes a packet; None for an empty one, which marks the end."""
    if not packet:
        return None
    message: dict[str, Any] = json.loads(packet)
    return message
