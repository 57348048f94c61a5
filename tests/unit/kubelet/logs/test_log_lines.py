"""Log lines in the CRI format: writing, parsing and filtering."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.kubelet.logs.log_lines import LogFilter, LogLine, LogQuery, last_lines, parse_line, split_lines
from pykubelet.runtimes.log_format import PIECE_BYTES, format_lines, format_time

AT = 1_767_323_045_000_000_006  # 2026-01-02T03:04:05.000000006Z
OUTPUT = st.binary(max_size=200).map(lambda text: text.replace(b"\r", b"."))


def text_of(log: bytes, query: LogQuery | None = None) -> bytes:
    return LogFilter(query or LogQuery()).take(split_lines(log))


def test_line_is_written_in_the_format_of_the_interface() -> None:
    """A timestamp with nine digits, the stream, full or partial, and the text."""
    assert format_lines(AT, "stdout", b"line\n") == b"2026-01-02T03:04:05.000000006Z stdout F line\n"
    assert format_lines(AT, "stderr", b"a\n\nb") == (
        b"2026-01-02T03:04:05.000000006Z stderr F a\n"
        b"2026-01-02T03:04:05.000000006Z stderr F \n"
        b"2026-01-02T03:04:05.000000006Z stderr P b\n"
    )
    assert format_lines(AT, "stdout", b"") == b""


def test_long_line_is_written_in_pieces() -> None:
    """All pieces but the last are tagged P for partial."""
    log = format_lines(AT, "stdout", b"x" * (2 * PIECE_BYTES + 1) + b"\n")
    assert [line.split(b" ")[2] for line in split_lines(log)] == [b"P", b"P", b"F"]
    assert text_of(log) == b"x" * (2 * PIECE_BYTES + 1) + b"\n"


PARSED = {
    "upstream's first example": (
        b"2016-10-06T00:17:09.669794202Z stdout P log content 1\n",
        LogLine(at="2016-10-06T00:17:09.669794202Z", stream="stdout", text=b"log content 1"),
    ),
    "upstream's second example": (
        b"2016-10-06T00:17:09.669794203Z stderr F log content 2\n",
        LogLine(at="2016-10-06T00:17:09.669794203Z", stream="stderr", text=b"log content 2\n"),
    ),
    "few digits, zone, more tags": (
        b"2016-10-20T18:39:20.57+02:00 stdout P:T a b\n",
        LogLine(at="2016-10-20T18:39:20.570000000+02:00", stream="stdout", text=b"a b"),
    ),
    "no end": (
        b"2016-10-20T18:39:20Z stdout F a",
        LogLine(at="2016-10-20T18:39:20.000000000Z", stream="stdout", text=b"a"),
    ),
    "no time": (b"yesterday stdout F a\n", None),
    "no stream": (b"2016-10-20T18:39:20Z stdin F a\n", None),
    "no tag": (b"2016-10-20T18:39:20Z stdout\n", None),
    "empty": (b"", None),
}


@pytest.mark.parametrize(("line", "parsed"), PARSED.values(), ids=PARSED)
def test_line_is_read(line: bytes, parsed: LogLine | None) -> None:
    """A line that is invalid parses to None."""
    assert parse_line(line) == parsed


LOG = b"".join(
    format_lines(AT + number * 10**9, stream, text)
    for number, (stream, text) in enumerate(
        [("stdout", b"one\n"), ("stderr", b"tw"), ("stderr", b"o\n"), ("stdout", b"three\n")]
    )
)
SECOND = datetime(2026, 1, 2, 3, 4, 6, tzinfo=UTC)

CUTS = {
    "all": (LogQuery(), b"one\ntwo\nthree\n"),
    "since": (LogQuery(since=SECOND + timedelta(seconds=1)), b"o\nthree\n"),
    "one stream": (LogQuery(stream="stdout"), b"one\nthree\n"),
    "limit": (LogQuery(limit_bytes=5), b"one\nt"),
    "limit 0": (LogQuery(limit_bytes=0), b""),
    "timestamps, once per line": (
        LogQuery(timestamps=True),
        b"2026-01-02T03:04:05.000000006Z one\n2026-01-02T03:04:06.000000006Z two\n2026-01-02T03:04:08.000000006Z three\n",
    ),
    "timestamps count": (LogQuery(timestamps=True, limit_bytes=12), b"2026-01-02T0"),
}


@pytest.mark.parametrize(("query", "shown"), CUTS.values(), ids=CUTS)
def test_log_is_cut_to_the_query(query: LogQuery, shown: bytes) -> None:
    """Each option of the query, on the same four lines."""
    cut = LogFilter(query)
    assert cut.take(split_lines(LOG)) == shown
    assert cut.is_full == (query.limit_bytes is not None)


def test_broken_lines_are_passed_over() -> None:
    """A crash may leave half a line; the others are still shown. An invalid date counts as very old."""
    impossible = b"2026-13-99T03:04:05Z stdout F b\n"
    half = LOG[:60] + b"\n"
    assert text_of(b"garbage\n" + half + impossible) == b"one\nb\n"
    assert text_of(impossible, LogQuery(since=SECOND)) == b""


@settings(max_examples=100)
@given(st.lists(st.tuples(st.sampled_from(["stdout", "stderr"]), OUTPUT), max_size=8), st.integers(0, 10**18))
def test_what_is_written_is_read_back(writes: list[tuple[str, bytes]], at: int) -> None:
    """For any split into writes, each stream returns its bytes."""
    log = b"".join(format_lines(at, stream, output) for stream, output in writes)
    for name in ("stdout", "stderr"):
        assert text_of(log, LogQuery(stream=name)) == b"".join(output for stream, output in writes if stream == name)
    for line in split_lines(log):
        parsed = parse_line(line)
        assert parsed is not None
        assert parsed.at == format_time(at)


@settings(max_examples=100)
@given(OUTPUT, st.integers(0, 60), st.booleans())
def test_limit_is_a_prefix(output: bytes, limit: int, timestamps: bool) -> None:
    """Output with a byte limit is a prefix of the output without one."""
    log = format_lines(AT, "stdout", output)
    whole = text_of(log, LogQuery(timestamps=timestamps))
    assert text_of(log, LogQuery(timestamps=timestamps, limit_bytes=limit)) == whole[:limit]


@settings(max_examples=100)
@given(st.binary(max_size=100), st.integers(-1, 12), st.integers(1, 7))
def test_last_lines_are_the_last(data: bytes, count: int, block: int) -> None:
    """For any file content and any block size."""
    starts = range(len(data) - len(data) % block, -1, -block)
    blocks = [data[start : start + block] for start in starts]
    lines = list(split_lines(data))
    assert b"".join(lines) == data
    assert last_lines(blocks, count) == (lines[-count:] if count > 0 else [])


def test_tail_reads_no_more_than_it_needs() -> None:
    """Only the last block of a large file is read."""
    blocks = iter([b"c\nd\n", b"a\nb\n"])
    assert last_lines(blocks, 1) == [b"d\n"]
    assert list(blocks) == [b"a\nb\n"]
