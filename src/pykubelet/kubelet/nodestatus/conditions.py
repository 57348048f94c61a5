"""The conditions of a node: memory, disk and PID pressure, and Ready.

Pure: takes the old conditions, problems, pressures and the time; returns the conditions in their old order, new ones at
the end (Ready last), those of others untouched, and the reasons of the events to record.

Upstream: pkg/kubelet/nodestatus/setters.go
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from msgspec.structs import replace

from pykubelet.api.generated.core import NodeCondition
from pykubelet.api.times import format_time

READY = "Ready"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeProblems:
    """The errors that keep a node from being ready; `warning` does not, but is shown."""

    runtime: tuple[str, ...] = ()
    network: tuple[str, ...] = ()
    storage: tuple[str, ...] = ()
    shutdown: tuple[str, ...] = ()
    warning: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePressures:
    """The resources that the machine is short of."""

    memory: bool = False
    disk: bool = False
    pid: bool = False


# Reason, message and event of each pressure condition, first while it is absent, then while it is present.
_WORDS = {
    "MemoryPressure": (
        ("KubeletHasSufficientMemory", "kubelet has sufficient memory available", "NodeHasSufficientMemory"),
        ("KubeletHasInsufficientMemory", "kubelet has insufficient memory available", "NodeHasInsufficientMemory"),
    ),
    "DiskPressure": (
        ("KubeletHasNoDiskPressure", "kubelet has no disk pressure", "NodeHasNoDiskPressure"),
        ("KubeletHasDiskPressure", "kubelet has disk pressure", "NodeHasDiskPressure"),
    ),
    "PIDPressure": (
        ("KubeletHasSufficientPID", "kubelet has sufficient PID available", "NodeHasSufficientPID"),
        ("KubeletHasInsufficientPID", "kubelet has insufficient PID available", "NodeHasInsufficientPID"),
    ),
}


def node_conditions(
    old: Sequence[NodeCondition], pressures: NodePressures, errors: Sequence[str], warning: str, now: datetime
) -> tuple[tuple[NodeCondition, ...], tuple[str, ...]]:
    """The conditions and the reasons of the events to record, both in order."""
    conditions = tuple(old)
    events: list[str] = []
    for kind, is_short in zip(_WORDS, (pressures.memory, pressures.disk, pressures.pid), strict=True):
        known = find_condition(conditions, kind)
        conditions = _put(conditions, pressure_condition(known, kind, is_short=is_short, now=now))
        if known is None or known.status != ("True" if is_short else "False"):
            events.append(_WORDS[kind][is_short][2])
    known = find_condition(conditions, READY)
    ready = ready_condition(known, errors, warning, now)
    if known is not None and known.status != ready.status:
        events.append("NodeReady" if ready.status == "True" else "NodeNotReady")
    return _put(conditions, ready), tuple(events)


def pressure_condition(known: NodeCondition | None, kind: str, *, is_short: bool, now: datetime) -> NodeCondition:
    """One pressure condition; reason and transition time change only with the status."""
    at = format_time(now)
    status = "True" if is_short else "False"
    if known is not None and known.status == status:
        return replace(known, last_heartbeat_time=at)
    reason, message, _ = _WORDS[kind][is_short]
    return NodeCondition(
        type=kind, status=status, reason=reason, message=message, last_heartbeat_time=at, last_transition_time=at
    )


def ready_condition(known: NodeCondition | None, errors: Sequence[str], warning: str, now: datetime) -> NodeCondition:
    """The Ready condition, with the errors if it is False."""
    at = format_time(now)
    status = "False" if errors else "True"
    message = aggregate_errors(errors) or "kubelet is posting ready status"
    since = known.last_transition_time if known is not None and known.status == status else at
    return NodeCondition(
        type=READY,
        status=status,
        reason="KubeletNotReady" if errors else "KubeletReady",
        message=f"{message}. WARNING: {warning}" if warning else message,
        last_heartbeat_time=at,
        last_transition_time=since,
    )


def readiness_errors(problems: NodeProblems, capacity: Iterable[str]) -> tuple[str, ...]:
    """All errors that keep the node from being ready, missing capacities included."""
    known = set(capacity)
    missing = [name for name in ("cpu", "memory", "pods", "ephemeral-storage") if name not in known]
    errors = (*problems.runtime, *problems.network, *problems.storage, *problems.shutdown)
    return (*errors, f"missing node capacity for resources: {', '.join(missing)}") if missing else errors


def aggregate_errors(errors: Iterable[str]) -> str:
    """Several errors in one line, without repetitions."""
    texts = tuple(dict.fromkeys(errors))
    return f"[{', '.join(texts)}]" if len(texts) > 1 else "".join(texts)


def find_condition(conditions: Iterable[NodeCondition], kind: str) -> NodeCondition | None:
    return next((condition for condition in conditions if condition.type == kind), None)


def _put(conditions: tuple[NodeCondition, ...], new: NodeCondition) -> tuple[NodeCondition, ...]:
    if find_condition(conditions, new.type) is None:
        return (*conditions, new)
    return tuple(new if condition.type == new.type else condition for condition in conditions)
