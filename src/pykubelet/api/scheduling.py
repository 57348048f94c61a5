"""Checks node selectors, node affinity, taints and tolerations: may a pod start or stay on a node.

Resources and ports are checked by the scheduler and the kubelet.

Upstream: staging/src/k8s.io/component-helpers/scheduling/corev1/helpers.go,
staging/src/k8s.io/component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go,
pkg/controller/daemon/daemon_controller.go
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from pykubelet.api.generated.core import Node, NodeSelectorRequirement, NodeSelectorTerm, PodSpec, Taint, Toleration
from pykubelet.api.labels import OBJECT_OPERATORS, Operator, Selector, SelectorError, requirement, selector_from_labels

NODE_NAME_FIELD = "metadata.name"
_OPERATORS = OBJECT_OPERATORS | {"Gt": Operator.GREATER_THAN, "Lt": Operator.LESS_THAN}


@dataclass(frozen=True, slots=True)
class NodeFit:
    """Whether a pod may start on a node, and whether a running one may stay."""

    may_start: bool
    may_stay: bool


def node_fit(spec: PodSpec, node: Node) -> NodeFit:
    """Checks a pod spec against a node's name, labels and taints; NoSchedule does not affect running pods."""
    if spec.node_name not in ("", node.metadata.name) or not matches_node(spec, node):
        return NodeFit(may_start=False, may_stay=False)
    repelling = [taint for taint in node.spec.taints if not is_tolerated(taint, spec.tolerations)]
    evicts = any(taint.effect == "NoExecute" for taint in repelling)
    blocks = any(taint.effect == "NoSchedule" for taint in repelling)
    return NodeFit(may_start=not evicts and not blocks, may_stay=not evicts)


def is_tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def with_toleration(tolerations: tuple[Toleration, ...], wanted: Toleration) -> tuple[Toleration, ...]:
    """Adds a toleration, replacing those that differ only in tolerationSeconds."""
    same = [replace(toleration, toleration_seconds=wanted.toleration_seconds) == wanted for toleration in tolerations]
    if not any(same):
        return (*tolerations, wanted)
    return tuple(wanted if is_same else old for old, is_same in zip(tolerations, same, strict=True))


def matches_node(spec: PodSpec, node: Node) -> bool:
    """Whether the pod's node selector and required node affinity match the node."""
    if not selector_from_labels(spec.node_selector).matches(node.metadata.labels):
        return False
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    return required is None or any(term_matches(term, node) for term in required.node_selector_terms)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether the toleration covers the taint; an empty effect or key covers all, `Exists` all values."""
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"


def term_matches(term: NodeSelectorTerm, node: Node) -> bool:
    """Whether all parts of a term match the node; an empty or invalid term matches none."""
    if not term.match_expressions and not term.match_fields:
        return False
    try:
        labels = Selector(tuple(requirement(one.key, _operator(one), one.values) for one in term.match_expressions))
    except SelectorError:
        return False
    fields = {NODE_NAME_FIELD: node.metadata.name} if node.metadata.name else {}
    return labels.matches(node.metadata.labels) and all(_field_matches(one, fields) for one in term.match_fields)


def _operator(wanted: NodeSelectorRequirement) -> Operator:
    if wanted.operator not in _OPERATORS:
        raise SelectorError(f"{wanted.operator!r} is not a node selector operator")
    return _OPERATORS[wanted.operator]


def _field_matches(wanted: NodeSelectorRequirement, fields: Mapping[str, str]) -> bool:
    if wanted.operator not in ("In", "NotIn") or len(wanted.values) != 1:
        return False
    is_equal = fields.get(wanted.key, "") == wanted.values[0]
    return not fields or is_equal == (wanted.operator == "In")
