"""Counts what a runtime is asked to do, how often it fails, how long it takes. A collector.

Upstream: pkg/kubelet/kuberuntime/instrumented_services.go, pkg/kubelet/metrics/metrics.go
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pykubelet.aio.clock import Clock
from pykubelet.aio.histogram import Histogram
from pykubelet.runtime.image_sizes import size_name

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

_BOUNDS = tuple(0.005 * 2.5**power for power in range(14))
_PULL_BOUNDS = (1, 5, 10, 20, 30, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600)
_LABELS = ("operation_type",)


class OperationCounts:
    """The counts of one runtime; operations have CRI's names, whatever runs the containers."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._failures: Counter[str] = Counter()
        self._took: dict[str, Histogram] = {}
        self._pulls: dict[str, Histogram] = {}

    @contextmanager
    def counting(self, operation: str) -> Iterator[None]:
        """Counts an operation that goes on while the context lasts; one that is cancelled has not failed."""
        began = self._clock.monotonic()
        try:
            yield
        except Exception:
            self._failures[operation] += 1
            raise
        finally:
            self._took.setdefault(operation, Histogram(_BOUNDS)).observe(self._clock.monotonic() - began)

    def pulled(self, size_bytes: int, seconds: float) -> None:
        """An image was fetched."""
        self._pulls.setdefault(size_name(size_bytes), Histogram(_PULL_BOUNDS)).observe(seconds)

    def collect(self) -> "Iterator[Metric]":
        """What Prometheus asks for."""
        from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily

        total = CounterMetricFamily("kubelet_runtime_operations_total", "Operations of the runtime.", labels=_LABELS)
        errors = CounterMetricFamily("kubelet_runtime_operations_errors_total", "Those that failed.", labels=_LABELS)
        took = HistogramMetricFamily(
            "kubelet_runtime_operations_duration_seconds", "How long operations of the runtime took.", labels=_LABELS
        )
        for operation, histogram in self._took.items():
            total.add_metric((operation,), histogram.count)
            took.add_metric((operation,), buckets=histogram.buckets, sum_value=histogram.sum)
        for operation, count in self._failures.items():
            errors.add_metric((operation,), count)
        pulls = HistogramMetricFamily(
            "kubelet_image_pull_duration_seconds", "How long images took to fetch.", labels=("image_size_in_bytes",)
        )
        for size, histogram in self._pulls.items():
            pulls.add_metric((size,), buckets=histogram.buckets, sum_value=histogram.sum)
        yield from (total, errors, took, pulls)
