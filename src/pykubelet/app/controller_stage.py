"""What controllers share while they are composed: informers, recorders, workers.

Upstream: cmd/kube-controller-manager/app/controller_context.go
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from pykubelet.aio.clock import Clock
from pykubelet.aio.tasks import Runner, with_ready_event
from pykubelet.api.generated.core import EventSource
from pykubelet.api.scheme import SERVICES
from pykubelet.client.informers import Informers, PodsByLabel, PodsByNode
from pykubelet.client.interface import ControllerClient
from pykubelet.client.recorder import Recorder
from pykubelet.controllers.certificates.signer import CertificateAuthority
from pykubelet.controllers.endpointslice.service_pods import ServicePods
from pykubelet.controllers.framework.work_queue import WORKERS, ControllerWorkers, WorkQueue, WorkQueueCollector
from pykubelet.controllers.nodeipam.range_allocator import NodeRanges
from pykubelet.controllers.persistentvolume.local_provisioner import LocalVolumes


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagedResources:
    """What controllers give out: folders as volumes, and ranges of addresses to nodes; None: no controller does."""

    local_volumes: LocalVolumes | None = None
    node_ranges: NodeRanges | None = None


NO_RESOURCES = ManagedResources()


class Controller(Protocol):
    """A controller: subscribes to informers and processes one key at a time."""

    def listen(self, informers: Informers, /) -> None:
        """Subscribe to the informers."""

    async def process_next(self) -> None:
        """Wait for the next key and process it."""


@dataclass(slots=True, kw_only=True)
class ControllerStage:
    """What controllers share while they are composed, and the runners they add."""

    client: ControllerClient
    clock: Clock
    root_ca: str
    authority: CertificateAuthority | None
    informers: Informers
    counts: WorkQueueCollector
    local_volumes: LocalVolumes | None
    informed: asyncio.Event = field(default_factory=asyncio.Event)
    runners: dict[str, Runner] = field(default_factory=dict)
    pods_by_node: PodsByNode | None = None
    pods_by_label: PodsByLabel | None = None
    service_pods: ServicePods | None = None

    def recorder(self, component: str) -> Recorder:
        """An event recorder for a controller."""
        made = Recorder(sink=self.client, source=EventSource(component=component), clock=self.clock)
        self.runners[f"events of {component}"] = with_ready_event(made.run)
        return made

    def add(self, name: str, controller: Controller, *, queue: WorkQueue | None = None, workers: int = WORKERS) -> None:
        """Subscribe a controller and run its workers; its queue appears in the metrics."""
        controller.listen(self.informers)
        self.work(name, controller.process_next, queue=queue, workers=workers)

    def work(
        self,
        name: str,
        process_next: Callable[[], Awaitable[None]],
        *,
        queue: WorkQueue | None = None,
        workers: int = WORKERS,
    ) -> None:
        """Run a coroutine repeatedly once the informers have synced."""
        if queue is not None:
            self.counts.add(name, queue)
        loop = ControllerWorkers(name=name, process_next=process_next, informed=self.informed, workers=workers)
        self.runners[name] = with_ready_event(loop.run)

    def on_nodes(self) -> PodsByNode:
        """The pods by node, updated before the controllers that use it."""
        if self.pods_by_node is None:
            self.pods_by_node = PodsByNode()
            self.pods_by_node.listen(self.informers)
        return self.pods_by_node

    def by_label(self) -> PodsByLabel:
        """The pods by label, updated before the controllers that use it."""
        if self.pods_by_label is None:
            self.pods_by_label = PodsByLabel()
            self.pods_by_label.listen(self.informers)
        return self.pods_by_label

    def of_services(self) -> ServicePods:
        """The pods of each service."""
        if self.service_pods is None:
            self.service_pods = ServicePods(self.informers.objects(SERVICES))
            self.service_pods.listen(self.informers)
        return self.service_pods
