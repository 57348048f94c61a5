"""Pods that wait for a node: whose turn it is, and when those that did not fit are tried again.

The highest priority goes first, then the oldest. A pod that did not fit waits for a change that could help, or five
minutes, and each try in vain makes the next one later. Upstream: pkg/scheduler/backend/queue.
"""

from pykubelet.aio.backoff import Backoff
from pykubelet.aio.clock import Clock
from pykubelet.aio.queues import KeyedQueue
from pykubelet.api.generated.core import Pod
from pykubelet.api.pods import pod_label
from pykubelet.api.times import nanoseconds
from pykubelet.scheduler.cache import pod_priority
from pykubelet.scheduler.filters import ClusterEvent

BACKOFF = Backoff(first_seconds=1, limit_seconds=10)
LONGEST_WAIT_SECONDS = 300.0
# More than the nanoseconds of any date: one step of priority counts more than any age.
_PRIORITY_STEP = 10**20


class SchedulingQueue:
    """Keys of pods (`namespace/name`), each handed out to one worker at a time. A change costs O(1)."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ready: KeyedQueue[str, None] = KeyedQueue()
        self._parked: dict[ClusterEvent, dict[str, int]] = {help_: {} for help_ in ClusterEvent}
        self._failures: dict[str, int] = {}
        self._not_before: dict[str, float] = {}

    def add(self, pod: Pod) -> None:
        """Have a pod tried as soon as it is its turn."""
        key = pod_label(pod)
        self._unpark(key)
        self._ready.put(key, None, priority=queue_sort_key(pod))

    def forget(self, key: str) -> None:
        """A pod waits no longer."""
        self._unpark(key)
        self._ready.discard(key)
        self._failures.pop(key, None)
        self._not_before.pop(key, None)

    def park(self, pod: Pod, help_: frozenset[ClusterEvent]) -> None:
        """A pod did not fit: try it again after one of these changes, or after a long time."""
        key = pod_label(pod)
        self._failed(key)
        for each in help_:
            self._parked[each][key] = queue_sort_key(pod)
        self._ready.put_later(key, None, LONGEST_WAIT_SECONDS, priority=queue_sort_key(pod))

    def retry(self, pod: Pod) -> None:
        """Something went wrong: try the pod again after a while."""
        key = pod_label(pod)
        self._failed(key)
        self._put_when_due(key, queue_sort_key(pod))

    def helped(self, help_: ClusterEvent) -> None:
        """A change has happened. Each pod it may help is moved once, so that this costs no more than its next try."""
        for key, priority in tuple(self._parked[help_].items()):
            self._unpark(key)
            self._put_when_due(key, priority)

    async def get(self) -> str:
        """The next pod to try; waits for one. Every get needs its `done`."""
        key, _ = await self._ready.get()
        self._unpark(key)
        return key

    def done(self, key: str) -> None:
        """The try is over."""
        self._ready.done(key)

    def __contains__(self, key: object) -> bool:
        return key in self._ready

    def _failed(self, key: str) -> None:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        self._not_before[key] = self._clock.monotonic() + BACKOFF.delay_seconds(failures)

    def _put_when_due(self, key: str, priority: int) -> None:
        left = self._not_before.get(key, 0.0) - self._clock.monotonic()
        if left > 0:
            self._ready.put_later(key, None, left, priority=priority)
        else:
            self._ready.put(key, None, priority=priority)

    def _unpark(self, key: str) -> None:
        for parked in self._parked.values():
            parked.pop(key, None)


def queue_sort_key(pod: Pod) -> int:
    """The lower, the sooner a pod is tried: by priority, then by age."""
    created = nanoseconds(pod.metadata.creation_timestamp) if pod.metadata.creation_timestamp else 0
    return created - pod_priority(pod) * _PRIORITY_STEP
