"""Decides which pods of a StatefulSet to create, correct and delete next, and in which order.

By default a set takes one step at a time and waits wherever a pod is missing, unavailable or terminating; with pod
management policy Parallel only updates keep that order.

Upstream: pkg/controller/statefulset/stateful_set_control.go
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto

from pykubelet.api.generated.apps import StatefulSet
from pykubelet.api.generated.core import PersistentVolumeClaim, Pod
from pykubelet.api.pods import is_terminal
from pykubelet.controllers.framework.active_pods import is_pod_available, ready_condition
from pykubelet.controllers.framework.controller_history import REVISION_LABEL
from pykubelet.controllers.statefulset.identity import (
    claims_of,
    correction,
    is_left_over,
    ordinal_of,
    ordinals,
    owners_to_set,
)

ON_DELETE = "OnDelete"
ROLLING_UPDATE = "RollingUpdate"
_PARALLEL = "Parallel"


class PodAction(Enum):
    """What to do with a pod."""

    CREATE = auto()
    DELETE = auto()
    CORRECT = auto()
    """Repair the identity and storage of the pod and the owners of its claims."""


@dataclass(frozen=True, slots=True)
class PodStep:
    """One action on one pod."""

    action: PodAction
    pod: Pod


@dataclass(frozen=True, slots=True)
class StatefulSetPlan:
    """Stages of steps; each runs once the previous one has succeeded."""

    stages: tuple[tuple[PodStep, ...], ...] = ()
    is_update: bool = False
    """The last stage deletes a pod of an old revision."""


@dataclass(frozen=True, slots=True)
class StatefulSetState:
    """The input of a decision: the set, its pods, its claims and revisions."""

    stateful_set: StatefulSet
    pods: Sequence[Pod]
    claim: Callable[[str], PersistentVolumeClaim | None]
    """Returns the claim with the key `namespace/name`."""
    new_pod: Callable[[int], Pod]
    """Returns the pod with this ordinal, of the revision it should have."""
    update_revision: str
    now: datetime


def is_parallel(stateful_set: StatefulSet) -> bool:
    return stateful_set.spec.pod_management_policy == _PARALLEL


def is_running_and_ready(pod: Pod) -> bool:
    return pod.status.phase == "Running" and ready_condition(pod) is not None


def partition(stateful_set: StatefulSet) -> int:
    """The ordinal below which an update leaves pods unchanged."""
    rolling = stateful_set.spec.update_strategy.rolling_update
    return (rolling.partition or 0) if rolling is not None else 0


def is_of_current_revision(stateful_set: StatefulSet, ordinal: int) -> bool:
    """Whether a new pod with this ordinal is of the revision before the update."""
    strategy, position = stateful_set.spec.update_strategy, ordinal - ordinals(stateful_set).start
    if strategy.rolling_update is None:
        return strategy.type == ROLLING_UPDATE and position < stateful_set.status.current_replicas
    return position < partition(stateful_set)


def plan_update(state: StatefulSetState) -> StatefulSetPlan:
    """The next steps of a set that is not being deleted."""
    stateful_set = state.stateful_set
    numbers, in_turn = ordinals(stateful_set), not is_parallel(stateful_set)
    by_ordinal = {number: pod for pod in state.pods if (number := ordinal_of(pod.metadata.name)) is not None}
    replicas = [by_ordinal.get(number) for number in numbers]
    condemned = [by_ordinal[number] for number in sorted(by_ordinal, reverse=True) if number not in numbers]

    steps: list[PodStep] = []
    for number, pod in zip(numbers, replicas, strict=True):
        if (step := _replica_step(state, number, pod, in_turn)) is not None:
            steps.append(step)
        if in_turn and (pod is None or not _is_healthy(state, pod)):
            return StatefulSetPlan((tuple(steps),))
    kept = tuple(PodStep(PodAction.CORRECT, pod) for pod in condemned if _has_wrong_owners(state, pod))
    leaving = _pods_to_scale_down(state, condemned, in_turn)
    stages = tuple(steps), kept, tuple(PodStep(PodAction.DELETE, pod) for pod in leaving)
    if in_turn and condemned:
        return StatefulSetPlan(stages)
    outdated = _pod_to_update(state, replicas)
    if outdated is None:
        return StatefulSetPlan(stages)
    return StatefulSetPlan((*stages, (PodStep(PodAction.DELETE, outdated),)), is_update=True)


def _replica_step(state: StatefulSetState, ordinal: int, pod: Pod | None, in_turn: bool) -> PodStep | None:
    """The next step of one desired pod; later syncs may find more."""
    if pod is None:
        new = state.new_pod(ordinal)
        # A new pod must not use a claim that is deleted with its predecessor.
        has_to_wait = any(is_left_over(state.stateful_set, claim, new) for claim in _claims(state, new))
        return None if has_to_wait else PodStep(PodAction.CREATE, new)
    if is_terminal(pod.status.phase):
        return PodStep(PodAction.DELETE, pod) if pod.metadata.deletion_timestamp is None else None
    if pod.status.phase == "Pending" and (_lacks_claims(state, pod) or _has_wrong_owners(state, pod)):
        return PodStep(PodAction.CORRECT, pod)
    if in_turn and not _is_healthy(state, pod):
        return None
    is_wrong = correction(state.stateful_set, pod) is not None or _has_wrong_owners(state, pod)
    return PodStep(PodAction.CORRECT, pod) if is_wrong else None


def _is_healthy(state: StatefulSetState, pod: Pod) -> bool:
    """Whether the set need not wait for the pod."""
    return is_running_and_ready(pod) and not _is_unavailable(state, pod)


def _is_unavailable(state: StatefulSetState, pod: Pod) -> bool:
    is_up = is_pod_available(pod, state.stateful_set.spec.min_ready_seconds, state.now)
    return not is_up or pod.metadata.deletion_timestamp is not None


def _pods_to_scale_down(state: StatefulSetState, condemned: Sequence[Pod], in_turn: bool) -> list[Pod]:
    """The pods to delete of those above the desired number; the highest ordinal comes first."""
    if not in_turn:
        return [pod for pod in condemned if pod.metadata.deletion_timestamp is None]
    if not condemned or condemned[0].metadata.deletion_timestamp is not None:
        return []
    # An unavailable pod is deleted only if all pods with lower ordinals are available.
    first = next((pod for pod in reversed(condemned) if _is_unavailable(state, pod)), None)
    return [condemned[0]] if _is_healthy(state, condemned[0]) or first is condemned[0] else []


def _pod_to_update(state: StatefulSetState, replicas: Sequence[Pod | None]) -> Pod | None:
    """The highest pod of an old revision, unless one above it is unavailable."""
    if state.stateful_set.spec.update_strategy.type == ON_DELETE:
        return None
    for pod in reversed(replicas[partition(state.stateful_set) :]):
        if pod is None or pod.metadata.deletion_timestamp is not None:
            return None
        if pod.metadata.labels.get(REVISION_LABEL, "") != state.update_revision:
            return pod
        if _is_unavailable(state, pod):
            return None
    return None


def _claims(state: StatefulSetState, pod: Pod) -> list[PersistentVolumeClaim]:
    wanted = claims_of(state.stateful_set, pod)
    found = (state.claim(f"{claim.metadata.namespace}/{claim.metadata.name}") for claim in wanted)
    return [claim for claim in found if claim is not None]


def _lacks_claims(state: StatefulSetState, pod: Pod) -> bool:
    return len(_claims(state, pod)) < len(state.stateful_set.spec.volume_claim_templates)


def _has_wrong_owners(state: StatefulSetState, pod: Pod) -> bool:
    return any(owners_to_set(state.stateful_set, claim, pod) is not None for claim in _claims(state, pod))
