"""Topology spread: whether one more pod keeps domains even enough, and where it does so best.

Pure. A domain is the nodes with one value of a label. Upstream: pkg/scheduler/framework/plugins/podtopologyspread;
its default constraints, for pods that bring none, are left out.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pykubelet.api.generated.core import Pod, TopologySpreadConstraint
from pykubelet.api.labels import Selector, selector_from_labels
from pykubelet.api.scheduling import is_tolerated, matches_node
from pykubelet.scheduler.cache import Labels, NodeInfo, SchedulerCache, selector_of

HOST_NAME = "kubernetes.io/hostname"
HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"
NOT_EVEN = "node(s) didn't match pod topology spread constraints"
NO_DOMAIN = f"{NOT_EVEN} (missing required label)"
MAX_SCORE = 100
_SCHEDULING_EFFECTS = frozenset({"NoSchedule", "NoExecute"})


@dataclass(frozen=True, slots=True)
class SpreadConstraint:
    """One constraint of a pod, and how many pods it counts in each domain."""

    key: str
    max_skew: int
    selector: Selector
    counts: Mapping[str, int]
    least: int
    """Pods in the emptiest domain; 0 if there are fewer domains than there must be."""
    own: int
    """1 if the pod itself will count."""

    def allows(self, value: str) -> bool:
        """Whether one more pod in a domain keeps the skew."""
        return self.counts.get(value, 0) + self.own - self.least <= self.max_skew


def hard_constraints(pod: Pod, view: SchedulerCache) -> tuple[SpreadConstraint, ...]:
    """What must hold for the pod, counted over the nodes that have all the labels."""
    wanted = _of_kind(pod, HARD)
    states = [state for state in view.nodes.values() if _has_keys(state.labels, wanted)] if wanted else []
    found = []
    for each in wanted:
        selector, counts = _selector(each, pod.metadata.labels), dict[str, int]()
        for state in states:
            if _is_counted(each, pod, state):
                value = state.labels[each.topology_key]
                counts[value] = counts.get(value, 0) + _matching(state, selector, pod.metadata.namespace)
        is_enough = len(counts) >= (each.min_domains or 1)
        least = min(counts.values(), default=0) if is_enough else 0
        own = int(selector.matches(pod.metadata.labels))
        found.append(SpreadConstraint(each.topology_key, each.max_skew, selector, counts, least, own))
    return tuple(found)


def filter_topology_spread(constraints: Iterable[SpreadConstraint], labels: Labels) -> str:
    """Why a pod with these constraints may not go to a node with these labels; empty if it may."""
    for constraint in constraints:
        value = labels.get(constraint.key)
        if value is None:
            return NO_DOMAIN
        if not constraint.allows(value):
            return NOT_EVEN
    return ""


def spread_scores(pod: Pod, fitting: Sequence[NodeInfo], view: SchedulerCache) -> list[int]:
    """For each node that fits, how well it keeps the pods spread that the pod wants spread: 0 to 100."""
    wanted = _of_kind(pod, SOFT)
    eligible = [_has_keys(state.labels, wanted) for state in fitting]
    if not wanted or not any(eligible):
        return [0] * len(fitting)
    raw = [0.0] * len(fitting)
    for each in wanted:
        counts = _soft_counts(each, pod, [s for s, good in zip(fitting, eligible, strict=True) if good], view)
        # The larger a topology, the fewer pods in each of its domains: weighed, so that none is drowned.
        weight = math.log(len(counts) + 2)
        for index, state in enumerate(fitting):
            if eligible[index]:
                raw[index] += counts[_domain(each, state)] * weight + each.max_skew - 1
    crowds = [math.floor(value + 0.5) for value in raw]
    least = min(crowd for crowd, good in zip(crowds, eligible, strict=True) if good)
    most = max(crowds)
    return [
        0 if not good else MAX_SCORE if most == 0 else MAX_SCORE * (most + least - crowd) // most
        for crowd, good in zip(crowds, eligible, strict=True)
    ]


def _soft_counts(
    wanted: TopologySpreadConstraint, pod: Pod, eligible: Sequence[NodeInfo], view: SchedulerCache
) -> Mapping[str, int]:
    """How many pods are in each domain that has a node to choose."""
    selector, namespace = _selector(wanted, pod.metadata.labels), pod.metadata.namespace
    counts = {_domain(wanted, state): 0 for state in eligible}
    # Where each node is its own domain, only those to choose from matter, whatever is said about counting.
    if wanted.topology_key == HOST_NAME:
        return {_domain(wanted, state): _matching(state, selector, namespace) for state in eligible}
    keys = _of_kind(pod, SOFT)
    for state in view.nodes.values():
        if not _has_keys(state.labels, keys) or _domain(wanted, state) not in counts:
            continue
        if _is_counted(wanted, pod, state):
            counts[_domain(wanted, state)] += _matching(state, selector, namespace)
    return counts


def _domain(wanted: TopologySpreadConstraint, state: NodeInfo) -> str:
    # The name of the node, for the label may be the same on two.
    return state.name if wanted.topology_key == HOST_NAME else state.labels[wanted.topology_key]


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


def _is_counted(wanted: TopologySpreadConstraint, pod: Pod, state: NodeInfo) -> bool:
    """Whether the pods of a node count, by what the constraint says of nodes that the pod cannot use."""
    if (wanted.node_affinity_policy or "Honor") == "Honor" and not matches_node(pod.spec, state.node):
        return False
    if wanted.node_taints_policy != "Honor":
        return True
    taints = (taint for taint in state.node.spec.taints if taint.effect in _SCHEDULING_EFFECTS)
    return all(is_tolerated(taint, pod.spec.tolerations) for taint in taints)


def _matching(state: NodeInfo, selector: Selector, namespace: str) -> int:
    """How many pods of a node a constraint is about; those that are going do not count."""
    if selector.empty():
        return 0
    metas = (facts.pod.metadata for facts in state.pods.values())
    return sum(
        meta.namespace == namespace and meta.deletion_timestamp is None and selector.matches(meta.labels)
        for meta in metas
    )
