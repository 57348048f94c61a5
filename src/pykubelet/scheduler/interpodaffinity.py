"""Affinity between pods: which nodes are near pods that must be near, must not be, or are liked.

Pure. Near is a node with the same value of a label. Upstream: pkg/scheduler/framework/plugins/interpodaffinity.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pykubelet.api.generated.core import Pod
from pykubelet.scheduler.cache import AffinityTerm, Labels, NodeInfo, PodInfo, SchedulerCache

NOT_NEAR = "node(s) didn't match pod affinity rules"
NEAR = "node(s) didn't match pod anti-affinity rules"
SHUNNED = "node(s) didn't satisfy existing pods anti-affinity rules"
MAX_SCORE = 100
_DEMAND_WEIGHT = 1
"""What it counts that a pod on a node demands pods like this one near."""

_Domain: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True)
class AffinityDomains:
    """Where the pods are that matter to a pod: domains, as label and value."""

    attracting: frozenset[_Domain]
    repelling: frozenset[_Domain]
    shunning: frozenset[_Domain]
    """Domains of pods that do not want this one."""
    is_first: bool
    """The pod demands pods like itself near, and there are none yet."""


def affinity_domains_of(facts: PodInfo, view: SchedulerCache) -> AffinityDomains:
    """Look up the pods that matter to a pod."""
    pod, labels = facts.pod, view.namespace_labels(facts.pod)
    shunning = {
        domain
        for state, other in view.repelling.values()
        for term in other.repelled
        if (domain := _domain(term, state)) and term.matches(pod, labels)
    }
    attracting, repelling = set[_Domain](), set[_Domain]()
    for state, other in view.placed() if facts.attracted or facts.repelled else ():
        other_labels = view.namespace_labels(other.pod)
        if _all_match(facts.attracted, other.pod, other_labels):
            attracting |= {domain for term in facts.attracted if (domain := _domain(term, state))}
        repelling |= {
            domain
            for term in facts.repelled
            if (domain := _domain(term, state)) and term.matches(other.pod, other_labels)
        }
    is_first = not attracting and _all_match(facts.attracted, pod, labels)
    return AffinityDomains(frozenset(attracting), frozenset(repelling), frozenset(shunning), is_first)


def filter_inter_pod_affinity(facts: PodInfo, neighbours: AffinityDomains, labels: Labels) -> str:
    """Why a pod may not go to a node with these labels; empty if it may."""
    wanted = [(term.topology_key, labels.get(term.topology_key)) for term in facts.attracted]
    is_near = all(domain in neighbours.attracting for domain in wanted)
    if not is_near and not (neighbours.is_first and all(value is not None for _, value in wanted)):
        return NOT_NEAR
    if any((term.topology_key, labels.get(term.topology_key)) in neighbours.repelling for term in facts.repelled):
        return NEAR
    if neighbours.shunning and not neighbours.shunning.isdisjoint(labels.items()):
        return SHUNNED
    return ""


def affinity_scores(facts: PodInfo, fitting: Sequence[NodeInfo], view: SchedulerCache) -> list[int]:
    """For each node that fits, how much pods there are liked, both ways: 0 to 100."""
    liked = Counter[_Domain]()
    pod, labels = facts.pod, view.namespace_labels(facts.pod)
    for state, other in view.placed() if facts.wishes else ():
        _like(liked, facts.wishes, state, other.pod, view.namespace_labels(other.pod))
    for state, other in view.caring.values():
        _like(liked, other.wishes, state, pod, labels)
        _like(liked, other.attracted, state, pod, labels)
    sums = [sum(liked[domain] for domain in state.labels.items()) for state in fitting] if liked else []
    least, most = min(sums, default=0), max(sums, default=0)
    if least == most:
        return [0] * len(fitting)
    return [int(MAX_SCORE * ((each - least) / (most - least))) for each in sums]


def _like(liked: Counter[_Domain], terms: Iterable[AffinityTerm], state: NodeInfo, pod: Pod, labels: Labels) -> None:
    for term in terms:
        if (domain := _domain(term, state)) and term.matches(pod, labels):
            liked[domain] += term.weight or _DEMAND_WEIGHT


def _all_match(terms: Sequence[AffinityTerm], pod: Pod, namespace_labels: Labels) -> bool:
    return bool(terms) and all(term.matches(pod, namespace_labels) for term in terms)


def _domain(term: AffinityTerm, state: NodeInfo) -> _Domain | None:
    value = state.labels.get(term.topology_key)
    return None if value is None else (term.topology_key, value)
