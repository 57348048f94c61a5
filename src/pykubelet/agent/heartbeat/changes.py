"""Whether a node's status is news, and the patch that brings it to the API.

Pure. Upstream: nodeStatusHasChanged in pkg/kubelet/kubelet_node_status.go, PatchNodeStatus in
k8s.io/component-helpers/node/util/status.go
"""

from collections.abc import Mapping

from msgspec.structs import replace

from pykubelet.api.generated.core import Node, NodeCondition, NodeSpec, NodeStatus
from pykubelet.api.patch import diff_strategic
from pykubelet.api.quantity import Quantity, parse_quantity
from pykubelet.api.wire import Document, to_document

REPORT_SECONDS = 300.0
"""An unchanged status is sent again after so long."""


def status_changed(old: NodeStatus, new: NodeStatus) -> bool:
    """Whether anything but heartbeats, or the order of conditions, differs."""
    return _comparable(old) != _comparable(new)


def node_changed(old: Node, new: Node) -> bool:
    """Whether the status, a label or an annotation differs."""
    before, after = old.metadata, new.metadata
    if before.labels != after.labels or before.annotations != after.annotations:
        return True
    return status_changed(old.status, new.status)


def node_patch(old: Node, new: Node) -> Document:
    """What turns the old node into the new one through its status subresource; a spec has no part in it."""
    has_moved = bool(old.status.addresses) and old.status.addresses != new.status.addresses
    # The schema says that addresses are merged by type, which would lose the second of two of one type.
    status = replace(new.status, addresses=old.status.addresses) if has_moved else new.status
    before = to_document(replace(old, spec=NodeSpec()))
    after = to_document(replace(new, spec=NodeSpec(), status=status))
    patch = diff_strategic(before, after, "core.v1.Node")
    if has_moved:
        addresses = [*map(to_document, new.status.addresses), {"$patch": "replace"}]
        patch["status"] = {**patch.get("status", {}), "addresses": addresses}
    return patch


def newer(seen: Node | None, answered: Node | None) -> Node | None:
    """Which of the two to go by: what a watch has seen, unless our own answer to a patch is known to be newer."""
    if seen is None or answered is None:
        return seen if answered is None else answered
    left, right = seen.metadata, answered.metadata
    is_same = left.uid == right.uid and left.resource_version.isdecimal() and right.resource_version.isdecimal()
    return answered if is_same and int(right.resource_version) > int(left.resource_version) else seen


def is_report_due(since_seconds: float | None, delay_seconds: float) -> bool:
    """Whether an unchanged status is to be sent again, so long after the last time (None: never)."""
    return since_seconds is None or since_seconds >= REPORT_SECONDS + delay_seconds


def report_delay_seconds(random: float) -> float:
    """By how much the report after a change is early or late, so that nodes that change together do not stay so."""
    return REPORT_SECONDS * (random - 0.5)


def _comparable(status: NodeStatus) -> tuple[object, ...]:
    conditions = sorted(map(_without_heartbeat, status.conditions), key=lambda condition: condition.type)
    rest = replace(status, conditions=(), capacity={}, allocatable={})
    return conditions, _amounts(status.capacity), _amounts(status.allocatable), rest


def _without_heartbeat(condition: NodeCondition) -> NodeCondition:
    return replace(condition, last_heartbeat_time=None)


def _amounts(quantities: Mapping[str, str]) -> dict[str, Quantity]:
    return {name: parse_quantity(value) for name, value in quantities.items()}
