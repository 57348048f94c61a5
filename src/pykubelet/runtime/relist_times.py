"""How long it takes to list all containers, and how long between two lists. A collector of metrics.

Upstream: PLEGRelistDuration, PLEGRelistInterval and PLEGLastSeen in pkg/kubelet/metrics/metrics.go
"""

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from pykubelet.aio.histogram import Histogram

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric


class RelistTimes:
    """The times of one watchdog."""

    def __init__(self) -> None:
        self._took, self._between = Histogram(), Histogram()
        self._began: float | None = None
        self._last_seen: datetime | None = None

    def began(self, monotonic: float) -> None:
        """A list is about to be made."""
        if self._began is not None:
            self._between.observe(monotonic - self._began)
        self._began = monotonic

    def ended(self, monotonic: float, listed_at: datetime | None) -> None:
        """It was made, of what there was at a moment; None if it failed."""
        assert self._began is not None
        self._took.observe(monotonic - self._began)
        self._last_seen = listed_at or self._last_seen

    def collect(self) -> "Iterator[Metric]":
        """What Prometheus asks for."""
        from prometheus_client.metrics_core import GaugeMetricFamily, HistogramMetricFamily

        for name, what, histogram in (
            ("kubelet_pleg_relist_duration_seconds", "How long it took to list all containers.", self._took),
            ("kubelet_pleg_relist_interval_seconds", "From one list to the next.", self._between),
        ):
            yield HistogramMetricFamily(name, what, buckets=histogram.buckets, sum_value=histogram.sum)
        if self._last_seen is not None:
            yield GaugeMetricFamily(
                "kubelet_pleg_last_seen_seconds", "When all was last listed.", self._last_seen.timestamp()
            )
