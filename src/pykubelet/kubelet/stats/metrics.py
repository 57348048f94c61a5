"""Metric families of /metrics/resource and /metrics/cadvisor, and the Prometheus text format.

The Prometheus library is imported with the first request.

Upstream: pkg/kubelet/metrics/collectors/resource_metrics.go
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pykubelet.httpserver.response import HttpResponse
from pykubelet.kubelet.stats.machine_usage import MachineUsage
from pykubelet.kubelet.stats.summary import running_containers, total
from pykubelet.runtimes.protocol import ContainerResourceUsage, RuntimeContainer, RuntimePod

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

_CONTAINER = ("container", "pod", "namespace")
_POD = ("pod", "namespace")
_CADVISOR = ("container", "id", "image", "name", "namespace", "pod")

_Number = Callable[[ContainerResourceUsage], float | None]
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class StatsReading(NamedTuple):
    """All measurements of one request; `has_failed` if the runtime failed."""

    machine: MachineUsage
    pods: Sequence[RuntimePod]
    usages: Mapping[str, ContainerResourceUsage]
    has_failed: bool = False


class _Row(NamedTuple):
    labels: tuple[str, ...]
    usage: ContainerResourceUsage


def resource_families(reading: StatsReading) -> "Iterator[Metric]":
    """The families that metrics-server scrapes."""
    node = [_Row((), reading.machine.usage)]
    containers = [
        _Row((container.name, pod.name, pod.namespace), reading.usages[container.id])
        for pod, container in _running(reading.pods)
        if container.id in reading.usages
    ]
    pods = [_Row((pod.name, pod.namespace), total(rows)) for pod, rows in _whole_pods(reading)]
    for scope, labels, rows in (("node", (), node), ("container", _CONTAINER, containers), ("pod", _POD, pods)):
        for name, what, number in (
            ("cpu_usage_seconds_total", "Processor time used by", _cpu_seconds),
            ("memory_working_set_bytes", "Working set of", lambda u: u.working_set_bytes),
            ("swap_usage_bytes", "Swap used by", lambda u: u.swap_bytes),
        ):
            yield _family(f"{scope}_{name}", f"{what} the {scope}.", labels, rows, number)
    yield _start_times(reading.pods)
    for name in ("scrape_error", "resource_scrape_error"):
        yield _gauge(name, "1 if containers could not be measured, 0 otherwise.", float(reading.has_failed))


def cadvisor_families(reading: StatsReading) -> "Iterator[Metric]":
    """The families that dashboards for cAdvisor use: the machine, and CPU and memory of containers."""
    rows = [
        _Row((container.name, container.id, container.image, container.id, pod.namespace, pod.name), found)
        for pod, container in _running(reading.pods)
        if (found := reading.usages.get(container.id)) is not None
    ]
    yield _gauge("machine_cpu_cores", "Logical cores of the machine.", reading.machine.cores)
    yield _gauge("machine_memory_bytes", "Memory of the machine.", reading.machine.memory_bytes)
    for name, what, number in (
        ("container_cpu_usage_seconds_total", "Processor time used.", _cpu_seconds),
        ("container_memory_usage_bytes", "Memory used.", lambda u: u.memory_bytes),
        ("container_memory_working_set_bytes", "Working set.", lambda u: u.working_set_bytes),
        ("container_memory_rss", "Resident memory.", lambda u: u.rss_bytes),
    ):
        yield _family(name, what, _CADVISOR, rows, number)


def _running(pods: Iterable[RuntimePod]) -> Iterator[tuple[RuntimePod, RuntimeContainer]]:
    return ((pod, container) for pod in pods for container in running_containers(pod))


def _whole_pods(reading: StatsReading) -> Iterator[tuple[RuntimePod, list[ContainerResourceUsage]]]:
    for pod in reading.pods:
        running = running_containers(pod)
        known = [reading.usages[container.id] for container in running if container.id in reading.usages]
        if running and len(known) == len(running):
            yield pod, known


def _cpu_seconds(usage: ContainerResourceUsage) -> float | None:
    return None if usage.cpu_nanoseconds is None else usage.cpu_nanoseconds / 1e9


def _family(name: str, what: str, labels: Sequence[str], rows: Iterable[_Row], number: _Number) -> "Metric":
    from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily

    kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
    family = kind(name, what, labels=labels)
    for row in rows:
        value = number(row.usage)
        if value is not None:
            family.add_metric(row.labels, value, timestamp=row.usage.at.timestamp())
    return family


def _gauge(name: str, what: str, value: float) -> "Metric":
    from prometheus_client.metrics_core import GaugeMetricFamily

    return GaugeMetricFamily(name, what, value=value)


def _start_times(pods: Iterable[RuntimePod]) -> "Metric":
    from prometheus_client.metrics_core import GaugeMetricFamily

    family = GaugeMetricFamily(
        "container_start_time_seconds", "Start of the container in seconds since 1970.", labels=_CONTAINER
    )
    for pod, container in _running(pods):
        started = container.started_at or container.created_at
        family.add_metric((container.name, pod.name, pod.namespace), started.timestamp())
    return family


class MetricsCollector(Protocol):
    """Provides metric families for an endpoint."""

    def collect(self) -> "Iterable[Metric]":
        """The families with their current values."""


class MetricFamilies:
    """A collector of existing families. Implements MetricsCollector."""

    def __init__(self, families: "Iterable[Metric]") -> None:
        self._families = tuple(families)

    def collect(self) -> "Iterable[Metric]":
        return self._families


def metric_page(collectors: Iterable[MetricsCollector], *, with_process: bool = False) -> HttpResponse:
    """The families of all collectors in the text format; `with_process`, also those of this process."""
    from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector, generate_latest

    registry = CollectorRegistry()
    if with_process:
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
    for collector in collectors:
        registry.register(collector)
    return HttpResponse(200, generate_latest(registry), CONTENT_TYPE)
