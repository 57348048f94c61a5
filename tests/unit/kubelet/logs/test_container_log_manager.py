"""Log rotation: the plan, and the files it leaves on disk."""

import asyncio
import gzip
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api.pods import PodUid
from pykubelet.kubelet.logs import log_reader
from pykubelet.kubelet.logs.container_log_manager import (
    ContainerLogManager,
    LogRotatePolicy,
    rotated_name,
    rotated_names,
    rotation_plan,
)
from pykubelet.kubelet.logs.log_directory import LogDirectory, PodNames, pod_names
from pykubelet.kubelet.logs.log_lines import LogQuery
from pykubelet.kubelet.logs.log_reader import LogFiles, copy_log
from pykubelet.runtimes.protocol import RuntimeFailure
from pykubelet.runtimes.sim.runtime import SimRuntime
from pykubelet.testing.virtual_time import VirtualClock
from runtime_pods import World

STAMPS = [f"2026010{day}-000000" for day in range(1, 7)]

PLANS = {
    "nothing yet": ([], (), ()),
    "the last one is compressed": (["0.log.1"], (), ("0.log.1",)),
    "compressed ones stay": (["0.log.1.gz", "0.log.2"], (), ("0.log.2",)),
    "no more than three beside": (
        ["0.log.1.gz", "0.log.2.gz", "0.log.3.gz", "0.log.4"],
        ("0.log.1.gz",),
        ("0.log.4",),
    ),
    "left by an interrupted rotation": (
        ["0.log.1", "0.log.1.gz", "0.log.2.tmp"],
        ("0.log.1", "0.log.2.tmp"),
        (),
    ),
    "others are left alone": (["1.log", "1.log.1", "00.log.1"], (), ()),
}


@pytest.mark.parametrize(("names", "remove", "compress"), PLANS.values(), ids=PLANS)
def test_rotation_makes_room(names: list[str], remove: tuple[str, ...], compress: tuple[str, ...]) -> None:
    """With a maximum of five files: the new log, the one just rotated, and three older ones."""
    plan = rotation_plan("0.log", ["0.log", *names], 5)
    assert (plan.remove, plan.compress) == (remove, compress)


@settings(max_examples=100)
@given(
    st.sets(st.tuples(st.sampled_from(STAMPS), st.sampled_from(["", ".gz", ".tmp"])), max_size=12),
    st.integers(2, 6),
)
def test_rotation_never_keeps_more_than_it_may(files: set[tuple[str, str]], max_files: int) -> None:
    """Whatever files exist before: all kept files get compressed, and they are the newest."""
    names = [f"0.log.{stamp}{suffix}" for stamp, suffix in files]
    plan = rotation_plan("0.log", names, max_files)
    kept = sorted(set(names).difference(plan.remove))
    assert len(kept) <= max_files - 2
    assert set(plan.compress) == {name for name in kept if not name.endswith(".gz")}
    in_use = rotated_names("0.log", names)
    assert kept == in_use[len(in_use) - len(kept) :]


def test_rotated_log_is_named_by_its_time() -> None:
    """Names sort by time."""
    assert rotated_name("0.log", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)) == "0.log.20260102-030405"


class Writer:
    """Reopens a log when called, or fails."""

    def __init__(self) -> None:
        self.reopened: list[str] = []
        self.refuses = False
        self.path = Path()

    async def reopen_log(self, container_id: str) -> None:
        if self.refuses:
            raise RuntimeFailure("busy")
        self.reopened.append(container_id)
        self.path.write_text("")


class Rotation:
    """A log manager with one running container and its log."""

    def __init__(self, root: Path) -> None:
        self.clock, self.writer = VirtualClock(), Writer()
        self.world = World(SimRuntime(clock=self.clock), "image", root)
        self.logs = LogDirectory(root)
        self.rotator = ContainerLogManager(
            runtime=self.world.runtime,
            writer=self.writer,
            logs=self.logs,
            clock=self.clock,
            policy=LogRotatePolicy(max_bytes=10, max_files=4),
        )

    async def start(self) -> Path:
        pod = self.world.pod()
        await self.world.started(pod)
        names = pod_names(pod)
        await self.logs.prepare(names, "main")
        self.writer.path = Path(self.logs.path(names, "main", 0))
        return self.writer.path


async def test_large_log_is_moved_away_and_older_ones_compressed(tmp_path: Path) -> None:
    """Logs are checked every ten seconds; the newest rotated log stays uncompressed, for collectors that read it."""
    rotation = Rotation(tmp_path)
    log = await rotation.start()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(rotation.rotator.run(asyncio.Event()))
        for number in range(5):
            log.write_text(f"{number}" * 10)
            await asyncio.sleep(10)
        log.write_text("small")
        await asyncio.sleep(30)
        task.cancel()
    names = sorted(entry.name for entry in log.parent.iterdir())
    stamps = ["20260101-000020", "20260101-000030", "20260101-000040"]
    assert names == ["0.log", f"0.log.{stamps[0]}.gz", f"0.log.{stamps[1]}.gz", f"0.log.{stamps[2]}"]
    assert gzip.decompress((log.parent / names[1]).read_bytes()) == b"2" * 10
    assert len(rotation.writer.reopened) == 5


async def test_log_is_put_back_when_the_runtime_does_not_follow(tmp_path: Path) -> None:
    """The runtime keeps writing to the old file, so readers must find that one."""
    rotation = Rotation(tmp_path)
    log = await rotation.start()
    rotation.writer.refuses = True
    log.write_text("x" * 20)
    await rotation.rotator.rotate_all()
    assert [entry.name for entry in log.parent.iterdir()] == ["0.log"]
    assert log.read_text() == "x" * 20


def all_lines(files: LogFiles) -> list[bytes]:
    lines: list[bytes] = []
    while some := files.next_lines():
        lines += some
    return lines


def test_log_files_are_one_stream_oldest_first(tmp_path: Path) -> None:
    """Compressed, rotated and current files read like one file."""
    log = tmp_path / "0.log"
    (tmp_path / "0.log.1.gz").write_bytes(gzip.compress(b"a\nb\n"))
    (tmp_path / "0.log.2").write_bytes(b"c\nd")
    log.write_bytes(b"e\nf\ng")
    files = LogFiles(log)
    assert all_lines(files) == [b"a\n", b"b\n", b"c\n", b"d", b"e\n", b"f\n"]
    with log.open("ab") as file:
        file.write(b"h\n")
    assert files.next_lines() == [b"gh\n"]
    files.close()


def test_tail_leaves_a_line_that_has_no_end_for_later(tmp_path: Path) -> None:
    """It counts as the last line, and is returned once it is complete."""
    log = tmp_path / "0.log"
    log.write_bytes(b"a\nb\nc")
    files = LogFiles(log)
    files.skip_to_tail(2)
    assert files.next_lines() == [b"b\n"]
    with log.open("ab") as file:
        file.write(b"d\n")
    assert files.next_lines() == [b"cd\n"]
    files.close()


@pytest.mark.parametrize("count", range(7))
def test_tail_goes_back_into_older_files(tmp_path: Path, count: int) -> None:
    """Lines appended later follow the tail."""
    log = tmp_path / "0.log"
    (tmp_path / "0.log.1.gz").write_bytes(gzip.compress(b"a\nb\n"))
    (tmp_path / "0.log.2").write_bytes(b"c\n")
    log.write_bytes(b"d\ne\n")
    files = LogFiles(log)
    files.skip_to_tail(count)
    assert all_lines(files) == [b"a\n", b"b\n", b"c\n", b"d\n", b"e\n"][max(5 - count, 0) :]
    with log.open("ab") as file:
        file.write(b"f\n")
    assert files.next_lines() == [b"f\n"]
    files.close()


@settings(max_examples=50)
@given(
    packed=st.integers(0, 9),
    older=st.integers(0, 9),
    newest=st.integers(0, 9),
    count=st.integers(0, 30),
    ends=st.booleans(),
)
def test_tail_is_the_last_lines_of_any_files(packed: int, older: int, newest: int, count: int, *, ends: bool) -> None:
    """For any number of lines in each file and blocks that end within lines; the last line may lack its newline."""
    lines = [b"%d\n" % number for number in range(packed + older + newest)]
    if not ends and newest:
        lines[-1] = lines[-1].rstrip()
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_reader, "BLOCK_BYTES", 3)
        log = Path(folder) / "0.log"
        (log.parent / "0.log.1.gz").write_bytes(gzip.compress(b"".join(lines[:packed])))
        (log.parent / "0.log.2").write_bytes(b"".join(lines[packed : packed + older]))
        log.write_bytes(b"".join(lines[packed + older :]))
        files = LogFiles(log)
        files.skip_to_tail(count)
        found = b"".join([*all_lines(files), files.take_rest()])
        files.close()
    assert found == b"".join(lines[len(lines) - count :] if count < len(lines) else lines)


async def test_tail_of_a_huge_log_takes_little_memory(tmp_path: Path) -> None:
    """A request for all lines and one byte keeps neither the log nor its lines in memory."""
    log = tmp_path / "0.log"
    with log.open("wb") as file:
        for _ in range(64):
            file.write(b"2026-01-02T03:04:05.000000006Z stdout F x\n" * 25_000)
    sent: list[bytes] = []

    async def write(chunk: bytes) -> None:
        sent.append(chunk)

    tracemalloc.start()
    try:
        await copy_log(log, LogQuery(tail_lines=10**9, limit_bytes=1), write)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sent == [b"x"]
    assert peak < 16 * 1024 * 1024, "the log has 64 MB"


def test_line_without_an_end_is_read_in_pieces(tmp_path: Path) -> None:
    """A file without newlines is neither kept in memory nor copied again with each block."""
    log = tmp_path / "0.log"
    log.write_bytes(b"x" * 8 * 1024 * 1024)
    files = LogFiles(log)
    pieces = all_lines(files)
    assert b"".join([*pieces, files.take_rest()]) == log.read_bytes()
    assert max(map(len, pieces)) < 2 * 1024 * 1024
    files.close()


def write(*paths: str) -> None:
    for path in paths:
        Path(path).write_text("x")


async def test_log_directory_makes_links_and_removes(tmp_path: Path) -> None:
    """Only the files and links of removed containers and pods are deleted."""
    logs = LogDirectory(tmp_path / "pods", links=tmp_path / "links")
    web, other = PodNames("default", "web", "u1"), PodNames("default", "other", "u2")
    for pod in (web, other):
        assert await logs.prepare(pod, "main") == []
        for attempt in (0, 1):
            path = logs.path(pod, "main", attempt)
            write(path, f"{path}.20260101-000000.gz")
            await logs.link(pod, "main", f"{pod.name}-id-{attempt}abcdef", path)
    assert len(await logs.prepare(web, "main")) == 4
    await logs.remove(web, "main", 0, "web-id-0abcdef")
    assert sorted(await logs.prepare(web, "main")) == ["1.log", "1.log.20260101-000000.gz"]
    await logs.remove_pods(lambda uid: uid == PodUid("u2"))
    assert [entry.name for entry in (tmp_path / "pods").iterdir()] == ["default_web_u1"]
    await logs.remove_dead_links({"0abcdef"})
    assert sorted(entry.name for entry in (tmp_path / "links").iterdir()) == [
        "other_default_main-other-id-0abcdef.log",
        "web_default_main-web-id-1abcdef.log",
    ]
    assert (tmp_path / "links/web_default_main-web-id-1abcdef.log").read_text() == "x"
