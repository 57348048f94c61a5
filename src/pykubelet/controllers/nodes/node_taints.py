"""The taints that follow from what is known of a node, and the labels that follow from others.

Pure. Taints of others are left alone. Upstream: doNoScheduleTaintingPass, doNoExecuteTaintingPass, processTaintBaseEviction
and reconcileNodeLabels in pkg/controller/nodelifecycle/node_lifecycle_controller.go.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import Enum, auto

from pykubelet.api.generated.core import Node, Taint
from pykubelet.api.times import format_time
from pykubelet.controllers.nodes.health import UNKNOWN, ready_of

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
_UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_KEYS = {
    ("Ready", "False"): NOT_READY,
    ("Ready", UNKNOWN): UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
}
_EVICTING = {(NOT_READY, "NoExecute"), (UNREACHABLE, "NoExecute")}
_OURS = {(key, "NoSchedule") for key in (*_KEYS.values(), _UNSCHEDULABLE)} | _EVICTING
# The stable label, and the one of long ago that some still select by.
_LABEL_PAIRS = (("kubernetes.io/os", "beta.kubernetes.io/os"), ("kubernetes.io/arch", "beta.kubernetes.io/arch"))


class Evictions(Enum):
    """Whether pods may be sent away from a node that is not ready."""

    START = auto()
    GO_ON = auto()
    """Only if that has begun."""
    STOP = auto()


def wanted_taints(node: Node, evictions: Evictions, now: datetime) -> tuple[Taint, ...]:
    """All taints that a node should have; those it has already stay as they are."""
    ready, had = ready_of(node), {(taint.key, taint.effect) for taint in node.spec.taints}
    wanted = {
        (key, "NoSchedule")
        for condition in node.status.conditions
        if (key := _KEYS.get((condition.type, condition.status)))
    }
    if node.spec.unschedulable:
        wanted.add((_UNSCHEDULABLE, "NoSchedule"))
    is_evicting = evictions is Evictions.START or (evictions is Evictions.GO_ON and not had.isdisjoint(_EVICTING))
    if is_evicting and ready is not None and (key := _KEYS.get(("Ready", ready.status))):
        wanted.add((key, "NoExecute"))
    kept = [taint for taint in node.spec.taints if (pair := (taint.key, taint.effect)) in wanted or pair not in _OURS]
    added = [Taint(key=key, effect=effect, time_added=format_time(now)) for key, effect in sorted(wanted - had)]
    return (*kept, *added)


def is_evicting(node: Node) -> bool:
    """Whether pods are sent away from the node because it is not ready."""
    return any((taint.key, taint.effect) in _EVICTING for taint in node.spec.taints)


def missing_labels(node: Node) -> Mapping[str, str]:
    """The old labels of a node that do not say the same as the stable ones."""
    labels = node.metadata.labels
    return {old: labels[new] for new, old in _LABEL_PAIRS if new in labels and labels.get(old) != labels[new]}
