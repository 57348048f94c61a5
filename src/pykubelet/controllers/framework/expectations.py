"""Promises a controller waits for: "I asked for 3 pods; do not act again until I have seen them".

A controller sees its own writes only later, through its watch. Acting again before that would make too many pods.
Time is passed in as monotonic seconds. Upstream: pkg/controller/controller_utils.go.
"""

from collections.abc import Iterable
from dataclasses import dataclass

# A watch event that is lost for good must not stop a controller for ever.
EXPECTATIONS_TIMEOUT_SECONDS = 300.0


@dataclass(slots=True)
class Expectation:
    """What one controller still waits for; below zero means more was seen than promised."""

    add: int
    delete: int
    since_seconds: float

    @property
    def fulfilled(self) -> bool:
        """Whether everything promised has been seen."""
        return self.add <= 0 and self.delete <= 0

    def is_expired(self, now_seconds: float) -> bool:
        """Whether it has been waited for long enough."""
        return now_seconds - self.since_seconds > EXPECTATIONS_TIMEOUT_SECONDS


class Expectations:
    """Counts of creations and deletions still to be seen, by controller key (`namespace/name`)."""

    def __init__(self) -> None:
        self._by_key: dict[str, Expectation] = {}

    def get(self, key: str) -> Expectation | None:
        """What this controller waits for, if it ever promised anything."""
        return self._by_key.get(key)

    def set(self, key: str, *, add: int = 0, delete: int = 0, now_seconds: float) -> None:
        """Promise this much from now on; an earlier promise is forgotten."""
        self._by_key[key] = Expectation(add, delete, now_seconds)

    def expect_creations(self, key: str, count: int, *, now_seconds: float) -> None:
        """Promise `count` creations and no deletion."""
        self.set(key, add=count, now_seconds=now_seconds)

    def creation_observed(self, key: str) -> None:
        """A creation was seen, or will never be because the call failed."""
        self.lower(key, add=1)

    def raise_(self, key: str, *, add: int = 0, delete: int = 0) -> None:
        """Promise more on top of what is promised; nothing if nothing is."""
        if found := self._by_key.get(key):
            found.add += add
            found.delete += delete

    def lower(self, key: str, *, add: int = 0, delete: int = 0) -> None:
        """Take back or count off; nothing if nothing is promised."""
        self.raise_(key, add=-add, delete=-delete)

    def satisfied(self, key: str, *, now_seconds: float) -> bool:
        """Whether the controller may act: nothing promised, all seen, or waited long enough."""
        found = self._by_key.get(key)
        return found is None or found.fulfilled or found.is_expired(now_seconds)

    def forget(self, key: str) -> None:
        """The controller is gone."""
        self._by_key.pop(key, None)


class CountingExpectations(Expectations):
    """Deletions are only counted: for controllers that see each deletion exactly once."""

    def expect_deletions(self, key: str, count: int, *, now_seconds: float) -> None:
        """Promise `count` deletions and no creation."""
        self.set(key, delete=count, now_seconds=now_seconds)

    def deletion_observed(self, key: str) -> None:
        """A deletion was seen, or will never be."""
        self.lower(key, delete=1)


class UidTrackingExpectations(Expectations):
    """Deletions are known by pod: a graceful one shows up twice and must count once.

    The key of a pod is its `namespace/name`, whatever upstream's type is called.
    """

    def __init__(self) -> None:
        super().__init__()
        self._awaited: dict[str, set[str]] = {}

    def awaited(self, key: str) -> frozenset[str]:
        """The pods whose deletion has not been seen yet."""
        return frozenset(self._awaited.get(key, ()))

    def expect_deletions(self, key: str, pods: Iterable[str], *, now_seconds: float) -> None:
        """Promise the deletion of these pods and no creation."""
        self._awaited[key] = set(pods)
        self.set(key, delete=len(self._awaited[key]), now_seconds=now_seconds)

    def deletion_observed(self, key: str, pod: str) -> None:
        """This pod's deletion was seen, or will never be; a second time, or for another pod, counts nothing."""
        awaited = self._awaited.get(key, set())
        if pod in awaited:
            awaited.remove(pod)
            self.lower(key, delete=1)

    def forget(self, key: str) -> None:
        super().forget(key)
        self._awaited.pop(key, None)
