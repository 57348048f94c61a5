"""The supervisors of containers, as the agent sees them: found again, watched, replaced in death.

Their handles become readable when they end, and they end when their container has: nothing is ever polled. What blocks is
done in threads of our own, so that no stuck volume can hold up the news.

Has supervisors started: the agent's side of `shim/spawner.py`, and the door to a subprocess.

The spawner gets no environment and no files of the agent: whatever it starts must not know its secrets.
"""

import asyncio
import os
import signal
import socket
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple

import pykubelet
from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.runtimes.process.pods import NO_HANDLE, ContainerEntry
from pykubelet.runtimes.process.shim import wire
from pykubelet.runtimes.process.shim.processes import ProcessIdentity, boot_id, kill, open_process, session_members
from pykubelet.runtimes.process.state import ContainerExitRecord, ContainerStartRecord, StateFolders
from pykubelet.runtimes.protocol import RuntimeFailure

log = get_logger(__name__)

# Where the package is, told by hand: without site, which would take most of the time to start.
_PROGRAM = "import sys; sys.path.append({!r}); from pykubelet.runtimes.process.shim.supervisor import main; main({})"
_ROOT = str(Path(pykubelet.__file__).parent.parent)
_PATIENCE_SECONDS = 20.0

Report = Callable[[dict[str, Any] | None], None]


class ShimLauncher:
    """One spawner, started when it is needed and again if it was killed."""

    def __init__(self) -> None:
        self._process: Process | None = None
        self._channel: socket.socket | None = None
        self._turn = asyncio.Lock()

    async def start(self) -> str:
        """Start the spawner; how it can give containers a view of their own."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        program = _PROGRAM.format(_ROOT, theirs.fileno())
        # An interpreter in an unusual place may need it to find its own library.
        environment = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
        with theirs:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-I", "-S", "-c", program),
                pass_fds=[theirs.fileno()],
                stdin=DEVNULL,
                stdout=DEVNULL,
                stderr=DEVNULL,
                env=environment,
                cwd="/",
                start_new_session=True,
            )
        self._channel = ours
        hello: dict[str, Any] | None = None
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_SECONDS):
                hello = wire.decode(await asyncio.get_running_loop().sock_recv(ours, wire.MAX_BYTES))
        if hello is None:
            raise RuntimeFailure("the spawner of supervisors does not start")
        return str(hello["way"])

    async def close(self) -> None:
        """Let the spawner end; what it started goes on."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._process is not None:
            await self._process.wait()
            self._process = None

    async def launch(self, folder: Path, report: Report) -> None:
        """Have the container in a folder started; `report` is called once, with None if nobody knows what came of it."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        with theirs:
            try:
                await self._send(folder, theirs)
            except OSError as error:
                ours.close()
                raise RuntimeFailure(f"the supervisor cannot be started: {error.strerror}") from error
            except BaseException:
                ours.close()
                raise
        loop = asyncio.get_running_loop()
        loop.add_reader(ours, _deliver, loop, ours, report)

    async def _send(self, folder: Path, end: socket.socket) -> None:
        async with self._turn:
            if self._channel is None or not await self._try_to_send(folder, end):
                log.warning("spawner of supervisors is gone, starting another")
                await self.close()
                await self.start()
                if not await self._try_to_send(folder, end):
                    raise BrokenPipeError(0, "the spawner ends at once")

    async def _try_to_send(self, folder: Path, end: socket.socket) -> bool:
        assert self._channel is not None
        while True:
            try:
                wire.send(self._channel, {"folder": str(folder)}, [end.fileno()])
            except BlockingIOError:
                # Very many at once: the spawner takes about a millisecond for each.
                await asyncio.sleep(0.002)
            except (BrokenPipeError, ConnectionResetError):
                return False
            else:
                return True


def _deliver(loop: asyncio.AbstractEventLoop, end: socket.socket, report: Report) -> None:
    loop.remove_reader(end)
    message: dict[str, Any] | None = None
    with end, suppress(OSError):
        message = wire.decode(end.recv(wire.MAX_BYTES))
    report(message)


T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_THREADS = 4
_START_SECONDS = 5.0
_LOOK_SECONDS = 0.01
# What containerd tells of a container of which nobody saw the end.
_LOST = 255


class Shims:
    """Watches the supervisors of all containers; `changed` is called with each container of which there is news."""

    def __init__(self, *, folders: StateFolders, clock: Clock, changed: Callable[[ContainerEntry], None]) -> None:
        self._folders, self._clock, self._changed = folders, clock, changed
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="process-runtime")
        self._watched: set[ContainerEntry] = set()
        self._is_closed = False

    async def on_disk(self, work: Callable[[*Ts], T], *arguments: *Ts) -> T:
        """Do what blocks; it is done to its end, whoever stops waiting for it."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)

    def close(self) -> None:
        """Watch no more; everything goes on. What is heard from now on is for the next agent to find out."""
        self._is_closed = True
        for entry in tuple(self._watched):
            self._let_go(entry)
        self._threads.shutdown()

    async def find_again(self, entries: Sequence[ContainerEntry]) -> list[ContainerEntry]:
        """Find out what became of the containers that earlier agents made; those that were ever started.

        Nobody waits any more for the others to be started, so they never may be, and are forgotten: they must not count
        as attempts.
        """
        async with asyncio.TaskGroup() as group:
            found = {one: group.create_task(self._find(one), name=f"find {one.facts.id} again") for one in entries}
        return [entry for entry, task in found.items() if task.result()]

    async def _find(self, entry: ContainerEntry) -> bool:
        if entry.exit is not None:
            entry.ended.set()
            return True
        if entry.state is None and await self.on_disk(self._folders.forbid_start, entry.facts.id):
            entry.state = ContainerStartRecord()
        else:
            await self._wait_for_start(entry)
        if entry.state is None:
            # Somebody had it, but a loss of power has left nothing of what was written down.
            self.conclude(entry)
        elif entry.state.supervisor is None:
            await self._forget(entry)
            return False
        else:
            self.watch(entry, entry.state.supervisor)
        if entry.handle == NO_HANDLE:
            await entry.ended.wait()
        return True

    async def _forget(self, entry: ContainerEntry) -> None:
        try:
            await self.on_disk(self._folders.remove_container, entry.facts.id)
        except OSError as error:
            # A supervisor may just be trying to start it, in vain; the next agent clears away what is left.
            log.warning("container that was never started is not removed", container=entry.facts.id, cause=str(error))

    async def _wait_for_start(self, entry: ContainerEntry) -> None:
        """A supervisor that was just starting gets a moment; then it is ended, with what it has begun."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _START_SECONDS
        while entry.state is None or entry.state.main is None:
            entry.state = await self.on_disk(self._folders.state, entry.facts.id)
            if entry.state is None or entry.state.supervisor is None:
                return
            handle = open_process(entry.state.supervisor)
            if handle is None:
                return
            try:
                if loop.time() > deadline:
                    with suppress(ProcessLookupError):
                        signal.pidfd_send_signal(handle, signal.SIGKILL)
                    return
            finally:
                os.close(handle)
            await asyncio.sleep(_LOOK_SECONDS)

    def watch(self, entry: ContainerEntry, supervisor: ProcessIdentity) -> None:
        """Hear of the end of a container; at once, if it has ended."""
        if self._is_closed:
            return
        handle = open_process(supervisor)
        if handle is None:
            self.conclude(entry)
            return
        entry.handle = handle
        self._watched.add(entry)
        asyncio.get_running_loop().add_reader(handle, self._supervisor_ended, entry)

    def _supervisor_ended(self, entry: ContainerEntry) -> None:
        self._let_go(entry)
        self.conclude(entry)

    def _let_go(self, entry: ContainerEntry) -> None:
        if entry.handle != NO_HANDLE:
            asyncio.get_running_loop().remove_reader(entry.handle)
            os.close(entry.handle)
            entry.handle = NO_HANDLE
            self._watched.discard(entry)

    def conclude(self, entry: ContainerEntry) -> None:
        """The supervisor is gone: find out how the container ended, and tell."""
        if self._is_closed:
            return
        future = asyncio.get_running_loop().run_in_executor(self._threads, self._last_word, entry)
        future.add_done_callback(partial(self._concluded, entry))

    def _concluded(self, entry: ContainerEntry, future: "asyncio.Future[ContainerExitRecord]") -> None:
        if future.cancelled():
            return
        error = future.exception()
        if error is None:
            entry.exit = future.result()
        else:
            log.warning("the end of a container cannot be recorded", container=entry.facts.id, cause=str(error))
            entry.exit = self._lost()
        entry.is_starting = False
        entry.ended.set()
        self._changed(entry)

    def _last_word(self, entry: ContainerEntry) -> ContainerExitRecord:
        """What the supervisor left; if it was killed, what there is to say and to clear away. Blocks."""
        id = entry.facts.id
        exit = self._folders.exit(id)
        if exit is not None:
            return exit
        log.warning("supervisor of a container is gone without a word", container=id, pod=entry.facts.pod.name)
        state = self._folders.state(id)
        if state is not None and state.main is not None and state.main.boot_id == boot_id():
            # Its first process was killed by the kernel with it; the others were not.
            for pid in session_members(state.main.pid, state.main.start_ticks):
                kill(pid)
        exit = self._lost()
        self._folders.write_exit(id, exit)
        return exit

    def _lost(self) -> ContainerExitRecord:
        at = int(self._clock.now().timestamp() * 1_000_000) * 1000
        return ContainerExitRecord(exit_code=_LOST, reason="Unknown", finished_at=at)
