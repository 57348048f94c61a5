"""The health of a node, and the taints and labels that follow from it.

A node is healthy while its lease or status changes, measured by our own clock: times that nodes write are only compared
with each other, so their clocks may be wrong. Taints of other owners are kept.

Upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto

from pykubelet.api.generated.coordination import Lease
from pykubelet.api.generated.core import Node, NodeCondition, Taint
from pykubelet.api.serializer import Document
from pykubelet.api.times import format_time, nanoseconds, parse_time

GRACE_SECONDS = 50.0
STARTUP_GRACE_SECONDS = 60.0
"""The grace period of a node whose kubelet has not posted a status yet."""
UNKNOWN = "Unknown"
# Conditions the kubelet owns; NetworkUnavailable belongs to others.
_KUBELET_CONDITIONS = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
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
# The stable label and its deprecated form, which some still select by.
_LABEL_PAIRS = (("kubernetes.io/os", "beta.kubernetes.io/os"), ("kubernetes.io/arch", "beta.kubernetes.io/arch"))


@dataclass(frozen=True, slots=True)
class NodeHealthData:
    """The last observation of a node."""

    uid: str
    seen_at: float
    """When its lease or status was last seen to change, in monotonic seconds."""
    heartbeat: str | None
    """The heartbeat time in the node's status; None if there is none."""
    renewed: str | None


class EvictionPolicy(Enum):
    """Whether pods may be evicted from a node that is not ready."""

    START = auto()
    GO_ON = auto()
    """Only if eviction has started already."""
    STOP = auto()


def ready_of(node: Node) -> NodeCondition | None:
    return next((condition for condition in node.status.conditions if condition.type == "Ready"), None)


def is_ready(node: Node) -> bool:
    ready = ready_of(node)
    return ready is not None and ready.status == "True"


def observe(old: NodeHealthData | None, node: Node, lease: Lease | None, *, now: datetime, at: float) -> NodeHealthData:
    ready = ready_of(node)
    # The condition may lack a heartbeat time; the kubelet has posted a status nevertheless.
    heartbeat = None if ready is None else ready.last_heartbeat_time or ""
    if old is not None and old.uid != node.metadata.uid:
        old = None
    if old is None and ready is None and node.metadata.creation_timestamp:
        seen_at = at - (now - parse_time(node.metadata.creation_timestamp)).total_seconds()
    elif old is None or old.heartbeat != heartbeat:
        seen_at = at
    else:
        seen_at = old.seen_at
    known = old.renewed if old is not None else None
    renewed = lease.spec.renew_time if lease is not None else None
    # An earlier time is a renewal too: the clock of the node was set back.
    if renewed is not None and (known is None or nanoseconds(renewed) != nanoseconds(known)):
        return NodeHealthData(node.metadata.uid, at, heartbeat, renewed)
    return NodeHealthData(node.metadata.uid, seen_at, heartbeat, known)


def is_silent(health: NodeHealthData, *, at: float) -> bool:
    """Whether the grace period without a heartbeat has passed."""
    grace = STARTUP_GRACE_SECONDS if health.heartbeat is None else GRACE_SECONDS
    return at > health.seen_at + grace


def unknown_patch(node: Node, now: datetime) -> Document | None:
    """The status patch that sets the conditions of a silent node to Unknown; None if they are."""
    ready = ready_of(node)
    if ready is not None and ready.status == UNKNOWN:
        return None
    known = {condition.type: condition for condition in node.status.conditions}
    conditions = [_unknown(known.get(kind), kind, node, format_time(now)) for kind in _KUBELET_CONDITIONS]
    # The resource version protects a heartbeat that arrives at this moment.
    metadata = {"uid": node.metadata.uid, "resourceVersion": node.metadata.resource_version}
    return {"metadata": metadata, "status": {"conditions": [each for each in conditions if each is not None]}}


def _unknown(old: NodeCondition | None, kind: str, node: Node, now: str) -> Document | None:
    if old is not None and old.status == UNKNOWN:
        return None
    condition = {"type": kind, "status": UNKNOWN, "lastTransitionTime": now}
    if old is not None:
        return condition | {"reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."}
    return condition | {
        "reason": "NodeStatusNeverUpdated",
        "message": "Kubelet never posted node status.",
        "lastHeartbeatTime": node.metadata.creation_timestamp,
    }


def wanted_taints(node: Node, evictions: EvictionPolicy, now: datetime) -> tuple[Taint, ...]:
    """All taints a node should have; existing ones are kept unchanged."""
    ready, had = ready_of(node), {(taint.key, taint.effect) for taint in node.spec.taints}
    wanted = {
        (key, "NoSchedule")
        for condition in node.status.conditions
        if (key := _KEYS.get((condition.type, condition.status)))
    }
    if node.spec.unschedulable:
        wanted.add((_UNSCHEDULABLE, "NoSchedule"))
    is_evicting = evictions is EvictionPolicy.START or (
        evictions is EvictionPolicy.GO_ON and not had.isdisjoint(_EVICTING)
    )
    if is_evicting and ready is not None and (key := _KEYS.get(("Ready", ready.status))):
        wanted.add((key, "NoExecute"))
    kept = [taint for taint in node.spec.taints if (pair := (taint.key, taint.effect)) in wanted or pair not in _OURS]
    added = [Taint(key=key, effect=effect, time_added=format_time(now)) for key, effect in sorted(wanted - had)]
    return (*kept, *added)


def is_evicting(node: Node) -> bool:
    """Whether the node has a NoExecute taint because it is not ready."""
    return any((taint.key, taint.effect) in _EVICTING for taint in node.spec.taints)


def missing_labels(node: Node) -> Mapping[str, str]:
    """The deprecated labels that differ from the stable ones."""
    labels = node.metadata.labels
    return {old: labels[new] for new, old in _LABEL_PAIRS if new in labels and labels.get(old) != labels[new]}
