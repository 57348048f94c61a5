"""Expectations: the creations and deletions a controller has requested and not yet seen in its watch.

A controller sees its own writes only later, through its informers. Syncing again before that would create too many
pods. Times are monotonic seconds, passed in.

Upstream: pkg/controller/controller_utils.go
"""

from collections.abc import Iterable
from dataclasses import dataclass

from pykubelet.controllers.framework.work_queue import WorkQueue

# A lost watch event must not stop a controller forever.
EXPECTATIONS_TIMEOUT_SECONDS = 300.0
# A controller that syncs so long after the timeout finds its expectation expired.
_MARGIN_SECONDS = 1.0


@dataclass(slots=True)
class Expectation:
    """The pending creations and deletions of one controller key; below zero if more was seen than expected."""

    add: int
    delete: int
    since_seconds: float

    @property
    def fulfilled(self) -> bool:
        return self.add <= 0 and self.delete <= 0

    def is_expired(self, now_seconds: float) -> bool:
        return now_seconds - self.since_seconds > EXPECTATIONS_TIMEOUT_SECONDS


class Expectations:
    """Pending creations and deletions by controller key (`namespace/name`)."""

    def __init__(self) -> None:
        self._by_key: dict[str, Expectation] = {}

    def get(self, key: str) -> Expectation | None:
        return self._by_key.get(key)

    def set(self, key: str, *, add: int = 0, delete: int = 0, now_seconds: float) -> None:
        self._by_key[key] = Expectation(add, delete, now_seconds)

    def expect_creations(self, key: str, count: int, *, now_seconds: float) -> None:
        """Expects `count` creations and no deletion."""
        self.set(key, add=count, now_seconds=now_seconds)

    def creation_observed(self, key: str) -> None:
        """Counts one creation, which was seen or failed."""
        self.lower(key, add=1)

    def raise_(self, key: str, *, add: int = 0, delete: int = 0) -> None:
        """Adds to an existing expectation."""
        self.lower(key, add=-add, delete=-delete)

    def lower(self, key: str, *, add: int = 0, delete: int = 0) -> None:
        """Subtracts from an existing expectation."""
        if found := self._by_key.get(key):
            found.add -= add
            found.delete -= delete

    def satisfied(self, key: str, *, now_seconds: float) -> bool:
        """Whether the controller may act: no expectation, all of it seen, or timed out."""
        found = self._by_key.get(key)
        return found is None or found.fulfilled or found.is_expired(now_seconds)

    def enqueue_on_expiry(self, key: str, queue: WorkQueue, *, now_seconds: float) -> None:
        """Enqueues the key for the time when its pending expectation has expired; call it at the end of each sync.

        A pod that was created and deleted while the watch was down is never seen. Upstream relies on the informers'
        resync to sync the key again after the timeout; informers here do not resync.
        """
        found = self._by_key.get(key)
        if found is not None and not self.satisfied(key, now_seconds=now_seconds):
            expiry_seconds = found.since_seconds + EXPECTATIONS_TIMEOUT_SECONDS + _MARGIN_SECONDS
            queue.add_after(key, expiry_seconds - now_seconds)

    def forget(self, key: str) -> None:
        self._by_key.pop(key, None)


class CountingExpectations(Expectations):
    """Counts deletions, for controllers that see each deletion exactly once."""

    def expect_deletions(self, key: str, count: int, *, now_seconds: float) -> None:
        """Expects `count` deletions and no creation."""
        self.set(key, delete=count, now_seconds=now_seconds)

    def deletion_observed(self, key: str) -> None:
        """Counts one deletion, which was seen or failed."""
        self.lower(key, delete=1)


class UidTrackingExpectations(Expectations):
    """Tracks deletions by pod: a graceful deletion is seen twice and must count once.

    Pods are identified by `namespace/name`, as upstream does despite the type's name.
    """

    def __init__(self) -> None:
        super().__init__()
        self._awaited: dict[str, set[str]] = {}

    def awaited(self, key: str) -> frozenset[str]:
        """The pods whose deletion has not been seen yet."""
        return frozenset(self._awaited.get(key, ()))

    def expect_deletions(self, key: str, pods: Iterable[str], *, now_seconds: float) -> None:
        """Expects the deletion of these pods and no creation."""
        self._awaited[key] = set(pods)
        self.set(key, delete=len(self._awaited[key]), now_seconds=now_seconds)

    def deletion_observed(self, key: str, pod: str) -> None:
        """Counts the deletion of this pod once; ignores pods that are not awaited."""
        awaited = self._awaited.get(key, set())
        if pod in awaited:
            awaited.remove(pod)
            self.lower(key, delete=1)

    def forget(self, key: str) -> None:
        super().forget(key)
        self._awaited.pop(key, None)
