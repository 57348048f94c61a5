"""Starts and watches the shim process of each container, and finds shims again after a restart.

A pidfd becomes readable when a shim ends, and a shim ends with its container: nothing is polled. Blocking work runs in
threads of its own, so that a stuck volume does not delay notifications. The spawner of shims gets no environment and no
files of the kubelet, so that containers cannot learn its secrets.
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
from pykubelet.aio import packets
from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.aio.threads import in_thread
from pykubelet.runtimes.process.pods import NO_HANDLE, ContainerEntry
from pykubelet.runtimes.process.shim.processes import ProcessIdentity, boot_id, kill, open_process, session_members
from pykubelet.runtimes.process.state import ContainerExitRecord, ContainerStartRecord, StateFolders
from pykubelet.runtimes.protocol import RuntimeFailure

log = get_logger(__name__)

# The package path is passed explicitly: importing site would take most of the start time.
_PROGRAM = "import sys; sys.path.append({!r}); from pykubelet.runtimes.process.shim.supervisor import main; main({})"
_ROOT = str(Path(pykubelet.__file__).parent.parent)
_SPAWNER_SECONDS = 20.0
_THREADS = 4
_START_SECONDS = 5.0
_RETRY_SECONDS = 0.01
# containerd's exit code for a container whose end was not observed.
_LOST = 255

Report = Callable[[dict[str, Any] | None], None]
T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Shims:
    """Watches the shims of all containers; calls `changed` with each container that has changed."""

    def __init__(self, *, folders: StateFolders, clock: Clock, changed: Callable[[ContainerEntry], None]) -> None:
        self._folders, self._clock, self._changed = folders, clock, changed
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="process-runtime")
        self._watched: set[ContainerEntry] = set()
        self._is_closed = False

    async def in_thread(self, work: Callable[[*Ts], T], *arguments: *Ts) -> T:
        """Run blocking work in a thread; it completes even if the caller is cancelled."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)

    async def finish_in_thread(self, work: Callable[[*Ts], T], *arguments: *Ts) -> T:
        """The same, but a cancelled caller waits until the work is done, so that nothing overlaps with it."""
        return await in_thread(work, *arguments, executor=self._threads)

    def close(self) -> None:
        """Stop watching; containers keep running, and the next kubelet finds out what happens to them."""
        self._is_closed = True
        for entry in tuple(self._watched):
            self._unwatch(entry)
        self._threads.shutdown()

    async def restore(self, entries: Sequence[ContainerEntry]) -> list[ContainerEntry]:
        """Determine the state of the containers of earlier kubelets; returns those that were started.

        The others will not be started any more and are removed: they must not count as attempts.
        """
        async with asyncio.TaskGroup() as group:
            found = {one: group.create_task(self._find(one), name=f"restore {one.facts.id}") for one in entries}
        return [entry for entry, task in found.items() if task.result()]

    async def _find(self, entry: ContainerEntry) -> bool:
        if entry.exit is not None:
            entry.ended.set()
            return True
        try:
            is_forbidden = entry.state is None and await self.in_thread(self._folders.forbid_start, entry.facts.id)
        except OSError:
            # A full disk. Without its folder no shim can start it.
            is_forbidden = True
        if is_forbidden:
            entry.state = ContainerStartRecord()
        else:
            await self._wait_for_start(entry)
        if entry.state is None:
            # A shim had claimed it, but a power loss has destroyed its record.
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
            await self.in_thread(self._folders.remove_container, entry.facts.id)
        except OSError as error:
            # A shim may be trying in vain to start it; the next kubelet removes the rest.
            log.warning("unstarted container not removed", cause=str(error), **_log_facts(entry))

    async def _wait_for_start(self, entry: ContainerEntry) -> None:
        """Wait a moment for a shim that is just starting; then kill it."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _START_SECONDS
        while entry.state is None or entry.state.main is None:
            entry.state = await self.in_thread(self._folders.state, entry.facts.id)
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
            await asyncio.sleep(_RETRY_SECONDS)

    def watch(self, entry: ContainerEntry, supervisor: ProcessIdentity) -> None:
        """Watch for the end of a container; handles it at once if it has ended."""
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
        self._unwatch(entry)
        self.conclude(entry)

    def _unwatch(self, entry: ContainerEntry) -> None:
        if entry.handle != NO_HANDLE:
            asyncio.get_running_loop().remove_reader(entry.handle)
            os.close(entry.handle)
            entry.handle = NO_HANDLE
            self._watched.discard(entry)

    def conclude(self, entry: ContainerEntry) -> None:
        """Handle the end of a shim: read or write the exit record and report the change."""
        if self._is_closed:
            return
        future = asyncio.get_running_loop().run_in_executor(self._threads, self._exit_record, entry)
        future.add_done_callback(partial(self._concluded, entry))

    def _concluded(self, entry: ContainerEntry, future: "asyncio.Future[ContainerExitRecord]") -> None:
        if future.cancelled():
            return
        error = future.exception()
        if error is None:
            entry.exit = future.result()
        else:
            log.warning("container exit not recorded", cause=str(error), **_log_facts(entry))
            entry.exit = self._lost()
        entry.is_starting = False
        entry.ended.set()
        self._changed(entry)

    def _exit_record(self, entry: ContainerEntry) -> ContainerExitRecord:
        """The exit record that the shim left; if it was killed, ends the container's processes first. Blocks."""
        id = entry.facts.id
        exit = self._folders.exit(id)
        if exit is not None:
            return exit
        log.warning("container shim ended without an exit record", **_log_facts(entry))
        state = self._folders.state(id)
        if state is not None and state.main is not None and state.main.boot_id == boot_id():
            # The kernel has killed the container's first process with the shim, but not the others.
            for pid in session_members(state.main.pid, state.main.start_ticks):
                kill(pid)
            # Also those that have left the session.
            self._folders.kill_members(id)
        exit = self._lost()
        self._folders.write_exit(id, exit)
        return exit

    def _lost(self) -> ContainerExitRecord:
        at = int(self._clock.now().timestamp() * 1_000_000) * 1000
        return ContainerExitRecord(exit_code=_LOST, reason="Unknown", finished_at=at)


class ShimLauncher:
    """Starts shims through one spawner process, which is restarted if it was killed."""

    def __init__(self) -> None:
        self._process: Process | None = None
        self._channel: socket.socket | None = None
        self._turn = asyncio.Lock()

    async def start(self) -> str:
        """Start the spawner; the namespace method that it can use for containers."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        program = _PROGRAM.format(_ROOT, theirs.fileno())
        # An interpreter in an unusual place may need it to find libpython.
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
            async with asyncio.timeout(_SPAWNER_SECONDS):
                hello = packets.decode(await asyncio.get_running_loop().sock_recv(ours, packets.MAX_BYTES))
        if hello is None:
            raise RuntimeFailure("the spawner of container shims does not start")
        return str(hello["way"])

    async def close(self) -> None:
        """End the spawner; shims keep running."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._process is not None:
            await self._process.wait()
            self._process = None

    async def launch(self, folder: Path, report: Report) -> None:
        """Start the container in a folder; `report` is called once, with None if the result is unknown."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        with theirs:
            try:
                await self._send(folder, theirs)
            except OSError as error:
                ours.close()
                raise RuntimeFailure(f"the shim cannot be started: {error.strerror}") from error
            except BaseException:
                ours.close()
                raise
        loop = asyncio.get_running_loop()
        loop.add_reader(ours, _deliver, loop, ours, report)

    async def _send(self, folder: Path, end: socket.socket) -> None:
        async with self._turn:
            if self._channel is None or not await self._try_to_send(folder, end):
                log.warning("spawner of container shims is gone, starting another")
                await self.close()
                await self.start()
                if not await self._try_to_send(folder, end):
                    raise BrokenPipeError(0, "the spawner ends at once")

    async def _try_to_send(self, folder: Path, end: socket.socket) -> bool:
        assert self._channel is not None
        while True:
            try:
                packets.send(self._channel, {"folder": str(folder)}, [end.fileno()])
            except BlockingIOError:
                # Very many starts at once: the spawner needs about a millisecond for each.
                await asyncio.sleep(0.002)
            except (BrokenPipeError, ConnectionResetError):
                return False
            else:
                return True


def _deliver(loop: asyncio.AbstractEventLoop, end: socket.socket, report: Report) -> None:
    loop.remove_reader(end)
    message: dict[str, Any] | None = None
    with end, suppress(OSError):
        message = packets.decode(end.recv(packets.MAX_BYTES))
    report(message)


def _log_facts(entry: ContainerEntry) -> dict[str, str]:
    """The container and its pod, for logs."""
    pod = entry.facts.pod
    return {"pod": f"{pod.namespace}/{pod.name}", "container": entry.facts.id}
