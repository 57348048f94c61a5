"""Reads and follows logs on a real disk with real inotify events."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pykubelet.kubelet.logs.log_lines import LogQuery
from pykubelet.kubelet.logs.log_reader import copy_log
from pykubelet.runtimes.log_format import format_lines

AT = 1_767_323_045_000_000_000


def add(path: Path, text: str) -> None:
    with path.open("ab") as file:
        file.write(format_lines(AT, "stdout", text.encode()))


class Reader:
    """A client that follows a log."""

    def __init__(self) -> None:
        self.text = b""
        self.ended = asyncio.Event()
        self.is_done = asyncio.Event()

    async def write(self, chunk: bytes) -> None:
        self.text += chunk

    async def assert_has(self, text: bytes) -> None:
        """Wait until exactly this text was written; fail if it never is."""
        for _ in range(1000):
            if self.text == text:
                break
            await asyncio.sleep(0.005)
        assert self.text == text


@asynccontextmanager
async def following(path: Path, query: LogQuery) -> AsyncIterator[Reader]:
    reader = Reader()

    async def follow() -> None:
        await copy_log(path, query, reader.write, ended=reader.ended.wait)
        reader.is_done.set()

    async with asyncio.TaskGroup() as group:
        task = group.create_task(follow())
        yield reader
        task.cancel()


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        (LogQuery(), b"a\nb\nc\n"),
        (LogQuery(tail_lines=1), b"c\n"),
        (LogQuery(tail_lines=0), b""),
        (LogQuery(tail_lines=2, limit_bytes=3), b"b\nc"),
        (LogQuery(since=datetime(2027, 1, 1, tzinfo=UTC)), b""),
        (LogQuery(tail_lines=1, timestamps=True), b"2026-01-02T03:04:05.000000000Z c\n"),
    ],
)
async def test_log_is_copied_with_tail_limit_and_since(tmp_path: Path, query: LogQuery, shown: bytes) -> None:
    """Without following, the copy ends at the end of the log."""
    log = tmp_path / "0.log"
    add(log, "a\nb\nc\n")
    reader = Reader()
    await copy_log(log, query, reader.write)
    assert reader.text == shown


async def test_missing_log_is_an_error(tmp_path: Path) -> None:
    """The caller gets FileNotFoundError."""
    with pytest.raises(FileNotFoundError):
        await copy_log(tmp_path / "0.log", LogQuery(), Reader().write)


async def test_follower_gets_each_line_and_ends_with_the_container(tmp_path: Path) -> None:
    """A line written just before the exit is included."""
    log = tmp_path / "0.log"
    add(log, "a\nb\n")
    async with following(log, LogQuery(follow=True, tail_lines=1)) as reader:
        await reader.assert_has(b"b\n")
        add(log, "c\n")
        await reader.assert_has(b"b\nc\n")
        add(log, "d\n")
        reader.ended.set()
        async with asyncio.timeout(5):
            await reader.is_done.wait()
        assert reader.text == b"b\nc\nd\n"


async def test_follower_goes_on_after_a_rotation(tmp_path: Path) -> None:
    """Lines written before the rename come first."""
    log = tmp_path / "0.log"
    add(log, "a\n")
    async with following(log, LogQuery(follow=True)) as reader:
        await reader.assert_has(b"a\n")
        add(log, "b\n")
        log.rename(tmp_path / "0.log.20260102-030405")
        add(log, "c\n")
        await reader.assert_has(b"a\nb\nc\n")
        add(log, "d\n")
        await reader.assert_has(b"a\nb\nc\nd\n")


async def test_follower_stops_at_its_limit(tmp_path: Path) -> None:
    """It does not wait for lines beyond the limit."""
    log = tmp_path / "0.log"
    add(log, "abc\n")
    async with following(log, LogQuery(follow=True, limit_bytes=2)) as reader, asyncio.timeout(5):
        await reader.is_done.wait()
        assert reader.text == b"ab"


async def test_follower_waits_for_the_end_of_a_line(tmp_path: Path) -> None:
    """A partly written line is not delivered."""
    log = tmp_path / "0.log"
    whole = format_lines(AT, "stdout", b"hello\n")
    log.write_bytes(whole[:-3])
    async with following(log, LogQuery(follow=True)) as reader:
        await asyncio.sleep(0.05)
        assert reader.text == b""
        with log.open("ab") as file:
            file.write(whole[-3:])
        await reader.assert_has(b"hello\n")


async def test_disconnected_client_ends_the_copy(tmp_path: Path) -> None:
    """Its exception propagates unchanged."""
    log = tmp_path / "0.log"
    add(log, "a\n")

    async def gone(_: bytes) -> None:
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        await copy_log(log, LogQuery(follow=True), gone)
