"""The supervisors of containers, as the agent sees them: found again, watched, replaced in death.

Their handles become readable when they end, and they end when their container has: nothing is ever polled. What blocks is
done in threads of our own, so that no stuck volume can hold up the news.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TypeVar, TypeVarTuple

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.runtime.process.book import NO_HANDLE, ContainerEntry
from pykubelet.runtime.process.folders import Folders
from pykubelet.runtime.process.records import Exit, State
from pykubelet.runtime.process.shim.descendants import kill, session_members
from pykubelet.runtime.process.shim.identity import ProcessIdentity, boot_id, open_process

log = get_logger(__name__)

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_THREADS = 4
_START_SECONDS = 5.0
_LOOK_SECONDS = 0.01
# What containerd tells of a container of which nobody saw the end.
_LOST = 255


class Wards:
    """Watches the supervisors of all containers; `changed` is called with each container of which there is news."""

    def __init__(self, *, folders: Folders, clock: Clock, changed: Callable[[ContainerEntry], None]) -> None:
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
            entry.state = State()
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

    def _concluded(self, entry: ContainerEntry, future: "asyncio.Future[Exit]") -> None:
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

    def _last_word(self, entry: ContainerEntry) -> Exit:
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

    def _lost(self) -> Exit:
        at = int(self._clock.now().timestamp() * 1_000_000) * 1000
        return Exit(exit_code=_LOST, reason="Unknown", finished_at=at)
