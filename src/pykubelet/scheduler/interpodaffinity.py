"""The InterPodAffinity plugin: filters and scores nodes by the pods in their topology domains.

A domain is the set of nodes with the same value of a label.

Upstream: pkg/scheduler/framework/plugins/interpodaffinity/filtering.go,
pkg/scheduler/framework/plugins/interpodaffinity/scoring.go
"""

from collections import Counter
from collections.abc import Iterable, Sequence
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


class AffinityDomains:
    """The domains that matter to a pod, as label key and value, with the number of terms that matched there."""

    def __init__(self, pod_info: PodInfo, cache: SchedulerCache) -> None:
        self._pod_info, self._cache = pod_info, cache
        self._labels = cache.namespace_labels(pod_info.pod)
        self._matches_itself = _all_match(pod_info.required_affinity, pod_info.pod, self._labels)
        self.affinity, self.anti_affinity = Counter[_Domain](), Counter[_Domain]()
        self.existing_anti_affinity = Counter[_Domain]()
        """Domains of existing pods whose anti-affinity matches this pod."""
        for node_info, other in cache.pods_with_required_anti_affinity.values():
            self._count_existing(node_info, other, 1)
        if pod_info.required_affinity or pod_info.required_anti_affinity:
            for node_info, other in cache.assigned_pods():
                self._count_own(node_info, other, 1)

    @property
    def is_first(self) -> bool:
        """The pod's required affinity matches the pod itself and no existing pod yet."""
        return self._matches_itself and not self.affinity

    def count(self, node_info: NodeInfo, other: PodInfo, step: int) -> None:
        """Counts a pod that is added to a node (1) or removed (-1)."""
        self._count_existing(node_info, other, step)
        self._count_own(node_info, other, step)

    def _count_existing(self, node_info: NodeInfo, other: PodInfo, step: int) -> None:
        matching = (term for term in other.required_anti_affinity if term.matches(self._pod_info.pod, self._labels))
        _count(self.existing_anti_affinity, matching, node_info, step)

    def _count_own(self, node_info: NodeInfo, other: PodInfo, step: int) -> None:
        own, labels = self._pod_info, self._cache.namespace_labels(other.pod)
        if _all_match(own.required_affinity, other.pod, labels):
            _count(self.affinity, own.required_affinity, node_info, step)
        matching = (term for term in own.required_anti_affinity if term.matches(other.pod, labels))
        _count(self.anti_affinity, matching, node_info, step)


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
    if domains.existing_anti_affinity and any(domain in domains.existing_anti_affinity for domain in labels.items()):
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


def _count(counts: Counter[_Domain], terms: Iterable[AffinityTerm], node_info: NodeInfo, step: int) -> None:
    for term in terms:
        if domain := _domain(term, node_info):
            counts[domain] += step
            if not counts[domain]:
                del counts[domain]


def _all_match(terms: Sequence[AffinityTerm], pod: Pod, namespace_labels: Labels) -> bool:
    return bool(terms) and all(term.matches(pod, namespace_labels) for term in terms)


def _domain(term: AffinityTerm, node_info: NodeInfo) -> _Domain | None:
    value = node_info.labels.get(term.topology_key)
    return None if value is None else (term.topology_key, value)
