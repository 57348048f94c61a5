"""Reads the usage of pods from metrics.k8s.io.

Upstream: pkg/controller/podautoscaler/metrics/client.go
"""

import re
from collections.abc import Iterable, Mapping
from datetime import timedelta

from msgspec import Struct, field

from pykubelet.api.errors import ApiError
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.quantity import parse_quantity
from pykubelet.api.schema import POD_METRICS
from pykubelet.api.scheme import TypedKind
from pykubelet.api.times import parse_time
from pykubelet.client.interface import Reader, Selection
from pykubelet.controllers.podautoscaler.replica_calculator import MetricError, PodMetric

_DURATION_PART = re.compile(r"([0-9.]+)(h|ms|m|s|us|µs|ns)")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


class ContainerMetricsItem(Struct, frozen=True):
    """The usage of a container, as quantities by resource."""

    name: str = ""
    usage: Mapping[str, str] = {}


class PodMetricsItem(Struct, frozen=True):
    """A PodMetrics object of metrics.k8s.io, without what autoscaling does not need."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    timestamp: str = ""
    window: str = ""
    containers: tuple[ContainerMetricsItem, ...] = ()


async def resource_metrics(
    client: Reader, namespace: str, selector: str, resource: str, container: str = ""
) -> dict[str, PodMetric]:
    """The usage of a resource by the selected pods, or by one container of each; MetricError if it is unknown."""
    kind = TypedKind(POD_METRICS, PodMetricsItem)
    try:
        found = (await client.list(kind, namespace=namespace, selection=Selection(labels=selector))).items
    except ApiError as error:
        raise MetricError(f"unable to fetch metrics from resource metrics API: {error}") from error
    if not found:
        raise MetricError("no metrics returned from resource metrics API")
    return container_metrics(found, resource, container) if container else pod_metrics(found, resource)


def pod_metrics(found: Iterable[PodMetricsItem], resource: str) -> dict[str, PodMetric]:
    """The usage of whole pods; without those of which a container's usage is unknown."""
    return {
        pod.metadata.name: _metric(pod, [one.usage[resource] for one in pod.containers])
        for pod in found
        if pod.containers and all(resource in one.usage for one in pod.containers)
    }


def container_metrics(found: Iterable[PodMetricsItem], resource: str, container: str) -> dict[str, PodMetric]:
    """The usage of one container of each pod; MetricError if a pod does not have it."""
    metrics: dict[str, PodMetric] = {}
    for pod in found:
        usage = next((one.usage for one in pod.containers if one.name == container), None)
        if usage is None:
            place = f"{pod.metadata.namespace}/{pod.metadata.name}"
            raise MetricError(f"container {container} not present in metrics for pod {place}")
        if resource in usage:
            metrics[pod.metadata.name] = _metric(pod, [usage[resource]])
    return metrics


def _metric(pod: PodMetricsItem, quantities: Iterable[str]) -> PodMetric:
    value = sum(parse_quantity(quantity).milli_value() for quantity in quantities)
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in _DURATION_PART.findall(pod.window))
    return PodMetric(value, parse_time(pod.timestamp), timedelta(seconds=seconds))
