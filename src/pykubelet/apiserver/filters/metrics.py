"""The API server's metrics, with Kubernetes' names, and the page at /metrics.

Recording costs a dict lookup and three additions. Names, labels and text are made when the page is read, and only
then is prometheus_client imported.

Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/metrics/metrics.go,
staging/src/k8s.io/apiserver/pkg/storage/etcd3/metrics/metrics.go
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pykubelet.aio.histogram import Histogram
from pykubelet.apiserver.flowcontrol.controller import FlowController
from pykubelet.apiserver.registry import ServedKinds
from pykubelet.apiserver.storage.durable_store import DurableStore

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# Upstream's buckets, in seconds.
_BOUNDS = (0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60)
_VERBS = {"create": "POST", "update": "PUT", "delete": "DELETE", "deletecollection": "DELETECOLLECTION"}
_LABELS = ("verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component")
_LONG_LABELS = tuple(label for label in _LABELS if label != "dry_run")
_LONG_VERBS = frozenset({"watch", "connect"})


class ExtraCollector(Protocol):
    """Another collector whose metrics appear on the page."""

    def collect(self) -> "Iterable[Metric]":
        """The metric families with their current values."""


class StorageFigures(NamedTuple):
    """The figures to read from the store for the page."""

    objects: Callable[[], Mapping[str, int]]
    """The number of objects by `resource.group`."""
    size_bytes: Callable[[], int]


def object_counts(store: DurableStore, kinds: ServedKinds) -> dict[str, int]:
    """The number of objects of each stored kind, by `resource.group`."""
    collections = {served.resource.group_resource for served in kinds.all() if "watch" in served.verbs}
    return {collection: len(store.entries(collection)) for collection in sorted(collections)}


class RequestLabels(NamedTuple):
    """The labels that distinguish requests. `verb` is Kubernetes' verb, and every value is from a known set."""

    verb: str
    dry_run: str = ""
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    scope: str = ""

    def labels(self) -> dict[str, str]:
        values = (*self._replace(verb=_VERBS.get(self.verb, self.verb.upper())), "apiserver")
        return dict(zip(_LABELS, values, strict=True))

    def long_labels(self) -> tuple[str, ...]:
        """The values of the labels without `dry_run`."""
        return tuple(value for label, value in self.labels().items() if label != "dry_run")


def scope_of(*, verb: str, namespace: str, name: str) -> str:
    """The scope of a request: one object (resource), a namespace or the cluster."""
    if name or verb == "create":
        return "resource"
    return "namespace" if namespace else "cluster"


class ApiServerMetrics:
    """The server's counters. Only the event loop's thread writes them."""

    def __init__(self, flow: FlowController, stored: StorageFigures, more: Sequence[ExtraCollector] = ()) -> None:
        self.flow = flow
        self._stored, self._more = stored, more
        self._series: dict[tuple[RequestLabels, int], Histogram] = {}
        self._long: dict[RequestLabels, int] = {}
        self._events: dict[tuple[str, str, str], int] = {}

    def answered(self, kind: RequestLabels, code: int, seconds: float) -> None:
        series = self._series.get((kind, code))
        if series is None:
            series = self._series[kind, code] = Histogram(_BOUNDS)
        series.observe(seconds)

    def long_started(self, kind: RequestLabels) -> None:
        """Counts a watch or another long-running request that started."""
        self._long[kind] = self._long.get(kind, 0) + 1

    def long_ended(self, kind: RequestLabels) -> None:
        self._long[kind] -= 1

    def events_sent(self, kind: RequestLabels, count: int) -> None:
        key = (kind.group, kind.version, kind.resource)
        self._events[key] = self._events.get(key, 0) + count

    def page(self) -> bytes:
        from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector, generate_latest

        registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        for collector in (self, *self._more):
            registry.register(collector)
        return generate_latest(registry)

    def collect(self) -> "Iterator[Metric]":
        """The metric families, as prometheus_client's collector interface requires."""
        from prometheus_client.metrics_core import GaugeMetricFamily

        yield from self._requests()
        name, help_text = "apiserver_longrunning_requests", "Watches and other long requests now open."
        long = GaugeMetricFamily(name, help_text, labels=_LONG_LABELS)
        for kind, count in self._long.items():
            long.add_metric(kind.long_labels(), count)
        yield long
        now = GaugeMetricFamily(
            "apiserver_current_inflight_requests", "Requests now being answered.", labels=["request_kind"]
        )
        waiting = GaugeMetricFamily(
            "apiserver_current_inqueue_requests", "Requests now waiting for a seat.", labels=["request_kind"]
        )
        for kind_name, writes in (("readOnly", False), ("mutating", True)):
            now.add_metric([kind_name], self.flow.executing[writes])
            waiting.add_metric([kind_name], self.flow.waiting[writes])
        yield now
        yield waiting
        yield from self._priority_levels()
        yield from self._storage()

    def _priority_levels(self) -> "Iterator[Metric]":
        from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily

        prefix, labels = "apiserver_flowcontrol", ["priority_level"]
        limit = GaugeMetricFamily(f"{prefix}_nominal_limit_seats", "Seats of a priority level.", labels=labels)
        used = GaugeMetricFamily(f"{prefix}_current_executing_seats", "Seats now taken.", labels=labels)
        queued = GaugeMetricFamily(f"{prefix}_current_inqueue_requests", "Requests now waiting.", labels=labels)
        given = CounterMetricFamily(f"{prefix}_dispatched_requests", "Requests that got seats.", labels=labels)
        refused = CounterMetricFamily(f"{prefix}_rejected_requests", "Requests answered 429.", labels=labels)
        for name, level in sorted(self.flow.levels.items()):
            limit.add_metric([name], level.nominal)
            used.add_metric([name], level.used)
            queued.add_metric([name], len(level.queues))
            given.add_metric([name], level.dispatched)
            refused.add_metric([name], level.rejected)
        yield from (limit, used, queued, given, refused)

    def _storage(self) -> "Iterator[Metric]":
        from prometheus_client.metrics_core import GaugeMetricFamily

        # 1.34 renamed the first metric to the second; dashboards use both.
        old = GaugeMetricFamily("apiserver_storage_objects", "Stored objects by resource.", labels=["resource"])
        new = GaugeMetricFamily("apiserver_resource_objects", "The same.", labels=["group", "resource"])
        for collection, count in self._stored.objects().items():
            resource, _, group = collection.partition(".")
            old.add_metric([collection], count)
            new.add_metric([group, resource], count)
        size = GaugeMetricFamily(
            "apiserver_storage_size_bytes", "Size of the database file.", labels=["storage_cluster_id"]
        )
        size.add_metric(["sqlite"], self._stored.size_bytes())
        yield from (old, new, size)

    def _requests(self) -> "Iterator[Metric]":
        from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily

        total = CounterMetricFamily(
            "apiserver_request_total", "Requests answered, by kind and code.", labels=[*_LABELS, "code"]
        )
        latency = HistogramMetricFamily(
            "apiserver_request_duration_seconds", "How long requests took, by kind.", labels=_LABELS
        )
        promised = HistogramMetricFamily(
            "apiserver_request_sli_duration_seconds",
            "The same without long requests, for promises about latency.",
            labels=_LONG_LABELS,
        )
        by_kind: dict[RequestLabels, Histogram] = {}
        by_promise: dict[tuple[str, ...], Histogram] = {}
        for (kind, code), series in self._series.items():
            total.add_metric([*kind.labels().values(), str(code)], series.count)
            by_kind.setdefault(kind, Histogram(_BOUNDS)).add(series)
            if kind.verb not in _LONG_VERBS:
                by_promise.setdefault(kind.long_labels(), Histogram(_BOUNDS)).add(series)
        for kind, series in by_kind.items():
            latency.add_metric([*kind.labels().values()], buckets=series.buckets, sum_value=series.sum)
        for shared, series in by_promise.items():
            promised.add_metric(shared, buckets=series.buckets, sum_value=series.sum)
        yield from (total, latency, promised)
        events = CounterMetricFamily(
            "apiserver_watch_events_total", "Events sent to watchers.", labels=["group", "version", "resource"]
        )
        for key, count in self._events.items():
            events.add_metric(list(key), count)
        yield events
