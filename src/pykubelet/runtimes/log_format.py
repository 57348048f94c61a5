"""Writes lines of container logs in the CRI format.

A line is `2026-01-02T03:04:05.000000006Z stdout F text`; `P` instead of `F` marks a line that continues in the stream's
next line. Each container's shim imports this module, so it imports almost nothing itself.

Upstream: staging/src/k8s.io/cri-client/pkg/logs/logs.go
"""

from datetime import UTC, datetime, timedelta

STDOUT = "stdout"
STDERR = "stderr"

# Longer lines are split, so that a reader never has to hold more than this.
PIECE_BYTES = 16 * 1024

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def format_time(at_nanoseconds: int) -> str:
    """The timestamp of a log line, always with nine digits, so that lines sort as text."""
    seconds, fraction = divmod(at_nanoseconds, 1_000_000_000)
    whole = _EPOCH + timedelta(seconds=seconds)
    return f"{whole:%Y-%m-%dT%H:%M:%S}.{fraction:09d}Z"


def format_lines(at_nanoseconds: int, stream: str, output: bytes) -> bytes:
    """The output of a container as lines of its log; a last line without newline is marked as partial."""
    head = f"{format_time(at_nanoseconds)} {stream} ".encode()
    whole, partial = head + b"F ", head + b"P "
    text, newline, rest = output.rpartition(b"\n")
    lines = text.split(b"\n") if newline else []
    if max(map(len, lines), default=0) > PIECE_BYTES:
        entries = [entry for line in lines for entry in _entries(line, whole, partial)]
    else:
        # The usual case, and many times as fast.
        entries = [whole + (b"\n" + whole).join(lines)] if lines else []
    entries += [partial + piece for piece in _pieces(rest)] if rest else []
    return b"".join(entry + b"\n" for entry in entries)


def _entries(line: bytes, whole: bytes, partial: bytes) -> list[bytes]:
    *pieces, last = _pieces(line)
    return [*(partial + piece for piece in pieces), whole + last]


def _pieces(line: bytes) -> list[bytes]:
    return [line[start : start + PIECE_BYTES] for start in range(0, len(line), PIECE_BYTES)] or [b""]
