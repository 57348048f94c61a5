"""Composes what runs containers: runtime manager, images, garbage collection and volumes."""

from dataclasses import dataclass

from pykubelet.aio.tasks import Runner, with_ready_event
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
from pykubelet.kubelet.kuberuntime.manager import CrashBackoff, KubeRuntimeManager, PodActionsExecutor, SandboxCreator
from pykubelet.kubelet.kuberuntime.pod_actions import ProbeResults
from pykubelet.kubelet.kuberuntime.termination import ContainerKiller, TerminationMessages
from pykubelet.kubelet.logs.container_log_manager import ContainerLogManager, LogRotatePolicy
from pykubelet.kubelet.objectcache.pod_objects import AwaitedObjects, RuntimeClasses
from pykubelet.kubelet.pod_startup_latency_tracker import PodStartupLatencyTracker
from pykubelet.kubelet.token.token_manager import TokenManager
from pykubelet.kubelet.types import ProbeType
from pykubelet.kubelet.volumemanager.persistent_volumes import ClaimReader
from pykubelet.kubelet.volumemanager.volume_manager import VolumeManager
from pykubelet.runtimes.dns import ClusterDns


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeContainers:
    """The container runtime manager and what cleans up after containers."""

    manager: KubeRuntimeManager
    executor: PodActionsExecutor
    deletor: PodContainerDeletor
    reclaimer: DiskReclaimer
    runners: dict[str, Runner]


def node_containers(
    deps: NodeDependencies, *, helper: RuntimeHelper, classes: RuntimeClasses, pods: NodePods
) -> NodeContainers:
    """Compose the container runtime manager, image pulls and garbage collection."""
    parts, events, clock, logs = deps.runtime, deps.recorder, deps.clock, deps.logs
    runtime = parts.runtime
    hooks = TrailHookRunner(deps.trail, commands=parts.commands, http=parts.hook_http, runtime=runtime, events=events)
    killer = ContainerKiller(runtime=runtime, hooks=hooks, events=events, clock=clock)
    remover = ContainerRemover(runtime=runtime, logs=logs, killer=killer)
    images, runners = _images(deps, pods.startup_latency)
    executor = PodActionsExecutor(
        sandboxes=SandboxCreator(
            runtime=runtime,
            helper=helper,
            runtime_classes=classes,
            logs=logs,
            events=events,
            unenforced=parts.unenforced_limits,
        ),
        starter=ContainerStarter(
            runtime=runtime, images=images, helper=helper, logs=logs, hooks=hooks, killer=killer, events=events
        ),
        killer=killer,
        remover=remover,
        backoff=CrashBackoff(),
        events=events,
        clock=clock,
    )
    probe_results = ProbeResults(**{kind.value: pods.probes.passed(kind) for kind in ProbeType})
    gc = _garbage(deps, remover, pods)
    deletor = PodContainerDeletor(runtime=runtime, gc=gc, is_gone=pods.removal.should_pod_content_be_removed)
    image_gc = _image_garbage(deps)
    runners |= {"dead containers": with_ready_event(deletor.run), "container garbage": with_ready_event(gc.run)}
    if image_gc is not None:
        runners["image garbage"] = with_ready_event(image_gc.run)
    return NodeContainers(
        manager=KubeRuntimeManager(
            runtime=runtime, executor=executor, killer=killer, prune=gc.prune, probe_results=probe_results
        ),
        executor=executor,
        deletor=deletor,
        reclaimer=DiskReclaimer(containers=gc, images=image_gc),
        runners=runners | _log_rotation(deps),
    )


def _images(deps: NodeDependencies, latency: PodStartupLatencyTracker) -> tuple[ContainerImages, dict[str, Runner]]:
    images = deps.runtime.images
    if images is None:
        return NoImages(), {}
    puller = ImageManager(
        images=images,
        events=deps.recorder,
        clock=deps.clock,
        parallel=deps.settings.parallel_pulls,
        pulled=latency.image_pulled,
    )
    return puller, {"images": with_ready_event(puller.run)}


def _garbage(deps: NodeDependencies, remover: ContainerRemover, pods: NodePods) -> ContainerGc:
    return ContainerGc(
        runtime=deps.runtime.runtime,
        remover=remover,
        states=pods.removal,
        is_exit_reported=pods.statuses.is_exit_reported,
        events=deps.recorder,
        node=deps.reference,
        clock=deps.clock,
        policy=GcPolicy(),
    )


def _image_garbage(deps: NodeDependencies) -> ImageGcManager | None:
    parts = deps.runtime
    if parts.images is None or parts.image_fs is None:
        return None
    return ImageGcManager(
        images=parts.images,
        image_fs=parts.image_fs,
        runtime=parts.runtime,
        events=deps.recorder,
        node=deps.reference,
        clock=deps.clock,
        policy=ImageGcPolicy(),
    )


def _log_rotation(deps: NodeDependencies) -> dict[str, Runner]:
    parts = deps.runtime
    if parts.log_writer is None:
        return {}
    rotator = ContainerLogManager(
        runtime=parts.runtime, writer=parts.log_writer, logs=deps.logs, clock=deps.clock, policy=LogRotatePolicy()
    )
    return {"log rotation": with_ready_event(rotator.run)}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStorage:
    """The volumes and files of pods on disk."""

    volumes: VolumeManager
    options: RunContainerOptions
    termination_messages: TerminationMessages
    awaited: AwaitedObjects
    runners: dict[str, Runner]


def node_storage(deps: NodeDependencies, api: NodeObjects, inbox: SyncLoopInbox) -> NodeStorage:
    """Compose the volume manager, container options and termination messages."""
    root = str(deps.settings.root_dir)
    volumes = VolumeManager(
        root=root,
        objects=api.objects,
        tokens=TokenManager(source=deps.client, clock=deps.clock),
        claims=ClaimReader(deps.client),
        node=api.own_node,
        mounter=deps.mounter,
        recorder=deps.recorder,
        clock=deps.clock,
    )
    awaited = AwaitedObjects(objects=api.objects, arrived=inbox.objects_arrived)
    options = RunContainerOptions(
        volumes=volumes,
        objects=api.objects,
        awaited=awaited,
        services=api.services,
        node=api.own_node,
        mounter=deps.mounter,
        cluster_dns=ClusterDns(servers=deps.settings.cluster_dns, domain=deps.settings.cluster_domain),
    )
    messages = TerminationMessages(root, deps.logs.container_path)
    runners = {"volumes": with_ready_event(volumes.run), "awaited objects": with_ready_event(awaited.run)}
    return NodeStorage(
        volumes=volumes, options=options, termination_messages=messages, awaited=awaited, runners=runners
    )
