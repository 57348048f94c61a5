"""Normalizes pod statuses as the API server returns them, compares them and checks their transitions.

A normal status has times in whole seconds of UTC, termination messages within the pod's budget and container statuses
in a fixed order. Comparison covers what the kubelet owns; times compare by instant, quantities by value. A terminated
container must not run again. A terminal phase is a latch; upstream lets it change, and failed pods were seen running or
succeeded afterwards.

Upstream: pkg/kubelet/status/status_manager.go, staging/src/k8s.io/apimachinery/pkg/api/equality/semantic.go
"""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from pykubelet.api.generated.core import (
    ContainerState,
    ContainerStatus,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
    ResourceRequirements,
)
from pykubelet.api.pods import OWNED_CONDITIONS, SHARED_CONDITIONS, is_restartable_init_container, is_terminal
from pykubelet.api.quantity import QuantityError, parse_quantity
from pykubelet.api.times import format_time, nanoseconds, parse_time
from pykubelet.kubelet.status.container_statuses import sort_by_name, sort_init_statuses

_COMPARED = OWNED_CONDITIONS | SHARED_CONDITIONS


def equal_by_node(old: PodStatus, new: PodStatus) -> bool:
    """Whether two statuses are equal in everything the kubelet owns."""
    if _own_conditions(old) != _own_conditions(new):
        return False
    left, right = replace(old, conditions=()), replace(new, conditions=())
    return left == right or _canonical(left) == _canonical(right)


def _own_conditions(status: PodStatus) -> Mapping[str, tuple[str, str, str]]:
    return {
        condition.type: (condition.status, condition.reason, condition.message)
        for condition in status.conditions
        if condition.type in _COMPARED
    }


def _canonical(status: PodStatus) -> PodStatus:
    """A status in which equal times and quantities are written alike; only for comparison."""
    return replace(
        status,
        start_time=_instant(status.start_time),
        container_statuses=tuple(map(_canonical_container, status.container_statuses)),
        init_container_statuses=tuple(map(_canonical_container, status.init_container_statuses)),
        ephemeral_container_statuses=tuple(map(_canonical_container, status.ephemeral_container_statuses)),
    )


def _canonical_container(status: ContainerStatus) -> ContainerStatus:
    return replace(
        status,
        state=_canonical_state(status.state),
        last_state=_canonical_state(status.last_state),
        allocated_resources=_amounts(status.allocated_resources),
        resources=_canonical_resources(status.resources),
    )


def _canonical_state(state: ContainerState) -> ContainerState:
    running, terminated = state.running, state.terminated
    if running is not None:
        running = replace(running, started_at=_instant(running.started_at))
    if terminated is not None:
        terminated = replace(
            terminated, started_at=_instant(terminated.started_at), finished_at=_instant(terminated.finished_at)
        )
    return replace(state, running=running, terminated=terminated)


def _canonical_resources(resources: ResourceRequirements | None) -> ResourceRequirements | None:
    if resources is None:
        return None
    return replace(resources, limits=_amounts(resources.limits), requests=_amounts(resources.requests))


def _instant(text: str | None) -> str | None:
    return str(nanoseconds(text)) if text else None


def _amounts(amounts: Mapping[str, str]) -> Mapping[str, str]:
    return {name: _amount(text) for name, text in amounts.items()}


def _amount(text: str) -> str:
    try:
        quantity = parse_quantity(text)
    except QuantityError:
        return text
    digits, scale = quantity.unscaled, quantity.scale
    while digits and digits % 10 == 0:
        digits, scale = digits // 10, scale + 1
    return f"{digits}e{scale if digits else 0}"


# The size of all termination messages of a pod together, so that its status can be stored.
MESSAGE_BYTES_PER_POD = 12 * 1024
_NEVER = "0001-01-01T00:00:00Z"
_WHOLE_UTC_LENGTH = len(_NEVER)
_STRAY = "\ufffd"


def normalize_status(pod: Pod, status: PodStatus) -> PodStatus:
    """The status as the API server will store it."""
    spec = pod.spec
    containers = len(spec.containers) + len(spec.init_containers) + len(spec.ephemeral_containers)
    budget = MESSAGE_BYTES_PER_POD // max(containers, 1)

    def normalized(statuses: tuple[ContainerStatus, ...]) -> tuple[ContainerStatus, ...]:
        return tuple(_container_status(one, budget) for one in statuses)

    return replace(
        status,
        start_time=_whole_seconds(status.start_time),
        conditions=tuple(_condition(condition) for condition in status.conditions),
        container_statuses=sort_by_name(normalized(status.container_statuses)),
        init_container_statuses=sort_init_statuses(pod, normalized(status.init_container_statuses)),
        ephemeral_container_statuses=sort_by_name(normalized(status.ephemeral_container_statuses)),
    )


def cut_message(message: str, budget: int) -> str:
    """The first `budget` bytes of a message; each byte of a split character becomes U+FFFD."""
    data = message.encode()
    # Three replaced bytes become nine: a message that was cut before must not be cut again.
    was_cut = len(data) == budget + 6 and message.endswith(_STRAY * 3)
    if len(data) <= budget or was_cut:
        return message
    whole = data[:budget].decode(errors="ignore")
    return whole + _STRAY * (budget - len(whole.encode()))


def _whole_seconds(text: str | None) -> str | None:
    if text is None or text == _NEVER:
        return None
    # Almost every time has this form already, and parsing is not free.
    if len(text) == _WHOLE_UTC_LENGTH and text[-1] == "Z":
        return text
    return format_time(parse_time(text))


def _condition(condition: PodCondition) -> PodCondition:
    probed, moved = _whole_seconds(condition.last_probe_time), _whole_seconds(condition.last_transition_time)
    if probed is condition.last_probe_time and moved is condition.last_transition_time:
        return condition
    return replace(condition, last_probe_time=probed, last_transition_time=moved)


def _container_status(status: ContainerStatus, budget: int) -> ContainerStatus:
    state, last_state = _state(status.state, budget), _state(status.last_state, budget)
    if state is status.state and last_state is status.last_state:
        return status
    return replace(status, state=state, last_state=last_state)


def _state(state: ContainerState, budget: int) -> ContainerState:
    running, terminated = state.running, state.terminated
    if running is not None:
        running = replace(running, started_at=_whole_seconds(running.started_at))
    if terminated is not None:
        terminated = replace(
            terminated,
            started_at=_whole_seconds(terminated.started_at),
            finished_at=_whole_seconds(terminated.finished_at),
            message=cut_message(terminated.message, budget),
        )
    if running == state.running and terminated == state.terminated:
        return state
    return replace(state, running=running, terminated=terminated)


def illegal_transition(old: PodStatus, new: PodStatus, spec: PodSpec) -> str | None:
    """Why a change of container states is illegal; None if it is legal."""
    if spec.restart_policy == "Always":
        return None
    for status in old.container_statuses:
        if _is_final(status, spec) and _lives(status.name, new.container_statuses):
            return f"terminated container {status.name} attempted illegal transition to non-terminated state"
    for index, status in enumerate(old.init_container_statuses):
        container = spec.init_containers[index] if index < len(spec.init_containers) else None
        if container is None or container.name != status.name:
            return f"found mismatch between pod spec and status, container: {status.name}"
        if is_restartable_init_container(container):
            continue
        if _is_final(status, spec) and _lives(status.name, new.init_container_statuses):
            return f"terminated init container {status.name} attempted illegal transition to non-terminated state"
    return None


def latch_phase(old: PodStatus, new: PodStatus) -> PodStatus:
    """The new status with the old phase, reason and message, if the old phase is terminal and differs."""
    if not is_terminal(old.phase) or new.phase == old.phase:
        return new
    return replace(new, phase=old.phase, reason=old.reason, message=old.message)


def _is_final(status: ContainerStatus, spec: PodSpec) -> bool:
    """Whether a container has terminated for good."""
    ended = status.state.terminated
    return ended is not None and (ended.exit_code == 0 or spec.restart_policy != "OnFailure")


def _lives(name: str, statuses: Iterable[ContainerStatus]) -> bool:
    return any(status.name == name and status.state.terminated is None for status in statuses)
