"""What registration changes in a node that exists already.

The node as it should be registered and the one that is there in; the one that should be there out. Pure.
Upstream: pkg/kubelet/kubelet_node_status.go (tryRegisterWithAPIServer and what it calls)
"""

from collections.abc import Mapping

from msgspec.structs import replace

from pykubelet.agent.heartbeat.node_status import ATTACH_DETACH
from pykubelet.agent.heartbeat.resources import HUGE_PAGES, is_extended
from pykubelet.api.generated.core import Node, NodeStatus
from pykubelet.api.quantity import parse_quantity

# Those the node sets by default, or a cloud did in its name.
DEFAULT_LABELS = (
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "node.kubernetes.io/windows-build",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
)
Quantities = Mapping[str, str]


def reconciled(wanted: Node, existing: Node, *, reset_extended: bool) -> Node:
    """The existing node with what registration puts right; the same object if there is nothing.

    `reset_extended`: nobody on this machine vouches for extended resources now, so there are none until somebody does.
    """
    metadata = existing.metadata
    labels = reconciled_labels(wanted.metadata.labels, metadata.labels)
    annotations = _annotations(wanted.metadata.annotations, metadata.annotations)
    status = _status(wanted.status, existing.status, reset_extended=reset_extended)
    if (labels, annotations, status) == (metadata.labels, metadata.annotations, existing.status):
        return existing
    return replace(existing, metadata=replace(metadata, labels=labels, annotations=annotations), status=status)


def reconciled_labels(wanted: Mapping[str, str], existing: Mapping[str, str]) -> dict[str, str]:
    """Default labels as wanted, and never empty; all others as they are."""
    ours = {name: wanted[name] for name in DEFAULT_LABELS if name in wanted}
    return {name: value for name, value in {**existing, **ours}.items() if value or name not in ours}


def _annotations(wanted: Mapping[str, str], existing: Mapping[str, str]) -> dict[str, str]:
    others = {name: value for name, value in existing.items() if name != ATTACH_DETACH}
    return {**others, ATTACH_DETACH: wanted[ATTACH_DETACH]} if ATTACH_DETACH in wanted else others


def _status(wanted: NodeStatus, existing: NodeStatus, *, reset_extended: bool) -> NodeStatus:
    # A node without any was made by somebody who left them to us.
    capacity = _with_huge_pages(wanted.capacity, existing.capacity, wanted.capacity) or dict(wanted.capacity)
    allocatable = _with_huge_pages(wanted.allocatable, existing.allocatable, wanted.capacity) or dict(
        wanted.allocatable
    )
    if reset_extended:
        for name in filter(is_extended, tuple(capacity)):
            capacity[name] = allocatable[name] = "0"
    return replace(existing, capacity=capacity, allocatable=allocatable)


def _with_huge_pages(wanted: Quantities, existing: Quantities, supported: Quantities) -> dict[str, str]:
    """The sizes of huge pages that the machine supports, and no others; an equal amount stays as it is written."""
    kept = {name: value for name, value in existing.items() if not name.startswith(HUGE_PAGES) or name in supported}
    for name in supported:
        if name.startswith(HUGE_PAGES):
            value = wanted.get(name, "0")
            is_same = name in kept and parse_quantity(kept[name]) == parse_quantity(value)
            kept[name] = kept[name] if is_same else value
    return kept
