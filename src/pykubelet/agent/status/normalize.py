"""Bring a status into the form in which the API server will give it back.

A pod and a status in, the status out: times in whole seconds of UTC, termination messages within the pod's budget,
container statuses in a fixed order. Doing it twice changes nothing. Pure.
Upstream: pkg/kubelet/status/status_manager.go (normalizeStatus).
"""

from msgspec.structs import replace

from pykubelet.api.container_statuses import sort_by_name, sort_init_statuses
from pykubelet.api.generated.core import ContainerState, ContainerStatus, Pod, PodCondition, PodStatus
from pykubelet.api.times import format_time, parse_time

# What all termination messages of a pod may take together, so that its status stays storable.
MESSAGE_BYTES_PER_POD = 12 * 1024
_NEVER = "0001-01-01T00:00:00Z"
_WHOLE_UTC_LENGTH = len(_NEVER)
_STRAY = "\ufffd"


def normalize_status(pod: Pod, status: PodStatus) -> PodStatus:
    """The status as it will read once the API server has stored it."""
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
    """The first `budget` bytes of a message, each byte of a character cut in two read as U+FFFD."""
    data = message.encode()
    # Three stray bytes read as nine: what was cut like that before must not be cut again.
    was_cut = len(data) == budget + 6 and message.endswith(_STRAY * 3)
    if len(data) <= budget or was_cut:
        return message
    whole = data[:budget].decode(errors="ignore")
    return whole + _STRAY * (budget - len(whole.encode()))


def _whole_seconds(text: str | None) -> str | None:
    if text is None or text == _NEVER:
        return None
    # Almost every time is of this form already, and parsing is not free.
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
