"""A node put together: every part is made here, once, and handed to those that need it."""

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from pykubelet.agent.health import NodeHealth
from pykubelet.agent.heartbeat import MachineFacts
from pykubelet.agent.volumes.mounting import Mounter
from pykubelet.aio.clock import Clock, SystemClock
from pykubelet.aio.log import write_to
from pykubelet.app.node_api import heartbeat, node_api
from pykubelet.app.node_containers import GcStates, node_containers
from pykubelet.app.node_ground import Ground
from pykubelet.app.node_pods import NodePods, node_pods
from pykubelet.app.node_sources import NodeSources, node_sources
from pykubelet.app.node_storage import node_storage
from pykubelet.app.node_work import NodeWork, Stations, node_work
from pykubelet.app.running import end_in_time, running, told_to_stop, widen_threads, with_event
from pykubelet.app.runtimes import RuntimeParts, open_runtime
from pykubelet.app.settings import CannotStart, NodeSettings
from pykubelet.kube.client import Client
from pykubelet.kube.kubeconfig import load_kubeconfig
from pykubelet.kube.kubeconfig_merge import KubeconfigError
from pykubelet.kube.rest import RestClient
from pykubelet.runtime.watchdog import Watchdog


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node at work, and what others may ask of it."""

    ground: Ground
    pods: NodePods
    sources: NodeSources
    work: NodeWork
    health: NodeHealth
    signs: tuple[asyncio.Event, ...]

    async def until_ready(self) -> None:
        """Return once the node is known to its API server, knows what its runtime has, and takes pods."""
        for sign in self.signs:
            await sign.wait()


def run(settings: NodeSettings, *, say: Callable[[str], None], verbose: bool = False) -> None:
    """Be a node until SIGINT or SIGTERM; containers go on running. CannotStart if that is not possible."""
    clock = SystemClock()
    write_to(sys.stderr, clock=clock, level=logging.DEBUG if verbose else logging.INFO)
    asyncio.run(_until_told(settings, clock, say))


async def _until_told(settings: NodeSettings, clock: Clock, say: Callable[[str], None]) -> None:
    widen_threads()
    stop = told_to_stop()
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(_client(settings.kubeconfig, clock)) if settings.kubeconfig else None
        runtime = await stack.enter_async_context(open_runtime(settings, clock=clock))
        started = await stack.enter_async_context(node(settings, client=client, runtime=runtime, clock=clock))

        async def announce() -> None:
            await started.until_ready()
            say(f"ready node {settings.node_name}")

        await stack.enter_async_context(running({"announcement": announce}))
        await stop.wait()
        end_in_time()


def _client(kubeconfig: Path, clock: Clock) -> RestClient:
    try:
        access = load_kubeconfig((str(kubeconfig),), environment=os.environ, clock=clock)
    except KubeconfigError as error:
        raise CannotStart(str(error)) from error
    return RestClient(access, clock=clock)


@asynccontextmanager
async def node(
    settings: NodeSettings,
    *,
    client: Client | None,
    runtime: RuntimeParts,
    clock: Clock,
    machine: MachineFacts | None = None,
    mounter: Mounter | None = None,
) -> AsyncIterator[Node]:
    """A node at work, for as long as the context lasts; what it has started goes on. CannotStart if it cannot.

    Without a client it runs static pods only.
    """
    ground = await Ground.of(settings, client=client, runtime=runtime, clock=clock, machine=machine, mounter=mounter)
    watchdog, is_watching = Watchdog(runtime=runtime.runtime, clock=clock, feed=runtime.feed), asyncio.Event()
    api, pods = node_api(ground), node_pods(ground, watchdog)
    sources = node_sources(ground, api.own_node)
    health = NodeHealth(watchdog=watchdog, sources=sources.ready, warnings=sources.problems, runtime=runtime.state)
    storage = node_storage(ground, api)
    states = GcStates(pods.queries, sources.ready.all_ready)
    containers = node_containers(ground, setup=storage.setup, probes=pods.probes, states=states)
    stations = Stations(
        api=api, sources=sources, pods=pods, storage=storage, containers=containers, watchdog=watchdog, health=health
    )
    work = node_work(ground, stations)
    parts = (api, sources, pods, storage, containers, work)
    runners = {name: runner for part in parts for name, runner in part.runners.items()}
    runners |= {"watchdog": with_event(watchdog.run, is_watching), **heartbeat(ground, api.own_node, health)}
    signs = (is_watching, work.loop_ready, api.own_node.is_known)
    async with running(runners):
        yield Node(ground=ground, pods=pods, sources=sources, work=work, health=health, signs=signs)
