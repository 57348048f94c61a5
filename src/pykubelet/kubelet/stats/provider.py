"""Measures resource usage and renders the summary and metrics endpoints.

Upstream: pkg/kubelet/server/stats/handler.go, pkg/kubelet/stats/cri_stats_provider.go,
pkg/kubelet/metrics/collectors/resource_metrics.go
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from pykubelet.aio.log import get_logger
from pykubelet.api.serializer import encode
from pykubelet.httpserver.response import HttpError, HttpResponse
from pykubelet.kubelet.stats.machine_usage import MachineReader
from pykubelet.kubelet.stats.metrics import (
    MetricFamilies,
    MetricsCollector,
    StatsReading,
    cadvisor_families,
    metric_page,
    resource_families,
)
from pykubelet.kubelet.stats.summary import NODE_KEY, running_containers, summary
from pykubelet.runtimes.protocol import ContainerResourceUsage, Runtime, RuntimeFailure, RuntimePod, Usages

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

log = get_logger(__name__)


class CpuRates:
    """CPU usage rates, from the current and the previous measurement of a key."""

    def __init__(self) -> None:
        self._before: dict[str, ContainerResourceUsage] = {}
        self._rates: dict[str, int] = {}

    def nano_cores(self, key: str, usage: ContainerResourceUsage) -> int | None:
        """Nanocores since the previous measurement; None for the first. If less than a second apart, the previous rate."""
        before = self._before.get(key)
        if before is None or before.cpu_nanoseconds is None or usage.cpu_nanoseconds is None:
            self._before[key] = usage
            return None
        seconds = (usage.at - before.at).total_seconds()
        if seconds >= 1:
            # A restarted container starts at zero.
            used = max(usage.cpu_nanoseconds - before.cpu_nanoseconds, 0)
            self._before[key], self._rates[key] = usage, int(used / seconds)
        return self._rates.get(key)

    def keep(self, keys: Iterable[str]) -> None:
        """Drop all other keys."""
        for gone in self._before.keys() - set(keys):
            del self._before[gone]
            self._rates.pop(gone, None)


class StatsProvider:
    """The endpoints about usage. Without `usages`, because the runtime has none, containers show only their start time."""

    def __init__(self, *, node_name: str, machine: MachineReader, runtime: Runtime, usages: Usages | None) -> None:
        self._node_name, self._machine, self._runtime, self._usages = node_name, machine, runtime, usages
        self._rates = CpuRates()

    async def summary_page(self) -> HttpResponse:
        """The endpoint /stats/summary; raises HttpError."""
        reading = await self._read()
        if reading.has_failed:
            raise HttpError(500, "failed to list pod stats: the runtime does not answer")
        self._rates.keep([NODE_KEY, *(one.id for pod in reading.pods for one in running_containers(pod))])
        rate = self._rates.nano_cores
        return HttpResponse(200, encode(summary(self._node_name, reading.machine, reading.pods, reading.usages, rate)))

    async def resource_page(self) -> HttpResponse:
        """The endpoint /metrics/resource, for metrics-server."""
        return metric_page([MetricFamilies(resource_families(await self._read()))])

    async def cadvisor_page(self) -> HttpResponse:
        """The endpoint /metrics/cadvisor, for dashboards."""
        return metric_page([MetricFamilies(cadvisor_families(await self._read()))])

    async def own_page(self, collectors: Iterable[MetricsCollector]) -> HttpResponse:
        """The endpoint /metrics: this process, running pods, and all collectors."""
        reading = await self._read()
        own = MetricFamilies(_own_families(self._node_name, reading.pods))
        return metric_page([own, *collectors], with_process=True)

    async def _read(self) -> StatsReading:
        machine = await asyncio.to_thread(self._machine.read)
        pods: Sequence[RuntimePod] = ()
        try:
            pods = await self._runtime.pods()
            return StatsReading(machine, pods, await self._usages.usages() if self._usages is not None else {})
        except RuntimeFailure as error:
            log.warning("container usage not measured", cause=error.message)
            return StatsReading(machine, pods, {}, has_failed=True)


def _own_families(node_name: str, pods: Iterable[RuntimePod]) -> "Iterable[Metric]":
    from prometheus_client.metrics_core import GaugeMetricFamily

    name = GaugeMetricFamily("kubelet_node_name", "The node's name, always 1.", labels=("node",))
    name.add_metric((node_name,), 1)
    states = Counter(container.state.value for pod in pods for container in pod.containers)
    containers = GaugeMetricFamily("kubelet_running_containers", "Containers by state.", labels=("container_state",))
    for state, count in sorted(states.items()):
        containers.add_metric((state,), count)
    running = sum(1 for pod in pods if any(sandbox.is_ready for sandbox in pod.sandboxes))
    return name, containers, GaugeMetricFamily("kubelet_running_pods", "Pods with a sandbox that is ready.", running)
