"""Rows of the page's tables: pods with their state and progress, nodes, events.

The state of a pod is the one that `kubectl get pods` shows.
"""

from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct

from pykubelet.api.generated.core import ContainerStatus, Event, Node, Pod, PodStatus
from pykubelet.api.pods import is_terminal
from pykubelet.client.node_view import NOT_HERE, PodProgress, pod_key

# The waiting reasons of a container that starts normally.
_STARTING = frozenset({"", "ContainerCreating", "PodInitializing"})
# The message of an event may have a kilobyte; its YAML shows all of it.
_LONGEST_MESSAGE = 400


class RowTone(StrEnum):
    GOOD = "good"
    WAITING = "waiting"
    BAD = "bad"
    DONE = "done"


class PodRow(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    key: str
    namespace: str
    name: str
    word: str
    tone: RowTone
    ready: int = 0
    containers: int = 0
    running: int = 0
    waiting: int = 0
    exited: int = 0
    restarts: int = 0
    since: str = ""
    node: str = ""
    ip: str = ""
    source: str = ""
    worker: str = ""
    waits: str = ""
    is_static: bool = False
    has_mirror: bool = False
    is_unsent: bool = False
    in_api: bool = False


def pod_row(pod: Pod, status: PodStatus, progress: PodProgress = NOT_HERE) -> PodRow:
    meta, states = pod.metadata, _states(pod, status)
    regular = status.container_statuses
    is_static = progress.source not in {"", "api"}
    word = state_word(pod, status)
    return PodRow(
        key=pod_key(meta.namespace, meta.name),
        namespace=meta.namespace,
        name=meta.name,
        word=word,
        tone=_tone(pod, status, word),
        ready=sum(one.ready for one in regular),
        containers=len(pod.spec.containers),
        running=states.count("running"),
        waiting=states.count("waiting"),
        exited=states.count("exited"),
        restarts=sum(one.restart_count for one in container_statuses(status)),
        since=status.start_time or meta.creation_timestamp or "",
        node=pod.spec.node_name,
        ip=status.pod_ip,
        source=progress.source,
        worker=progress.worker,
        waits=_waiting_reason(status) or progress.waits,
        is_static=is_static,
        has_mirror=progress.has_mirror,
        is_unsent=progress.is_unsent,
        in_api=progress.has_mirror or not is_static,
    )


def state_word(pod: Pod, status: PodStatus) -> str:
    """The state of a pod in one word."""
    if pod.metadata.deletion_timestamp is not None and not is_terminal(status.phase):
        return "Terminating"
    if starting := _initializing(pod, status):
        return starting
    word = status.reason or status.phase or "Pending"
    for one in reversed(status.container_statuses):
        if one.state.waiting is not None and one.state.waiting.reason:
            word = one.state.waiting.reason
        elif one.state.terminated is not None:
            ended = one.state.terminated
            word = ended.reason or f"ExitCode:{ended.exit_code}"
    if word == "Completed" and any(one.state.running is not None for one in status.container_statuses):
        return "Running" if _condition(status, "Ready") else "NotReady"
    return word


def _initializing(pod: Pod, status: PodStatus) -> str:
    """The progress of the init containers; empty when they are done."""
    total = len(pod.spec.init_containers)
    for place, one in enumerate(status.init_container_statuses):
        state = one.state
        if state.terminated is not None and state.terminated.exit_code == 0:
            continue
        if state.running is not None and one.started:
            # A sidecar runs alongside the others.
            continue
        if state.terminated is not None:
            return f"Init:{state.terminated.reason or f'ExitCode:{state.terminated.exit_code}'}"
        if state.waiting is not None and state.waiting.reason not in _STARTING:
            return f"Init:{state.waiting.reason}"
        return f"Init:{place}/{total}" if status.phase == "Pending" else ""
    return ""


def _tone(pod: Pod, status: PodStatus, word: str) -> RowTone:
    if status.phase == "Failed":
        return RowTone.BAD
    if status.phase == "Succeeded":
        return RowTone.DONE
    for one in container_statuses(status):
        waiting, ended = one.state.waiting, one.state.terminated
        if (waiting is not None and waiting.reason not in _STARTING) or (ended is not None and ended.exit_code != 0):
            return RowTone.BAD
    is_well = word == "Running" and pod.metadata.deletion_timestamp is None and _condition(status, "Ready")
    return RowTone.GOOD if is_well else RowTone.WAITING


def _waiting_reason(status: PodStatus) -> str:
    """The waiting reason that keeps a container from starting."""
    waiting = (one.state.waiting for one in container_statuses(status))
    return next((one.message for one in waiting if one is not None and one.reason not in _STARTING), "")


def _condition(status: PodStatus, type_: str) -> bool:
    return any(one.type == type_ and one.status == "True" for one in status.conditions)


def container_statuses(status: PodStatus) -> tuple[ContainerStatus, ...]:
    """The statuses of all containers, init and ephemeral ones included."""
    return (*status.init_container_statuses, *status.container_statuses, *status.ephemeral_container_statuses)


def _states(pod: Pod, status: PodStatus) -> list[str]:
    """The state of each container; one without a status is waiting."""
    spec, known = pod.spec, {one.name: one for one in container_statuses(status)}
    names: Iterable[str] = [one.name for one in (*spec.init_containers, *spec.containers)]
    return [_state(known.get(name)) for name in (*names, *(one.name for one in spec.ephemeral_containers))]


def _state(one: ContainerStatus | None) -> str:
    if one is None or (one.state.running is None and one.state.terminated is None):
        return "waiting"
    return "running" if one.state.running is not None else "exited"


class NodeRow(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    key: str
    name: str
    word: str
    tone: RowTone
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
    key: str
    at: str
    reason: str
    message: str
    namespace: str
    kind: str
    name: str
    tone: RowTone
    times: int = 1
    by: str = ""


def node_row(node: Node) -> NodeRow:
    status, info = node.status, node.status.node_info
    ready = next((one for one in status.conditions if one.type == "Ready"), None)
    is_ready = ready is not None and ready.status == "True"
    pressures = tuple(one.type for one in status.conditions if one.type != "Ready" and one.status == "True")
    word = ("Ready" if is_ready else "NotReady") + (", no new pods" if node.spec.unschedulable else "")
    return NodeRow(
        key=node.metadata.name,
        name=node.metadata.name,
        word=word,
        tone=RowTone.BAD if not is_ready else RowTone.WAITING if pressures or node.spec.unschedulable else RowTone.GOOD,
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
    meta, about = event.metadata, event.involved_object
    return EventRow(
        key=f"{meta.namespace}/{meta.name}",
        at=event_at(event),
        reason=event.reason,
        message=event.message[:_LONGEST_MESSAGE],
        namespace=about.namespace,
        kind=about.kind,
        name=about.name,
        tone=RowTone.BAD if event.type == "Warning" else RowTone.GOOD,
        times=event.series.count if event.series is not None else max(event.count, 1),
        by=event.source.component or event.reporting_component,
    )


def event_at(event: Event) -> str:
    """The time of the last occurrence of an event."""
    last = event.series.last_observed_time if event.series is not None else None
    found = last or event.last_timestamp or event.event_time or event.first_timestamp
    return found or event.metadata.creation_timestamp or ""
