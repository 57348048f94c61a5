"""A node put together: every part is made here, once, and handed to those that need it.

How a node is: the pressures it is under, and its end.

The parts of a node that act on its pods: the workers, and the loop that gives them their work.
"""

import asyncio
from collections.abc import AsyncIterator, Container
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

from pykubelet.aio.clock import Clock
from pykubelet.aio.tasks import Runner, running, with_ready_event
from pykubelet.api.generated.core import Pod
from pykubelet.api.pods import PodUid
from pykubelet.app.node_containers import GcStates, NodeContainers, NodeStorage, node_containers, node_storage
from pykubelet.app.node_dependencies import NodeDependencies, make_root
from pykubelet.app.node_pods import (
    NodeObjects,
    NodePods,
    NodeSources,
    ShownProbes,
    node_objects,
    node_pods,
    node_sources,
    node_status_runners,
)
from pykubelet.app.node_record import ListeningAddress, node_record, write_record
from pykubelet.app.node_server import (
    KnownApiServer,
    NodeListener,
    open_listener,
    own_renewal,
    serving_certificate,
    serving_node_api,
)
from pykubelet.app.runtimes import RuntimeParts, counted, open_runtime
from pykubelet.app.settings import CannotStart, NodeSettings
from pykubelet.client.interface import Client
from pykubelet.kubelet.eviction.eviction_manager import EvictionManager
from pykubelet.kubelet.eviction.pod_usage import PodPaths, PodUsageReader
from pykubelet.kubelet.eviction.pressure_monitor import PressureMonitor, SignalReader
from pykubelet.kubelet.explain.explainer import PodExplainer
from pykubelet.kubelet.housekeeping import Housekeeper, OrphanRemover, PodCleaners
from pykubelet.kubelet.kubelet import Kubelet, SyncHandler
from pykubelet.kubelet.kuberuntime.manager import CrashBackoff
from pykubelet.kubelet.lifecycle.admission import PodAdmission, PodAdmitHandler
from pykubelet.kubelet.logs.log_directory import pod_names
from pykubelet.kubelet.metrics import PodCountCollector, RejectionCollector
from pykubelet.kubelet.nodeshutdown.nodeshutdown_manager import NodeShutdownManager, shutdown_periods
from pykubelet.kubelet.nodestatus.health import AdmissionConditions, NodeHealth
from pykubelet.kubelet.nodestatus.machine import MachineInfoReader
from pykubelet.kubelet.nodestatus.node_status import AdmissionNode
from pykubelet.kubelet.pleg.pleg import PodLifecycleEventGenerator
from pykubelet.kubelet.pod.mirror_client import MirrorClient, MirrorReconciler, StaticPodRegistration
from pykubelet.kubelet.pod.pod_manager import PodManager
from pykubelet.kubelet.pod_workers.pod_workers import PodKiller, PodWorkerQueries, PodWorkers
from pykubelet.kubelet.pod_workers.sync import PodSyncDependencies, PodSyncer
from pykubelet.kubelet.pod_workers.worker import PodWorkerDurations, SyncJobRunner
from pykubelet.kubelet.stats.metrics import MetricsCollector
from pykubelet.kubelet.status.container_statuses import ReasonCache
from pykubelet.kubelet.status.generate import StatusReporter
from pykubelet.kubelet.sysctl import SysctlAllowlist, kernel_version, safe_sysctls
from pykubelet.kubelet.volumemanager.filesystem import Mounter
from pykubelet.runtimes.protocol import read_file_system


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeParts:
    """All that the work goes through."""

    api: NodeObjects
    sources: NodeSources
    pods: NodePods
    storage: NodeStorage
    containers: NodeContainers
    watchdog: PodLifecycleEventGenerator
    health: NodeHealth


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeWorkers:
    """Everything that acts."""

    pool: PodWorkers
    durations: PodWorkerDurations
    entrance: PodAdmission
    loop: Kubelet
    loop_ready: asyncio.Event
    runners: dict[str, Runner]


def node_workers(ground: NodeDependencies, stations: NodeParts) -> NodeWorkers:
    """All of it."""
    own_node, pods = stations.api.own_node, stations.pods.pods
    mirrors = MirrorReconciler(
        mirrors=MirrorClient(client=ground.client, node_name=ground.name, nodes=own_node),
        node_name=ground.name,
        nodes=own_node,
        recorder=ground.recorder,
    )
    durations = PodWorkerDurations(clock=ground.clock)
    pool = _pool(ground, stations, mirrors, durations)
    entrance, ready = _entrance(ground, stations, pool), asyncio.Event()
    loop = _loop(ground, stations, pool, entrance, mirrors)
    first_mirrors = StaticPodRegistration(pods=pods, keeper=mirrors, node_known=own_node.is_known)
    runners = {
        "workers": with_ready_event(pool.run),
        "loop": with_ready_event(loop.run, ready),
        "first mirrors": with_ready_event(first_mirrors.run),
    }
    return NodeWorkers(pool=pool, durations=durations, entrance=entrance, loop=loop, loop_ready=ready, runners=runners)


def _pool(
    ground: NodeDependencies, stations: NodeParts, mirrors: MirrorReconciler, durations: PodWorkerDurations
) -> PodWorkers:
    known, storage, watchdog, clock = stations.pods, stations.storage, stations.watchdog, ground.clock
    reasons = ReasonCache()
    reports = StatusReporter(
        manager=known.statuses,
        reasons=reasons,
        probed=known.probes.with_results,
        host_ips=stations.api.own_node.host_ips,
        recorder=ground.recorder,
        clock=clock,
        runtime_name=ground.runtime.name,
    )
    around = PodSyncDependencies(
        network=stations.health,
        references=stations.api.references,
        mirrors=MirrorsByName(mirrors, known.pods),
        storage=storage.volumes,
        pull_secrets=stations.api.references,
        last_words=storage.last_words,
    )
    syncs = PodSyncer(
        reports=reports,
        surroundings=around,
        containers=stations.containers.containers,
        reasons=reasons,
        probes=ShownProbes(known.probes, known.statuses),
        recorder=ground.recorder,
        trail=known.trail,
        clock=clock,
    )
    return PodWorkers(
        runner=SyncJobRunner(
            syncs=syncs, looks=watchdog, moments=watchdog.cache, recorder=ground.recorder, durations=durations
        ),
        seen=watchdog.cache,
        desired=known.pods,
        listener=known.inbox,
        clock=clock,
        trail=known.trail,
        machine=known.machine,
    )


def _loop(
    ground: NodeDependencies, stations: NodeParts, pool: PodWorkers, entrance: PodAdmission, mirrors: MirrorReconciler
) -> Kubelet:
    known, sources = stations.pods, stations.sources
    handlers = SyncHandler(
        pods=known.pods,
        workers=pool,
        entrance=entrance,
        statuses=known.statuses,
        sources=sources.ready,
        dead=stations.containers.dead,
        trail=known.trail,
        first_seen=known.starts.pod_seen,
    )
    leftovers: tuple[tuple[str, OrphanRemover], ...] = (
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
        cleaners=PodCleaners(statuses=known.statuses, probes=known.probes, mirrors=mirrors, leftovers=leftovers),
        trail=known.trail,
    )
    return Kubelet(
        updates=sources.config.updates(),
        changes=stations.watchdog,
        inbox=known.inbox,
        handlers=handlers,
        entrance=entrance,
        housekeeper=housekeeper,
        health=stations.health,
        clock=ground.clock,
    )


def _entrance(ground: NodeDependencies, stations: NodeParts, pool: PodWorkers) -> PodAdmission:
    known = stations.pods
    kernel = kernel_version(ground.machine_now.kernel_version)
    admitter = PodAdmitHandler(
        node_name=ground.name,
        nodes=AdmissionNode(stations.api.own_node),
        conditions=AdmissionConditions(health=stations.health, app_armor_error=ground.runtime.app_armor_error),
        sysctls=SysctlAllowlist(safe_sysctls(kernel)),
    )
    return PodAdmission(
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

    def __init__(self, keeper: MirrorReconciler, pods: PodManager) -> None:
        self._keeper, self._pods = keeper, pods

    async def reconcile(self, pod: Pod) -> None:
        await self._keeper.reconcile_mirror_pod(pod, self._pods.mirror_pod_by_pod(pod))


class BackoffLeftovers:
    """What is remembered of crashes that no longer matter."""

    def __init__(self, backoff: CrashBackoff, clock: Clock) -> None:
        self._backoff, self._clock = backoff, clock

    async def remove_orphans(self, _: Container[PodUid]) -> None:
        self._backoff.prune(self._clock.now())


async def node_evictor(
    ground: NodeDependencies, stations: NodeParts, pool: PodWorkers, shutdown: NodeShutdownManager
) -> EvictionManager:
    """Who measures the machine, and ends pods when it is short of something."""
    parts, root = ground.runtime, str(ground.settings.root_dir)
    watch = PressureMonitor(
        reader=ground.signals,
        changed=stations.health.note_pressures,
        clock=ground.clock,
        thresholds=ground.thresholds,
        image_fs=parts.image_fs,
        node_device=(await asyncio.to_thread(read_file_system, root)).device,
    )
    places = PodPlaces(ground, stations.storage)
    return EvictionManager(
        watch=watch,
        meter=PodUsageReader(runtime=parts.runtime, usages=parts.usages, paths=places.paths),
        pods=EvictablePods(shutdown, stations.pods.queries),
        killer=PodKiller(workers=pool, recorder=ground.recorder),
        reclaimer=stations.containers.reclaimer,
        recorder=ground.recorder,
        node=ground.reference,
    )


class EvictablePods:
    """The pods that may be ended, and whether they have."""

    def __init__(self, shutdown: NodeShutdownManager, queries: PodWorkerQueries) -> None:
        self._shutdown, self._queries = shutdown, queries

    def active_pods(self) -> tuple[Pod, ...]:
        return self._shutdown.active_pods()

    def is_finished(self, uid: PodUid) -> bool:
        return self._queries.should_be_finished(uid)


class PodPlaces:
    """Where the things of a pod are that take room on the disk."""

    def __init__(self, ground: NodeDependencies, storage: NodeStorage) -> None:
        self._logs, self._volumes = ground.logs, storage.volumes

    def paths(self, pod: Pod) -> PodPaths:
        spec, uid = pod.spec, PodUid(pod.metadata.uid)
        logs, ready = self._logs.of_pod(pod_names(pod)), self._volumes.volumes(uid)
        directory = self._volumes.directory(uid)
        names = [one.name for one in (*spec.containers, *spec.init_containers)]
        names += [one.name for one in spec.ephemeral_containers]
        counted = [one.name for one in spec.volumes if one.name in ready and (one.empty_dir or one.config_map)]
        return PodPaths(
            logs={name: f"{logs}/{name}" for name in names},
            volumes={name: ready[name].path for name in counted},
            own_files=(directory.hosts_file, directory.termination_files),
        )


def node_shutdown(
    ground: NodeDependencies, known: NodePods, pool: PodWorkers, health: NodeHealth
) -> NodeShutdownManager:
    """Who lets the node go down; CannotStart for grace periods that make no sense."""
    settings = ground.settings
    try:
        periods = shutdown_periods(settings.shutdown_grace_seconds, settings.shutdown_grace_seconds_critical)
    except ValueError as error:
        raise CannotStart(str(error)) from error
    return NodeShutdownManager(
        periods=periods,
        pods=known.pods,
        workers=known.queries,
        statuses=known.statuses,
        killer=PodKiller(workers=pool, recorder=ground.recorder),
        announce=health.note_shutdown,
        recorder=ground.recorder,
        node=ground.reference,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node at work, and what others may ask of it."""

    ground: NodeDependencies
    pods: NodePods
    sources: NodeSources
    work: NodeWorkers
    health: NodeHealth
    watchdog: PodLifecycleEventGenerator
    shutdown: NodeShutdownManager
    signs: tuple[asyncio.Event, ...]
    collectors: tuple[MetricsCollector, ...]
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

    def answering(self, door: NodeListener) -> AbstractAsyncContextManager[None]:
        """The node's own API answers, for as long as the context lasts."""
        return serving_node_api(
            door,
            ground=self.ground,
            known=self.pods,
            watchdog=self.watchdog,
            loop=self.work.loop,
            explainer=self.explainer(),
            collectors=self.collectors,
        )


@asynccontextmanager
async def open_node(
    settings: NodeSettings,
    *,
    client: Client | None,
    server: KnownApiServer | None,
    clock: Clock,
    collectors: tuple[MetricsCollector, ...] = (),
) -> AsyncIterator[Node]:
    """A node of this machine at work, with the runtime of its settings and its own API, as long as the context lasts.

    Its page of metrics tells what `collectors` have as well. CannotStart if it cannot.
    """
    make_root(settings)
    async with AsyncExitStack() as stack:
        door = None
        if server is not None or settings.client_ca is not None:
            door = await stack.enter_async_context(open_listener(settings, server=server, clock=clock))
            settings = replace(settings, port=door.port, address=door.address)
        runtime = await stack.enter_async_context(open_runtime(settings, clock=clock))
        made = await stack.enter_async_context(node(settings, client=client, runtime=runtime, clock=clock))
        if door is not None:
            made = replace(made, collectors=(*made.collectors, *collectors))
            await stack.enter_async_context(made.answering(door))
            runner = with_ready_event(own_renewal(door, settings, clock=clock).run)
            if client is not None and settings.rotate_server_certificates:
                runner = with_ready_event(serving_certificate(door, settings, client=client, clock=clock).run)
            await stack.enter_async_context(running({"serving certificate": runner}))
        opened = ListeningAddress(door=door, runtime=runtime, has_server=client is not None)
        await asyncio.to_thread(write_record, settings.root_dir, node_record(settings, opened))
        yield made


@asynccontextmanager
async def node(
    settings: NodeSettings,
    *,
    client: Client | None,
    runtime: RuntimeParts,
    clock: Clock,
    machine: MachineInfoReader | None = None,
    mounter: Mounter | None = None,
    signals: SignalReader | None = None,
) -> AsyncIterator[Node]:
    """A node at work, for as long as the context lasts; what it has started goes on. CannotStart if it cannot.

    Without a client it runs static pods only.
    """
    runtime = counted(runtime, clock=clock)
    ground = await NodeDependencies.of(
        settings, client=client, runtime=runtime, clock=clock, machine=machine, mounter=mounter, signals=signals
    )
    watchdog = PodLifecycleEventGenerator(runtime=runtime.runtime, clock=clock, feed=runtime.feed)
    is_watching = asyncio.Event()
    api, pods = node_objects(ground), node_pods(ground, watchdog)
    sources = node_sources(ground, api.own_node)
    health = NodeHealth(watchdog=watchdog, sources=sources.ready, warnings=sources.problems, runtime=runtime.state)
    storage = node_storage(ground, api, pods.inbox)
    states = GcStates(pods.queries, sources.ready.all_ready)
    containers = node_containers(ground, setup=storage.setup, classes=api.runtime_classes, pods=pods, states=states)
    stations = NodeParts(
        api=api, sources=sources, pods=pods, storage=storage, containers=containers, watchdog=watchdog, health=health
    )
    work = node_workers(ground, stations)
    parts = (api, sources, pods, storage, containers, work)
    runners = {name: runner for part in parts for name, runner in part.runners.items()}
    runners |= node_status_runners(ground, api.own_node, health, first_look=is_watching)
    runners["watchdog"] = with_ready_event(watchdog.run, is_watching)
    shutdown = node_shutdown(ground, pods, work.pool, health)
    evictor = await node_evictor(ground, stations, work.pool, shutdown)
    runners["pressure"] = with_ready_event(evictor.run)
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
    runtime: RuntimeParts,
    stations: NodeParts,
    work: NodeWorkers,
    shutdown: NodeShutdownManager,
    evictor: EvictionManager,
) -> tuple[MetricsCollector, ...]:
    known = stations.pods
    return (
        *(() if runtime.operations is None else (runtime.operations,)),
        stations.watchdog.relists,
        stations.containers.containers.start_metrics,
        work.durations,
        RejectionCollector(entrance=work.entrance, evictor=evictor),
        PodCountCollector(pods=known.pods, records=known.machine.records, active_pods=shutdown.active_pods),
        known.starts,
    )
