"""Registers the node, and decides when its status has to be sent again.

A Node that exists under this name is taken over: registration corrects what it owns and leaves the rest.

Upstream: pkg/kubelet/kubelet_node_status.go, staging/src/k8s.io/component-helpers/node/util/status.go
"""

from collections.abc import Mapping

from msgspec.structs import replace

from pykubelet.aio.log import get_logger
from pykubelet.api.errors import AlreadyExists, ApiError, Forbidden
from pykubelet.api.generated.core import Node, NodeSpec, NodeStatus
from pykubelet.api.patch.strategic_diff import diff_strategic
from pykubelet.api.quantity import Quantity, parse_quantity
from pykubelet.api.scheme import NODES
from pykubelet.api.serializer import Document, to_document
from pykubelet.client.interface import Client
from pykubelet.kubelet.nodestatus.setters import ATTACH_DETACH, HUGE_PAGES, is_extended

REPORT_SECONDS = 300.0
"""After this time an unchanged status is sent again."""


def status_changed(old: NodeStatus, new: NodeStatus) -> bool:
    """Whether anything but heartbeats and the order of conditions differs."""
    return _comparable(old) != _comparable(new)


def node_changed(old: Node, new: Node) -> bool:
    """Whether the status, a label or an annotation differs."""
    before, after = old.metadata, new.metadata
    if before.labels != after.labels or before.annotations != after.annotations:
        return True
    return status_changed(old.status, new.status)


def node_patch(old: Node, new: Node) -> Document:
    """The patch of the status subresource from the old node to the new one, without the spec."""
    has_moved = bool(old.status.addresses) and old.status.addresses != new.status.addresses
    # The schema merges addresses by type, which would lose the second address of a type.
    status = replace(new.status, addresses=old.status.addresses) if has_moved else new.status
    before = to_document(replace(old, spec=NodeSpec()))
    after = to_document(replace(new, spec=NodeSpec(), status=status))
    patch = diff_strategic(before, after, "core.v1.Node")
    if has_moved:
        addresses = [*map(to_document, new.status.addresses), {"$patch": "replace"}]
        patch["status"] = {**patch.get("status", {}), "addresses": addresses}
    return patch


def newer_node(seen: Node | None, answered: Node | None) -> Node | None:
    """The newer of the watched node and the API's last answer, as far as that is known."""
    if seen is None or answered is None:
        return seen if answered is None else answered
    left, right = seen.metadata, answered.metadata
    is_same = left.uid == right.uid and left.resource_version.isdecimal() and right.resource_version.isdecimal()
    return answered if is_same and int(right.resource_version) > int(left.resource_version) else seen


def is_report_due(since_seconds: float | None, delay_seconds: float) -> bool:
    """Whether an unchanged status has to be sent again, this long after the last time (None: never sent)."""
    return since_seconds is None or since_seconds >= REPORT_SECONDS + delay_seconds


def report_delay_seconds(random: float) -> float:
    """The jitter of the report after a change, so that nodes which change together spread out again."""
    return REPORT_SECONDS * (random - 0.5)


def _comparable(status: NodeStatus) -> tuple[object, ...]:
    ordered = sorted(status.conditions, key=lambda condition: condition.type)
    conditions = [replace(condition, last_heartbeat_time=None) for condition in ordered]
    rest = replace(status, conditions=(), capacity={}, allocatable={})
    return conditions, _amounts(status.capacity), _amounts(status.allocatable), rest


def _amounts(quantities: Mapping[str, str]) -> dict[str, Quantity]:
    return {name: parse_quantity(value) for name, value in quantities.items()}


# The labels that the kubelet or a cloud provider sets by default.
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


def reconciled_node(wanted: Node, existing: Node, *, reset_extended: bool) -> Node:
    """The existing node with what registration corrects; the same object if nothing changes.

    With `reset_extended`, extended resources are set to zero until a device plugin reports them again.
    """
    metadata = existing.metadata
    labels = reconciled_labels(wanted.metadata.labels, metadata.labels)
    annotations = _annotations(wanted.metadata.annotations, metadata.annotations)
    status = _status(wanted.status, existing.status, reset_extended=reset_extended)
    if (labels, annotations, status) == (metadata.labels, metadata.annotations, existing.status):
        return existing
    return replace(existing, metadata=replace(metadata, labels=labels, annotations=annotations), status=status)


def reconciled_labels(wanted: Mapping[str, str], existing: Mapping[str, str]) -> dict[str, str]:
    """The labels with the default ones corrected and never empty; all others as they are."""
    ours = {name: wanted[name] for name in DEFAULT_LABELS if name in wanted}
    return {name: value for name, value in {**existing, **ours}.items() if value or name not in ours}


def _annotations(wanted: Mapping[str, str], existing: Mapping[str, str]) -> dict[str, str]:
    others = {name: value for name, value in existing.items() if name != ATTACH_DETACH}
    return {**others, ATTACH_DETACH: wanted[ATTACH_DETACH]} if ATTACH_DETACH in wanted else others


def _status(wanted: NodeStatus, existing: NodeStatus, *, reset_extended: bool) -> NodeStatus:
    # A node without any was created by another client, which left them to the kubelet.
    capacity = _with_huge_pages(wanted.capacity, existing.capacity, wanted.capacity) or dict(wanted.capacity)
    allocatable = _with_huge_pages(wanted.allocatable, existing.allocatable, wanted.capacity) or dict(
        wanted.allocatable
    )
    if reset_extended:
        for name in filter(is_extended, tuple(capacity)):
            capacity[name] = allocatable[name] = "0"
    return replace(existing, capacity=capacity, allocatable=allocatable)


def _with_huge_pages(wanted: Quantities, existing: Quantities, supported: Quantities) -> dict[str, str]:
    """The huge page sizes that the machine supports, and no others; an equal amount keeps its spelling."""
    kept = {name: value for name, value in existing.items() if not name.startswith(HUGE_PAGES) or name in supported}
    for name in supported:
        if name.startswith(HUGE_PAGES):
            value = wanted.get(name, "0")
            is_same = name in kept and parse_quantity(kept[name]) == parse_quantity(value)
            kept[name] = kept[name] if is_same else value
    return kept


log = get_logger(__name__)


async def try_to_register(client: Client, wanted: Node, *, reset_extended: bool = True) -> Node | None:
    """The node as the API server has it now; None if registration failed and should be retried."""
    name = wanted.metadata.name
    try:
        return await client.create(NODES, wanted)
    except (AlreadyExists, Forbidden) as error:
        # A kubelet that may not create nodes may still have one.
        log.debug("node not created", node=name, cause=str(error))
    except ApiError as error:
        log.error("node not registered", node=name, cause=str(error))
        return None
    try:
        existing = await client.get(NODES, name)
        node = reconciled_node(wanted, existing, reset_extended=reset_extended)
        if node is existing:
            return existing
        return await client.patch(NODES, name, node_patch(existing, node), subresource="status")
    except ApiError as error:
        log.error("existing node not corrected", node=name, cause=str(error))
        return None
