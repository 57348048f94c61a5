"""Logs of processes have every line exactly once and in order, also across rotation."""

import shutil
from pathlib import Path

import pytest

from process_lab import Lab, Ward, exists, until
from pykubelet.aio.clock import SystemClock
from pykubelet.kubelet.logs.container_log_manager import ContainerLogManager, LogRotatePolicy
from pykubelet.kubelet.logs.log_directory import LogDirectory, PodNames, pod_names
from pykubelet.kubelet.logs.log_lines import parse_line
from pykubelet.runtimes.log_format import PIECE_BYTES
from pykubelet.runtimes.process.runtime import ProcessRuntime
from pykubelet.runtimes.protocol import RuntimeFailure


class LogDirectoryOf(LogDirectory):
    """A log directory with a single log path."""

    def __init__(self, path: Path) -> None:
        super().__init__(path.parent)
        self._path = path

    def path(self, pod: PodNames, container: str, attempt: int) -> str:
        return str(self._path)


async def move_log(ward: Ward, target: Path) -> Path | None:
    """Rename the log and reopen it as rotation does; None if the container has exited meanwhile."""
    path = ward.request.log_path
    shutil.move(path, target)
    try:
        await ward.runtime.reopen_log(ward.id)
    except RuntimeFailure:
        shutil.move(target, path)
        return None
    assert exists(path)
    return target


async def test_every_line_is_in_the_log_under_load(lab: Lab) -> None:
    """Of 250,000 lines on two streams none is lost, split or out of order."""
    ward = await lab.start("sh", "-c", "seq 1 200000; seq 200001 250000 >&2")
    assert (await ward.until_ended(30)).exit_code == 0
    lines = [parse_line(line) for line in ward.log_bytes.splitlines(keepends=True)]
    told = {stream: [line.text for line in lines if line and line.stream == stream] for stream in ("stdout", "stderr")}
    assert told["stdout"] == [b"%d\n" % number for number in range(1, 200001)]
    assert told["stderr"] == [b"%d\n" % number for number in range(200001, 250001)]


async def test_long_lines_come_in_pieces(lab: Lab) -> None:
    """A last line without a newline is marked as partial."""
    ward = await lab.start("sh", "-c", "head -c 40000 /dev/zero | tr '\\0' x; echo; printf unfinished")
    await ward.until_ended()
    lines = [line.split(b" ", 3) for line in ward.log_bytes.splitlines()]
    assert [(tag, len(text)) for _, _, tag, text in lines] == [
        (b"P", PIECE_BYTES),
        (b"P", PIECE_BYTES),
        (b"F", 40000 - 2 * PIECE_BYTES),
        (b"P", 10),
    ]
    assert ward.log == "x" * 40000 + "\nunfinished"


async def test_lines_are_written_when_they_are_whole(lab: Lab) -> None:
    """A line printed in two steps is one log entry, written as soon as it is complete."""
    ward = await lab.start("sh", "-c", "printf one; sleep 0.2; echo ' line'; sleep 1000")
    text = await until(lambda: ward.log_bytes)
    assert text.endswith(b" stdout F one line\n")


async def test_no_line_is_lost_when_the_log_is_moved_away(lab: Lab, runtime: ProcessRuntime, tmp_path: Path) -> None:
    """After many rotations under load, the files together have every line once."""
    ward = await lab.start("sh", "-c", "seq 1 100000")
    moved = [await move_log(ward, tmp_path / "moved-0")]
    while moved[-1] is not None:
        moved.append(await move_log(ward, tmp_path / f"moved-{len(moved)}"))
    await ward.until_ended()
    files = [*(path.read_bytes() for path in moved if path is not None), ward.log_bytes]
    numbers = [int(line.split(b" ")[3]) for file in files for line in file.splitlines()]
    assert numbers == list(range(1, 100001))
    assert len(files) > 2


async def test_rotator_keeps_the_log_small(runtime: ProcessRuntime, lab: Lab, tmp_path: Path) -> None:
    """The node's log rotation works with the process runtime as the log writer."""
    logs = LogDirectory(tmp_path / "logs")
    names = pod_names(lab.request("true").pod)
    await logs.prepare(names, "main")
    path = Path(logs.path(names, "main", 0))
    ward = await lab.start("sh", "-c", "seq 1 50000; read line; echo last; sleep 1000", stdin=True, log_path=str(path))
    await until(lambda: ward.log_bytes.endswith(b" 50000\n"))
    with_names = LogDirectoryOf(path)
    policy = LogRotatePolicy(max_bytes=100_000)
    rotator = ContainerLogManager(runtime=runtime, writer=runtime, logs=with_names, clock=SystemClock(), policy=policy)
    await rotator.rotate_all()
    assert ward.log_bytes == b""
    async with runtime.attach(ward.id, stdin=True) as session:
        assert session.stdin is not None
        await session.stdin.write(b"go on\n")
        await until(lambda: ward.log_bytes)
    assert ward.log_bytes.endswith(b" stdout F last\n")
    assert len(list(path.parent.iterdir())) == 2


async def test_full_disk_does_not_stop_a_container(lab: Lab) -> None:
    """Its log lines are lost, and it exits normally."""
    ward = await lab.start("sh", "-c", "seq 1 100000; exit 4", log_path="/dev/full")
    assert (await ward.until_ended()).exit_code == 4


async def test_log_that_cannot_be_opened_keeps_a_container_from_starting(lab: Lab, tmp_path: Path) -> None:
    """A symbolic link is refused, since it would redirect what we write."""
    link = tmp_path / "link.log"
    link.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RuntimeFailure, match=r"link\.log: Too many levels of symbolic links"):
        await lab.start("true", log_path=str(link))
    assert not (tmp_path / "elsewhere").exists()
