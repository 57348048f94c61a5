"""The scheduling queue: orders unscheduled pods and decides when pods that did not fit are retried.

The highest priority goes first, then the oldest. An unschedulable pod waits for a cluster event that could help, at
most five minutes, and each failed attempt lengthens its backoff.

Upstream: pkg/scheduler/backend/queue/scheduling_queue.go
"""

from pykubelet.aio.backoff import Backoff
from pykubelet.aio.clock import Clock
from pykubelet.aio.queues import KeyedQueue
from pykubelet.api.generated.core import Pod
from pykubelet.api.pods import pod_label
from pykubelet.client.indexer import age_key
from pykubelet.scheduler.cache import pod_priority
from pykubelet.scheduler.filters import RetryEvent

BACKOFF = Backoff(first_seconds=1, limit_seconds=10)
LONGEST_WAIT_SECONDS = 300.0
# Larger than any timestamp in nanoseconds: priority always outweighs age.
_PRIORITY_STEP = 10**20


class SchedulingQueue:
    """Keys of pods (`namespace/name`), each handed to one worker at a time. A change costs O(1)."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ready: KeyedQueue[str, None] = KeyedQueue()
        self._unschedulable: dict[RetryEvent, dict[str, int]] = {}
        self._retry_on: dict[str, frozenset[RetryEvent]] = {}
        self._failures: dict[str, int] = {}
        self._not_before: dict[str, float] = {}

    def add(self, pod: Pod) -> None:
        """Queues a pod by priority and age."""
        key = pod_label(pod)
        self._remove_unschedulable(key)
        self._ready.put(key, None, priority=queue_sort_key(pod))

    def delete(self, key: str) -> None:
        self._remove_unschedulable(key)
        self._ready.discard(key)
        self._failures.pop(key, None)
        self._not_before.pop(key, None)

    def add_unschedulable(self, pod: Pod, retry_on: frozenset[RetryEvent]) -> None:
        """Retries a pod that did not fit after one of these events, or after five minutes."""
        self._failed(pod_label(pod))
        self.wait(pod, retry_on)

    def wait(self, pod: Pod, retry_on: frozenset[RetryEvent]) -> None:
        """Retries a pod after one of these events, without a backoff for this attempt, or after five minutes."""
        key = pod_label(pod)
        self._retry_on[key] = retry_on
        for each in retry_on:
            self._unschedulable.setdefault(each, {})[key] = queue_sort_key(pod)
        self._ready.put_later(key, None, LONGEST_WAIT_SECONDS, priority=queue_sort_key(pod))

    def retry(self, pod: Pod) -> None:
        """Retries a pod after its backoff, following an error."""
        key = pod_label(pod)
        self._failed(key)
        self._put_when_due(key, queue_sort_key(pod))

    def move_on_event(self, event: RetryEvent) -> None:
        """Moves the pods that an event may help to the active queue, each once per attempt."""
        for key, priority in tuple(self._unschedulable.get(event, {}).items()):
            self._remove_unschedulable(key)
            self._put_when_due(key, priority)

    async def get(self) -> str:
        """Waits for the next pod to schedule. Each `get` needs its `done`."""
        key, _ = await self._ready.get()
        self._remove_unschedulable(key)
        return key

    def done(self, key: str) -> None:
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

    def _remove_unschedulable(self, key: str) -> None:
        for event in self._retry_on.pop(key, ()):
            waiting = self._unschedulable[event]
            waiting.pop(key, None)
            if not waiting:
                del self._unschedulable[event]


def queue_sort_key(pod: Pod) -> int:
    """Sorts by priority, then by age; lower comes first."""
    created, _ = age_key(pod)
    return created - pod_priority(pod) * _PRIORITY_STEP
