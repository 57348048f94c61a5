"""Keep statuses flowing to the API server: many pods at once, the urgent first.

Whoever changes a status offers the pod here, which costs the same however many pods there are. Each pod's statuses go
in order, and only the newest of those that wait. A failed try is repeated by itself, ever later, and not before
the time the server asked for. Every ten seconds all pods are compared with what the API shows, because others may have
changed it. Upstream: pkg/kubelet/status/status_manager.go (Start), with one worker for all pods.
"""

import asyncio

from pykubelet.agent.status.syncer import Retry, StatusSyncer
from pykubelet.agent.status.urgency import Urgency
from pykubelet.aio.backoff import Backoff
from pykubelet.aio.clock import Clock
from pykubelet.aio.keyed_queue import KeyedQueue
from pykubelet.aio.log import get_logger
from pykubelet.aio.supervise import start_supervised
from pykubelet.api.keys import PodUid

log = get_logger(__name__)

# Enough to fill the time an answer takes, few enough not to crowd out the node's other requests.
IN_FLIGHT = 16
RECONCILE_SECONDS = 10.0
# The longest wait is the reconcile period: upstream, too, tries everything unsent again as often.
BACKOFF = Backoff(first_seconds=0.1, limit_seconds=RECONCILE_SECONDS, jitter=0.2)


class StatusSender:
    """The queue of statuses to send, and the workers that send them. Owned by one loop."""

    def __init__(self, *, syncer: StatusSyncer, clock: Clock) -> None:
        self._syncer = syncer
        self._clock = clock
        self._queue: KeyedQueue[PodUid, Urgency] = KeyedQueue()
        self._failures: dict[PodUid, int] = {}
        # Until when, on the monotonic clock, the server does not want to hear of a pod.
        self._held_until: dict[PodUid, float] = {}

    def offer(self, uid: PodUid, urgency: Urgency) -> None:
        """There may be something to send for this pod. Never waits."""
        held = self._held_until.get(uid, 0.0) - self._clock.monotonic()
        if held > 0:
            self._queue.put_later(uid, urgency, held, priority=urgency)
        else:
            self._queue.put(uid, urgency, priority=urgency)

    def withdraw(self, uid: PodUid) -> None:
        """There is nothing to send for this pod any more."""
        self._queue.discard(uid)
        self._failures.pop(uid, None)
        self._held_until.pop(uid, None)

    def reconcile(self, uid: PodUid) -> None:
        """Offer this pod if the API lacks its status or shows another one."""
        if uid not in self._queue and self._syncer.is_due(uid):
            self.offer(uid, Urgency.OTHER)

    async def sync_batch(self, *, all: bool) -> int:
        """Send once what is due and wait for it; how many pods were tried. Not to be called beside `run`."""
        due = self._syncer.due(all=all)
        for uid in due:
            self.withdraw(uid)
        left = iter(due)

        async def work() -> None:
            for uid in left:
                await self._syncer.sync_pod(uid)

        await asyncio.gather(*(work() for _ in range(min(IN_FLIGHT, len(due)))))
        return len(due)

    async def run(self, ready: asyncio.Event) -> None:
        """Send what is offered, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(IN_FLIGHT):
                start_supervised(group, f"status sender {number}", self._work)
            start_supervised(group, "status reconciler", self._reconcile_all)
            ready.set()

    async def _work(self) -> None:
        while True:
            uid, urgency = await self._queue.get()
            try:
                retry = await self._syncer.sync_pod(uid)
            except Exception as error:  # noqa: BLE001  one odd pod must not hold up the others
                log.error("failed sending status", error=error, uid=uid)
                retry = Retry()
            finally:
                self._queue.done(uid)
            if retry is None:
                self._failures.pop(uid, None)
                self._held_until.pop(uid, None)
            else:
                self._retry(uid, urgency, retry)

    def _retry(self, uid: PodUid, urgency: Urgency, retry: Retry) -> None:
        failures = self._failures[uid] = self._failures.get(uid, 0) + 1
        delay = BACKOFF.delay_seconds(failures)
        if retry.after_seconds:
            delay = max(delay, retry.after_seconds)
            self._held_until[uid] = self._clock.monotonic() + delay
            # What came in meanwhile has to wait as well.
            self._queue.discard(uid)
        self._queue.put_later(uid, urgency, delay, priority=urgency)

    async def _reconcile_all(self) -> None:
        while True:
            await asyncio.sleep(RECONCILE_SECONDS)
            for uid in self._syncer.due(all=True):
                if uid not in self._queue:
                    self.offer(uid, Urgency.OTHER)
