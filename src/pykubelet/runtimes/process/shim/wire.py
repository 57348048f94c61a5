"""Messages between agent and supervisor: one JSON object a packet, with open files that travel along.

The same words on both sides; whoever closes the connection has said all there is to say.

State files of containers: whole or not there, and for nobody else to read.
"""

import json
import os
import socket
import struct
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def replace_file(path: str, content: bytes) -> None:
    """Write a file, in place of one that may be there: a reader sees the old one or the new one."""
    temporary = _write_temporary(path, content)
    os.rename(temporary, path)


def create_file(path: str, content: bytes) -> bool:
    """Write a file unless there is one: of several who try, one is told that it did."""
    temporary = _write_temporary(path, content)
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        os.unlink(temporary)
    return True


def _write_temporary(path: str, content: bytes) -> str:
    temporary = f"{path}.{os.getpid()}"
    with suppress(FileNotFoundError):
        # Left by a process of the same number that was killed here.
        os.unlink(temporary)
    handle = os.open(temporary, _NEW, 0o600)
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(handle, rest) :]
    finally:
        os.close(handle)
    return temporary


def make_durable(path: str) -> None:
    """Have a file and its name survive a loss of power; takes as long as the disk does."""
    for target in (path, os.path.dirname(path) or "."):
        handle = os.open(target, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


CONTROL = "control"
"""The name of the supervisor's socket in the folder of its container."""

MAX_BYTES = 128 * 1024
"""What one packet may hold; the kernel lets even an ordinary user send that much at once."""
_MAX_FILES = 4
_FILE_BYTES = struct.calcsize("i")


class MessageTooLong(ValueError):
    """More than one packet can hold."""


def encode(message: dict[str, Any]) -> bytes:
    """A message as a packet."""
    packet = json.dumps(message).encode()
    if len(packet) > MAX_BYTES:
        raise MessageTooLong(f"a message of {len(packet)} bytes is too long")
    return packet


def send(connection: socket.socket, message: dict[str, Any], files: Sequence[int] = ()) -> None:
    """Send a message and open files."""
    packet = encode(message)
    if files:
        socket.send_fds(connection, [packet], list(files))
    else:
        connection.send(packet)


def receive(connection: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    """The next message, None if there will be none, and the files that came with it."""
    # Not socket.recv_fds, which ignores the flag: then every program started meanwhile would have the files too.
    room = socket.CMSG_SPACE(_MAX_FILES * _FILE_BYTES)
    packet, ancillary, _, _ = connection.recvmsg(MAX_BYTES, room, socket.MSG_CMSG_CLOEXEC)
    files: list[int] = []
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            files += struct.unpack(f"{len(data) // _FILE_BYTES}i", data[: len(data) // _FILE_BYTES * _FILE_BYTES])
    return decode(packet), files


def decode(packet: bytes) -> dict[str, Any] | None:
    """The message of a packet; an empty one is the end."""
    if not packet:
        return None
    message: dict[str, Any] = json.loads(packet)
    return message
