"""Decides which daemon pods to create and delete on each node, their template, and the counts.

Upstream: pkg/controller/daemon/daemon_controller.go, pkg/controller/daemon/util/daemonset_util.go
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from msgspec.structs import replace

from pykubelet.api.generated.apps import DaemonSet, DaemonSetStatus, RollingUpdateDaemonSet
from pykubelet.api.generated.core import (
    Affinity,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodSpec,
    PodTemplateSpec,
    Toleration,
)
from pykubelet.api.pods import is_terminal
from pykubelet.api.quantity import parse_int64, scaled_int_or_percent
from pykubelet.api.scheduling import NODE_NAME_FIELD, NodeFit, node_fit, with_toleration
from pykubelet.client.indexer import age_key
from pykubelet.controllers.framework.active_pods import is_pod_available, ready_condition
from pykubelet.controllers.framework.controller_history import REVISION_LABEL

# Half of other controllers' burst: every daemon pod pulls its image on another node.
BURST_DAEMONS = 250
GENERATION_LABEL = "pod-template-generation"
ROLLING_UPDATE = "RollingUpdate"
_GENERATION_ANNOTATION = "deprecated.daemonset.template.generation"
# Taints that daemon pods tolerate and ordinary pods do not.
_STAY = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_START = (
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/unschedulable",
)
_NO_NETWORK = "node.kubernetes.io/network-unavailable"

PodsByNode = Mapping[str, Sequence[Pod]]


@dataclass(frozen=True, slots=True)
class DaemonPodRevision:
    """Identifies pods of the current template, by its hash or by the generation label of old sets."""

    hash: str
    generation: str | None = None

    def matches(self, pod: Pod) -> bool:
        labels = pod.metadata.labels
        by_generation = self.generation is not None and labels.get(GENERATION_LABEL) == self.generation
        return by_generation or (bool(self.hash) and labels.get(REVISION_LABEL) == self.hash)


@dataclass(frozen=True, slots=True)
class SurgePolicy:
    """How a surging update tells new pods from old ones, and when a new pod is available."""

    revision: DaemonPodRevision
    min_ready_seconds: int
    now: datetime


@dataclass(frozen=True, slots=True)
class NodePlan:
    """What to do on one node. Only a surging update creates a replacement along with a deletion."""

    create: bool = False
    failed: Pod | None = None
    """A failed pod to delete."""
    succeeded: tuple[Pod, ...] = ()
    surplus: tuple[Pod, ...] = ()
    is_waiting: bool = False
    """A failed pod is kept until its backoff expires."""


def revision_of(daemon_set: DaemonSet, template_hash: str) -> DaemonPodRevision:
    number = parse_int64(daemon_set.metadata.annotations.get(_GENERATION_ANNOTATION, ""))
    return DaemonPodRevision(template_hash, None if number is None else str(number))


def node_should_run_daemon_pod(daemon_set: DaemonSet, node: Node) -> NodeFit:
    """Whether a daemon pod may start on the node, and whether a running one may stay."""
    return node_fit(_with_daemon_tolerations(daemon_set.spec.template.spec), node)


def target_node(pod: Pod) -> str | None:
    """The node a daemon pod is assigned to or, before it is scheduled, was created for."""
    if pod.spec.node_name:
        return pod.spec.node_name
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    for term in required.node_selector_terms if required is not None else ():
        for field in term.match_fields:
            if field.key == NODE_NAME_FIELD and field.operator == "In":
                return field.values[0] if len(field.values) == 1 else None
    return None


def pods_by_node(pods: Iterable[Pod]) -> dict[str, list[Pod]]:
    """The set's pods by node, without finished pods that are being deleted."""
    found: dict[str, list[Pod]] = {}
    for pod in pods:
        is_over = is_terminal(pod.status.phase) and pod.metadata.deletion_timestamp is not None
        node = None if is_over else target_node(pod)
        if node is not None:
            found.setdefault(node, []).append(pod)
    return found


def max_surge(daemon_set: DaemonSet, desired: int) -> int:
    """How many nodes may have a second pod during an update."""
    rolling = _rolling_update(daemon_set)
    return 0 if rolling is None else scaled_int_or_percent(rolling.max_surge or 0, desired, round_up=True)


def max_unavailable(daemon_set: DaemonSet, desired: int) -> int:
    """How many nodes may be without an available pod during an update."""
    rolling = _rolling_update(daemon_set)
    return 0 if rolling is None else scaled_int_or_percent(rolling.max_unavailable or 0, desired, round_up=True)


def _rolling_update(daemon_set: DaemonSet) -> RollingUpdateDaemonSet | None:
    strategy = daemon_set.spec.update_strategy
    return strategy.rolling_update if strategy.type == ROLLING_UPDATE else None


def plan_node(
    fit: NodeFit, pods: Sequence[Pod], *, may_kill_failed: bool, surge: SurgePolicy | None = None
) -> NodePlan:
    """Decides what to do on a node with these pods; deletes at most one failed pod, if permitted."""
    if fit.may_start and not pods:
        return NodePlan(create=True)
    present = [pod for pod in pods if pod.metadata.deletion_timestamp is None]
    if not fit.may_stay:
        return NodePlan(surplus=tuple(present))
    failed = [pod for pod in present if pod.status.phase == "Failed"]
    running = [pod for pod in present if not is_terminal(pod.status.phase)]
    return NodePlan(
        # A surging update creates the new pod while the old one terminates.
        create=surge is not None and fit.may_start and not running,
        failed=failed[0] if failed and may_kill_failed else None,
        succeeded=tuple(pod for pod in present if pod.status.phase == "Succeeded"),
        surplus=tuple(_oldest_first(running)[1:] if surge is None else _surplus(running, surge)),
        is_waiting=len(failed) > int(may_kill_failed),
    )


def stranded_pods(by_node: PodsByNode, nodes: Collection[str]) -> tuple[Pod, ...]:
    """Unscheduled pods created for nodes that are gone; no other controller deletes them."""
    return tuple(pod for name, pods in by_node.items() if name not in nodes for pod in pods if not pod.spec.node_name)


def template_for(daemon_set: DaemonSet, node_name: str, revision: DaemonPodRevision) -> PodTemplateSpec:
    """The template of a new pod for a node, with the daemon tolerations and node affinity."""
    template = daemon_set.spec.template
    labels = dict(template.metadata.labels)
    if revision.generation is not None:
        labels[GENERATION_LABEL] = revision.generation
    if revision.hash:
        labels[REVISION_LABEL] = revision.hash
    spec = _with_daemon_tolerations(template.spec)
    return replace(
        template,
        metadata=replace(template.metadata, labels=labels),
        spec=replace(spec, affinity=_bound_to(spec.affinity, node_name)),
    )


def count_status(
    daemon_set: DaemonSet, nodes: Iterable[Node], by_node: PodsByNode, revision: DaemonPodRevision, now: datetime
) -> DaemonSetStatus:
    desired = misscheduled = 0
    counted: list[Pod] = []
    for node in nodes:
        pods = by_node.get(node.metadata.name, ())
        if not node_should_run_daemon_pod(daemon_set, node).may_start:
            misscheduled += bool(pods)
            continue
        desired += 1
        counted += _oldest_first(pods)[:1]
    available = sum(is_pod_available(pod, daemon_set.spec.min_ready_seconds, now) for pod in counted)
    return replace(
        daemon_set.status,
        desired_number_scheduled=desired,
        current_number_scheduled=len(counted),
        number_misscheduled=misscheduled,
        number_ready=sum(ready_condition(pod) is not None for pod in counted),
        updated_number_scheduled=sum(revision.matches(pod) for pod in counted),
        number_available=available,
        number_unavailable=desired - available,
    )


def _surplus(running: Sequence[Pod], surge: SurgePolicy) -> list[Pod]:
    """All but one new and one old pod; the old one is surplus too if it is unready or the new one is available."""
    new, old = list[Pod](), list[Pod]()
    for pod in _oldest_first(running):
        (new if pod.metadata.labels.get(REVISION_LABEL) == surge.revision.hash else old).append(pod)
    has_taken_over = bool(new) and is_pod_available(new[0], surge.min_ready_seconds, surge.now)
    is_replaced = bool(new) and bool(old) and (ready_condition(old[0]) is None or has_taken_over)
    return [*new[1:], *(old if is_replaced else old[1:])]


def _oldest_first(pods: Iterable[Pod]) -> list[Pod]:
    return sorted(pods, key=lambda pod: (not pod.spec.node_name, *age_key(pod)))


def _with_daemon_tolerations(spec: PodSpec) -> PodSpec:
    wanted = [(key, "NoExecute") for key in _STAY] + [(key, "NoSchedule") for key in _START]
    if spec.host_network:
        wanted.append((_NO_NETWORK, "NoSchedule"))
    tolerations = spec.tolerations
    for key, effect in wanted:
        tolerations = with_toleration(tolerations, Toleration(key=key, operator="Exists", effect=effect))
    return replace(spec, tolerations=tolerations)


def _bound_to(affinity: Affinity | None, node_name: str) -> Affinity:
    """Replaces the required node affinity by the node's name, since the node already satisfies it."""
    field = NodeSelectorRequirement(key=NODE_NAME_FIELD, operator="In", values=(node_name,))
    required = NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(field,)),))
    affinity = affinity or Affinity()
    nodes = affinity.node_affinity or NodeAffinity()
    nodes = replace(nodes, required_during_scheduling_ignored_during_execution=required)
    return replace(affinity, node_affinity=nodes)
