"""Parses lines of container logs and filters them by a query.

A line is `2026-01-02T03:04:05.000000006Z stdout F text`; `P` instead of `F` marks a line that continues in the stream's
next line. Lines in other formats are skipped. Docker's JSON format is not supported.

Upstream: staging/src/k8s.io/cri-client/pkg/logs/logs.go, staging/src/k8s.io/cri-client/pkg/logs/tail.go
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
    """One line of a log file, which may be a part of a line of the container's output."""

    at: str
    """RFC 3339 with nine digits, in the original time zone."""
    stream: str
    text: bytes
    """With its newline, unless more of the line follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogQuery:
    """Which part of a log to return; None means no limit."""

    tail_lines: int | None = None
    limit_bytes: int | None = None
    since: datetime | None = None
    stream: str = ""
    """`stdout` or `stderr`; empty for both."""
    timestamps: bool = False
    follow: bool = False


def parse_line(line: bytes) -> LogLine | None:
    """Parses a line of a log file, with or without its newline; None if it is malformed."""
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
    """Filters successive lines by a query and counts the remaining bytes."""

    def __init__(self, query: LogQuery) -> None:
        self._query = query
        self._since = None if query.since is None else (query.since - _EPOCH) // timedelta(microseconds=1) * 1000
        self._remaining = query.limit_bytes
        # Parts of lines of the two streams may alternate.
        self._inside = {STDOUT: False, STDERR: False}

    @property
    def is_full(self) -> bool:
        """Whether the byte limit is reached."""
        return self._remaining is not None and self._remaining <= 0

    def take(self, lines: Iterable[bytes]) -> bytes:
        """The output of these lines of a log file that matches the query."""
        output = bytearray()
        for raw in lines:
            if self.is_full:
                break
            line = parse_line(raw)
            if line is not None and self._matches(line):
                output += self._format(line)
        return bytes(output)

    def _matches(self, line: LogLine) -> bool:
        if self._query.stream not in {"", line.stream}:
            return False
        return self._since is None or _nanoseconds(line.at) >= self._since

    def _format(self, line: LogLine) -> bytes:
        output = line.text
        if self._query.timestamps and not self._inside[line.stream]:
            output = line.at.encode() + b" " + output
        self._inside[line.stream] = bool(line.text) and not line.text.endswith(b"\n")
        if self._remaining is not None:
            output = output[: self._remaining]
            self._remaining -= len(output)
        return output


def _nanoseconds(at: str) -> int:
    try:
        return nanoseconds(at)
    except ValueError:
        return 0


def last_lines(blocks: Iterable[bytes], count: int) -> list[bytes]:
    """The last lines of a file whose blocks come in reverse order; reads only as many blocks as needed.

    Counts lines of the file, as upstream does: a long line of output consists of several.
    """
    if count <= 0:
        return []
    found: list[bytes] = []
    newlines = 0
    for block in blocks:
        found.append(block)
        newlines += block.count(b"\n")
        # One newline more than lines, so that the first line is complete.
        if newlines > count:
            break
    return list(split_lines(b"".join(reversed(found))))[-count:]


def split_lines(data: bytes) -> Iterator[bytes]:
    """The lines with their newlines; a carriage return does not end a line."""
    start = 0
    while (end := data.find(b"\n", start)) >= 0:
        yield data[start : end + 1]
        start = end + 1
    if start < len(data):
        yield data[start:]
