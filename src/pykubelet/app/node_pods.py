"""What a node knows about its pods: which there are, how they are, what was decided.

Where the pods of a node come from: each source that its settings name.

What a node knows from the API server and tells it of itself; without one, nothing.
"""

import asyncio
from dataclasses import dataclass

from pykubelet.aio.tasks import Runner, with_ready_event
from pykubelet.api.generated.core import Pod, PodStatus
from pykubelet.api.pods import PodUid
from pykubelet.app.node_dependencies import NodeDependencies
from pykubelet.app.settings import CannotStart
from pykubelet.kubelet.config.apiserver import ApiServerSource
from pykubelet.kubelet.config.config import PodConfig
from pykubelet.kubelet.config.file import FileSource
from pykubelet.kubelet.config.http import UrlSource
from pykubelet.kubelet.config.sources import SourceProblemReporter, SourceRunner, SourcesReady, StaticPodHold
from pykubelet.kubelet.explain.trail import PodTrails, TrailStatusObserver
from pykubelet.kubelet.kubelet import SyncLoopInbox
from pykubelet.kubelet.nodestatus.health import NodeHealth
from pykubelet.kubelet.nodestatus.lease import NodeLease
from pykubelet.kubelet.nodestatus.node_status import NodeStatusReporter, NodeStatusSources, OwnNode
from pykubelet.kubelet.nodestatus.setters import NodeStatusInputs, initial_node
from pykubelet.kubelet.objectcache.cache_based_manager import CacheOptions
from pykubelet.kubelet.objectcache.cluster_objects import RuntimeClasses, ServiceList
from pykubelet.kubelet.objectcache.pod_objects import PodObjects
from pykubelet.kubelet.objectcache.secret_and_configmap_manager import ConfigMapManager, PodReferences, SecretManager
from pykubelet.kubelet.pleg.pleg import PodLifecycleEventGenerator
from pykubelet.kubelet.pod.pod_manager import PodManager
from pykubelet.kubelet.pod_startup_latency_tracker import PodStartupLatencyTracker
from pykubelet.kubelet.pod_workers.pod_workers import PodWorkerQueries
from pykubelet.kubelet.pod_workers.state import PodStateMachine
from pykubelet.kubelet.prober.prober import Prober
from pykubelet.kubelet.prober.prober_manager import ProberManager
from pykubelet.kubelet.status.status_manager import StatusManager
from pykubelet.kubelet.types import PodSource


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeObjects:
    """What is known from the API server."""

    own_node: OwnNode
    services: ServiceList
    runtime_classes: RuntimeClasses
    references: PodReferences
    objects: PodObjects
    runners: dict[str, Runner]


def node_objects(ground: NodeDependencies) -> NodeObjects:
    """All of it."""
    client, clock = ground.client, ground.clock
    initial, _ = initial_node(ground.about, NodeStatusInputs(now=clock.now(), machine=ground.machine_now))
    own_node = OwnNode(initial=initial, client=client, clock=clock)
    services = ServiceList(client=client, clock=clock)
    runners: dict[str, Runner] = {
        "own node": with_ready_event(own_node.run),
        "services": with_ready_event(services.run),
    }
    secrets = config_maps = None
    if client is not None:
        options = CacheOptions(single_object_watches=ground.settings.only_named_objects)
        secrets, config_maps = (
            SecretManager(client=client, clock=clock, options=options),
            ConfigMapManager(client=client, clock=clock, options=options),
        )
        runners |= {"secrets": with_ready_event(secrets.run), "config maps": with_ready_event(config_maps.run)}
    if ground.event_writer is not None:
        runners["events"] = with_ready_event(ground.event_writer.run)
    return NodeObjects(
        own_node=own_node,
        services=services,
        runtime_classes=RuntimeClasses(client=client),
        references=PodReferences(secrets=secrets, config_maps=config_maps),
        objects=PodObjects(config_maps=config_maps, secrets=secrets),
        runners=runners,
    )


def node_status_runners(
    ground: NodeDependencies, own_node: OwnNode, health: NodeHealth, *, first_look: asyncio.Event
) -> dict[str, Runner]:
    """What the node says of itself, if there is somebody to say it to."""
    client, clock = ground.client, ground.clock
    if client is None:
        return {}
    around = NodeStatusSources(
        machine=ground.machine,
        health=health,
        images=ground.runtime.images,
        known_node=own_node.shown,
        first_look=first_look,
    )
    reporter = NodeStatusReporter(
        settings=ground.about, client=client, surroundings=around, recorder=ground.recorder, clock=clock
    )
    health.on_change(reporter.poke)
    lease = NodeLease(node_name=ground.name, client=client, clock=clock)
    return {"node status": with_ready_event(reporter.run), "node lease": with_ready_event(lease.run)}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePods:
    """Everything about pods that others ask for."""

    pods: PodManager
    machine: PodStateMachine
    queries: PodWorkerQueries
    statuses: StatusManager
    inbox: SyncLoopInbox
    probes: ProberManager
    trail: PodTrails
    starts: PodStartupLatencyTracker
    runners: dict[str, Runner]


def node_pods(ground: NodeDependencies, watchdog: PodLifecycleEventGenerator) -> NodePods:
    """All of it."""
    pods, machine, inbox, clock = PodManager(), PodStateMachine(), SyncLoopInbox(), ground.clock
    queries = PodWorkerQueries(machine)
    safety, starts = DeletionSafety(queries, watchdog), PodStartupLatencyTracker(clock=clock)
    observer = TrailStatusObserver(starts, ground.trail, pod_uid=pods.translate_pod_uid)
    statuses = StatusManager(client=ground.client, pods=pods, safety=safety, clock=clock, observer=observer)
    prober = Prober(
        commands=ground.runtime.commands,
        http=ground.runtime.probe_http,
        recorder=ground.recorder,
        sockets=ground.runtime.probe_sockets,
    )
    probes = ProberManager(statuses=statuses, prober=prober, changed=inbox.probed, clock=clock)
    return NodePods(
        pods=pods,
        machine=machine,
        queries=queries,
        statuses=statuses,
        inbox=inbox,
        probes=probes,
        trail=ground.trail,
        starts=starts,
        runners={"statuses": with_ready_event(statuses.run), "probes": with_ready_event(probes.run)},
    )


class DeletionSafety:
    """What is left of a pod, as its worker knows it: one that has finished has cleared up everything.

    Of one that has no worker, as a pod that was refused, nothing is left if the runtime has nothing of it.
    """

    def __init__(self, queries: PodWorkerQueries, watchdog: PodLifecycleEventGenerator) -> None:
        self._queries, self._watchdog = queries, watchdog

    def could_have_running_containers(self, uid: PodUid, /) -> bool:
        if self._queries.state(uid) is None and self._watchdog.has_no_containers_of(uid):
            return False
        return self._queries.could_have_running_containers(uid)

    def pod_resources_are_reclaimed(self, pod: Pod, _: PodStatus, /) -> bool:
        uid = PodUid(pod.metadata.uid)
        return not self.could_have_running_containers(uid) and self._queries.should_be_finished(uid)


class ShownProbes:
    """The probes of pods, which begin with what the API shows of each, for a static pod its mirror."""

    def __init__(self, probes: ProberManager, statuses: StatusManager) -> None:
        self._probes, self._statuses = probes, statuses

    def add_pod(self, pod: Pod) -> None:
        self._probes.add_pod(pod, self._statuses.shown_status(pod))

    def stop_liveness_and_startup(self, pod: Pod) -> None:
        self._probes.stop_liveness_and_startup(pod)

    def remove_pod(self, pod: Pod) -> None:
        self._probes.remove_pod(pod)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSources:
    """All sources, merged."""

    config: PodConfig
    ready: SourcesReady
    problems: SourceProblemReporter
    runners: dict[str, Runner]


def node_sources(ground: NodeDependencies, own_node: OwnNode) -> NodeSources:
    """All of it; CannotStart if there is no source, or one that cannot be."""
    config = PodConfig(clock=ground.clock, recorder=ground.recorder, trail=ground.trail)
    problems = SourceProblemReporter(recorder=ground.recorder, node=ground.reference)
    runners: dict[str, Runner] = {"pod config": with_ready_event(config.run)}
    if ground.client is not None:
        api = ApiServerSource(
            client=ground.client,
            node_name=ground.name,
            node_known=own_node.is_known,
            channel=config.channel(PodSource.API),
            clock=ground.clock,
        )
        runners["pods of the API server"] = with_ready_event(api.run)
    static = _static_sources(ground, config, problems)
    runners |= {name: with_ready_event(_after_mirrors(source, ground, config).run) for name, source in static.items()}
    if not config.sources():
        raise CannotStart("there is nothing to run: name a kubeconfig, a folder of manifests or a URL of manifests")
    return NodeSources(config=config, ready=SourcesReady(config), problems=problems, runners=runners)


def _after_mirrors(source: SourceRunner, ground: NodeDependencies, config: PodConfig) -> SourceRunner:
    if ground.client is None:
        return source
    delivered = config.channel(PodSource.API).delivered
    return StaticPodHold(source, delivered=delivered, runtime=ground.runtime.runtime)


def _static_sources(
    ground: NodeDependencies, config: PodConfig, problems: SourceProblemReporter
) -> dict[str, SourceRunner]:
    settings = ground.settings
    found: dict[str, SourceRunner] = {}
    if settings.manifests:
        found["pods of files"] = FileSource(
            paths=settings.manifests,
            node_name=ground.name,
            channel=config.channel(PodSource.FILE),
            problems=problems,
            allow_references=settings.with_server,
            skips_other_kinds=settings.with_server,
        )
    if settings.manifest_url:
        try:
            found["pods of a URL"] = UrlSource(
                url=settings.manifest_url,
                node_name=ground.name,
                channel=config.channel(PodSource.HTTP),
                problems=problems,
                headers=settings.manifest_url_headers,
                allow_references=settings.with_server,
            )
        except ValueError as error:
            raise CannotStart(str(error)) from error
    return found
