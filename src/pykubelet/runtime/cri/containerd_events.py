"""What containerd's own event service says: read from its wire format, as far as it matters here.

Pure. An Envelope is `timestamp=1 namespace=2 topic=3 event=4`, the event an Any `type_url=1 value=2`; in events about
containers and their tasks field 1 is the container's id. Upstream: github.com/containerd/containerd/api/services/events/v1,
api/events/{container,task}.proto
"""

from collections.abc import Iterator
from typing import NamedTuple

SUBSCRIBE = "/containerd.services.events.v1.Events/Subscribe"
# In the namespace of CRI: what was removed, what started, and what ended with all that containerd does about it.
_FILTER = 'namespace==k8s.io,topic~="^/(containers/delete|tasks/(start|delete))$"'
ENDED = "/tasks/delete"

_TOPIC, _EVENT, _VALUE, _ID = 3, 4, 2, 1
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class Happening(NamedTuple):
    """Something happened to a container or a sandbox, which to containerd are one."""

    topic: str
    id: str


def subscription() -> bytes:
    """The request to be told."""
    wanted = _FILTER.encode()
    return bytes([_ID << 3 | _BYTES, len(wanted)]) + wanted


def read_happening(envelope: bytes) -> Happening:
    """What happened; ValueError if this is no event."""
    try:
        outer = dict(_fields(envelope))
        event = dict(_fields(dict(_fields(outer[_EVENT]))[_VALUE]))
        return Happening(outer[_TOPIC].decode(), event[_ID].decode())
    except (KeyError, IndexError) as error:
        raise ValueError("not an event about a container") from error


def _fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The fields of a message that hold bytes; the others are passed over."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == _VARINT:
            _, at = _varint(data, at)
        elif kind in {_FIXED64, _FIXED32}:
            at += 8 if kind == _FIXED64 else 4
        elif kind == _BYTES:
            size, at = _varint(data, at)
            if at + size > len(data):
                raise ValueError("cut off")
            yield key >> 3, data[at : at + size]
            at += size
        else:
            raise ValueError("not a message")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, the lowest first, and where it ends."""
    number = shift = 0
    while True:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number, at
        if shift > 63:
            raise ValueError("a number is too long")
