"""Reads what is used, and makes the pages about it.

Upstream: pkg/kubelet/server/stats/handler.go, pkg/kubelet/metrics/collectors
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from pykubelet.aio.log import get_logger
from pykubelet.api.wire import encode
from pykubelet.nodeapi.collaborators import RunningPods
from pykubelet.nodeapi.replies import Refused, Reply
from pykubelet.nodeapi.stats.cpu_rates import CpuRates
from pykubelet.nodeapi.stats.families import Reading, cadvisor_families, resource_families
from pykubelet.nodeapi.stats.metric_pages import Collector, Families, metric_page
from pykubelet.nodeapi.stats.readings import MachineUsage
from pykubelet.nodeapi.stats.summary import NODE_KEY, running_containers, summary
from pykubelet.runtime.protocol import RuntimeFailure, RuntimePod
from pykubelet.runtime.usage import Usage, Usages

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

log = get_logger(__name__)


class Machine(Protocol):
    """Measures the machine."""

    def read(self) -> MachineUsage:
        """Its usage now."""


class Stats:
    """The pages about usage. Without `usages`, the runtime being unable, containers show only when they started."""

    def __init__(self, *, node_name: str, machine: Machine, runtime: RunningPods, usages: Usages | None) -> None:
        self._node_name, self._machine, self._runtime, self._usages = node_name, machine, runtime, usages
        self._rates = CpuRates()

    async def summary_page(self) -> Reply:
        """The page /stats/summary; raises Refused."""
        reading = await self._read()
        if reading.has_failed:
            raise Refused(500, "failed to list pod stats: the runtime does not answer")
        self._rates.keep([NODE_KEY, *(one.id for pod in reading.pods for one in running_containers(pod))])
        rate = self._rates.nano_cores
        return Reply(200, encode(summary(self._node_name, reading.machine, reading.pods, reading.usages, rate)))

    async def resource_page(self) -> Reply:
        """The page /metrics/resource."""
        return metric_page([Families(resource_families(await self._read()))])

    async def cadvisor_page(self) -> Reply:
        """The page /metrics/cadvisor."""
        return metric_page([Families(cadvisor_families(await self._read()))])

    async def own_page(self, collectors: Iterable[Collector]) -> Reply:
        """The page /metrics: this process, what runs, and what collectors tell."""
        reading = await self._read()
        own = Families(_own_families(self._node_name, reading.pods))
        return metric_page([own, *collectors], with_process=True)

    async def _read(self) -> Reading:
        machine = await asyncio.to_thread(self._machine.read)
        pods: Sequence[RuntimePod] = ()
        usages: Mapping[str, Usage] = {}
        try:
            pods = await self._runtime.pods()
            usages = await self._usages.usages() if self._usages is not None else {}
        except RuntimeFailure as error:
            log.warning("containers are not measured", cause=error.message)
            return Reading(machine, pods, usages, has_failed=True)
        return Reading(machine, pods, usages)


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
