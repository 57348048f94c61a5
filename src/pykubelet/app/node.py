"""A node put together: every part is made here, once, and handed to those that need it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

from pykubelet.agent.health import NodeHealth
from pykubelet.agent.heartbeat import MachineFacts
from pykubelet.agent.pod_counts import PodCounts
from pykubelet.agent.pressure import Evictor, SignalReader
from pykubelet.agent.shutdown import NodeShutdown
from pykubelet.agent.turned_away import TurnedAway
from pykubelet.agent.volumes.mounting import Mounter
from pykubelet.agent.why import PodExplainer
from pykubelet.aio.clock import Clock
from pykubelet.app.cis.record import Opened, node_record, write_record
from pykubelet.app.node_api import heartbeat, node_api
from pykubelet.app.node_containers import GcStates, node_containers
from pykubelet.app.node_door import Door, ServerSeen, answering, open_door, own_renewal, serving_certificate
from pykubelet.app.node_ground import Ground, make_root
from pykubelet.app.node_pods import NodePods, node_pods
from pykubelet.app.node_sources import NodeSources, node_sources
from pykubelet.app.node_state import node_evictor, node_shutdown
from pykubelet.app.node_storage import node_storage
from pykubelet.app.node_work import NodeWork, Stations, node_work
from pykubelet.app.running import running, with_event
from pykubelet.app.runtimes import RuntimeParts, counted, open_runtime
from pykubelet.app.settings import NodeSettings
from pykubelet.kube.client import Client
from pykubelet.nodeapi.stats.metric_pages import Collector
from pykubelet.runtime.watchdog import Watchdog


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node at work, and what others may ask of it."""

    ground: Ground
    pods: NodePods
    sources: NodeSources
    work: NodeWork
    health: NodeHealth
    watchdog: Watchdog
    shutdown: NodeShutdown
    signs: tuple[asyncio.Event, ...]
    collectors: tuple[Collector, ...]
    """What is counted here, for pages of metrics."""

    async def until_ready(self) -> None:
        """Return once the node is known to its API server, knows what its runtime has, and takes pods."""
        for sign in self.signs:
            await sign.wait()

    def explainer(self) -> PodExplainer:
        """Who knows why the pods of this node are where they are."""
        return PodExplainer(
            node_name=self.ground.name,
            pods=self.pods.pods,
            records=self.pods.machine.records,
            statuses=self.pods.statuses,
            trail=self.pods.trail,
            problems=self.sources.problems.all,
            clock=self.ground.clock,
        )

    def answering(self, door: Door) -> AbstractAsyncContextManager[None]:
        """The node's own API answers, for as long as the context lasts."""
        return answering(
            door,
            ground=self.ground,
            known=self.pods,
            watchdog=self.watchdog,
            loop=self.work.loop,
            explanations=self.explainer(),
            collectors=self.collectors,
        )


@asynccontextmanager
async def open_node(
    settings: NodeSettings,
    *,
    client: Client | None,
    server: ServerSeen | None,
    clock: Clock,
    collectors: tuple[Collector, ...] = (),
) -> AsyncIterator[Node]:
    """A node of this machine at work, with the runtime of its settings and its own API, as long as the context lasts.

    Its page of metrics tells what `collectors` have as well. CannotStart if it cannot.
    """
    make_root(settings)
    async with AsyncExitStack() as stack:
        door = None
        if server is not None or settings.client_ca is not None:
            door = await stack.enter_async_context(open_door(settings, server=server, clock=clock))
            settings = replace(settings, port=door.port, address=door.address)
        runtime = await stack.enter_async_context(open_runtime(settings, clock=clock))
        made = await stack.enter_async_context(node(settings, client=client, runtime=runtime, clock=clock))
        if door is not None:
            made = replace(made, collectors=(*made.collectors, *collectors))
            await stack.enter_async_context(made.answering(door))
            runner = with_event(own_renewal(door, settings, clock=clock).run)
            if client is not None and settings.rotate_server_certificates:
                runner = with_event(serving_certificate(door, settings, client=client, clock=clock).run)
            await stack.enter_async_context(running({"serving certificate": runner}))
        opened = Opened(door=door, runtime=runtime, has_server=client is not None)
        await asyncio.to_thread(write_record, settings.root_dir, node_record(settings, opened))
        yield made


@asynccontextmanager
async def node(
    settings: NodeSettings,
    *,
    client: Client | None,
    runtime: RuntimeParts,
    clock: Clock,
    machine: MachineFacts | None = None,
    mounter: Mounter | None = None,
    signals: SignalReader | None = None,
) -> AsyncIterator[Node]:
    """A node at work, for as long as the context lasts; what it has started goes on. CannotStart if it cannot.

    Without a client it runs static pods only.
    """
    runtime = counted(runtime, clock=clock)
    ground = await Ground.of(
        settings, client=client, runtime=runtime, clock=clock, machine=machine, mounter=mounter, signals=signals
    )
    watchdog, is_watching = Watchdog(runtime=runtime.runtime, clock=clock, feed=runtime.feed), asyncio.Event()
    api, pods = node_api(ground), node_pods(ground, watchdog)
    sources = node_sources(ground, api.own_node)
    health = NodeHealth(watchdog=watchdog, sources=sources.ready, warnings=sources.problems, runtime=runtime.state)
    storage = node_storage(ground, api, pods.inbox)
    states = GcStates(pods.queries, sources.ready.all_ready)
    containers = node_containers(ground, setup=storage.setup, handlers=api.runtime_classes, pods=pods, states=states)
    stations = Stations(
        api=api, sources=sources, pods=pods, storage=storage, containers=containers, watchdog=watchdog, health=health
    )
    work = node_work(ground, stations)
    parts = (api, sources, pods, storage, containers, work)
    runners = {name: runner for part in parts for name, runner in part.runners.items()}
    runners |= heartbeat(ground, api.own_node, health, first_look=is_watching)
    runners["watchdog"] = with_event(watchdog.run, is_watching)
    shutdown = node_shutdown(ground, pods, work.pool, health)
    evictor = await node_evictor(ground, stations, work.pool, shutdown)
    runners["pressure"] = with_event(evictor.run)
    signs = (is_watching, work.loop_ready, api.own_node.is_known)
    async with running(runners):
        yield Node(
            ground=ground,
            pods=pods,
            sources=sources,
            work=work,
            health=health,
            watchdog=watchdog,
            shutdown=shutdown,
            signs=signs,
            collectors=_collectors(runtime, stations, work, shutdown, evictor),
        )


def _collectors(
    runtime: RuntimeParts, stations: Stations, work: NodeWork, shutdown: NodeShutdown, evictor: Evictor
) -> tuple[Collector, ...]:
    known = stations.pods
    return (
        *(() if runtime.operations is None else (runtime.operations,)),
        stations.watchdog.relists,
        stations.containers.containers.starts,
        work.durations,
        TurnedAway(entrance=work.entrance, evictor=evictor),
        PodCounts(pods=known.pods, records=known.machine.records, active_pods=shutdown.active_pods),
        known.starts,
    )
