"""The parts of a node that act on its pods: the workers, and the loop that gives them their work."""

import asyncio
from collections.abc import Container
from dataclasses import dataclass

from pykubelet.agent.entrance import Entrance
from pykubelet.agent.handlers import PodHandlers
from pykubelet.agent.health import AdmissionConditions, NodeHealth
from pykubelet.agent.heartbeat import NodeAnyway
from pykubelet.agent.housekeeping import Cleaners, Housekeeper, Leftovers
from pykubelet.agent.loop import NodeLoop
from pykubelet.agent.pods import (
    Admitter,
    FirstMirrors,
    MirrorClient,
    MirrorKeeper,
    PodManager,
    SysctlAllowlist,
    kernel_version,
    safe_sysctls,
)
from pykubelet.agent.status import ReasonCache, Reports
from pykubelet.agent.workers import JobRunner, PodKiller, PodSyncs, Surroundings, SyncDurations, WorkerPool
from pykubelet.aio.clock import Clock
from pykubelet.api.generated.core import Pod
from pykubelet.api.keys import PodUid
from pykubelet.app.node_api import NodeApi
from pykubelet.app.node_containers import NodeContainers
from pykubelet.app.node_ground import Ground
from pykubelet.app.node_pods import NodePods, ShownProbes
from pykubelet.app.node_sources import NodeSources
from pykubelet.app.node_storage import NodeStorage
from pykubelet.app.running import Runner, with_event
from pykubelet.runtime.crash_backoff import CrashBackoff
from pykubelet.runtime.watchdog import Watchdog


@dataclass(frozen=True, slots=True, kw_only=True)
class Stations:
    """All that the work goes through."""

    api: NodeApi
    sources: NodeSources
    pods: NodePods
    storage: NodeStorage
    containers: NodeContainers
    watchdog: Watchdog
    health: NodeHealth


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeWork:
    """Everything that acts."""

    pool: WorkerPool
    durations: SyncDurations
    entrance: Entrance
    loop: NodeLoop
    loop_ready: asyncio.Event
    runners: dict[str, Runner]


def node_work(ground: Ground, stations: Stations) -> NodeWork:
    """All of it."""
    own_node, pods = stations.api.own_node, stations.pods.pods
    mirrors = MirrorKeeper(
        mirrors=MirrorClient(client=ground.client, node_name=ground.name, nodes=own_node),
        node_name=ground.name,
        nodes=own_node,
        recorder=ground.recorder,
    )
    durations = SyncDurations(clock=ground.clock)
    pool = _pool(ground, stations, mirrors, durations)
    entrance, ready = _entrance(ground, stations, pool), asyncio.Event()
    loop = _loop(ground, stations, pool, entrance, mirrors)
    first_mirrors = FirstMirrors(pods=pods, keeper=mirrors, node_known=own_node.is_known)
    runners = {
        "workers": with_event(pool.run),
        "loop": with_event(loop.run, ready),
        "first mirrors": with_event(first_mirrors.run),
    }
    return NodeWork(pool=pool, durations=durations, entrance=entrance, loop=loop, loop_ready=ready, runners=runners)


def _pool(ground: Ground, stations: Stations, mirrors: MirrorKeeper, durations: SyncDurations) -> WorkerPool:
    known, storage, watchdog, clock = stations.pods, stations.storage, stations.watchdog, ground.clock
    reasons = ReasonCache()
    reports = Reports(
        manager=known.statuses,
        reasons=reasons,
        probed=known.probes.with_results,
        host_ips=stations.api.own_node.host_ips,
        recorder=ground.recorder,
        clock=clock,
        runtime_name=ground.runtime.name,
    )
    around = Surroundings(
        network=stations.health,
        references=stations.api.references,
        mirrors=MirrorsByName(mirrors, known.pods),
        storage=storage.volumes,
        pull_secrets=stations.api.references,
        last_words=storage.last_words,
    )
    syncs = PodSyncs(
        reports=reports,
        surroundings=around,
        containers=stations.containers.containers,
        reasons=reasons,
        probes=ShownProbes(known.probes, known.statuses),
        recorder=ground.recorder,
        trail=known.trail,
        clock=clock,
    )
    return WorkerPool(
        runner=JobRunner(
            syncs=syncs, looks=watchdog, moments=watchdog.cache, recorder=ground.recorder, durations=durations
        ),
        seen=watchdog.cache,
        desired=known.pods,
        listener=known.inbox,
        clock=clock,
        trail=known.trail,
        machine=known.machine,
    )


def _loop(ground: Ground, stations: Stations, pool: WorkerPool, entrance: Entrance, mirrors: MirrorKeeper) -> NodeLoop:
    known, sources = stations.pods, stations.sources
    handlers = PodHandlers(
        pods=known.pods,
        workers=pool,
        entrance=entrance,
        statuses=known.statuses,
        sources=sources.ready,
        dead=stations.containers.dead,
        trail=known.trail,
        first_seen=known.starts.pod_seen,
    )
    leftovers: tuple[tuple[str, Leftovers], ...] = (
        ("pod folders", stations.storage.volumes),
        ("awaited objects", stations.storage.awaited),
        ("back-offs", BackoffLeftovers(stations.containers.backoff, ground.clock)),
    )
    housekeeper = Housekeeper(
        pods=known.pods,
        workers=pool,
        queries=known.queries,
        entrance=entrance,
        runtime=ground.runtime.runtime,
        cleaners=Cleaners(statuses=known.statuses, probes=known.probes, mirrors=mirrors, leftovers=leftovers),
        trail=known.trail,
    )
    return NodeLoop(
        updates=sources.config.updates(),
        changes=stations.watchdog,
        inbox=known.inbox,
        handlers=handlers,
        entrance=entrance,
        housekeeper=housekeeper,
        health=stations.health,
        clock=ground.clock,
    )


def _entrance(ground: Ground, stations: Stations, pool: WorkerPool) -> Entrance:
    known = stations.pods
    kernel = kernel_version(ground.machine_now.kernel_version)
    admitter = Admitter(
        node_name=ground.name,
        nodes=NodeAnyway(stations.api.own_node),
        conditions=AdmissionConditions(health=stations.health, app_armor_error=ground.runtime.app_armor_error),
        sysctls=SysctlAllowlist(safe_sysctls(kernel)),
    )
    return Entrance(
        admission=admitter,
        workers=pool,
        terminations=known.queries,
        statuses=known.statuses,
        killer=PodKiller(workers=pool, recorder=ground.recorder),
        recorder=ground.recorder,
        trail=known.trail,
    )


class MirrorsByName:
    """Keeps the mirror of a pod in step, wherever that is."""

    def __init__(self, keeper: MirrorKeeper, pods: PodManager) -> None:
        self._keeper, self._pods = keeper, pods

    async def reconcile(self, pod: Pod) -> None:
        await self._keeper.reconcile_mirror_pod(pod, self._pods.mirror_pod_by_pod(pod))


class BackoffLeftovers:
    """What is remembered of crashes that no longer matter."""

    def __init__(self, backoff: CrashBackoff, clock: Clock) -> None:
        self._backoff, self._clock = backoff, clock

    async def remove_orphans(self, _: Container[PodUid]) -> None:
        self._backoff.prune(self._clock.now())
