"""The loop: takes what is heard from anywhere and has it handled, one thing at a time.

In: updates of the sources, changes in the runtime, what the inbox has, the time for housekeeping. Out: calls to the
handlers. Each input has a task that waits for it; the handlers themselves never wait, so one of them runs at a time.
While the runtime is down nothing is handled. Upstream: syncLoop in pkg/kubelet/kubelet.go; its tick every second for
pods that are due is gone, for workers know when they are.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Protocol

from pykubelet.agent.entrance import Entrance
from pykubelet.agent.flow import PodOp, PodUpdate, ProbeResult
from pykubelet.agent.handlers import PodHandlers
from pykubelet.agent.housekeeping import Housekeeper
from pykubelet.agent.inbox import LoopInbox, ObjectsArrived, PodStopped
from pykubelet.aio.backoff import Backoff, Retries
from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.aio.supervise import start_supervised
from pykubelet.runtime.watchdog import PodChanges

log = get_logger(__name__)

HOUSEKEEPING_SECONDS = 2.0
# With nothing hinted at, a look once in a while finds what nobody told of.
_QUIET_ROUNDS = 30
_SLOW_HOUSEKEEPING_SECONDS = 1.0
# While the runtime is down: after 0.1 s, then ever later, at most every 5 s.
_RUNTIME_DOWN = Backoff(first_seconds=0.1, limit_seconds=5)
_LEAST_STUCK_SECONDS = 300.0


class RuntimeChanges(Protocol):
    """Tells what happened to pods in the runtime."""

    async def next_changes(self) -> PodChanges:
        """What happened to one pod; waits for something."""


class NodeHealth(Protocol):
    """What keeps the loop from working; answers at once."""

    def runtime_error(self) -> str:
        """Why nothing can be done with the runtime; empty if it works."""

    def all_sources_ready(self) -> bool:
        """Whether every source has told its pods, so that what nobody names may go."""


class NodeLoop:
    """The heart of a node."""

    def __init__(
        self,
        *,
        updates: AsyncIterator[PodUpdate],
        changes: RuntimeChanges,
        inbox: LoopInbox,
        handlers: PodHandlers,
        entrance: Entrance,
        housekeeper: Housekeeper,
        health: NodeHealth,
        clock: Clock,
    ) -> None:
        self._updates, self._changes, self._inbox = updates, changes, inbox
        self._handlers, self._entrance, self._housekeeper = handlers, entrance, housekeeper
        self._health, self._clock = health, clock
        self._entered_at: float | None = None
        self._untidy = True
        self._may_have_orphans = asyncio.Event()

    async def run(self, ready: asyncio.Event) -> None:
        """Handle everything until cancelled, or until there are no more updates to come."""
        async with asyncio.TaskGroup() as group:
            others = [
                start_supervised(group, "runtime changes", self._hear_runtime),
                start_supervised(group, "loop inbox", self._hear_stations),
                start_supervised(group, "housekeeping", self._keep_house),
                start_supervised(group, "orphaned mirrors", self._delete_orphaned_mirrors),
                start_supervised(group, "entrance", lambda: self._entrance.run(asyncio.Event())),
            ]
            ready.set()
            async for update in self._updates:
                await self._enter()
                log.debug("pods changed", op=update.op.name, source=update.source, pods=len(update.pods))
                self._handlers.handle(update)
                # What the API only repeats leaves nothing behind.
                if update.op is not PodOp.RECONCILE:
                    self._untidy = True
                    self._may_have_orphans.set()
            log.error("no more updates, the loop ends")
            for task in others:
                task.cancel()

    def stuck_error(self, resync_seconds: float) -> str:
        """What is wrong if the loop has not gone round for too long; empty if it has, or has not begun."""
        limit = max(2 * resync_seconds, _LEAST_STUCK_SECONDS)
        if self._entered_at is not None and self._clock.monotonic() - self._entered_at > limit:
            return "sync Loop took longer than expected"
        return ""

    async def _enter(self) -> None:
        """Every round goes through here: it waits until the runtime works, and notes that the loop is alive."""
        retries = Retries(_RUNTIME_DOWN)
        while error := self._health.runtime_error():
            log.warning("pods are not looked after, the runtime is down", cause=error)
            await asyncio.sleep(retries.next_delay_seconds())
        self._entered_at = self._clock.monotonic()

    async def _hear_runtime(self) -> None:
        while True:
            heard = await self._changes.next_changes()
            await self._enter()
            if not self._handlers.pod_changed(heard):
                self._untidy = True

    async def _hear_stations(self) -> None:
        while True:
            news = await self._inbox.next()
            await self._enter()
            if isinstance(news, ProbeResult):
                self._handlers.probed(news)
            elif isinstance(news, ObjectsArrived):
                self._handlers.arrived(news.uid)
            elif isinstance(news, PodStopped):
                self._entrance.forget(news.uid)
            else:
                self._untidy = True
                self._housekeeper.tidy(news.uid)
                self._may_have_orphans.set()

    async def _delete_orphaned_mirrors(self) -> None:
        """The mirror of a pod goes as soon as the pod has; a server that does not answer holds up nothing else."""
        while True:
            await self._may_have_orphans.wait()
            self._may_have_orphans.clear()
            if self._health.all_sources_ready():
                await self._housekeeper.delete_orphaned_mirrors()

    async def _keep_house(self) -> None:
        quiet_rounds = 0
        while True:
            await asyncio.sleep(HOUSEKEEPING_SECONDS)
            await self._enter()
            quiet_rounds += 1
            if not self._health.all_sources_ready() or not (self._untidy or quiet_rounds >= _QUIET_ROUNDS):
                continue
            quiet_rounds, self._untidy = 0, False
            began = self._clock.monotonic()
            is_settled = await self._housekeeper.clean()
            self._untidy |= not is_settled
            if (took := self._clock.monotonic() - began) > _SLOW_HOUSEKEEPING_SECONDS:
                log.warning("housekeeping took longer than expected", seconds=round(took, 3))
