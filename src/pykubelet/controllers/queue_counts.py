"""The work queues of controllers as metrics with Kubernetes' own names. A collector.

Upstream: staging/src/k8s.io/component-base/metrics/prometheus/workqueue/metrics.go
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from pykubelet.controllers.work_queue import WorkQueue

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

_LABELS = ("name",)


class QueueCounts:
    """Tells of the queues that were added."""

    def __init__(self) -> None:
        self._queues: dict[str, WorkQueue] = {}

    def add(self, name: str, queue: WorkQueue) -> None:
        """Tell of a queue; a later one of the same name, as after a change of leaders, takes its place."""
        self._queues[name] = queue

    def collect(self) -> "Iterator[Metric]":
        """What Prometheus asks for, in the loop that owns the queues."""
        from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        queues, now = self._queues, asyncio.get_running_loop().time()
        adds = CounterMetricFamily("workqueue_adds_total", "Keys put into the queue.", labels=_LABELS)
        retries = CounterMetricFamily(
            "workqueue_retries_total", "Syncs that failed and are tried again.", labels=_LABELS
        )
        for name, queue in queues.items():
            adds.add_metric((name,), queue.times.adds)
            retries.add_metric((name,), queue.times.retries)
        yield from (adds, retries)
        gauges: tuple[tuple[str, str, Callable[[WorkQueue], float]], ...] = (
            ("workqueue_depth", "Keys that wait.", len),
            (
                "workqueue_unfinished_work_seconds",
                "How long syncs under way have gone on, all together.",
                lambda queue: sum(queue.times.under_way(now)),
            ),
            (
                "workqueue_longest_running_processor_seconds",
                "How long the oldest sync under way has gone on.",
                lambda queue: max(queue.times.under_way(now), default=0.0),
            ),
        )
        for metric, what, number in gauges:
            gauge = GaugeMetricFamily(metric, what, labels=_LABELS)
            for name, queue in queues.items():
                gauge.add_metric((name,), number(queue))
            yield gauge
        waited = HistogramMetricFamily("workqueue_queue_duration_seconds", "How long keys wait.", labels=_LABELS)
        worked = HistogramMetricFamily("workqueue_work_duration_seconds", "How long syncs take.", labels=_LABELS)
        for name, queue in queues.items():
            for family, found in ((waited, queue.times.waited), (worked, queue.times.worked)):
                family.add_metric((name,), buckets=found.buckets, sum_value=found.sum)
        yield from (waited, worked)
