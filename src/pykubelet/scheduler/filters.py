"""Filter plugins: decide whether a pod fits a node, why not, and which change could help.

The first failing filter counts, in upstream's order, because the message counts reasons.

Upstream: pkg/scheduler/framework/plugins/noderesources/fit.go,
pkg/scheduler/framework/plugins/nodeunschedulable/node_unschedulable.go,
pkg/scheduler/framework/plugins/nodename/node_name.go,
pkg/scheduler/framework/plugins/tainttoleration/taint_toleration.go,
pkg/scheduler/framework/plugins/nodeaffinity/node_affinity.go, pkg/scheduler/framework/plugins/nodeports/node_ports.go,
pkg/scheduler/framework/plugins/volumerestrictions/volume_restrictions.go
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from pykubelet.api.generated.core import Node, Taint
from pykubelet.api.pods import PODS
from pykubelet.api.scheduling import is_tolerated, matches_node
from pykubelet.scheduler import interpodaffinity, podtopologyspread
from pykubelet.scheduler.cache import NodeInfo, PodInfo, SchedulerCache
from pykubelet.scheduler.volumebinding import BindingPlan, ClaimKey

UNSCHEDULABLE = "node(s) were unschedulable"
OTHER_NAME = "node(s) didn't match the requested node name"
TAINTED = "node(s) had untolerated taint(s)"
NOT_SELECTED = "node(s) didn't match Pod's node affinity/selector"
PORTS_TAKEN = "node(s) didn't have free ports for the requested pod ports"
TOO_MANY_PODS = "Too many pods"
CLAIM_IN_USE = "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"
_UNSCHEDULABLE_TAINT = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
_SCHEDULING_EFFECTS = frozenset({"NoSchedule", "NoExecute"})


class ClusterEvent(Enum):
    """A change after which a rejected pod may fit."""

    NODE = auto()
    """A node was added, or its labels, taints or resources changed."""
    POD_REMOVED = auto()
    """A pod was deleted or uses less."""
    POD_ADDED = auto()
    """A pod was assigned or its labels changed."""
    VOLUME = auto()
    """A persistent volume or storage class was added or changed."""


RetryEvent = ClusterEvent | ClaimKey
"""What may help a rejected pod: an event of the cluster, or a change of one claim."""
_NODE: frozenset[RetryEvent] = frozenset({ClusterEvent.NODE})
_NODE_OR_POD_REMOVED: frozenset[RetryEvent] = frozenset({ClusterEvent.NODE, ClusterEvent.POD_REMOVED})
_ANY: frozenset[RetryEvent] = frozenset({ClusterEvent.NODE, ClusterEvent.POD_REMOVED, ClusterEvent.POD_ADDED})
_NODE_OR_VOLUME: frozenset[RetryEvent] = frozenset({ClusterEvent.NODE, ClusterEvent.VOLUME})


BindingPlanner = Callable[[Node], BindingPlan]
"""Plans the claims of one pod on a node."""


@dataclass(frozen=True, slots=True)
class FilterStatus:
    """Why a node rejects a pod."""

    reasons: tuple[str, ...]
    retry_on: frozenset[RetryEvent]
    is_resolvable: bool = False
    """Whether removing pods from the node could help."""


@dataclass(frozen=True, slots=True)
class VolumeNeeds:
    """What a pod with claims needs of a node: a plan for its volumes, and no other user of its exclusive claims."""

    plan: BindingPlanner
    exclusive: frozenset[ClaimKey] = frozenset()
    """The claims with the access mode ReadWriteOncePod."""


@dataclass(frozen=True, slots=True)
class CycleState:
    """A pod to schedule, with what the filters of all nodes share."""

    pod_info: PodInfo
    cache: SchedulerCache
    constraints: tuple[podtopologyspread.SpreadConstraint, ...]
    domains: interpodaffinity.AffinityDomains
    volumes: VolumeNeeds | None

    def add(self, node_info: NodeInfo, other: PodInfo) -> None:
        """Adds a pod to a node, to see what the filters say then."""
        self.cache.add(node_info, other)
        self._count(node_info, other, 1)

    def remove(self, node_info: NodeInfo, other: PodInfo) -> None:
        """Removes a pod from its node, to see what the filters say then."""
        self.cache.remove(node_info, other.pod.metadata.uid)
        self._count(node_info, other, -1)

    def _count(self, node_info: NodeInfo, other: PodInfo, step: int) -> None:
        self.domains.count(node_info, other, step)
        for constraint in self.constraints:
            constraint.count(node_info, other, step)


def run_pre_filters(pod_info: PodInfo, cache: SchedulerCache, volumes: VolumeNeeds | None = None) -> CycleState:
    """Computes once per pod what the filters need for every node; `volumes` are those of a pod with claims."""
    constraints = podtopologyspread.hard_constraints(pod_info.pod, cache)
    return CycleState(pod_info, cache, constraints, interpodaffinity.AffinityDomains(pod_info, cache), volumes)


def run_filters(cycle_state: CycleState, node_info: NodeInfo, nominated: Sequence[PodInfo] = ()) -> FilterStatus | None:
    """Returns why the pod does not fit the node; None if it does, with and without the pods nominated to the node."""
    if nominated:
        for other in nominated:
            cycle_state.add(node_info, other)
        found = run_filters(cycle_state, node_info)
        for other in nominated:
            cycle_state.remove(node_info, other)
        if found is not None:
            return found
    return next((found for rule in _FILTERS if (found := rule(cycle_state, node_info)) is not None), None)


def _node_filters(cycle_state: CycleState, node_info: NodeInfo) -> FilterStatus | None:
    """The filters that do not depend on other pods."""
    spec, node = cycle_state.pod_info.pod.spec, node_info.node
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


def _node_ports(cycle_state: CycleState, node_info: NodeInfo) -> FilterStatus | None:
    is_taken = any(node_info.is_port_taken(port) for port in cycle_state.pod_info.ports)
    return FilterStatus((PORTS_TAKEN,), _NODE_OR_POD_REMOVED, is_resolvable=True) if is_taken else None


def _node_resources_fit(cycle_state: CycleState, node_info: NodeInfo) -> FilterStatus | None:
    """Reports every insufficient resource, not just the first."""
    allocatable, reasons, is_resolvable = node_info.allocatable, list[str](), True
    if len(node_info.pods) + 1 > allocatable.get(PODS, 0):
        reasons.append(TOO_MANY_PODS)
    for name, wanted in cycle_state.pod_info.requests.items():
        total = allocatable.get(name, 0)
        if wanted > 0 and wanted > total - node_info.requested[name]:
            reasons.append(f"Insufficient {name}")
            is_resolvable = is_resolvable and wanted <= total
    return FilterStatus(tuple(reasons), _NODE_OR_POD_REMOVED, is_resolvable) if reasons else None


def _volume_restrictions(cycle_state: CycleState, _: NodeInfo) -> FilterStatus | None:
    exclusive = cycle_state.volumes.exclusive if cycle_state.volumes is not None else ()
    is_taken = any(claim in cycle_state.cache.claim_users for claim in exclusive)
    return FilterStatus((CLAIM_IN_USE,), _NODE_OR_POD_REMOVED, is_resolvable=True) if is_taken else None


def _volume_binding(cycle_state: CycleState, node_info: NodeInfo) -> FilterStatus | None:
    if cycle_state.volumes is None:
        return None
    reasons = cycle_state.volumes.plan(node_info.node).reasons
    return FilterStatus(reasons, _NODE_OR_VOLUME) if reasons else None


def _topology_spread(cycle_state: CycleState, node_info: NodeInfo) -> FilterStatus | None:
    reason = podtopologyspread.filter_topology_spread(cycle_state.constraints, node_info.labels)
    return FilterStatus((reason,), _ANY, reason == podtopologyspread.NOT_EVEN) if reason else None


def _inter_pod_affinity(cycle_state: CycleState, node_info: NodeInfo) -> FilterStatus | None:
    reason = interpodaffinity.filter_inter_pod_affinity(cycle_state.pod_info, cycle_state.domains, node_info.labels)
    return FilterStatus((reason,), _ANY, reason != interpodaffinity.AFFINITY) if reason else None


_FILTERS: tuple[Callable[[CycleState, NodeInfo], FilterStatus | None], ...] = (
    _node_filters,
    _node_ports,
    _node_resources_fit,
    _volume_restrictions,
    _volume_binding,
    _topology_spread,
    _inter_pod_affinity,
)
