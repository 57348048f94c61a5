"""What a StatefulSet does next: which pods it creates, corrects and deletes, in which order.

Pure. In: the set, its pods, its claims, its versions. Out: stages of steps. By default a set takes one step at a time
and waits wherever a pod is not there, not available or on its way out; with the policy Parallel it only keeps to that
order when it replaces pods by those of a new version.
Upstream: updateStatefulSet, processReplica and processCondemned in pkg/controller/statefulset/stateful_set_control.go.
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
    """Give it and its claims what they lack."""


@dataclass(frozen=True, slots=True)
class PodStep:
    """One thing to do."""

    action: PodAction
    pod: Pod


@dataclass(frozen=True, slots=True)
class StatefulSetPlan:
    """Stages, each to be done once the one before has gone well."""

    stages: tuple[tuple[PodStep, ...], ...] = ()
    is_update: bool = False
    """The last stage deletes a pod of an old version."""


@dataclass(frozen=True, slots=True)
class StatefulSetState:
    """What the set looks at to decide."""

    stateful_set: StatefulSet
    pods: Sequence[Pod]
    claim: Callable[[str], PersistentVolumeClaim | None]
    """The claim called `namespace/name`."""
    new_pod: Callable[[int], Pod]
    """A pod with this number, of the version it is to have."""
    update_revision: str
    now: datetime


def is_parallel(stateful_set: StatefulSet) -> bool:
    """Whether the set does not wait for one pod before it goes on with the next."""
    return stateful_set.spec.pod_management_policy == _PARALLEL


def is_running_and_ready(pod: Pod) -> bool:
    """Whether the pod does what it is there for."""
    return pod.status.phase == "Running" and ready_condition(pod) is not None


def partition(stateful_set: StatefulSet) -> int:
    """How many pods, counted from the first, an update leaves as they are."""
    rolling = stateful_set.spec.update_strategy.rolling_update
    return (rolling.partition or 0) if rolling is not None else 0


def is_of_current_version(stateful_set: StatefulSet, ordinal: int) -> bool:
    """Whether a new pod with this number is of the version from before the update."""
    strategy, position = stateful_set.spec.update_strategy, ordinal - ordinals(stateful_set).start
    if strategy.rolling_update is None:
        return strategy.type == ROLLING_UPDATE and position < stateful_set.status.current_replicas
    return position < partition(stateful_set)


def plan_update(sight: StatefulSetState) -> StatefulSetPlan:
    """The next steps of a set that is not being deleted."""
    stateful_set = sight.stateful_set
    numbers, in_turn = ordinals(stateful_set), not is_parallel(stateful_set)
    by_ordinal = {number: pod for pod in sight.pods if (number := ordinal_of(pod.metadata.name)) is not None}
    replicas = [by_ordinal.get(number) for number in numbers]
    condemned = [by_ordinal[number] for number in sorted(by_ordinal, reverse=True) if number not in numbers]

    steps: list[PodStep] = []
    for number, pod in zip(numbers, replicas, strict=True):
        if (step := _replica_step(sight, number, pod, in_turn)) is not None:
            steps.append(step)
        if in_turn and (pod is None or not _is_settled(sight, pod)):
            return StatefulSetPlan((tuple(steps),))
    kept = tuple(PodStep(PodAction.CORRECT, pod) for pod in condemned if _has_wrong_owners(sight, pod))
    leaving = _leaving(sight, condemned, in_turn)
    stages = tuple(steps), kept, tuple(PodStep(PodAction.DELETE, pod) for pod in leaving)
    if in_turn and condemned:
        return StatefulSetPlan(stages)
    outdated = _outdated(sight, replicas)
    if outdated is None:
        return StatefulSetPlan(stages)
    return StatefulSetPlan((*stages, (PodStep(PodAction.DELETE, outdated),)), is_update=True)


def _replica_step(sight: StatefulSetState, ordinal: int, pod: Pod | None, in_turn: bool) -> PodStep | None:
    """What to do about one pod that there is to be; the next look at it may find more."""
    if pod is None:
        new = sight.new_pod(ordinal)
        # A new pod must not use what is deleted along with the one before it.
        has_to_wait = any(is_left_over(sight.stateful_set, claim, new) for claim in _claims(sight, new))
        return None if has_to_wait else PodStep(PodAction.CREATE, new)
    if is_terminal(pod.status.phase):
        return PodStep(PodAction.DELETE, pod) if pod.metadata.deletion_timestamp is None else None
    if pod.status.phase == "Pending" and (_lacks_claims(sight, pod) or _has_wrong_owners(sight, pod)):
        return PodStep(PodAction.CORRECT, pod)
    if in_turn and not _is_settled(sight, pod):
        return None
    is_wrong = correction(sight.stateful_set, pod) is not None or _has_wrong_owners(sight, pod)
    return PodStep(PodAction.CORRECT, pod) if is_wrong else None


def _is_settled(sight: StatefulSetState, pod: Pod) -> bool:
    """Whether the set need not wait for the pod."""
    return is_running_and_ready(pod) and not _is_unavailable(sight, pod)


def _is_unavailable(sight: StatefulSetState, pod: Pod) -> bool:
    is_up = is_pod_available(pod, sight.stateful_set.spec.min_ready_seconds, sight.now)
    return not is_up or pod.metadata.deletion_timestamp is not None


def _leaving(sight: StatefulSetState, condemned: Sequence[Pod], in_turn: bool) -> list[Pod]:
    """The pods to delete of those that a smaller set does not have; the last ones stand in front."""
    if not in_turn:
        return [pod for pod in condemned if pod.metadata.deletion_timestamp is None]
    if not condemned or condemned[0].metadata.deletion_timestamp is not None:
        return []
    # One that is not available may only go if all before it are.
    first = next((pod for pod in reversed(condemned) if _is_unavailable(sight, pod)), None)
    return [condemned[0]] if _is_settled(sight, condemned[0]) or first is condemned[0] else []


def _outdated(sight: StatefulSetState, replicas: Sequence[Pod | None]) -> Pod | None:
    """The last pod that is not of the new version, unless one after it is not available yet."""
    if sight.stateful_set.spec.update_strategy.type == ON_DELETE:
        return None
    for pod in reversed(replicas[partition(sight.stateful_set) :]):
        if pod is None or pod.metadata.deletion_timestamp is not None:
            return None
        if pod.metadata.labels.get(REVISION_LABEL, "") != sight.update_revision:
            return pod
        if _is_unavailable(sight, pod):
            return None
    return None


def _claims(sight: StatefulSetState, pod: Pod) -> list[PersistentVolumeClaim]:
    """The claims of a pod that are there."""
    wanted = claims_of(sight.stateful_set, pod)
    found = (sight.claim(f"{claim.metadata.namespace}/{claim.metadata.name}") for claim in wanted)
    return [claim for claim in found if claim is not None]


def _lacks_claims(sight: StatefulSetState, pod: Pod) -> bool:
    """Whether a pod that waits to start has to, because a claim of it is not there."""
    return len(_claims(sight, pod)) < len(sight.stateful_set.spec.volume_claim_templates)


def _has_wrong_owners(sight: StatefulSetState, pod: Pod) -> bool:
    return any(owners_to_set(sight.stateful_set, claim, pod) is not None for claim in _claims(sight, pod))
