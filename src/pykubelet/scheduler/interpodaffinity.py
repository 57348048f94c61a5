"""The InterPodAffinity plugin: filters and scores nodes by the pods in their topology domains.

A domain is the set of nodes with the same value of a label.

Upstream: pkg/scheduler/framework/plugins/interpodaffinity/filtering.go,
pkg/scheduler/framework/plugins/interpodaffinity/scoring.go
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pykubelet.api.generated.core import Pod
from pykubelet.scheduler.cache import AffinityTerm, Labels, NodeInfo, PodInfo, SchedulerCache

AFFINITY = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
EXISTING_ANTI_AFFINITY = "node(s) didn't satisfy existing pods anti-affinity rules"
MAX_SCORE = 100
_HARD_AFFINITY_WEIGHT = 1
"""The weight of a required term of an existing pod (hardPodAffinityWeight)."""

_Domain: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True)
class AffinityDomains:
    """The domains that matter to a pod, as label key and value."""

    affinity: frozenset[_Domain]
    anti_affinity: frozenset[_Domain]
    existing_anti_affinity: frozenset[_Domain]
    """Domains of existing pods whose anti-affinity matches this pod."""
    is_first: bool
    """The pod's required affinity matches the pod itself and no existing pod yet."""


def affinity_domains_of(pod_info: PodInfo, cache: SchedulerCache) -> AffinityDomains:
    pod, labels = pod_info.pod, cache.namespace_labels(pod_info.pod)
    existing_anti_affinity = {
        domain
        for node_info, other in cache.pods_with_required_anti_affinity.values()
        for term in other.required_anti_affinity
        if (domain := _domain(term, node_info)) and term.matches(pod, labels)
    }
    affinity, anti_affinity = set[_Domain](), set[_Domain]()
    for node_info, other in (
        cache.assigned_pods() if pod_info.required_affinity or pod_info.required_anti_affinity else ()
    ):
        other_labels = cache.namespace_labels(other.pod)
        if _all_match(pod_info.required_affinity, other.pod, other_labels):
            affinity |= {domain for term in pod_info.required_affinity if (domain := _domain(term, node_info))}
        anti_affinity |= {
            domain
            for term in pod_info.required_anti_affinity
            if (domain := _domain(term, node_info)) and term.matches(other.pod, other_labels)
        }
    is_first = not affinity and _all_match(pod_info.required_affinity, pod, labels)
    return AffinityDomains(frozenset(affinity), frozenset(anti_affinity), frozenset(existing_anti_affinity), is_first)


def filter_inter_pod_affinity(pod_info: PodInfo, domains: AffinityDomains, labels: Labels) -> str:
    """Returns why a node with these labels is rejected; empty if it is not."""
    wanted = [(term.topology_key, labels.get(term.topology_key)) for term in pod_info.required_affinity]
    has_affinity = all(domain in domains.affinity for domain in wanted)
    if not has_affinity and not (domains.is_first and all(value is not None for _, value in wanted)):
        return AFFINITY
    if any(
        (term.topology_key, labels.get(term.topology_key)) in domains.anti_affinity
        for term in pod_info.required_anti_affinity
    ):
        return ANTI_AFFINITY
    if domains.existing_anti_affinity and not domains.existing_anti_affinity.isdisjoint(labels.items()):
        return EXISTING_ANTI_AFFINITY
    return ""


def affinity_scores(pod_info: PodInfo, feasible: Sequence[NodeInfo], cache: SchedulerCache) -> list[int]:
    """Scores each feasible node from 0 to 100 by preferred terms of this pod and of existing pods."""
    scores_by_domain = Counter[_Domain]()
    pod, labels = pod_info.pod, cache.namespace_labels(pod_info.pod)
    for node_info, other in cache.assigned_pods() if pod_info.preferred_affinity else ():
        _add_scores(
            scores_by_domain, pod_info.preferred_affinity, node_info, other.pod, cache.namespace_labels(other.pod)
        )
    for node_info, other in cache.pods_with_affinity.values():
        _add_scores(scores_by_domain, other.preferred_affinity, node_info, pod, labels)
        _add_scores(scores_by_domain, other.required_affinity, node_info, pod, labels)
    if not scores_by_domain:
        return [0] * len(feasible)
    sums = [sum(scores_by_domain[domain] for domain in node_info.labels.items()) for node_info in feasible]
    least, most = min(sums, default=0), max(sums, default=0)
    if least == most:
        return [0] * len(feasible)
    return [int(MAX_SCORE * ((each - least) / (most - least))) for each in sums]


def _add_scores(
    scores_by_domain: Counter[_Domain], terms: Iterable[AffinityTerm], node_info: NodeInfo, pod: Pod, labels: Labels
) -> None:
    for term in terms:
        if (domain := _domain(term, node_info)) and term.matches(pod, labels):
            scores_by_domain[domain] += term.weight or _HARD_AFFINITY_WEIGHT


def _all_match(terms: Sequence[AffinityTerm], pod: Pod, namespace_labels: Labels) -> bool:
    return bool(terms) and all(term.matches(pod, namespace_labels) for term in terms)


def _domain(term: AffinityTerm, node_info: NodeInfo) -> _Domain | None:
    value = node_info.labels.get(term.topology_key)
    return None if value is None else (term.topology_key, value)
