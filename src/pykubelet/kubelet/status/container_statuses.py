"""Container statuses from what the runtime has, what was reported before, and what failed to start.

A container starts as waiting, with its past from the old status; what the runtime has replaces that: the newest
container gives the state, the one before it the last state. A container that failed to start is waiting with the
reason. Regular and ephemeral statuses are sorted by name, init statuses follow the spec. A running container shows the
resources it was started with: where the spec changed since, the status keeps what was reported before.

Upstream: pkg/kubelet/kubelet_pods.go, pkg/kubelet/types/types.go, pkg/kubelet/reason_cache.go
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from msgspec.structs import replace

from pykubelet.api.generated.core import ContainerState as CoreContainerState
from pykubelet.api.generated.core import (
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    Pod,
    ResourceRequirements,
    VolumeMount,
    VolumeMountStatus,
)
from pykubelet.api.pods import AnyContainer, PodUid
from pykubelet.api.times import format_time
from pykubelet.kubelet.kuberuntime.pod_actions import SyncAction, SyncResult, should_restart
from pykubelet.runtimes.protocol import ContainerState, RuntimeContainer, RuntimePod


def reported_resources(
    wanted: ResourceRequirements, state: ContainerState, container_id: str, old: ContainerStatus | None
) -> ResourceRequirements:
    """The resources of a container in this state; `old` is what was reported under its name before."""
    is_same = old is not None and old.state.running is not None and old.container_id == container_id
    if state != ContainerState.RUNNING or not is_same or old is None or old.resources is None:
        return wanted
    return replace(
        wanted,
        limits=_kept(wanted.limits, old.resources.limits, "cpu", "memory"),
        # A runtime does not know the memory request, so it comes from the spec.
        requests=_kept(wanted.requests, old.resources.requests, "cpu"),
    )


def _kept(wanted: Mapping[str, str], old: Mapping[str, str], *names: str) -> Mapping[str, str]:
    return {**wanted, **{name: old[name] for name in names if name in old}} if wanted else wanted


def sort_by_name(statuses: Iterable[ContainerStatus]) -> tuple[ContainerStatus, ...]:
    """The statuses sorted by name, bytewise as Go compares; equal names keep their order."""
    return tuple(sorted(statuses, key=lambda status: status.name.encode()))


def sort_init_statuses(pod: Pod, statuses: Iterable[ContainerStatus]) -> tuple[ContainerStatus, ...]:
    """The statuses in the order of the pod's init containers, by upstream's selection and swap.

    A status whose name is not in the spec ends up behind the others, where the swaps leave it.
    """
    ordered = list(statuses)
    place = 0
    for container in pod.spec.init_containers:
        for candidate in range(place, len(ordered)):
            if ordered[candidate].name == container.name:
                ordered[place], ordered[candidate] = ordered[candidate], ordered[place]
                place += 1
                break
    return tuple(ordered)


def init_statuses_in_order(pod: Pod, by_name: Mapping[str, ContainerStatus]) -> tuple[ContainerStatus, ...]:
    """The statuses of the spec's init containers, in its order; others are dropped."""
    names = (container.name for container in pod.spec.init_containers)
    return tuple(by_name[name] for name in names if name in by_name)


CONTAINER_CREATING, POD_INITIALIZING = "ContainerCreating", "PodInitializing"
STATUS_UNKNOWN = "ContainerStatusUnknown"
# The exit code of a killed process: the real one is unknown, but it was no success.
_UNKNOWN_EXIT_CODE = 137
_GONE = ContainerStateTerminated(
    reason=STATUS_UNKNOWN,
    message="The container could not be located when the pod was deleted.  The container used to be Running",
    exit_code=_UNKNOWN_EXIT_CODE,
)
_LOST = ContainerStateTerminated(
    reason=STATUS_UNKNOWN,
    message="The container could not be located when the pod was terminated",
    exit_code=_UNKNOWN_EXIT_CODE,
)

Statuses = tuple[ContainerStatus, ...]


@dataclass(frozen=True, slots=True)
class StartFailure:
    """Why the last attempt to start a container failed."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerObservations:
    """What is known of a pod's containers: the runtime's view, the runtime's name, and failures to start."""

    runtime: RuntimePod
    runtime_name: str
    start_failures: Mapping[str, StartFailure] = field(default_factory=dict)


def regular_statuses(pod: Pod, seen: ContainerObservations, old: Sequence[ContainerStatus]) -> Statuses:
    """The statuses of the regular containers, sorted by name."""
    return sort_by_name(_statuses(pod, pod.spec.containers, seen, old).values())


def init_statuses(pod: Pod, seen: ContainerObservations, old: Sequence[ContainerStatus]) -> Statuses:
    """The statuses of the init containers, in the order of the spec."""
    return init_statuses_in_order(pod, _statuses(pod, pod.spec.init_containers, seen, old))


def ephemeral_statuses(pod: Pod, seen: ContainerObservations, old: Sequence[ContainerStatus]) -> Statuses:
    """The statuses of the ephemeral containers, sorted by name."""
    return sort_by_name(_statuses(pod, pod.spec.ephemeral_containers, seen, old).values())


def _statuses(
    pod: Pod, containers: Sequence[AnyContainer], seen: ContainerObservations, old: Sequence[ContainerStatus]
) -> Mapping[str, ContainerStatus]:
    # If a name occurs twice, the last one counts.
    before = {status.name: status for status in old}
    # The attempt first: the clock may have been set back between two containers.
    newest_first = sorted(seen.runtime.containers, key=lambda one: (one.attempt, one.created_at), reverse=True)
    found = {}
    for container in containers:
        known = [one for one in newest_first if one.name == container.name][:2]
        old_status = before.get(container.name)
        status = _seen(container, known, seen, old_status) if known else _unseen(pod, container, old_status)
        found[container.name] = _held_up(pod, container, status, seen)
    return found


def _unseen(pod: Pod, container: AnyContainer, old: ContainerStatus | None) -> ContainerStatus:
    """The status of a container the runtime does not have: the last one reported, or waiting."""
    if old is not None and old.state.terminated is not None:
        return old
    waiting = ContainerStateWaiting(reason=POD_INITIALIZING if pod.spec.init_containers else CONTAINER_CREATING)
    status = ContainerStatus(
        name=container.name,
        image=container.image,
        state=CoreContainerState(waiting=waiting),
        volume_mounts=tuple(map(_mount_status, container.volume_mounts)),
    )
    if old is None:
        return status
    status = replace(status, restart_count=old.restart_count, last_state=old.last_state)
    if old.state.running is None or old.last_state.terminated is not None:
        return status
    # It ran and is gone, so it terminated; otherwise the pod would fall back to Pending. Unless the pod is deleted,
    # it will be started again.
    is_restart = pod.metadata.deletion_timestamp is None
    return replace(
        status, last_state=CoreContainerState(terminated=_GONE), restart_count=old.restart_count + int(is_restart)
    )


def _seen(
    container: AnyContainer, known: Sequence[RuntimeContainer], seen: ContainerObservations, old: ContainerStatus | None
) -> ContainerStatus:
    """The status from the runtime: the newest container, and how the one before it ended."""
    newest, *earlier = known
    was_running = old is not None and old.state.running is not None
    container_id = f"{seen.runtime_name}://{newest.id}"
    status = ContainerStatus(
        name=container.name,
        image=newest.image,
        image_id=newest.image_id,
        container_id=container_id,
        restart_count=newest.attempt,
        state=_state(newest, container_id, was_running=was_running),
        user=newest.user,
        allocated_resources=container.resources.requests,
        resources=reported_resources(container.resources, newest.state, container_id, old),
        volume_mounts=old.volume_mounts if old is not None else (),
    )
    if old is not None and was_running and newest.state == ContainerState.UNKNOWN:
        # The runtime counts from a container that it has lost.
        status = replace(status, restart_count=old.restart_count + 1)
    if earlier:
        earlier_id = f"{seen.runtime_name}://{earlier[0].id}"
        status = replace(status, last_state=_state(earlier[0], earlier_id, was_running=was_running))
    return status


def _state(container: RuntimeContainer, container_id: str, *, was_running: bool) -> CoreContainerState:
    match container.state:
        case ContainerState.RUNNING:
            return CoreContainerState(running=ContainerStateRunning(started_at=_time(container.started_at)))
        case ContainerState.EXITED:
            ended = ContainerStateTerminated(
                exit_code=container.exit_code,
                reason=container.reason,
                message=container.message,
                started_at=_time(container.started_at),
                finished_at=_time(container.finished_at),
                container_id=container_id,
            )
            return CoreContainerState(terminated=ended)
        case ContainerState.UNKNOWN if was_running:
            # Waiting would look as if it never ran, and a run-once pod would run twice.
            return CoreContainerState(terminated=_LOST)
        case _:
            return CoreContainerState(waiting=ContainerStateWaiting())


def _held_up(
    pod: Pod, container: AnyContainer, status: ContainerStatus, seen: ContainerObservations
) -> ContainerStatus:
    """The status of a container that failed to start: waiting, with the reason."""
    failure = seen.start_failures.get(container.name)
    if failure is None or not _is_to_start(pod, container, seen.runtime):
        return status
    last_state = status.state if status.state.terminated is not None else status.last_state
    waiting = ContainerStateWaiting(reason=failure.reason, message=failure.message)
    return replace(status, state=CoreContainerState(waiting=waiting), last_state=last_state)


def _is_to_start(pod: Pod, container: AnyContainer, runtime: RuntimePod) -> bool:
    newest = runtime.newest(container.name)
    is_init = any(container is one for one in pod.spec.init_containers)
    if is_init and newest is not None and newest.state == ContainerState.EXITED and newest.exit_code == 0:
        return False
    return should_restart(container.name, pod, runtime)


def _mount_status(mount: VolumeMount) -> VolumeMountStatus:
    return VolumeMountStatus(
        name=mount.name,
        mount_path=mount.mount_path,
        read_only=mount.read_only,
        # None of our runtimes supports recursive read-only mounts.
        recursive_read_only="Disabled" if mount.read_only else None,
    )


def _time(at: datetime | None) -> str | None:
    return format_time(at) if at is not None else None


_MAX_ENTRIES = 1000


class ReasonCache:
    """The last failure to start of up to a thousand containers; the least recently used goes first."""

    def __init__(self, max_entries: int = _MAX_ENTRIES) -> None:
        self._max_entries = max_entries
        self._failures: dict[tuple[PodUid, str], StartFailure] = {}

    def __len__(self) -> int:
        return len(self._failures)

    def update(self, uid: PodUid, results: Iterable[SyncResult]) -> None:
        """Store the failures of a sync, and clear those of containers that started."""
        for step in results:
            if step.action != SyncAction.START_CONTAINER:
                continue
            if step.reason:
                self._put((uid, step.target), StartFailure(step.reason, step.message))
            else:
                self._failures.pop((uid, step.target), None)

    def failures_of(self, pod: Pod) -> Mapping[str, StartFailure]:
        """The failures of a pod's containers, by name."""
        uid, spec = PodUid(pod.metadata.uid), pod.spec
        containers: tuple[AnyContainer, ...]
        containers = (*spec.init_containers, *spec.containers, *spec.ephemeral_containers)
        names = (container.name for container in containers)
        found = {name: self._failures[uid, name] for name in names if (uid, name) in self._failures}
        for name, failure in found.items():
            # A read counts as use.
            self._put((uid, name), failure)
        return found

    def _put(self, key: tuple[PodUid, str], failure: StartFailure) -> None:
        self._failures.pop(key, None)
        self._failures[key] = failure
        if len(self._failures) > self._max_entries:
            del self._failures[next(iter(self._failures))]
