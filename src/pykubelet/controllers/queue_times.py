"""How long keys wait in a work queue, and how long their syncs take.

Pure: times are passed in. Upstream: staging/src/k8s.io/client-go/util/workqueue/metrics.go
"""

from collections.abc import Iterable

from pykubelet.aio.histogram import Histogram

_BOUNDS = tuple(10e-9 * 10**power for power in range(10))


class QueueTimes:
    """What was measured of one queue; recording is a few dict operations."""

    def __init__(self) -> None:
        self.adds = self.retries = 0
        self.waited, self.worked = Histogram(_BOUNDS), Histogram(_BOUNDS)
        self._added: dict[str, float] = {}
        self._taken: dict[str, float] = {}

    def added(self, key: str, now: float) -> None:
        """A key begins to wait."""
        self.adds += 1
        self._added[key] = now

    def taken(self, key: str, now: float) -> None:
        """Its sync begins."""
        self.waited.observe(now - self._added.pop(key, now))
        self._taken[key] = now

    def done(self, key: str, now: float) -> None:
        """Its sync has ended."""
        self.worked.observe(now - self._taken.pop(key, now))

    def under_way(self, now: float) -> Iterable[float]:
        """How long the syncs that have not ended have been going on."""
        return [now - since for since in self._taken.values()]
