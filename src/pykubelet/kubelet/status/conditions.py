"""Generates the pod conditions that the kubelet owns, and changes lists of conditions.

Pure: takes the pod, its status so far, its container statuses (init and regular in one sequence; None means unknown,
which differs from empty) and its phase; returns one condition without times. Reasons and messages are upstream's to the
letter. If a type occurs twice, the first one counts, as upstream.

Upstream: pkg/kubelet/status/generate.go, pkg/api/v1/pod/util.go, pkg/util/pod/pod.go
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from pykubelet.api.generated.core import Container, ContainerStatus, Pod, PodCondition, PodStatus
from pykubelet.api.pods import is_restartable_init_container, is_terminal

Conditions = tuple[PodCondition, ...]


def find_condition(conditions: Iterable[PodCondition], kind: str) -> PodCondition | None:
    """The first condition of this type."""
    return next((condition for condition in conditions if condition.type == kind), None)


def is_true(conditions: Iterable[PodCondition], kind: str) -> bool:
    """Whether the condition of this type has status True."""
    found = find_condition(conditions, kind)
    return found is not None and found.status == "True"


def replace_or_append(conditions: Conditions, condition: PodCondition) -> Conditions:
    """The conditions with this one in the place of the first of its type, or at the end."""
    for index, existing in enumerate(conditions):
        if existing.type == condition.type:
            return (*conditions[:index], condition, *conditions[index + 1 :])
    return (*conditions, condition)


def with_transition_time(conditions: Conditions, old: Sequence[PodCondition], kind: str, now: str) -> Conditions:
    """The conditions with the one of this type stamped: the old time if its status stays, else now.

    A changed reason or message is not a transition. Without such a condition nothing changes.
    """
    condition = find_condition(conditions, kind)
    if condition is None:
        return conditions
    before = find_condition(old, kind)
    since = before.last_transition_time if before is not None and before.status == condition.status else now
    return replace_or_append(conditions, replace(condition, last_transition_time=since))


UNKNOWN_CONTAINER_STATUSES = "UnknownContainerStatuses"
POD_COMPLETED = "PodCompleted"

Statuses = Sequence[ContainerStatus] | None


def containers_ready(pod: Pod, old: PodStatus | None, statuses: Statuses, phase: str) -> PodCondition:
    """ContainersReady: True if every regular container and every sidecar is ready."""
    if statuses is None:
        return _condition(pod, old, "ContainersReady", reason=UNKNOWN_CONTAINER_STATUSES)
    by_name = _by_name(statuses)
    sidecars = [container for container in pod.spec.init_containers if is_restartable_init_container(container)]
    unknown, unready = [], []
    for container in (*sidecars, *pod.spec.containers):
        status = by_name.get(container.name)
        if status is None:
            unknown.append(container.name)
        elif not status.ready:
            unready.append(container.name)
    if phase == "Failed" or (phase == "Succeeded" and not unknown):
        return unready_when_terminal(pod, old, "ContainersReady", phase)
    if message := _names(unknown=unknown, unready=unready):
        return _condition(pod, old, "ContainersReady", reason="ContainersNotReady", message=message)
    return _condition(pod, old, "ContainersReady", status="True")


def pod_ready(
    pod: Pod, old: PodStatus | None, conditions: Iterable[PodCondition], statuses: Statuses, phase: str
) -> PodCondition:
    """Ready: True if the containers are ready and every readiness gate in `conditions` is True."""
    ready = containers_ready(pod, old, statuses, phase)
    if ready.status != "True":
        return _condition(pod, old, "Ready", status=ready.status, reason=ready.reason, message=ready.message)
    known = tuple(conditions)
    errors = []
    for gate in pod.spec.readiness_gates:
        kind = gate.condition_type
        condition = find_condition(known, kind)
        if condition is None:
            errors.append(f'corresponding condition of pod readiness gate "{kind}" does not exist.')
        elif condition.status != "True":
            errors.append(f'the status of pod readiness gate "{kind}" is not "True", but {condition.status}')
    if errors:
        return _condition(pod, old, "Ready", reason="ReadinessGatesNotReady", message=", ".join(errors))
    return _condition(pod, old, "Ready", status="True")


def pod_initialized(pod: Pod, old: PodStatus | None, statuses: Statuses, phase: str) -> PodCondition:
    """Initialized: True once all init containers completed, or a regular container has ever started."""
    if statuses is None and pod.spec.init_containers:
        return _condition(pod, old, "Initialized", reason=UNKNOWN_CONTAINER_STATUSES)
    by_name = _by_name(statuses or ())
    unknown, incomplete = [], []
    for container in pod.spec.init_containers:
        status = by_name.get(container.name)
        if status is None:
            unknown.append(container.name)
        elif not _is_initialized(container, status):
            incomplete.append(container.name)
    if phase == "Succeeded" and not unknown:
        return _condition(pod, old, "Initialized", status="True", reason=POD_COMPLETED)
    # A started regular container proves the initialization, even if a sidecar restarts later.
    message = _names(unknown=unknown, incomplete=incomplete)
    if message and not _has_regular_container_started(pod, statuses or ()):
        return _condition(pod, old, "Initialized", reason="ContainersNotInitialized", message=message)
    return _condition(pod, old, "Initialized", status="True")


def pod_ready_to_start_containers(pod: Pod, old: PodStatus | None, *, has_sandbox: bool) -> PodCondition:
    """PodReadyToStartContainers: True while the pod has a sandbox with network and needs no new one."""
    return _condition(pod, old, "PodReadyToStartContainers", status="True" if has_sandbox else "False")


def pod_scheduled(pod: Pod, old: PodStatus | None) -> PodCondition:
    """PodScheduled: always True on a node."""
    return _condition(pod, old, "PodScheduled", status="True")


def unready_when_terminal(pod: Pod, old: PodStatus | None, kind: str, phase: str) -> PodCondition:
    """Ready or ContainersReady of a pod that ended: False, with the phase as reason."""
    assert is_terminal(phase)
    return _condition(pod, old, kind, reason="PodFailed" if phase == "Failed" else POD_COMPLETED)


def need_to_reconcile_pod_readiness(pod: Pod) -> bool:
    """Whether Ready in the API contradicts the conditions of readiness gates; only regular containers count."""
    if not pod.spec.readiness_gates:
        return False
    status = pod.status
    # JSON omits an empty list of statuses, so none means unknown here.
    expected = pod_ready(pod, status, status.conditions, status.container_statuses or None, status.phase)
    current = find_condition(status.conditions, "Ready")
    return current is not None and (current.status, current.message) != (expected.status, expected.message)


def _condition(
    pod: Pod, old: PodStatus | None, kind: str, *, status: str = "False", reason: str = "", message: str = ""
) -> PodCondition:
    generation = 0 if old is None else pod.metadata.generation
    return PodCondition(type=kind, status=status, reason=reason, message=message, observed_generation=generation)


def _by_name(statuses: Sequence[ContainerStatus]) -> Mapping[str, ContainerStatus]:
    # If a name occurs twice, the first one counts.
    return {status.name: status for status in reversed(statuses)}


def _names(**groups: list[str]) -> str:
    named = (f"containers with {what} status: [{' '.join(names)}]" for what, names in groups.items() if names)
    return ", ".join(named)


def _is_initialized(container: Container, status: ContainerStatus) -> bool:
    return bool(status.started) if is_restartable_init_container(container) else status.ready


def _has_regular_container_started(pod: Pod, statuses: Sequence[ContainerStatus]) -> bool:
    names = {container.name for container in pod.spec.containers}
    return any(
        status.name in names and (status.state.running is not None or status.state.terminated is not None)
        for status in statuses
    )
