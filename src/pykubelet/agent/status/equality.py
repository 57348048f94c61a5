"""Whether two statuses say the same, as far as the node has a say in it.

Of the conditions only type, status, reason and message of the node's own and shared ones count. Everything else is
compared by meaning: times by instant, quantities by value. Pure.
Upstream: pkg/kubelet/status/status_manager.go (isPodStatusByKubeletEqual), apimachinery/pkg/api/equality.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from pykubelet.api.generated.core import ContainerState, ContainerStatus, PodStatus, ResourceRequirements
from pykubelet.api.pods import OWNED_CONDITIONS, SHARED_CONDITIONS
from pykubelet.api.quantity import QuantityError, parse_quantity
from pykubelet.api.times import nanoseconds

_COMPARED = OWNED_CONDITIONS | SHARED_CONDITIONS


def equal_by_node(old: PodStatus, new: PodStatus) -> bool:
    """Whether the node would not have to send `new` to someone who has `old`."""
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
    """A status in which equal times and equal quantities are written alike; only good for comparing."""
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
