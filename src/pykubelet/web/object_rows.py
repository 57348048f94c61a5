"""Nodes and events as lines of the page's tables.

In: objects as the API server shows them. Out: rows.
"""

from msgspec import Struct

from pykubelet.api.generated.core import Event, Node
from pykubelet.web.pod_row import Tone

# An event may say a kilobyte; its whole text is in its YAML.
_LONGEST_MESSAGE = 400


class NodeRow(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One node."""

    key: str
    name: str
    word: str
    tone: Tone
    message: str = ""
    pressures: tuple[str, ...] = ()
    version: str = ""
    runtime: str = ""
    system: str = ""
    address: str = ""
    cpu: str = ""
    memory: str = ""
    pods: str = ""
    since: str = ""


class EventRow(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One event."""

    key: str
    at: str
    reason: str
    message: str
    namespace: str
    kind: str
    name: str
    tone: Tone
    times: int = 1
    by: str = ""


def node_row(node: Node) -> NodeRow:
    """The row of a node."""
    status, info = node.status, node.status.node_info
    ready = next((one for one in status.conditions if one.type == "Ready"), None)
    is_ready = ready is not None and ready.status == "True"
    pressures = tuple(one.type for one in status.conditions if one.type != "Ready" and one.status == "True")
    word = ("Ready" if is_ready else "NotReady") + (", no new pods" if node.spec.unschedulable else "")
    return NodeRow(
        key=node.metadata.name,
        name=node.metadata.name,
        word=word,
        tone=Tone.BAD if not is_ready else Tone.WAITING if pressures or node.spec.unschedulable else Tone.GOOD,
        message=ready.message if ready is not None and not is_ready else "",
        pressures=pressures,
        version=info.kubelet_version,
        runtime=info.container_runtime_version,
        system=info.os_image,
        address=next((one.address for one in status.addresses if one.type == "InternalIP"), ""),
        cpu=status.allocatable.get("cpu", ""),
        memory=status.allocatable.get("memory", ""),
        pods=status.allocatable.get("pods", ""),
        since=node.metadata.creation_timestamp or "",
    )


def event_row(event: Event) -> EventRow:
    """The row of an event."""
    meta, about = event.metadata, event.involved_object
    return EventRow(
        key=f"{meta.namespace}/{meta.name}",
        at=event_at(event),
        reason=event.reason,
        message=event.message[:_LONGEST_MESSAGE],
        namespace=about.namespace,
        kind=about.kind,
        name=about.name,
        tone=Tone.BAD if event.type == "Warning" else Tone.GOOD,
        times=event.series.count if event.series is not None else max(event.count, 1),
        by=event.source.component or event.reporting_component,
    )


def event_at(event: Event) -> str:
    """When it happened last."""
    last = event.series.last_observed_time if event.series is not None else None
    found = last or event.last_timestamp or event.event_time or event.first_timestamp
    return found or event.metadata.creation_timestamp or ""
