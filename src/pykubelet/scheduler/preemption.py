"""Chooses pods of lower priority that are deleted to make room for a pod that fits nowhere.

On each node where that could help, the fewest and least important victims are found: first all pods of lower priority
are removed, then as many as possible are put back, beginning with those that a disruption budget protects. The node
whose victims matter least is chosen.

Upstream: pkg/scheduler/framework/preemption/preemption.go,
pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pykubelet.api.generated.core import Pod
from pykubelet.api.generated.policy import PodDisruptionBudget
from pykubelet.api.pods import condition_of
from pykubelet.api.times import parse_time
from pykubelet.scheduler.cache import NodeInfo, PodInfo, pod_priority, selector_of
from pykubelet.scheduler.filters import CycleState, FilterStatus, run_filters
from pykubelet.scheduler.nominator import Nominator

NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"
NEVER = "not eligible due to preemptionPolicy=Never."
WAITING = "not eligible due to a terminating pod on the nominated node."
DISRUPTION_TARGET, BY_SCHEDULER = "DisruptionTarget", "PreemptionByScheduler"
# Upstream's minCandidateNodesAbsolute and minCandidateNodesPercentage.
_FEWEST_CANDIDATES, _PERCENT_OF_NODES = 100, 10
# Makes every priority positive, so that fewer victims are better even if their priority is negative.
_PRIORITY_BASE = 2**31


@dataclass(frozen=True, slots=True)
class PreemptionCandidate:
    """A node and the pods to delete there, the most important first."""

    node_name: str
    victims: tuple[Pod, ...]
    violations: int
    """How many of them a disruption budget protects."""


@dataclass(frozen=True, slots=True)
class Preemption:
    """What preemption does for a pod."""

    message: str = ""
    """Why it does nothing."""
    candidate: PreemptionCandidate | None = None
    keeps_nomination: bool = False
    """Whether the pod waits for its victims to end."""


def preempt(
    cycle_state: CycleState,
    statuses: Mapping[str, FilterStatus],
    nominator: Nominator,
    budgets: Iterable[PodDisruptionBudget],
) -> Preemption:
    """Decides what a pod that fits nowhere preempts; `statuses` say why nodes have rejected it."""
    pod, nodes = cycle_state.pod_info.pod, cycle_state.cache.nodes
    if pod.spec.preemption_policy == "Never":
        return Preemption(NEVER, keeps_nomination=True)
    if _waits_for_victims(cycle_state, statuses, nominator.node_of(pod)):
        return Preemption(WAITING, keeps_nomination=True)
    potential = [name for name, status in statuses.items() if status.is_resolvable]
    wanted = min(max(_FEWEST_CANDIDATES, len(potential) * _PERCENT_OF_NODES // 100), len(potential))
    candidates, reasons, known_budgets = list[PreemptionCandidate](), Counter[str](), tuple(budgets)
    for name in potential:
        found = select_victims(cycle_state, nodes[name], nominator.rivals(pod, name), known_budgets)
        if isinstance(found, PreemptionCandidate):
            candidates.append(found)
            if len(candidates) >= wanted and any(not one.violations for one in candidates):
                break
        else:
            reasons.update(found)
    if candidates:
        return Preemption(candidate=min(candidates, key=_cost))
    reasons[NOT_HELPFUL] = len(nodes) - len(potential)
    return Preemption(f"0/{len(nodes)} nodes are available: {histogram(reasons)}.")


def select_victims(
    cycle_state: CycleState,
    node_info: NodeInfo,
    nominated: Sequence[PodInfo],
    budgets: Sequence[PodDisruptionBudget],
) -> PreemptionCandidate | tuple[str, ...]:
    """The pods to delete on a node, or why that would not help. The cache is as before afterwards."""
    priority = pod_priority(cycle_state.pod_info.pod)
    potential = sorted(
        (one for one in node_info.pods.values() if pod_priority(one.pod) < priority),
        key=lambda one: _importance(one.pod),
    )
    if not potential:
        return (NO_VICTIMS,)
    for one in potential:
        cycle_state.remove(node_info, one)
    victims = list[Pod]()
    try:
        status = run_filters(cycle_state, node_info, nominated)
        if status is not None:
            return status.reasons
        violating = _protected(potential, budgets)
        for one in sorted(potential, key=lambda one: one.pod.metadata.uid not in violating):
            cycle_state.add(node_info, one)
            if run_filters(cycle_state, node_info, nominated) is not None:
                cycle_state.remove(node_info, one)
                victims.append(one.pod)
    finally:
        for one in potential:
            if one.pod.metadata.uid not in node_info.pods:
                cycle_state.add(node_info, one)
    if not victims:
        return (NO_VICTIMS,)
    violations = sum(pod.metadata.uid in violating for pod in victims)
    return PreemptionCandidate(node_info.name, tuple(sorted(victims, key=_importance)), violations)


def histogram(reasons: Mapping[str, int]) -> str:
    """Reasons with the number of their nodes, sorted as strings with the number, as upstream does."""
    return ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items() if count))


def _waits_for_victims(cycle_state: CycleState, statuses: Mapping[str, FilterStatus], node_name: str) -> bool:
    """Whether pods that were preempted for this one are still ending on the node that it is nominated to."""
    node_info, status = cycle_state.cache.nodes.get(node_name), statuses.get(node_name)
    if node_info is None or status is None or not status.is_resolvable:
        return False
    priority = pod_priority(cycle_state.pod_info.pod)
    return any(pod_priority(one.pod) < priority and _is_ending(one.pod) for one in node_info.pods.values())


def _is_ending(pod: Pod) -> bool:
    found = condition_of(pod, DISRUPTION_TARGET)
    is_preempted = found is not None and (found.status, found.reason) == ("True", BY_SCHEDULER)
    return pod.metadata.deletion_timestamp is not None and is_preempted


def _protected(pods: Sequence[PodInfo], budgets: Sequence[PodDisruptionBudget]) -> frozenset[str]:
    """The UIDs of pods whose deletion, in this order, would violate a disruption budget."""
    known = [(one, selector_of(one.spec.selector)) for one in budgets]
    allowed = [one.status.disruptions_allowed for one in budgets]
    found = set[str]()
    for meta in (one.pod.metadata for one in pods):
        for index, (budget, selector) in enumerate(known):
            is_selected = budget.metadata.namespace == meta.namespace and not selector.empty() and bool(meta.labels)
            if is_selected and selector.matches(meta.labels) and meta.name not in budget.status.disrupted_pods:
                allowed[index] -= 1
                if allowed[index] < 0:
                    found.add(meta.uid)
    return frozenset(found)


def _cost(candidate: PreemptionCandidate) -> tuple[float, ...]:
    """What the victims of a node are worth, the most important criterion first."""
    priorities = [pod_priority(pod) for pod in candidate.victims]
    most = max(priorities)
    started = min(_started(pod) for pod in candidate.victims if pod_priority(pod) == most)
    return candidate.violations, most, sum(one + _PRIORITY_BASE for one in priorities), len(priorities), -started


def _importance(pod: Pod) -> tuple[float, ...]:
    return -pod_priority(pod), _started(pod)


def _started(pod: Pod) -> float:
    """When a pod started, in seconds; one that has not started is the youngest."""
    return parse_time(pod.status.start_time).timestamp() if pod.status.start_time else float("inf")
