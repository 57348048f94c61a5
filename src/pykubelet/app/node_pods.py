"""Composes what a node knows: API objects, the sources of pods, the pods and their statuses."""

import asyncio
from dataclasses import dataclass

from pykubelet.aio.tasks import Runner, with_ready_event
from pykubelet.app.node_dependencies import NodeDependencies
from pykubelet.app.settings import CannotStart
from pykubelet.kubelet.config.apiserver import ApiServerSource
from pykubelet.kubelet.config.config import PodConfig, SourceProblemReporter, SourceRunner, SourcesReady, StaticPodHold
from pykubelet.kubelet.config.file import FileSource
from pykubelet.kubelet.config.http import UrlSource
from pykubelet.kubelet.explain.trail import TrailStatusObserver
from pykubelet.kubelet.kubelet import SyncLoopInbox
from pykubelet.kubelet.nodestatus.lease import NodeLease
from pykubelet.kubelet.nodestatus.node_status import NodeHealth, NodeStatusReporter, NodeStatusSources, OwnNode
from pykubelet.kubelet.nodestatus.setters import NodeStatusInputs, initial_node
from pykubelet.kubelet.objectcache.pod_objects import PodObjects, RuntimeClasses, ServiceList
from pykubelet.kubelet.objectcache.secret_and_configmap_manager import ConfigMapManager, PodReferences, SecretManager
from pykubelet.kubelet.objectcache.store import CacheOptions
from pykubelet.kubelet.pleg.pleg import PodLifecycleEventGenerator
from pykubelet.kubelet.pod.pod_manager import PodManager
from pykubelet.kubelet.pod_startup_latency_tracker import PodStartupLatencyTracker
from pykubelet.kubelet.pod_workers.pod_workers import PodRemoval, PodWorkerQueries
from pykubelet.kubelet.pod_workers.state import PodStateMachine
from pykubelet.kubelet.prober.prober import Prober
from pykubelet.kubelet.prober.prober_manager import ProberManager
from pykubelet.kubelet.status.status_manager import StatusManager
from pykubelet.kubelet.types import PodSource


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeObjects:
    """The objects that the node reads from the API server."""

    own_node: OwnNode
    services: ServiceList
    runtime_classes: RuntimeClasses
    references: PodReferences
    objects: PodObjects
    runners: dict[str, Runner]


def node_objects(deps: NodeDependencies) -> NodeObjects:
    """Compose the caches of API objects; without a client they are empty."""
    client, clock = deps.client, deps.clock
    initial, _ = initial_node(deps.about, NodeStatusInputs(now=clock.now(), machine=deps.machine_now))
    own_node = OwnNode(initial=initial, client=client, clock=clock)
    services = ServiceList(client=client, clock=clock)
    runners: dict[str, Runner] = {
        "own node": with_ready_event(own_node.run),
        "services": with_ready_event(services.run),
    }
    secrets = config_maps = None
    if client is not None:
        options = CacheOptions(single_object_watches=deps.settings.only_named_objects)
        secrets = SecretManager(client=client, clock=clock, options=options)
        config_maps = ConfigMapManager(client=client, clock=clock, options=options)
        runners |= {"secrets": with_ready_event(secrets.run), "config maps": with_ready_event(config_maps.run)}
    if deps.event_writer is not None:
        runners["events"] = with_ready_event(deps.event_writer.run)
    return NodeObjects(
        own_node=own_node,
        services=services,
        runtime_classes=RuntimeClasses(client=client),
        references=PodReferences(secrets=secrets, config_maps=config_maps),
        objects=PodObjects(config_maps=config_maps, secrets=secrets),
        runners=runners,
    )


def node_status_runners(
    deps: NodeDependencies, own_node: OwnNode, health: NodeHealth, *, first_relist: asyncio.Event
) -> dict[str, Runner]:
    """Compose node status and lease; nothing without an API server."""
    client, clock = deps.client, deps.clock
    if client is None:
        return {}
    inputs = NodeStatusSources(
        machine=deps.machine,
        health=health,
        images=deps.runtime.images,
        known_node=own_node.shown,
        first_relist=first_relist,
    )
    reporter = NodeStatusReporter(
        settings=deps.about, client=client, inputs=inputs, recorder=deps.recorder, clock=clock
    )
    health.on_change(reporter.poke)
    lease = NodeLease(node_name=deps.name, client=client, clock=clock)
    return {"node status": with_ready_event(reporter.run), "node lease": with_ready_event(lease.run)}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePods:
    """The pods of the node, their workers' state, statuses and probes."""

    pods: PodManager
    machine: PodStateMachine
    queries: PodWorkerQueries
    statuses: StatusManager
    inbox: SyncLoopInbox
    probes: ProberManager
    startup_latency: PodStartupLatencyTracker
    removal: PodRemoval
    runners: dict[str, Runner]


def node_pods(deps: NodeDependencies, pleg: PodLifecycleEventGenerator, sources: SourcesReady) -> NodePods:
    """Compose pod manager, status manager and probes."""
    pods, machine, inbox, clock = PodManager(), PodStateMachine(), SyncLoopInbox(), deps.clock
    queries = PodWorkerQueries(machine)
    removal = PodRemoval(queries=queries, pleg=pleg, sources=sources)
    latency = PodStartupLatencyTracker(clock=clock)
    deps.trail.use_names(pods)
    observer = TrailStatusObserver(latency, deps.trail, pod_uid=pods.translate_pod_uid)
    statuses = StatusManager(client=deps.client, pods=pods, safety=removal, clock=clock, observer=observer)
    prober = Prober(
        commands=deps.runtime.commands,
        http=deps.runtime.probe_http,
        recorder=deps.recorder,
        sockets=deps.runtime.probe_sockets,
    )
    probes = ProberManager(statuses=statuses, prober=prober, changed=inbox.probed, clock=clock)
    return NodePods(
        pods=pods,
        machine=machine,
        queries=queries,
        statuses=statuses,
        inbox=inbox,
        probes=probes,
        startup_latency=latency,
        removal=removal,
        runners={"statuses": with_ready_event(statuses.run), "probes": with_ready_event(probes.run)},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSources:
    """The sources of pods, merged into one stream."""

    config: PodConfig
    ready: SourcesReady
    problems: SourceProblemReporter
    runners: dict[str, Runner]


def node_sources(deps: NodeDependencies, own_node: OwnNode) -> NodeSources:
    """Compose every configured source; CannotStart without any, or with an invalid one."""
    config = PodConfig(clock=deps.clock, recorder=deps.recorder, trail=deps.trail)
    problems = SourceProblemReporter(recorder=deps.recorder, node=deps.reference)
    runners: dict[str, Runner] = {"pod config": with_ready_event(config.run)}
    if deps.client is not None:
        api = ApiServerSource(
            client=deps.client,
            node_name=deps.name,
            node_known=own_node.is_known,
            channel=config.channel(PodSource.API),
            clock=deps.clock,
        )
        runners["pods of the API server"] = with_ready_event(api.run)
    static = _static_sources(deps, config, problems)
    runners |= {name: with_ready_event(_after_mirrors(source, deps, config).run) for name, source in static.items()}
    if not config.sources():
        raise CannotStart("there is nothing to run: name a kubeconfig, a folder of manifests or a URL of manifests")
    return NodeSources(config=config, ready=SourcesReady(config), problems=problems, runners=runners)


def _after_mirrors(source: SourceRunner, deps: NodeDependencies, config: PodConfig) -> SourceRunner:
    if deps.client is None:
        return source
    delivered = config.channel(PodSource.API).delivered
    return StaticPodHold(source, delivered=delivered, runtime=deps.runtime.runtime)


def _static_sources(
    deps: NodeDependencies, config: PodConfig, problems: SourceProblemReporter
) -> dict[str, SourceRunner]:
    settings = deps.settings
    found: dict[str, SourceRunner] = {}
    if settings.manifests:
        found["pods of files"] = FileSource(
            paths=settings.manifests,
            node_name=deps.name,
            channel=config.channel(PodSource.FILE),
            problems=problems,
            allow_references=settings.with_server,
            skips_other_kinds=settings.with_server,
        )
    if settings.manifest_url:
        try:
            found["pods of a URL"] = UrlSource(
                url=settings.manifest_url,
                node_name=deps.name,
                channel=config.channel(PodSource.HTTP),
                problems=problems,
                headers=settings.manifest_url_headers,
                allow_references=settings.with_server,
            )
        except ValueError as error:
            raise CannotStart(str(error)) from error
    return found
