"""The bytes of a watch, split into lines and read as events.

In: chunks as they arrive, cut anywhere. Out: `WatchEvent`s; an ERROR event is raised as the ApiError it carries. No I/O.

Upstream: client-go/rest/watch/decoder.go, apimachinery/pkg/watch/streamwatcher.go.
"""

from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from pykubelet.api import wire
from pykubelet.api.errors import InternalError, from_status
from pykubelet.api.typed import Kind
from pykubelet.kube.client import WatchEvent

T = TypeVar("T")

MAX_LINE_BYTES = 16 << 20
"""An object in etcd has at most 1.5 MB; JSON may swell that, but not tenfold."""


class LineSplitter:
    """Gives whole lines from chunks; keeps the rest until more comes."""

    def __init__(self, max_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._parts: list[bytes] = []
        self._size = 0

    def lines(self, chunk: bytes) -> Iterator[bytes]:
        """The lines that this chunk completes, without blank ones; InternalError if one is too long."""
        *complete, rest = chunk.split(b"\n")
        for end in complete:
            self._keep(end)
            line, self._parts, self._size = b"".join(self._parts), [], 0
            if line.strip():
                yield line
        self._keep(rest)

    @property
    def is_within_line(self) -> bool:
        """Whether a stream that ends here ends in the middle of a line."""
        return self._size > 0

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._max_bytes:
            raise InternalError(f"a watch event has more than {self._max_bytes} bytes")
        if part:
            self._parts.append(part)


class _Envelope(msgspec.Struct, frozen=True):
    type: str = ""
    object: msgspec.Raw = msgspec.Raw(b"null")


def read_event(kind: Kind[T], line: bytes) -> WatchEvent[T] | None:
    """The event of a line; None for a type nobody knows yet. Raises what an ERROR event says."""
    try:
        envelope = wire.decode(line, _Envelope)
        match envelope.type:
            case "ADDED" | "MODIFIED" | "DELETED":
                obj = wire.decode(bytes(envelope.object), kind.type)
                return WatchEvent(envelope.type, obj, _resource_version(obj))
            case "BOOKMARK":
                document = wire.decode(bytes(envelope.object), dict[str, Any])
                return WatchEvent("BOOKMARK", None, _resource_version(document))
            case "ERROR":
                status = wire.decode_document(bytes(envelope.object))
            case _:
                return None
    except wire.DecodeError as error:
        raise InternalError(f"unable to decode an event from the watch stream: {error}") from error
    code = status.get("code") if isinstance(status, dict) else None
    raise from_status(status, code if isinstance(code, int) else InternalError.code)


def _resource_version(obj: Any) -> str:
    if isinstance(obj, dict):
        return str((obj.get("metadata") or {}).get("resourceVersion", ""))
    return str(obj.metadata.resource_version)
