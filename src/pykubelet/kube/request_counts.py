"""Counts the requests to an API server by method and answer, and how long they took. A collector.

Upstream: staging/src/k8s.io/component-base/metrics/prometheus/restclient/metrics.go
"""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pykubelet.aio.histogram import Histogram

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

_BOUNDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
NO_ANSWER = "<error>"
"""What upstream says for a code where there was none."""


class RequestCounts:
    """The requests of one client to one host."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._total: Counter[tuple[str, str]] = Counter()
        self._took: dict[str, Histogram] = {}

    def note(self, method: str, code: str, seconds: float) -> None:
        """A request was answered so, after so long."""
        self._total[code, method] += 1
        self._took.setdefault(method, Histogram(_BOUNDS)).observe(seconds)

    def collect(self) -> "Iterator[Metric]":
        """What Prometheus asks for."""
        from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily

        total = CounterMetricFamily(
            "rest_client_requests_total", "Requests to the API server.", labels=("code", "method", "host")
        )
        for labels, count in self._total.items():
            total.add_metric((*labels, self._host), count)
        took = HistogramMetricFamily(
            "rest_client_request_duration_seconds", "Until the answer begins.", labels=("verb", "host")
        )
        for method, histogram in self._took.items():
            took.add_metric((method, self._host), buckets=histogram.buckets, sum_value=histogram.sum)
        yield from (total, took)
