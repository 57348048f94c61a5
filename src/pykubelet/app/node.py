"""Composes a node: creates every part once and passes it to the parts that use it, from the bottom up.

`open_node` opens the runtime and the kubelet's API around it; `node` composes the kubelet itself and runs it. Nothing
here runs after the start.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.aio.tasks import Runner, running, with_ready_event
from pykubelet.app.node_containers import NodeContainers, NodeStorage, node_containers, node_storage
from pykubelet.app.node_dependencies import NodeDependencies, locked_root
from pykubelet.app.node_pods import (
    NodeObjects,
    NodePods,
    NodeSources,
    node_objects,
    node_pods,
    node_sources,
    node_status_runners,
)
from pykubelet.app.node_record import node_record, write_record
from pykubelet.app.node_server import (
    KnownApiServer,
    NodeListener,
    open_listener,
    own_renewal,
    serving_certificate,
    serving_node_api,
)
from pykubelet.app.pod_network import COSTS, MACHINE_NETWORK, NodeNetwork, address_for_pods
from pykubelet.app.runtimes import RuntimeParts, counted, open_runtime
from pykubelet.app.settings import CannotStart, NodeSettings
from pykubelet.client.interface import Client
from pykubelet.client.recorder import WARNING
from pykubelet.kubelet.eviction.eviction_manager import EvictionManager
from pykubelet.kubelet.eviction.pod_usage import PodDiskPaths, PodUsageReader
from pykubelet.kubelet.eviction.pressure_monitor import PressureMonitor, SignalReader
from pykubelet.kubelet.explain.explainer import PodExplainer
from pykubelet.kubelet.housekeeping import Housekeeper, PodCleaners
from pykubelet.kubelet.kubelet import Kubelet, SyncHandler
from pykubelet.kubelet.lifecycle.admission import PodAdmission, PodAdmitHandler
from pykubelet.kubelet.lifecycle.predicate import SysctlAllowlist, kernel_version, safe_sysctls
from pykubelet.kubelet.metrics import PodCountCollector, RejectionCollector
from pykubelet.kubelet.nodeshutdown.nodeshutdown_manager import NodeShutdownManager, shutdown_periods
from pykubelet.kubelet.nodestatus.machine import MachineInfoReader
from pykubelet.kubelet.nodestatus.node_status import NodeHealth
from pykubelet.kubelet.pleg.pleg import PodLifecycleEventGenerator
from pykubelet.kubelet.pod.mirror_client import MirrorClient, MirrorReconciler, StaticPodRegistration
from pykubelet.kubelet.pod_workers.pod_workers import PodWorkers
from pykubelet.kubelet.pod_workers.sync import PodEnvironment, PodSyncer, PodWorkerDurations, SyncRunner
from pykubelet.kubelet.stats.metrics import MetricsCollector
from pykubelet.kubelet.status.container_statuses import ReasonCache
from pykubelet.kubelet.status.generate import StatusReporter
from pykubelet.kubelet.volumemanager.filesystem import Mounter
from pykubelet.runtimes.protocol import read_file_system

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeParts:
    """The parts of a node below its workers."""

    objects: NodeObjects
    sources: NodeSources
    pods: NodePods
    storage: NodeStorage
    containers: NodeContainers
    pleg: PodLifecycleEventGenerator
    health: NodeHealth


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeWorkers:
    """The workers of pods and the sync loop that queues their work."""

    workers: PodWorkers
    durations: PodWorkerDurations
    admission: PodAdmission
    kubelet: Kubelet
    loop_ready: asyncio.Event
    runners: dict[str, Runner]


def node_workers(deps: NodeDependencies, parts: NodeParts) -> NodeWorkers:
    """Compose workers, admission and sync loop."""
    own_node, pods = parts.objects.own_node, parts.pods.pods
    mirrors = MirrorReconciler(
        mirrors=MirrorClient(client=deps.client, node_name=deps.name, nodes=own_node),
        pods=pods,
        node_name=deps.name,
        nodes=own_node,
        recorder=deps.recorder,
    )
    durations = PodWorkerDurations(clock=deps.clock)
    workers = _workers(deps, parts, mirrors, durations)
    admission, loop_ready = _admission(deps, parts, workers), asyncio.Event()
    kubelet = _kubelet(deps, parts, workers, admission, mirrors)
    registration = StaticPodRegistration(pods=pods, mirrors=mirrors, node_known=own_node.is_known)
    runners = {
        "workers": with_ready_event(workers.run),
        "loop": with_ready_event(kubelet.run, loop_ready),
        "static pod registration": with_ready_event(registration.run),
    }
    return NodeWorkers(
        workers=workers,
        durations=durations,
        admission=admission,
        kubelet=kubelet,
        loop_ready=loop_ready,
        runners=runners,
    )


def _workers(
    deps: NodeDependencies, parts: NodeParts, mirrors: MirrorReconciler, durations: PodWorkerDurations
) -> PodWorkers:
    pods, recorder, clock = parts.pods, deps.recorder, deps.clock
    reports = StatusReporter(
        manager=pods.statuses,
        reasons=ReasonCache(),
        probed=pods.probes.with_results,
        host_ips=parts.objects.own_node.host_ips,
        recorder=recorder,
        clock=clock,
        runtime_name=deps.runtime.name,
    )
    environment = PodEnvironment(
        health=parts.health,
        references=parts.objects.references,
        mirrors=mirrors,
        volumes=parts.storage.volumes,
        termination_messages=parts.storage.termination_messages,
    )
    syncer = PodSyncer(
        reports=reports,
        environment=environment,
        containers=parts.containers.manager,
        probes=pods.probes,
        recorder=recorder,
        trail=deps.trail,
        clock=clock,
    )
    return PodWorkers(
        runner=SyncRunner(syncer=syncer, pleg=parts.pleg, recorder=recorder, durations=durations),
        pods=pods.pods,
        statuses=pods.statuses,
        listener=pods.inbox,
        recorder=recorder,
        clock=clock,
        trail=deps.trail,
        machine=pods.machine,
    )


def _admission(deps: NodeDependencies, parts: NodeParts, workers: PodWorkers) -> PodAdmission:
    handler = PodAdmitHandler(
        node=parts.objects.own_node.current_or_initial,
        health=parts.health,
        sysctls=SysctlAllowlist(safe_sysctls(kernel_version(deps.machine_now.kernel_version))),
        app_armor_error=deps.runtime.app_armor_error,
    )
    return PodAdmission(
        handler=handler,
        workers=workers,
        statuses=parts.pods.statuses,
        recorder=deps.recorder,
        trail=deps.trail,
        is_running=parts.pods.removal.could_have_running_containers,
    )


def _kubelet(
    deps: NodeDependencies, parts: NodeParts, workers: PodWorkers, admission: PodAdmission, mirrors: MirrorReconciler
) -> Kubelet:
    pods, sources = parts.pods, parts.sources
    handler = SyncHandler(
        pods=pods.pods,
        workers=workers,
        admission=admission,
        statuses=pods.statuses,
        sources=sources.ready,
        deletor=parts.containers.deletor,
        trail=deps.trail,
        first_seen=pods.startup_latency.pod_seen,
    )
    orphans = deps.runtime.orphans
    cleaners = PodCleaners(
        statuses=pods.statuses,
        probes=pods.probes,
        mirrors=mirrors,
        leftovers=(
            ("pod directories", parts.storage.volumes),
            ("awaited objects", parts.storage.awaited),
            ("back-offs", parts.containers.executor),
            *((("pod cgroups", orphans),) if orphans is not None else ()),
        ),
    )
    housekeeper = Housekeeper(
        pods=pods.pods,
        workers=workers,
        admission=admission,
        runtime=deps.runtime.runtime,
        cleaners=cleaners,
        trail=deps.trail,
    )
    return Kubelet(
        updates=sources.config.updates(),
        pleg=parts.pleg,
        inbox=pods.inbox,
        handler=handler,
        admission=admission,
        housekeeper=housekeeper,
        health=parts.health,
        clock=deps.clock,
    )


async def _eviction_manager(deps: NodeDependencies, parts: NodeParts, workers: PodWorkers) -> EvictionManager:
    runtime, root = deps.runtime, str(deps.settings.root_dir)
    monitor = PressureMonitor(
        reader=deps.signals,
        changed=parts.health.note_pressures,
        clock=deps.clock,
        thresholds=deps.thresholds,
        undisturbed_seconds=deps.settings.undisturbed_pressure_seconds,
        image_fs=runtime.image_fs,
        node_device=(await asyncio.to_thread(read_file_system, root)).device,
    )
    paths = PodDiskPaths(logs=deps.logs, volumes=parts.storage.volumes)
    return EvictionManager(
        monitor=monitor,
        usage_reader=PodUsageReader(runtime=runtime.runtime, usages=runtime.usages, paths=paths.paths),
        workers=workers,
        reclaimer=parts.containers.reclaimer,
        recorder=deps.recorder,
        node=deps.reference,
        is_unsent=parts.pods.statuses.is_unsent,
    )


def _shutdown_manager(deps: NodeDependencies, parts: NodeParts, workers: PodWorkers) -> NodeShutdownManager:
    settings = deps.settings
    try:
        periods = shutdown_periods(settings.shutdown_grace_seconds, settings.shutdown_grace_seconds_critical)
    except ValueError as error:
        raise CannotStart(str(error)) from error
    return NodeShutdownManager(
        periods=periods,
        workers=workers,
        statuses=parts.pods.statuses,
        health=parts.health,
        recorder=deps.recorder,
        node=deps.reference,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A running node and its parts."""

    dependencies: NodeDependencies
    pods: NodePods
    sources: NodeSources
    work: NodeWorkers
    health: NodeHealth
    pleg: PodLifecycleEventGenerator
    shutdown: NodeShutdownManager
    ready_events: tuple[asyncio.Event, ...]
    collectors: tuple[MetricsCollector, ...]
    """The Prometheus collectors of its parts."""
    listening: str = ""
    """The address at which its API listens: loopback if only this machine's API server needs it."""

    async def until_ready(self) -> None:
        """Return once the API server has the node, the runtime was listed, and the sync loop runs."""
        for event in self.ready_events:
            await event.wait()

    def explainer(self) -> PodExplainer:
        """Explains what the pods of this node wait for."""
        return PodExplainer(
            node_name=self.dependencies.name,
            pods=self.pods.pods,
            records=self.pods.machine.records,
            statuses=self.pods.statuses,
            trail=self.dependencies.trail,
            problems=self.sources.problems,
            clock=self.dependencies.clock,
            unenforced=self.dependencies.runtime.unenforced_limits,
        )

    def serving(self, listener: NodeListener) -> AbstractAsyncContextManager[None]:
        """Serve the kubelet's API while the context lasts."""
        return serving_node_api(
            listener,
            deps=self.dependencies,
            pods=self.pods,
            pleg=self.pleg,
            kubelet=self.work.kubelet,
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
    network: NodeNetwork = MACHINE_NETWORK,
) -> AsyncIterator[Node]:
    """Run a node on this machine, with its configured runtime and its own API, while the context lasts.

    Its metrics include `collectors`; its pods are in `network`. CannotStart if it cannot start.
    """
    async with AsyncExitStack() as stack:
        stack.enter_context(locked_root(settings))
        listener = None
        if server is not None or settings.client_ca is not None:
            listener = await stack.enter_async_context(open_listener(settings, server=server, clock=clock))
            settings = replace(settings, port=listener.port, address=listener.address)
        runtime = await stack.enter_async_context(open_runtime(settings, clock=clock, network=network))
        if runtime.has_pod_networks:
            settings = replace(settings, address=await asyncio.to_thread(address_for_pods, settings))
        made = await stack.enter_async_context(node(settings, client=client, runtime=runtime, clock=clock))
        if listener is not None:
            made = replace(made, listening=listener.address, collectors=(*made.collectors, *collectors))
            await stack.enter_async_context(made.serving(listener))
            runner = with_ready_event(own_renewal(listener, settings, clock=clock).run)
            if client is not None and settings.rotate_server_certificates:
                runner = with_ready_event(serving_certificate(listener, settings, client=client, clock=clock).run)
            await stack.enter_async_context(running({"serving certificate": runner}))
        record = node_record(settings, listener=listener, runtime=runtime, has_server=client is not None)
        await asyncio.to_thread(write_record, settings.root_dir, record)
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
    """Run a node while the context lasts; its containers keep running afterwards. CannotStart if it cannot start.

    Without a client it runs static pods only.
    """
    runtime = counted(runtime, clock=clock)
    deps = await NodeDependencies.of(
        settings, client=client, runtime=runtime, clock=clock, machine=machine, mounter=mounter, signals=signals
    )
    _report_network(deps)
    pleg = PodLifecycleEventGenerator(runtime=runtime.runtime, clock=clock, feed=runtime.feed)
    pleg_ready = asyncio.Event()
    objects = node_objects(deps)
    sources = node_sources(deps, objects.own_node)
    pods = node_pods(deps, pleg, sources.ready)
    health = NodeHealth(pleg=pleg, sources=sources.ready, problems=sources.problems, runtime=runtime.state)
    storage = node_storage(deps, objects, pods.inbox)
    containers = node_containers(deps, helper=storage.options, classes=objects.runtime_classes, pods=pods)
    parts = NodeParts(
        objects=objects, sources=sources, pods=pods, storage=storage, containers=containers, pleg=pleg, health=health
    )
    work = node_workers(deps, parts)
    shutdown = _shutdown_manager(deps, parts, work.workers)
    eviction = await _eviction_manager(deps, parts, work.workers)
    runners = objects.runners | sources.runners | pods.runners | storage.runners | containers.runners | work.runners
    runners |= node_status_runners(deps, objects.own_node, health, first_relist=pleg_ready)
    runners["pleg"] = with_ready_event(pleg.run, pleg_ready)
    runners["eviction"] = with_ready_event(eviction.run)
    async with running(runners):
        yield Node(
            dependencies=deps,
            pods=pods,
            sources=sources,
            work=work,
            health=health,
            pleg=pleg,
            shutdown=shutdown,
            ready_events=(pleg_ready, work.loop_ready, objects.own_node.is_known),
            collectors=_collectors(runtime, parts, work, eviction),
        )


def _report_network(deps: NodeDependencies) -> None:
    """Say once that pods have no networks of their own, why, and what it costs."""
    if problem := deps.runtime.network_problem:
        if deps.client is not None:
            log.warning("pods share the machine's network", reason=problem, costs=COSTS)
        # Without an API server events are log lines.
        message = f"Pods share the machine's network: {problem}. It costs: {COSTS}"
        deps.recorder.event(deps.reference, WARNING, "PodNetworkNotAvailable", message)
    if problem := deps.runtime.egress_problem:
        message = f"Pods do not reach other machines: {problem}. They reach each other, Services and the API"
        deps.recorder.event(deps.reference, WARNING, "PodEgressNotAvailable", message)


def _collectors(
    runtime: RuntimeParts, parts: NodeParts, work: NodeWorkers, eviction: EvictionManager
) -> tuple[MetricsCollector, ...]:
    pods = parts.pods
    return (
        *(() if runtime.operations is None else (runtime.operations,)),
        parts.pleg.relists,
        parts.containers.manager.start_metrics,
        work.durations,
        RejectionCollector(admission=work.admission, eviction=eviction),
        PodCountCollector(pods=pods.pods, records=pods.machine.records, active_pods=work.workers.active_pods),
        pods.startup_latency,
    )
