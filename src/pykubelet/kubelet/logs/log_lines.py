"""Lines of a container's log: read, and cut to what somebody asked for; `log_write` writes them.

A line is `2026-01-02T03:04:05.000000006Z stdout F text`; `P` instead of `F` says that the text goes on in the stream's
next line. Lines that are none are passed over.

Upstream: staging/src/k8s.io/cri-client/pkg/logs/{logs,tail}.go. On purpose otherwise: no Docker JSON.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pykubelet.api.times import nanoseconds
from pykubelet.runtimes.log_format import STDERR, STDOUT

_LINE = re.compile(
    rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9})\d*)?(Z|[+-]\d\d:\d\d) (stdout|stderr) ([^ \n]*) ([^\n]*)(\n?)"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """One line of the file, which may be a piece of a line of the container."""

    at: str
    """RFC 3339 with nine digits, in the zone it was written in."""
    stream: str
    text: bytes
    """With its newline, unless more of the line follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogQuery:
    """What of a log somebody wants; None stands for all."""

    tail_lines: int | None = None
    limit_bytes: int | None = None
    since: datetime | None = None
    stream: str = ""
    """Only this one; empty for both."""
    timestamps: bool = False
    follow: bool = False


def parse_line(line: bytes) -> LogLine | None:
    """A line of the file, with or without its newline; None if it is none."""
    match = _LINE.fullmatch(line)
    if match is None:
        return None
    whole, fraction, zone, stream, tags, text, newline = match.groups()
    is_partial = tags.partition(b":")[0] == b"P"
    return LogLine(
        at=f"{whole.decode()}.{(fraction or b'').decode():0<9}{zone.decode()}",
        stream=stream.decode(),
        text=text if is_partial else text + newline,
    )


class LogFilter:
    """Cuts lines down to a query, one after the other; knows how much may still come."""

    def __init__(self, query: LogQuery) -> None:
        self._query = query
        self._since = None if query.since is None else (query.since - _EPOCH) // timedelta(microseconds=1) * 1000
        self._remaining = query.limit_bytes
        # Each stream has lines of its own, whose pieces may come in turns.
        self._inside = {STDOUT: False, STDERR: False}

    @property
    def is_full(self) -> bool:
        """Whether nothing will come out any more."""
        return self._remaining is not None and self._remaining <= 0

    def take(self, lines: Iterable[bytes]) -> bytes:
        """What of these lines of the file was asked for."""
        wanted = bytearray()
        for raw in lines:
            if self.is_full:
                break
            line = parse_line(raw)
            if line is not None and self._is_wanted(line):
                wanted += self._shown(line)
        return bytes(wanted)

    def _is_wanted(self, line: LogLine) -> bool:
        if self._query.stream not in {"", line.stream}:
            return False
        return self._since is None or _nanoseconds(line.at) >= self._since

    def _shown(self, line: LogLine) -> bytes:
        shown = line.text
        if self._query.timestamps and not self._inside[line.stream]:
            shown = line.at.encode() + b" " + shown
        self._inside[line.stream] = bool(line.text) and not line.text.endswith(b"\n")
        if self._remaining is not None:
            shown = shown[: self._remaining]
            self._remaining -= len(shown)
        return shown


def _nanoseconds(at: str) -> int:
    try:
        return nanoseconds(at)
    except ValueError:
        return 0


def last_lines(blocks: Iterable[bytes], count: int) -> list[bytes]:
    """The last lines of a file whose blocks come last to first; reads no more blocks than it needs.

    Counts lines of the file, as upstream does: the pieces of a long line are several.
    """
    if count <= 0:
        return []
    found: list[bytes] = []
    newlines = 0
    for block in blocks:
        found.append(block)
        newlines += block.count(b"\n")
        # One newline more than lines: only then the first of them is known to be whole.
        if newlines > count:
            break
    return list(split_lines(b"".join(reversed(found))))[-count:]


def split_lines(data: bytes) -> Iterator[bytes]:
    """The lines of a file with their newlines; a carriage return ends no line."""
    start = 0
    while (end := data.find(b"\n", start)) >= 0:
        yield data[start : end + 1]
        start = end + 1
    if start < len(data):
        yield data[start:]
