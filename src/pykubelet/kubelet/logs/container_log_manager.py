"""Rotates container logs: checks sizes every ten seconds, renames, compresses, removes the oldest.

`0.log` is being written, `0.log.20260102-030405` was written last, older files end in `.gz`; the names sort by age.
Unlike upstream, log files are opened without following links, because a pod that can write to its log directory could
otherwise have the kubelet read or write any file of the machine, or block on a pipe.

Upstream: pkg/kubelet/logs/container_log_manager.go
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

log = get_logger(__name__)

LOG_MONITOR_PERIOD_SECONDS = 10.0
COMPRESSED = ".gz"
TEMPORARY = ".tmp"
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_LEVELS = 2


def open_log(path: Path) -> BinaryIO:
    """A log file for reading; FileNotFoundError if there is none or if it is not a regular file."""
    try:
        with _folder_of(path) as folder:
            # Opening a pipe without O_NONBLOCK would block.
            handle = os.open(path.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        raise FileNotFoundError(error.errno, "there is no log", str(path)) from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise FileNotFoundError(0, "is not a log", str(path))
    return os.fdopen(handle, "rb")


def create_beside(path: Path, mode: int) -> BinaryIO:
    """A new file in the directory of a log, for writing; replaces an existing one."""
    with _folder_of(path) as folder:
        path.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.fdopen(os.open(path.name, flags, mode, dir_fd=folder), "wb")


@contextmanager
def _folder_of(path: Path) -> Iterator[int]:
    """The directory of a log; OSError if it, or the pod's directory above it, is a link."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRotatePolicy:
    """The size at which a log is rotated, and the number of files to keep, including the current one."""

    max_bytes: int = 10 * 1024 * 1024
    max_files: int = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRotatePlan:
    """The files to remove, oldest first, and then to compress before a log is renamed."""

    remove: tuple[str, ...]
    compress: tuple[str, ...]


def rotated_names(log_name: str, names: Iterable[str]) -> list[str]:
    """The rotated files of a log, oldest first, without the remains of an interrupted rotation."""
    known = {name for name in names if name.startswith(f"{log_name}.")}
    return sorted(name for name in known if not name.endswith(TEMPORARY) and name + COMPRESSED not in known)


def rotation_plan(log_name: str, names: Iterable[str], max_files: int) -> LogRotatePlan:
    """Which rotated files to remove or compress, so that one more fits the policy."""
    known = [name for name in names if name.startswith(f"{log_name}.")]
    kept = rotated_names(log_name, known)
    unused = sorted(set(known).difference(kept))
    # Two more files count: the current one, and the one to be renamed.
    surplus = max(len(kept) - max(max_files - 2, 0), 0)
    compress = tuple(name for name in kept[surplus:] if not name.endswith(COMPRESSED))
    return LogRotatePlan(remove=(*unused, *kept[:surplus]), compress=compress)


def rotated_name(log_name: str, at: datetime) -> str:
    """The new name of a log that is rotated at a time."""
    return f"{log_name}.{at.astimezone(UTC):%Y%m%d-%H%M%S}"


class ContainerLogManager:
    """Rotates the logs of all containers of a node."""

    def __init__(
        self, *, runtime: Runtime, writer: LogWriter, logs: LogDirectory, clock: Clock, policy: LogRotatePolicy
    ) -> None:
        self._runtime, self._writer, self._logs = runtime, writer, logs
        self._clock, self._policy = clock, policy

    async def run(self, ready: asyncio.Event) -> None:
        """Check and rotate logs until cancelled."""
        ready.set()
        while True:
            try:
                await self.rotate_all()
            except RuntimeFailure as failure:
                log.warning("logs not rotated", cause=failure.message)
            await asyncio.sleep(LOG_MONITOR_PERIOD_SECONDS)

    async def rotate_all(self) -> None:
        """Rotate each log that is too large; a failure affects only its own log."""
        # Only running containers: the log of an ended one does not grow, and users want to read it.
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
            # The runtime keeps writing to the renamed file, so it has to be the current one again.
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
    """Replaces a file with its compressed form; a reader that has it open can finish."""
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
