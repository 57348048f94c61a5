"""Programs under measurement, started as users start them and measured from outside."""

import asyncio
import subprocess
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from time import perf_counter

import psutil

START_SECONDS = 60.0


class Program:
    """A `pykubelet` command as a process, available once it has printed `ready`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.ready_seconds = 0.0
        self.ready: list[str] = []
        """The words after "ready"."""
        self.pid = process.pid
        self._process = process
        self._inside = psutil.Process(process.pid)
        self._last_words: deque[str] = deque(maxlen=20)

    @classmethod
    @asynccontextmanager
    async def run(cls, *arguments: str | Path) -> AsyncIterator["Program"]:
        """Run the command while the context lasts."""
        began = perf_counter()
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "pykubelet", *map(str, arguments), stderr=asyncio.subprocess.PIPE
        )
        program = cls(process)
        is_ready = asyncio.Event()
        # stderr must be read, or the program blocks when the pipe is full.
        listening = asyncio.create_task(program._listen(is_ready))
        try:
            await asyncio.wait_for(is_ready.wait(), START_SECONDS)
            program.ready_seconds = perf_counter() - began
            if not program.ready:
                raise SystemExit("\n".join((f"`pykubelet {arguments[0]}` did not start", *program._last_words)))
            yield program
        finally:
            # The end of its output means that the program has exited.
            if not listening.done():
                process.terminate()
            await listening
            await process.wait()

    async def _listen(self, is_ready: asyncio.Event) -> None:
        assert self._process.stderr is not None
        async for line in self._process.stderr:
            text = line.decode().rstrip()
            self._last_words.append(text)
            if text.startswith("ready ") and not is_ready.is_set():
                self.ready = text.split()[1:]
                is_ready.set()
        is_ready.set()

    def rss_mb(self) -> float:
        return megabytes(self._inside.memory_info().rss)

    def cpu_seconds(self) -> float:
        return cpu_seconds(self._inside)


def cpu_seconds(process: psutil.Process) -> float:
    """The exact CPU time of a process: /proc counts clock ticks of 10 ms, too coarse for a burst of pods."""
    # What clock_getcpuclockid(3) returns for a process, counting what the scheduler has run.
    return time.clock_gettime((~process.pid << 3) | 2)


def megabytes(count: float) -> float:
    return round(count / 2**20, 1)


def processes_in(folder: Path) -> Iterator[psutil.Process]:
    """The processes that work in a folder, which include supervisors without a parent."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if Path(process.cwd()).is_relative_to(folder):
                yield process


def end_processes_in(folder: Path) -> None:
    """Kill all processes of a run, also after an error."""
    for process in list(processes_in(folder)):
        with suppress(psutil.Error):
            for each in (*process.children(recursive=True), process):
                each.kill()


def unmount_below(folder: Path) -> None:
    """Remove the mounts in a folder, such as the network namespaces of pods that a killed node has left."""
    paths = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    if found := [path for path in paths if path.startswith(f"{folder}/")]:
        subprocess.run(["umount", "--lazy", *found], check=False)
