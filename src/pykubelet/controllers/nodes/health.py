"""Whether a node is still alive: by changes of its lease and its status, seen at our own clock.

Pure. The times that nodes write are only compared with each other, so their clocks may be wrong. Upstream:
tryUpdateNodeHealth in pkg/controller/nodelifecycle/node_lifecycle_controller.go.
"""

from dataclasses import dataclass
from datetime import datetime

from pykubelet.api.generated.coordination import Lease
from pykubelet.api.generated.core import Node, NodeCondition
from pykubelet.api.times import format_time, nanoseconds, parse_time
from pykubelet.api.wire import Document

GRACE_SECONDS = 50.0
STARTUP_GRACE_SECONDS = 60.0
"""For a node whose kubelet has not said yet how it is."""
UNKNOWN = "Unknown"
# What is unknown if the kubelet says nothing. Whether the network is there, others say.
_KUBELET_CONDITIONS = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")


@dataclass(frozen=True, slots=True)
class Health:
    """What was last seen of a node."""

    uid: str
    seen_at: float
    """When its lease or status was last seen to change, in seconds of our clock."""
    heartbeat: str | None
    """When its status was last written, in its own words; None if it never was."""
    renewed: str | None


def ready_of(node: Node) -> NodeCondition | None:
    """The Ready condition, if the node has one."""
    return next((condition for condition in node.status.conditions if condition.type == "Ready"), None)


def is_ready(node: Node) -> bool:
    """Whether the node says it is ready."""
    ready = ready_of(node)
    return ready is not None and ready.status == "True"


def observe(old: Health | None, node: Node, lease: Lease | None, *, now: datetime, at: float) -> Health:
    """What is known of a node after this look at it."""
    ready = ready_of(node)
    # The heartbeat of a condition may be absent; the node has spoken all the same.
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
    if renewed is not None and (known is None or nanoseconds(renewed) > nanoseconds(known)):
        return Health(node.metadata.uid, at, heartbeat, renewed)
    return Health(node.metadata.uid, seen_at, heartbeat, known)


def is_silent(health: Health, *, at: float) -> bool:
    """Whether nothing was heard of a node for too long."""
    grace = STARTUP_GRACE_SECONDS if health.heartbeat is None else GRACE_SECONDS
    return at > health.seen_at + grace


def unknown_patch(node: Node, now: datetime) -> Document | None:
    """The patch of the status of a node that is silent; None if it says already that nobody knows."""
    ready = ready_of(node)
    if ready is not None and ready.status == UNKNOWN:
        return None
    known = {condition.type: condition for condition in node.status.conditions}
    conditions = [_unknown(known.get(kind), kind, node, format_time(now)) for kind in _KUBELET_CONDITIONS]
    # Only the node that was looked at: it may have spoken in this very moment.
    metadata = {"uid": node.metadata.uid, "resourceVersion": node.metadata.resource_version}
    return {"metadata": metadata, "status": {"conditions": [each for each in conditions if each is not None]}}


def _unknown(old: NodeCondition | None, kind: str, node: Node, now: str) -> Document | None:
    if old is not None and old.status == UNKNOWN:
        return None
    if old is None:
        return {
            "type": kind,
            "status": UNKNOWN,
            "reason": "NodeStatusNeverUpdated",
            "message": "Kubelet never posted node status.",
            "lastHeartbeatTime": node.metadata.creation_timestamp,
            "lastTransitionTime": now,
        }
    return {
        "type": kind,
        "status": UNKNOWN,
        "reason": "NodeStatusUnknown",
        "message": "Kubelet stopped posting node status.",
        "lastTransitionTime": now,
    }
