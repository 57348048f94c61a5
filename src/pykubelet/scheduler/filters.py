"""Whether a pod may go to a node; if not, why, and what would have to change.

Pure. The first rule that refuses ends it, in upstream's order, for the reasons are counted in the message. Upstream:
the Filter plugins in pkg/scheduler/framework/plugins.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from pykubelet.api.generated.core import Taint
from pykubelet.api.pods import PODS
from pykubelet.api.scheduling import is_tolerated, matches_node
from pykubelet.scheduler import interpodaffinity, podtopologyspread
from pykubelet.scheduler.cache import NodeInfo, PodInfo, SchedulerCache

UNSCHEDULABLE = "node(s) were unschedulable"
OTHER_NAME = "node(s) didn't match the requested node name"
TAINTED = "node(s) had untolerated taint(s)"
NOT_SELECTED = "node(s) didn't match Pod's node affinity/selector"
PORTS_TAKEN = "node(s) didn't have free ports for the requested pod ports"
TOO_MANY_PODS = "Too many pods"
_UNSCHEDULABLE_TAINT = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
_SCHEDULING_EFFECTS = frozenset({"NoSchedule", "NoExecute"})


class ClusterEvent(Enum):
    """A change after which a pod that was refused may be let in."""

    NODE = auto()
    """A node came, or has other labels, taints or resources."""
    POD_GONE = auto()
    """A pod takes less."""
    POD_CAME = auto()
    """A pod is on a node now, or has other labels."""


_NODE = frozenset({ClusterEvent.NODE})
_ROOM = frozenset({ClusterEvent.NODE, ClusterEvent.POD_GONE})
_ANY = frozenset(ClusterEvent)


@dataclass(frozen=True, slots=True)
class FilterStatus:
    """Why a node does not take a pod."""

    reasons: tuple[str, ...]
    help: frozenset[ClusterEvent]
    is_resolvable: bool = False
    """Whether it might take the pod if some of its pods were not there."""


@dataclass(frozen=True, slots=True)
class CycleState:
    """A pod that looks for a node, and what of the cluster matters to it."""

    facts: PodInfo
    constraints: tuple[podtopologyspread.SpreadConstraint, ...]
    neighbours: interpodaffinity.AffinityDomains


def run_pre_filters(facts: PodInfo, view: SchedulerCache) -> CycleState:
    """Count once what is then asked for each node."""
    return CycleState(
        facts, podtopologyspread.hard_constraints(facts.pod, view), interpodaffinity.affinity_domains_of(facts, view)
    )


def run_filters(question: CycleState, state: NodeInfo) -> FilterStatus | None:
    """Why the pod may not go to the node; None if it may."""
    return next((found for rule in _RULES if (found := rule(question, state)) is not None), None)


def _node_itself(question: CycleState, state: NodeInfo) -> FilterStatus | None:
    """Rules that look at no other pod."""
    spec, node = question.facts.pod.spec, state.node
    if node.spec.unschedulable and not is_tolerated(_UNSCHEDULABLE_TAINT, spec.tolerations):
        return FilterStatus((UNSCHEDULABLE,), _NODE)
    if spec.node_name not in ("", node.metadata.name):
        return FilterStatus((OTHER_NAME,), _NODE)
    taints = (taint for taint in node.spec.taints if taint.effect in _SCHEDULING_EFFECTS)
    if not all(is_tolerated(taint, spec.tolerations) for taint in taints):
        return FilterStatus((TAINTED,), _NODE)
    if not matches_node(spec, node):
        return FilterStatus((NOT_SELECTED,), _NODE)
    return None


def _ports(question: CycleState, state: NodeInfo) -> FilterStatus | None:
    is_taken = any(state.is_port_taken(port) for port in question.facts.ports)
    return FilterStatus((PORTS_TAKEN,), _ROOM, is_resolvable=True) if is_taken else None


def _resources(question: CycleState, state: NodeInfo) -> FilterStatus | None:
    """All that there is too little of, not just the first."""
    allocatable, reasons, is_resolvable = state.allocatable, list[str](), True
    if len(state.pods) + 1 > allocatable.get(PODS, 0):
        reasons.append(TOO_MANY_PODS)
    for name, wanted in question.facts.requests.items():
        total = allocatable.get(name, 0)
        if wanted > 0 and wanted > total - state.used[name]:
            reasons.append(f"Insufficient {name}")
            is_resolvable = is_resolvable and wanted <= total
    return FilterStatus(tuple(reasons), _ROOM, is_resolvable) if reasons else None


def _spread(question: CycleState, state: NodeInfo) -> FilterStatus | None:
    reason = podtopologyspread.filter_topology_spread(question.constraints, state.labels)
    return FilterStatus((reason,), _ANY, reason == podtopologyspread.NOT_EVEN) if reason else None


def _affinity(question: CycleState, state: NodeInfo) -> FilterStatus | None:
    reason = interpodaffinity.filter_inter_pod_affinity(question.facts, question.neighbours, state.labels)
    return FilterStatus((reason,), _ANY, reason != interpodaffinity.NOT_NEAR) if reason else None


_RULES: tuple[Callable[[CycleState, NodeInfo], FilterStatus | None], ...] = (
    _node_itself,
    _ports,
    _resources,
    _spread,
    _affinity,
)
