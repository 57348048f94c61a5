"""The PodTopologySpread plugin: keeps pods evenly distributed over topology domains.

A domain is the set of nodes with the same value of a label. Upstream's default constraints, for pods without any, are
not implemented.

Upstream: pkg/scheduler/framework/plugins/podtopologyspread/filtering.go,
pkg/scheduler/framework/plugins/podtopologyspread/scoring.go
"""

import math
from collections.abc import Iterable, Mapping, Sequence

from pykubelet.api.generated.core import Pod, TopologySpreadConstraint
from pykubelet.api.labels import Selector, selector_from_labels
from pykubelet.api.scheduling import is_tolerated, matches_node
from pykubelet.scheduler.cache import Labels, NodeInfo, PodInfo, SchedulerCache, selector_of

HOST_NAME = "kubernetes.io/hostname"
HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"
NOT_EVEN = "node(s) didn't match pod topology spread constraints"
NO_DOMAIN = f"{NOT_EVEN} (missing required label)"
MAX_SCORE = 100
_SCHEDULING_EFFECTS = frozenset({"NoSchedule", "NoExecute"})


class SpreadConstraint:
    """A DoNotSchedule constraint of a pod with the number of matching pods in each domain."""

    def __init__(self, wanted: TopologySpreadConstraint, pod: Pod, cache: SchedulerCache) -> None:
        self.key = wanted.topology_key
        self._wanted, self._pod, self._all = wanted, pod, _of_kind(pod, HARD)
        self._selector = _selector(wanted, pod.metadata.labels)
        self._own = int(self._selector.matches(pod.metadata.labels))
        self._counts: dict[str, int] = {}
        for node_info in cache.nodes.values():
            if self._counts_on(node_info):
                value = node_info.labels[self.key]
                matching = _matching(node_info, self._selector, pod.metadata.namespace)
                self._counts[value] = self._counts.get(value, 0) + matching
        self._find_least()

    def allows(self, value: str) -> bool:
        """Whether one more pod in a domain stays within the maximum skew."""
        return self._counts.get(value, 0) + self._own - self._least <= self._wanted.max_skew

    def count(self, node_info: NodeInfo, other: PodInfo, step: int) -> None:
        """Counts a pod that is added to a node (1) or removed (-1)."""
        if _is_matching(other, self._selector, self._pod.metadata.namespace) and self._counts_on(node_info):
            self._counts[node_info.labels[self.key]] += step
            self._find_least()

    def _counts_on(self, node_info: NodeInfo) -> bool:
        """Whether pods on a node count: only if it has the labels of all constraints."""
        return _has_keys(node_info.labels, self._all) and _is_counted(self._wanted, self._pod, node_info)

    def _find_least(self) -> None:
        """Finds the matching pods in the emptiest domain; 0 if there are fewer domains than `minDomains`."""
        is_enough = len(self._counts) >= (self._wanted.min_domains or 1)
        self._least = min(self._counts.values(), default=0) if is_enough else 0


def hard_constraints(pod: Pod, cache: SchedulerCache) -> tuple[SpreadConstraint, ...]:
    """The DoNotSchedule constraints of a pod."""
    return tuple(SpreadConstraint(each, pod, cache) for each in _of_kind(pod, HARD))


def filter_topology_spread(constraints: Iterable[SpreadConstraint], labels: Labels) -> str:
    """Returns why a node with these labels is rejected; empty if it is not."""
    for constraint in constraints:
        value = labels.get(constraint.key)
        if value is None:
            return NO_DOMAIN
        if not constraint.allows(value):
            return NOT_EVEN
    return ""


def spread_scores(pod: Pod, feasible: Sequence[NodeInfo], cache: SchedulerCache) -> list[int]:
    """Scores each feasible node from 0 to 100 by the ScheduleAnyway constraints."""
    wanted = _of_kind(pod, SOFT)
    eligible = [_has_keys(node_info.labels, wanted) for node_info in feasible]
    if not wanted or not any(eligible):
        return [0] * len(feasible)
    raw = [0.0] * len(feasible)
    for each in wanted:
        counts = _soft_counts(each, pod, [s for s, good in zip(feasible, eligible, strict=True) if good], cache)
        # A topology with many domains has few pods in each; the weight keeps it relevant.
        weight = math.log(len(counts) + 2)
        for index, node_info in enumerate(feasible):
            if eligible[index]:
                raw[index] += counts[_domain(each, node_info)] * weight + each.max_skew - 1
    crowds = [math.floor(value + 0.5) for value in raw]
    least = min(crowd for crowd, good in zip(crowds, eligible, strict=True) if good)
    most = max(crowds)
    return [
        0 if not good else MAX_SCORE if most == 0 else MAX_SCORE * (most + least - crowd) // most
        for crowd, good in zip(crowds, eligible, strict=True)
    ]


def _soft_counts(
    wanted: TopologySpreadConstraint, pod: Pod, eligible: Sequence[NodeInfo], cache: SchedulerCache
) -> Mapping[str, int]:
    """The number of matching pods in each domain of the eligible nodes."""
    selector, namespace = _selector(wanted, pod.metadata.labels), pod.metadata.namespace
    counts = {_domain(wanted, node_info): 0 for node_info in eligible}
    # If each node is its own domain, only eligible nodes are counted, regardless of the inclusion policies.
    if wanted.topology_key == HOST_NAME:
        return {_domain(wanted, node_info): _matching(node_info, selector, namespace) for node_info in eligible}
    keys = _of_kind(pod, SOFT)
    for node_info in cache.nodes.values():
        if not _has_keys(node_info.labels, keys) or _domain(wanted, node_info) not in counts:
            continue
        if _is_counted(wanted, pod, node_info):
            counts[_domain(wanted, node_info)] += _matching(node_info, selector, namespace)
    return counts


def _domain(wanted: TopologySpreadConstraint, node_info: NodeInfo) -> str:
    # The node's name, because two nodes may have the same hostname label.
    return node_info.name if wanted.topology_key == HOST_NAME else node_info.labels[wanted.topology_key]


def _of_kind(pod: Pod, kind: str) -> list[TopologySpreadConstraint]:
    return [each for each in pod.spec.topology_spread_constraints if each.when_unsatisfiable == kind]


def _has_keys(labels: Labels, wanted: Iterable[TopologySpreadConstraint]) -> bool:
    return all(each.topology_key in labels for each in wanted)


def _selector(wanted: TopologySpreadConstraint, labels: Labels) -> Selector:
    selector = selector_of(wanted.label_selector)
    same = {key: labels[key] for key in wanted.match_label_keys if key in labels}
    if not same or selector.nothing:
        return selector
    return Selector((*selector.requirements, *selector_from_labels(same).requirements))


def _is_counted(wanted: TopologySpreadConstraint, pod: Pod, node_info: NodeInfo) -> bool:
    """Whether the node's pods count, according to the node affinity and taints policies."""
    if (wanted.node_affinity_policy or "Honor") == "Honor" and not matches_node(pod.spec, node_info.node):
        return False
    if wanted.node_taints_policy != "Honor":
        return True
    taints = (taint for taint in node_info.node.spec.taints if taint.effect in _SCHEDULING_EFFECTS)
    return all(is_tolerated(taint, pod.spec.tolerations) for taint in taints)


def _matching(node_info: NodeInfo, selector: Selector, namespace: str) -> int:
    return sum(_is_matching(pod_info, selector, namespace) for pod_info in node_info.pods.values())


def _is_matching(pod_info: PodInfo, selector: Selector, namespace: str) -> bool:
    """Whether a pod counts; one that is being deleted does not, nor does any for an empty selector."""
    meta = pod_info.pod.metadata
    is_counted = meta.namespace == namespace and meta.deletion_timestamp is None and not selector.empty()
    return is_counted and selector.matches(meta.labels)
