"""The parts of a node that bring containers to a runtime, look at them, and clear up after them."""

from collections.abc import Callable
from dataclasses import dataclass

from pykubelet.agent.flow import ProbeKind
from pykubelet.agent.start_times import StartTimes
from pykubelet.agent.trailed import TrailedHooks
from pykubelet.agent.workers import WorkerQueries
from pykubelet.api.keys import PodUid
from pykubelet.app.node_ground import Ground
from pykubelet.app.node_pods import NodePods
from pykubelet.app.running import Runner, with_event
from pykubelet.runtime.actions import ProbeResults
from pykubelet.runtime.apply import Applier
from pykubelet.runtime.containers import PodContainers
from pykubelet.runtime.crash_backoff import CrashBackoff
from pykubelet.runtime.dead_containers import DeadContainers
from pykubelet.runtime.gc import ContainerGc
from pykubelet.runtime.gc_plan import GcPolicy
from pykubelet.runtime.image_gc import ImageGc
from pykubelet.runtime.image_gc_plan import ImagePolicy
from pykubelet.runtime.images import ImagePuller
from pykubelet.runtime.kill import Killer
from pykubelet.runtime.log_rotation import RotationPolicy
from pykubelet.runtime.log_rotator import LogRotator
from pykubelet.runtime.make_sandbox import Handlers, SandboxMaker
from pykubelet.runtime.no_images import NoImages
from pykubelet.runtime.reclaim import DiskReclaimer
from pykubelet.runtime.removal import ContainerRemover
from pykubelet.runtime.start_container import ContainerImages, ContainerStarter, PodSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeContainers:
    """Everything about containers."""

    containers: PodContainers
    dead: DeadContainers
    backoff: CrashBackoff
    reclaimer: DiskReclaimer
    runners: dict[str, Runner]


def node_containers(
    ground: Ground, *, setup: PodSettings, handlers: Handlers, pods: NodePods, states: "GcStates"
) -> NodeContainers:
    """All of it."""
    parts, events, clock, logs = ground.runtime, ground.recorder, ground.clock, ground.logs
    runtime, backoff = parts.runtime, CrashBackoff()
    hooks = TrailedHooks(ground.trail, commands=parts.commands, http=parts.hook_http, pods=runtime, events=events)
    killer = Killer(runtime=runtime, hooks=hooks, events=events, clock=clock)
    remover = ContainerRemover(runtime=runtime, logs=logs, killer=killer)
    images, runners = _images(ground, pods.starts)
    applier = Applier(
        sandboxes=SandboxMaker(runtime=runtime, settings=setup, handlers=handlers, logs=logs, events=events),
        starter=ContainerStarter(
            runtime=runtime, images=images, settings=setup, logs=logs, hooks=hooks, killer=killer, events=events
        ),
        killer=killer,
        remover=remover,
        backoff=backoff,
        events=events,
        clock=clock,
    )
    verdicts = ProbeResults(**{kind.value: pods.probes.passed(kind) for kind in ProbeKind})
    gc = _garbage(ground, remover, states)
    dead = DeadContainers(runtime=runtime, gc=gc, is_gone=states.should_pod_content_be_removed)
    image_gc = _image_garbage(ground)
    runners |= {"dead containers": with_event(dead.run), "container garbage": with_event(gc.run)}
    if image_gc is not None:
        runners["image garbage"] = with_event(image_gc.run)
    return NodeContainers(
        containers=PodContainers(
            runtime=runtime, applier=applier, killer=killer, prune=gc.prune, verdicts=lambda _: verdicts
        ),
        dead=dead,
        backoff=backoff,
        reclaimer=DiskReclaimer(containers=gc, images=image_gc),
        runners=runners | _log_rotation(ground),
    )


class GcStates:
    """Which pods are over, as the workers and the sources know it."""

    def __init__(self, queries: WorkerQueries, all_sources_ready: Callable[[], bool]) -> None:
        self._queries, self._all_sources_ready = queries, all_sources_ready

    def all_sources_ready(self) -> bool:
        return self._all_sources_ready()

    def should_pod_content_be_removed(self, uid: PodUid) -> bool:
        return self._queries.should_content_be_removed(uid)

    def should_pod_runtime_be_removed(self, uid: PodUid) -> bool:
        return self._queries.should_runtime_be_removed(uid)


def _images(ground: Ground, starts: StartTimes) -> tuple[ContainerImages, dict[str, Runner]]:
    images = ground.runtime.images
    if images is None:
        return NoImages(), {}
    puller = ImagePuller(
        images=images,
        events=ground.recorder,
        clock=ground.clock,
        parallel=ground.settings.parallel_pulls,
        pulled=starts.image_pulled,
    )
    return puller, {"images": with_event(puller.run)}


def _garbage(ground: Ground, remover: ContainerRemover, states: GcStates) -> ContainerGc:
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


def _image_garbage(ground: Ground) -> ImageGc | None:
    parts = ground.runtime
    if parts.images is None or parts.image_fs is None:
        return None
    return ImageGc(
        images=parts.images,
        image_fs=parts.image_fs,
        runtime=parts.runtime,
        events=ground.recorder,
        node=ground.reference,
        clock=ground.clock,
        policy=ImagePolicy(),
    )


def _log_rotation(ground: Ground) -> dict[str, Runner]:
    parts = ground.runtime
    if parts.log_writer is None:
        return {}
    rotator = LogRotator(
        runtime=parts.runtime,
        writer=parts.log_writer,
        logs=ground.logs,
        clock=ground.clock,
        policy=RotationPolicy(),
    )
    return {"log rotation": with_event(rotator.run)}
