"""Composes what runs beside nodes of several machines: routes, the service proxy and volumes.

A joined node has the rights of a node only: `controllers/bootstrap/objects.py` adds what these parts need.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.aio.tasks import Runner, running, with_ready_event
from pykubelet.api.generated.core import EventSource
from pykubelet.api.scheme import NODES
from pykubelet.app import proxy
from pykubelet.app.joining.node import ClusterConfig
from pykubelet.app.node import Node
from pykubelet.client.informers import Informers
from pykubelet.client.interface import Client
from pykubelet.client.recorder import EventRecorder, Recorder
from pykubelet.controllers.framework.work_queue import ControllerWorkers, KeyedController
from pykubelet.controllers.persistentvolume.local_provisioner import PROVISIONER, LocalProvisioner, LocalVolumes
from pykubelet.controllers.route.route_controller import SOURCE, RouteController
from pykubelet.kubelet.volumemanager.volume_folders import VolumeFolders

log = get_logger(__name__)

_VOLUMES = "volumes"
"""The folder of provisioned volumes in a joined node's root directory."""


@dataclass(slots=True)
class _Beside:
    """The controllers of one node over informers of their own, and the runners they need."""

    client: Client
    clock: Clock
    node_name: str
    informers: Informers
    informed: asyncio.Event
    runners: dict[str, Runner]

    @classmethod
    def of(cls, client: Client, clock: Clock, node_name: str) -> "_Beside":
        informers, informed = Informers(client=client, clock=clock), asyncio.Event()
        return cls(client, clock, node_name, informers, informed, {})

    def recorder(self, component: str) -> EventRecorder:
        source = EventSource(component=component, host=self.node_name)
        made = Recorder(sink=self.client, source=source, clock=self.clock)
        self.runners[f"events of {component}"] = with_ready_event(made.run)
        return made

    def add(self, name: str, controller: KeyedController) -> None:
        controller.listen(self.informers)
        workers = ControllerWorkers(name=name, process_next=controller.process_next, informed=self.informed, workers=1)
        self.runners[name] = with_ready_event(workers.run)

    def routes(self, cluster_cidr: IPv4Network, *, reports: bool) -> RouteController:
        made = RouteController(
            client=self.client,
            recorder=self.recorder(SOURCE),
            clock=self.clock,
            nodes=self.informers.objects(NODES),
            node_name=self.node_name,
            cluster_cidr=cluster_cidr,
            reports=reports,
        )
        self.add("routes", made)
        return made

    def volumes(self, root: Path) -> None:
        folders = VolumeFolders(root)
        local = LocalVolumes(
            node_name=self.node_name, root=root, make=folders.make, expand=folders.expand, remove=folders.remove
        )
        recorder = self.recorder(PROVISIONER)
        made = LocalProvisioner(
            client=self.client, recorder=recorder, informers=self.informers, pods=None, local_volumes=local
        )
        self.add("local-provisioner", made)


@asynccontextmanager
async def routing(
    client: Client, clock: Clock, node: Node, cluster_cidr: IPv4Network, *, is_open: bool
) -> AsyncIterator[None]:
    """Keep the routes of the machine of `up` while the context lasts, and report on all nodes, if other nodes may join."""
    if not is_open or not _may_route():
        yield
        return
    beside = _Beside.of(client, clock, node.dependencies.name)
    routes = beside.routes(cluster_cidr, reports=True)
    async with _running(beside, routes, node):
        yield


@asynccontextmanager
async def joined(client: Client, clock: Clock, node: Node, config: ClusterConfig) -> AsyncIterator[None]:
    """Run what a joined node has besides the kubelet while the context lasts."""
    settings = node.dependencies.settings
    beside = _Beside.of(client, clock, settings.node_name)
    beside.volumes(settings.root_dir.resolve() / _VOLUMES)
    routes = beside.routes(config.cidr, reports=False) if _may_route() else None
    async with AsyncExitStack() as stack:
        if config.has_service_proxy:
            services = proxy.beside_node(
                client=client, clock=clock, node_name=settings.node_name, lock=await proxy.claim()
            )
            await stack.enter_async_context(services)
        await stack.enter_async_context(_running(beside, routes, node))
        yield


@asynccontextmanager
async def _running(beside: _Beside, routes: RouteController | None, node: Node) -> AsyncIterator[None]:
    beside.runners["informers"] = with_ready_event(beside.informers.run, beside.informed)
    async with running(beside.runners):
        yield
    # Pods outlive the agent, and so do the routes that they need.
    if routes is not None and not node.pods.pods.pods():
        with suppress(OSError):
            await routes.remove_all()


def _may_route() -> bool:
    if os.geteuid() == 0:
        return True
    log.warning("pods of other nodes are not reached: only root can add routes to them")
    return False
