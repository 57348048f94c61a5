"""Counts what the node's API is asked for.

Upstream: pkg/kubelet/server/metrics/metrics.go
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from pykubelet.nodeapi.routes import Page

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

_METHODS = frozenset({"OPTIONS", "GET", "HEAD", "POST", "PUT", "DELETE", "TRACE", "CONNECT"})
_LONG = frozenset({"exec", "attach", "portForward"})
_PATHS = frozenset({page.value.removeprefix("/") for page in Page} | {"stats"})
_LABELS = ("long_running", "method", "path", "server_type")


class _Kind(NamedTuple):
    """What requests are told apart by; only known names may stand here."""

    method: str
    path: str

    def labels(self) -> tuple[str, ...]:
        return "true" if self.path in _LONG else "false", self.method, self.path, "readwrite"


class RequestCounts:
    """The counters. Collector."""

    def __init__(self) -> None:
        self._total: Counter[_Kind] = Counter()
        self._now: Counter[_Kind] = Counter()

    @contextmanager
    def counting(self, method: str, path: str) -> Iterator[None]:
        """Counts a request as under way while the context lasts."""
        kind = _Kind(method if method in _METHODS else "other", _known_path(path))
        self._total[kind] += 1
        self._now[kind] += 1
        try:
            yield
        finally:
            self._now[kind] -= 1

    def collect(self) -> "Iterator[Metric]":
        from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily

        total = CounterMetricFamily("kubelet_http_requests_total", "Requests received.", labels=_LABELS)
        now = GaugeMetricFamily("kubelet_http_inflight_requests", "Requests under way.", labels=_LABELS)
        for kind, count in self._total.items():
            total.add_metric(kind.labels(), count)
            now.add_metric(kind.labels(), self._now[kind])
        yield total
        yield now


def _known_path(path: str) -> str:
    first, *rest = path.removeprefix("/").split("/")
    root = f"{first}/{rest[0]}" if first == "metrics" and rest else first
    return root if root in _PATHS else "other"
