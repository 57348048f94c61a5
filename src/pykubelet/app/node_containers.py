"""The parts of a node that bring containers to a runtime, look at them, and clear up after them.

What the pods of a node have on disk: volumes, the files of containers, their last words.
"""

from collections.abc import Callable
from dataclasses import dataclass

from pykubelet.aio.tasks import Runner, with_ready_event
from pykubelet.api.pods import PodUid
from pykubelet.app.node_dependencies import NodeDependencies
from pykubelet.app.node_pods import NodeObjects, NodePods
from pykubelet.kubelet.eviction.eviction_manager import DiskReclaimer
from pykubelet.kubelet.explain.trail import TrailHookRunner
from pykubelet.kubelet.images.image_gc_manager import ImageGcManager, ImageGcPolicy
from pykubelet.kubelet.images.image_manager import ImageManager, NoImages
from pykubelet.kubelet.kubelet import SyncLoopInbox
from pykubelet.kubelet.kubelet_pods import RunContainerOptions
from pykubelet.kubelet.kuberuntime.container import ContainerImages, ContainerStarter, RuntimeHelper
from pykubelet.kubelet.kuberuntime.container_gc import ContainerGc, ContainerRemover, GcPolicy, PodContainerDeletor
from pykubelet.kubelet.kuberuntime.manager import (
    CrashBackoff,
    KubeRuntimeManager,
    PodActionsExecutor,
    SandboxCreator,
)
from pykubelet.kubelet.kuberuntime.pod_actions import ProbeResults
from pykubelet.kubelet.kuberuntime.termination import ContainerKiller
from pykubelet.kubelet.kuberuntime.termination_message import TerminationMessageFiller, TerminationMessages
from pykubelet.kubelet.logs.container_log_manager import ContainerLogManager, LogRotatePolicy
from pykubelet.kubelet.logs.log_directory import pod_names
from pykubelet.kubelet.objectcache.cluster_objects import RuntimeClasses
from pykubelet.kubelet.objectcache.pod_objects import AwaitedObjects
from pykubelet.kubelet.pod_startup_latency_tracker import PodStartupLatencyTracker
from pykubelet.kubelet.pod_workers.pod_workers import PodWorkerQueries
from pykubelet.kubelet.token.token_manager import TokenManager
from pykubelet.kubelet.types import ProbeType
from pykubelet.kubelet.volumemanager.volume_manager import VolumeManager


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeContainers:
    """Everything about containers."""

    containers: KubeRuntimeManager
    dead: PodContainerDeletor
    backoff: CrashBackoff
    reclaimer: DiskReclaimer
    runners: dict[str, Runner]


def node_containers(
    ground: NodeDependencies,
    *,
    setup: RuntimeHelper,
    classes: RuntimeClasses,
    pods: NodePods,
    states: "GcStates",
) -> NodeContainers:
    """All of it."""
    parts, events, clock, logs = ground.runtime, ground.recorder, ground.clock, ground.logs
    runtime, backoff = parts.runtime, CrashBackoff()
    hooks = TrailHookRunner(ground.trail, commands=parts.commands, http=parts.hook_http, runtime=runtime, events=events)
    killer = ContainerKiller(runtime=runtime, hooks=hooks, events=events, clock=clock)
    remover = ContainerRemover(runtime=runtime, logs=logs, killer=killer)
    images, runners = _images(ground, pods.starts)
    executor = PodActionsExecutor(
        sandboxes=SandboxCreator(runtime=runtime, helper=setup, runtime_classes=classes, logs=logs, events=events),
        starter=ContainerStarter(
            runtime=runtime, images=images, helper=setup, logs=logs, hooks=hooks, killer=killer, events=events
        ),
        killer=killer,
        remover=remover,
        backoff=backoff,
        events=events,
        clock=clock,
    )
    probe_results = ProbeResults(**{kind.value: pods.probes.passed(kind) for kind in ProbeType})
    gc = _garbage(ground, remover, states)
    dead = PodContainerDeletor(runtime=runtime, gc=gc, is_gone=states.should_pod_content_be_removed)
    image_gc = _image_garbage(ground)
    runners |= {"dead containers": with_ready_event(dead.run), "container garbage": with_ready_event(gc.run)}
    if image_gc is not None:
        runners["image garbage"] = with_ready_event(image_gc.run)
    return NodeContainers(
        containers=KubeRuntimeManager(
            runtime=runtime, executor=executor, killer=killer, prune=gc.prune, probe_results=lambda _: probe_results
        ),
        dead=dead,
        backoff=backoff,
        reclaimer=DiskReclaimer(containers=gc, images=image_gc),
        runners=runners | _log_rotation(ground),
    )


class GcStates:
    """Which pods are over, as the workers and the sources know it."""

    def __init__(self, queries: PodWorkerQueries, all_sources_ready: Callable[[], bool]) -> None:
        self._queries, self._all_sources_ready = queries, all_sources_ready

    def all_sources_ready(self) -> bool:
        return self._all_sources_ready()

    def should_pod_content_be_removed(self, uid: PodUid) -> bool:
        return self._queries.should_content_be_removed(uid)

    def should_pod_runtime_be_removed(self, uid: PodUid) -> bool:
        return self._queries.should_runtime_be_removed(uid)


def _images(ground: NodeDependencies, starts: PodStartupLatencyTracker) -> tuple[ContainerImages, dict[str, Runner]]:
    images = ground.runtime.images
    if images is None:
        return NoImages(), {}
    puller = ImageManager(
        images=images,
        events=ground.recorder,
        clock=ground.clock,
        parallel=ground.settings.parallel_pulls,
        pulled=starts.image_pulled,
    )
    return puller, {"images": with_ready_event(puller.run)}


def _garbage(ground: NodeDependencies, remover: ContainerRemover, states: GcStates) -> ContainerGc:
    return ContainerGc(
        runtime=ground.runtime.runtime,
        remover=remover,
        logs=ground.logs,
        states=states,
        events=ground.recorder,
        node=ground.reference,
        clock=ground.clock,
        policy=GcPolicy(),
    )


def _image_garbage(ground: NodeDependencies) -> ImageGcManager | None:
    parts = ground.runtime
    if parts.images is None or parts.image_fs is None:
        return None
    return ImageGcManager(
        images=parts.images,
        image_fs=parts.image_fs,
        runtime=parts.runtime,
        events=ground.recorder,
        node=ground.reference,
        clock=ground.clock,
        policy=ImageGcPolicy(),
    )


def _log_rotation(ground: NodeDependencies) -> dict[str, Runner]:
    parts = ground.runtime
    if parts.log_writer is None:
        return {}
    rotator = ContainerLogManager(
        runtime=parts.runtime,
        writer=parts.log_writer,
        logs=ground.logs,
        clock=ground.clock,
        policy=LogRotatePolicy(),
    )
    return {"log rotation": with_ready_event(rotator.run)}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStorage:
    """Everything on disk."""

    volumes: VolumeManager
    setup: RunContainerOptions
    last_words: TerminationMessageFiller
    awaited: AwaitedObjects
    runners: dict[str, Runner]


def node_storage(ground: NodeDependencies, api: NodeObjects, inbox: SyncLoopInbox) -> NodeStorage:
    """All of it."""
    root, logs = str(ground.settings.root_dir), ground.logs
    volumes = VolumeManager(
        root=root,
        objects=api.objects,
        tokens=TokenManager(source=ground.client, clock=ground.clock),
        node=api.own_node,
        mounter=ground.mounter,
        recorder=ground.recorder,
        clock=ground.clock,
    )
    awaited = AwaitedObjects(objects=api.objects, arrived=inbox.objects_arrived)
    setup = RunContainerOptions(
        volumes=volumes,
        objects=api.objects,
        awaited=awaited,
        services=api.services,
        node=api.own_node,
        mounter=ground.mounter,
        cluster_domain=ground.settings.cluster_domain,
    )
    last_words = TerminationMessageFiller(
        messages=TerminationMessages(root),
        log_path=lambda pod, container: logs.path(pod_names(pod), container.name, container.attempt),
    )
    runners = {"volumes": with_ready_event(volumes.run), "awaited objects": with_ready_event(awaited.run)}
    return NodeStorage(volumes=volumes, setup=setup, last_words=last_words, awaited=awaited, runners=runners)
