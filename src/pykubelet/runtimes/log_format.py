"""Lines of a container's log as they are written.

A line is `2026-01-02T03:04:05.000000006Z stdout F text`; `P` instead of `F` says that the text goes on in the stream's
next line. Supervisors of processes import this, so it needs next to nothing itself.

Upstream: containerd's pkg/cri/io/logger.go
"""

from datetime import UTC, datetime, timedelta

STDOUT = "stdout"
STDERR = "stderr"

# Of a line longer than this only pieces are written: a reader need not hold more than one of them.
PIECE_BYTES = 16 * 1024

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def format_time(at_nanoseconds: int) -> str:
    """A time of a log line: always nine digits, so that lines sort as text."""
    seconds, fraction = divmod(at_nanoseconds, 1_000_000_000)
    whole = _EPOCH + timedelta(seconds=seconds)
    return f"{whole:%Y-%m-%dT%H:%M:%S}.{fraction:09d}Z"


def format_lines(at_nanoseconds: int, stream: str, output: bytes) -> bytes:
    """What a container wrote, as lines of its log; a last line without its end is marked as to be continued."""
    head = f"{format_time(at_nanoseconds)} {stream} ".encode()
    whole, partial = head + b"F ", head + b"P "
    text, newline, rest = output.rpartition(b"\n")
    lines = text.split(b"\n") if newline else []
    if max(map(len, lines), default=0) > PIECE_BYTES:
        entries = [entry for line in lines for entry in _entries(line, whole, partial)]
    else:
        # Nearly always so, and many times as fast.
        entries = [whole + (b"\n" + whole).join(lines)] if lines else []
    entries += [partial + piece for piece in _pieces(rest)] if rest else []
    return b"".join(entry + b"\n" for entry in entries)


def _entries(line: bytes, whole: bytes, partial: bytes) -> list[bytes]:
    *pieces, last = _pieces(line)
    return [*(partial + piece for piece in pieces), whole + last]


def _pieces(line: bytes) -> list[bytes]:
    return [line[start : start + PIECE_BYTES] for start in range(0, len(line), PIECE_BYTES)] or [b""]
