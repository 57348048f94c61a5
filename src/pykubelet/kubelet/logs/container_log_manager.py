"""Keeps logs of containers from filling the disk: moves them away, compresses, removes the oldest.

Looks at the size of each log of a running container every ten seconds.

Upstream: pkg/kubelet/logs/container_log_manager.go

Which files of a container's log are kept, compressed or removed when it is rotated.

`0.log` is being written, `0.log.20260102-030405` was written last, older ones end in `.gz`. The names sort by age.

Upstream: pkg/kubelet/logs/container_log_manager.go

Opens the log files of containers, and nothing else that may have been put in their place.

A pod that may write where logs are could put a link there, to have the node read or write any file of the machine, or a
pipe, to have it wait for ever. So neither the file nor the two folders above it, its container's and its pod's, may be
links, and only a regular file is a log.

Upstream opens whatever is there.
"""

import asyncio
import gzip
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.kubelet.logs.log_directory import LogDirectory, pod_names
from pykubelet.runtimes.protocol import ContainerState, LogWriter, Runtime, RuntimeFailure

_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_LEVELS = 2


def open_log(path: Path) -> BinaryIO:
    """A log file to read; FileNotFoundError if there is none, whatever else is there."""
    try:
        with _folder_of(path) as folder:
            # Without O_NONBLOCK a pipe would hold us up.
            handle = os.open(path.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        raise FileNotFoundError(error.errno, "there is no log", str(path)) from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise FileNotFoundError(0, "is not a log", str(path))
    return os.fdopen(handle, "rb")


def create_beside(path: Path, mode: int) -> BinaryIO:
    """A new file in the folder of a log, to write; what has its name already goes first."""
    with _folder_of(path) as folder:
        path.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.fdopen(os.open(path.name, flags, mode, dir_fd=folder), "wb")


@contextmanager
def _folder_of(path: Path) -> Iterator[int]:
    """The folder a log is in; OSError if it, or the one above it, is a link."""
    *_, pod, container = ("", *path.parent.parts)[-_LEVELS:]
    handle = os.open(path.parents[_LEVELS], _FOLDER)
    try:
        for name in (pod, container):
            inner = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=handle)
            os.close(handle)
            handle = inner
        yield handle
    finally:
        os.close(handle)


COMPRESSED = ".gz"
TEMPORARY = ".tmp"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRotatePolicy:
    """When a log is rotated, and how many files of it there may be, the one being written included."""

    max_bytes: int = 10 * 1024 * 1024
    max_files: int = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRotatePlan:
    """What to do before a log is moved away; removal goes first, oldest first."""

    remove: tuple[str, ...]
    compress: tuple[str, ...]


def rotated_names(log_name: str, names: Iterable[str]) -> list[str]:
    """The older files of a log, oldest first, without what an interrupted rotation left behind."""
    known = {name for name in names if name.startswith(f"{log_name}.")}
    return sorted(name for name in known if not name.endswith(TEMPORARY) and name + COMPRESSED not in known)


def rotation_plan(log_name: str, names: Iterable[str], max_files: int) -> LogRotatePlan:
    """What to do with the older files of a log so that there is room for one more."""
    known = [name for name in names if name.startswith(f"{log_name}.")]
    kept = rotated_names(log_name, known)
    unused = sorted(set(known).difference(kept))
    # Besides these there will be the one being written and the one moved away now.
    surplus = max(len(kept) - max(max_files - 2, 0), 0)
    compress = tuple(name for name in kept[surplus:] if not name.endswith(COMPRESSED))
    return LogRotatePlan(remove=(*unused, *kept[:surplus]), compress=compress)


def rotated_name(log_name: str, at: datetime) -> str:
    """The name a log gets when it is moved away."""
    return f"{log_name}.{at.astimezone(UTC):%Y%m%d-%H%M%S}"


log = get_logger(__name__)

LOG_MONITOR_PERIOD_SECONDS = 10.0


class ContainerLogManager:
    """Rotates the logs of all containers of a node."""

    def __init__(
        self, *, runtime: Runtime, writer: LogWriter, logs: LogDirectory, clock: Clock, policy: LogRotatePolicy
    ) -> None:
        self._runtime, self._writer, self._logs = runtime, writer, logs
        self._clock, self._policy = clock, policy

    async def run(self, ready: asyncio.Event) -> None:
        """Look after the logs until cancelled."""
        ready.set()
        while True:
            try:
                await self.rotate_all()
            except RuntimeFailure as failure:
                log.warning("logs not rotated", cause=failure.message)
            await asyncio.sleep(LOG_MONITOR_PERIOD_SECONDS)

    async def rotate_all(self) -> None:
        """Rotate each log that is too large. One that cannot be does not keep the others from it."""
        # The log of a container that has ended does not grow, and it is the one people want to see.
        logs = {
            Path(self._logs.path(pod_names(pod), container.name, container.attempt)): container.id
            for pod in await self._runtime.pods()
            for container in pod.containers
            if container.state == ContainerState.RUNNING
        }
        for path in await asyncio.to_thread(_too_large, logs, self._policy.max_bytes):
            try:
                await self._rotate(path, logs[path])
            except (OSError, RuntimeFailure) as error:
                log.warning("log not rotated", path=path, cause=str(error))

    async def _rotate(self, path: Path, container_id: str) -> None:
        await asyncio.to_thread(_make_room, path, self._policy.max_files)
        rotated = path.with_name(rotated_name(path.name, self._clock.now()))
        await asyncio.to_thread(path.rename, rotated)
        try:
            await self._writer.reopen_log(container_id)
        except RuntimeFailure:
            # The runtime goes on writing the file it has open, so that must be the one people read.
            await asyncio.to_thread(rotated.rename, path)
            raise


def _too_large(paths: Iterable[Path], max_bytes: int) -> list[Path]:
    return [path for path in paths if _size(path) >= max_bytes]


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1


def _make_room(path: Path, max_files: int) -> None:
    plan = rotation_plan(path.name, (entry.name for entry in path.parent.iterdir()), max_files)
    for name in plan.remove:
        path.with_name(name).unlink(missing_ok=True)
    for name in plan.compress:
        _compress(path.with_name(name))


def _compress(path: Path) -> None:
    """Replace a file by its compressed form; whoever reads it meanwhile reads on undisturbed."""
    temporary = path.with_name(path.name + TEMPORARY)
    try:
        with open_log(path) as plain:
            mode = os.fstat(plain.fileno()).st_mode & 0o777
            with create_beside(temporary, mode) as file, gzip.GzipFile(fileobj=file, mode="wb") as compressed:
                shutil.copyfileobj(plain, compressed)
        temporary.rename(path.with_name(path.name + COMPRESSED))
    finally:
        temporary.unlink(missing_ok=True)
    path.unlink()
