"""How long syncs of pods take, by what was asked for. A collector of metrics.

Upstream: PodWorkerDuration in pkg/kubelet/metrics/metrics.go
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pykubelet.agent.flow import SyncType, WorkerState
from pykubelet.aio.clock import Clock
from pykubelet.aio.histogram import Histogram

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric


class SyncDurations:
    """The syncs of one node; those that failed or were interrupted count as well."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._took: dict[str, Histogram] = {}

    @contextmanager
    def measuring(self, asked: SyncType, state: WorkerState) -> Iterator[None]:
        """Measures a sync that goes on while the context lasts."""
        began = self._clock.monotonic()
        try:
            yield
        finally:
            operation = "terminated" if state is WorkerState.TERMINATED else asked.name.lower()
            self._took.setdefault(operation, Histogram()).observe(self._clock.monotonic() - began)

    def collect(self) -> "Iterator[Metric]":
        """What Prometheus asks for."""
        from prometheus_client.metrics_core import HistogramMetricFamily

        took = HistogramMetricFamily(
            "kubelet_pod_worker_duration_seconds", "How long a sync of a pod took.", labels=("operation_type",)
        )
        for operation, histogram in self._took.items():
            took.add_metric((operation,), buckets=histogram.buckets, sum_value=histogram.sum)
        yield took
