"""What a disruption budget allows: the pods it expects, wants healthy and has.

Pure. Upstream: pkg/controller/disruption/disruption.go, k8s.io/component-helpers/apps/poddisruptionbudget/helpers.go.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from msgspec.structs import replace

from pykubelet.api.generated.core import Pod
from pykubelet.api.generated.meta import Condition, LabelSelector
from pykubelet.api.generated.policy import PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus
from pykubelet.api.times import format_time, parse_time
from pykubelet.api.wire import Document
from pykubelet.controllers.int_or_percent import scaled_count
from pykubelet.controllers.owner_access import explicit
from pykubelet.controllers.pod_order import ready_condition

DELETION_TIMEOUT = timedelta(minutes=2)
"""So long an evicted pod is counted as gone, though its deletion has not been seen."""
CONDITION = "DisruptionAllowed"


@dataclass(frozen=True, slots=True)
class Disrupted:
    """The evicted pods whose deletion is waited for."""

    waiting: Mapping[str, str]
    overdue: tuple[Pod, ...] = ()
    """Those that were never deleted: they count again."""
    look_again: datetime | None = None


def needs_scale(spec: PodDisruptionBudgetSpec) -> bool:
    """Whether it matters how many pods there should be, and not only how many there are."""
    return spec.max_unavailable is not None or isinstance(spec.min_available, str)


def expectation(spec: PodDisruptionBudgetSpec, pods: int, scale: int) -> tuple[int, int]:
    """How many pods there should be and how many of them healthy, given how many there are and their owners want.

    ValueError if the budget's number is none.
    """
    if spec.max_unavailable is not None:
        return scale, max(0, scale - scaled_count(spec.max_unavailable, scale, round_up=True))
    if isinstance(spec.min_available, str):
        return scale, scaled_count(spec.min_available, scale, round_up=True)
    return (0, 0) if spec.min_available is None else (pods, spec.min_available)


def disrupted_pods(budget: PodDisruptionBudget, pods: Iterable[Pod], now: datetime) -> Disrupted:
    """Which of the evicted pods are still waited for; those that are gone or being deleted are done with."""
    waiting: dict[str, str] = {}
    overdue: list[Pod] = []
    deadlines: list[datetime] = []
    for pod in pods:
        since = budget.status.disrupted_pods.get(pod.metadata.name)
        if since is None or pod.metadata.deletion_timestamp is not None:
            continue
        deadline = parse_time(since) + DELETION_TIMEOUT
        if deadline < now:
            overdue.append(pod)
        else:
            waiting[pod.metadata.name] = since
            deadlines.append(deadline)
    return Disrupted(waiting, tuple(overdue), min(deadlines, default=None))


def healthy_count(pods: Iterable[Pod], disrupted: Disrupted, now: datetime) -> int:
    """How many pods are ready and not about to go."""
    return sum(
        pod.metadata.deletion_timestamp is None
        and not _is_going(disrupted.waiting.get(pod.metadata.name), now)
        and ready_condition(pod) is not None
        for pod in pods
    )


def new_status(
    budget: PodDisruptionBudget,
    *,
    healthy: int,
    desired: int,
    expected: int,
    disrupted: Mapping[str, str],
    now: datetime,
) -> PodDisruptionBudgetStatus:
    """The status that says this. A budget that expects no pods allows nothing: its first pods may just be coming."""
    allowed = max(0, healthy - desired) if expected > 0 else 0
    generation = budget.metadata.generation
    condition = Condition(
        type=CONDITION,
        status="True" if allowed else "False",
        reason="SufficientPods" if allowed else "InsufficientPods",
        observed_generation=generation,
    )
    return PodDisruptionBudgetStatus(
        current_healthy=healthy,
        desired_healthy=desired,
        expected_pods=expected,
        disruptions_allowed=allowed,
        disrupted_pods=disrupted,
        observed_generation=generation,
        conditions=_with_condition(budget.status.conditions, condition, now),
    )


def failed_status(budget: PodDisruptionBudget, message: str, now: datetime) -> PodDisruptionBudgetStatus:
    """The status of a budget that nothing can be said about: no disruption is allowed."""
    old = budget.status
    condition = Condition(
        type=CONDITION,
        status="False",
        reason="SyncFailed",
        message=message,
        observed_generation=old.observed_generation,
    )
    return replace(old, disruptions_allowed=0, conditions=_with_condition(old.conditions, condition, now))


def status_document(old: PodDisruptionBudgetStatus, new: PodDisruptionBudgetStatus) -> Document:
    """The merge patch from one status to another; pods that are waited for no longer are null."""
    return {**explicit(new), "disruptedPods": {**dict.fromkeys(old.disrupted_pods), **new.disrupted_pods}}


def selector_text(selector: LabelSelector | None) -> str:
    """The selector as Go prints it, which is how messages show it."""
    if selector is None:
        return "nil"
    labels = "".join(f"{name}: {value}," for name, value in sorted(selector.match_labels.items()))
    rows = "".join(
        f"LabelSelectorRequirement{{Key:{row.key},Operator:{row.operator},Values:[{' '.join(row.values)}],}},"
        for row in selector.match_expressions
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{rows}}},}}"
    )


def _is_going(since: str | None, now: datetime) -> bool:
    return since is not None and parse_time(since) + DELETION_TIMEOUT > now


def _with_condition(conditions: tuple[Condition, ...], new: Condition, now: datetime) -> tuple[Condition, ...]:
    """The conditions with this one; its time moves only if its status does."""
    old = next((one for one in conditions if one.type == new.type), None)
    if old is None:
        return (*conditions, replace(new, last_transition_time=format_time(now)))
    since = old.last_transition_time if old.status == new.status else format_time(now)
    new = replace(new, last_transition_time=since)
    return tuple(new if one is old else one for one in conditions)
