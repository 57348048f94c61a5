"""Keeps logs of containers from filling the disk: moves them away, compresses, removes the oldest.

Looks at the size of each log of a running container every ten seconds.

Upstream: pkg/kubelet/logs/container_log_manager.go
"""

import asyncio
import gzip
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.runtime.log_directory import LogDirectory
from pykubelet.runtime.log_open import create_beside, open_log
from pykubelet.runtime.log_paths import pod_names
from pykubelet.runtime.log_rotation import COMPRESSED, TEMPORARY, RotationPolicy, rotated_name, rotation_plan
from pykubelet.runtime.protocol import ContainerState, LogWriter, Runtime, RuntimeFailure

log = get_logger(__name__)

PERIOD_SECONDS = 10.0


class LogRotator:
    """Rotates the logs of all containers of a node."""

    def __init__(
        self, *, runtime: Runtime, writer: LogWriter, logs: LogDirectory, clock: Clock, policy: RotationPolicy
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
            await asyncio.sleep(PERIOD_SECONDS)

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
