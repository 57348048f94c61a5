"""The table row of a pod: ready containers, status, restarts, and the conditions of the row.

Upstream: pkg/printers/internalversion/printers.go
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pykubelet.api.serializer import Document
from pykubelet.api.times import Age
from pykubelet.kinds.columns import NONE

_GATED = "SchedulingGated"
_COMPLETED = "Completed"
_ROW_MESSAGES = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}
_NOTHING: Document = {}


@dataclass(slots=True)
class _Restarts:
    """The number of restarts and the time of the last one; times compare as text because all have one format."""

    count: int = 0
    last: str = ""

    def add(self, status: Document) -> None:
        self.count += status.get("restartCount", 0)
        terminated = status.get("lastState", _NOTHING).get("terminated")
        if terminated:
            self.last = max(self.last, terminated.get("finishedAt") or "")

    def shown(self, age: Age) -> str:
        return f"{self.count} ({age(self.last)} ago)" if self.count and self.last else str(self.count)


@dataclass(slots=True)
class _Progress:
    """The sums over the statuses of the containers."""

    reason: str
    ready: int = 0
    restarts: _Restarts = field(default_factory=_Restarts)


def pod_cells(pod: Document, age: Age) -> list[Any]:
    """Cells: name, ready, status, restarts, age, IP, node, nominated node, readiness gates."""
    metadata, spec, status = pod.get("metadata", _NOTHING), pod.get("spec", _NOTHING), pod.get("status", _NOTHING)
    inits = spec.get("initContainers", ())
    sidecars = {each.get("name") for each in inits if each.get("restartPolicy") == "Always"}
    total = len(spec.get("containers", ())) + len(sidecars)
    progress = _progress(status, sidecars, len(inits))
    ips = status.get("podIPs")
    return [
        metadata.get("name", ""),
        f"{progress.ready}/{total}",
        _deletion_reason(metadata, status) or progress.reason,
        progress.restarts.shown(age),
        age(metadata.get("creationTimestamp")),
        (ips and ips[0].get("ip")) or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        _gates(spec, status),
    ]


def pod_conditions(pod: Document) -> list[Document] | None:
    """The row conditions of a pod that has succeeded or failed."""
    phase = pod.get("status", _NOTHING).get("phase", "")
    message = _ROW_MESSAGES.get(phase)
    return [{"type": _COMPLETED, "status": "True", "reason": phase, "message": message}] if message else None


def _progress(status: Document, sidecars: set[str | None], init_count: int) -> _Progress:
    progress = _Progress(status.get("reason") or status.get("phase", ""))
    conditions = status.get("conditions", ())
    if any(each.get("type") == "PodScheduled" and each.get("reason") == _GATED for each in conditions):
        progress.reason = _GATED
    of_sidecars = _Restarts()
    initializing = False
    for index, container in enumerate(status.get("initContainerStatuses", ())):
        progress.restarts.add(container)
        is_sidecar = container.get("name") in sidecars
        if is_sidecar:
            of_sidecars.add(container)
        state = container.get("state", _NOTHING)
        terminated = state.get("terminated")
        if terminated is not None and not terminated.get("exitCode"):
            continue
        if is_sidecar and container.get("started"):
            progress.ready += bool(container.get("ready"))
            continue
        progress.reason = _init_reason(state, index, init_count)
        initializing = True
        break
    if not initializing or _is_true(conditions, "Initialized"):
        # After initialization only containers that can still restart count.
        progress.restarts = of_sidecars
        _add_container_statuses(status, progress)
    return progress


def _init_reason(state: Document, index: int, count: int) -> str:
    if (terminated := state.get("terminated")) is not None:
        return f"Init:{_termination_reason(terminated)}"
    waiting = state.get("waiting", _NOTHING).get("reason")
    return f"Init:{waiting}" if waiting and waiting != "PodInitializing" else f"Init:{index}/{count}"


def _add_container_statuses(status: Document, progress: _Progress) -> None:
    """Takes the pod's status from the first container that is not simply running."""
    has_running = False
    for container in reversed(status.get("containerStatuses", ())):
        progress.restarts.add(container)
        state = container.get("state", _NOTHING)
        if waiting := state.get("waiting", _NOTHING).get("reason"):
            progress.reason = waiting
        elif (terminated := state.get("terminated")) is not None:
            progress.reason = _termination_reason(terminated)
        elif container.get("ready") and state.get("running") is not None:
            has_running = True
            progress.ready += 1
    if progress.reason == _COMPLETED and has_running:
        progress.reason = "Running" if _has_true(status.get("conditions", ()), "Ready") else "NotReady"


def _termination_reason(terminated: Document) -> str:
    if reason := terminated.get("reason"):
        return str(reason)
    if signal := terminated.get("signal"):
        return f"Signal:{signal}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _deletion_reason(metadata: Document, status: Document) -> str:
    if not metadata.get("deletionTimestamp"):
        return ""
    if status.get("reason") == "NodeLost":
        return "Unknown"
    return "" if status.get("phase") in {"Succeeded", "Failed"} else "Terminating"


def _gates(spec: Document, status: Document) -> str:
    gates = spec.get("readinessGates")
    if not gates:
        return NONE
    conditions = status.get("conditions", ())
    met = sum(_is_true(conditions, gate.get("conditionType", "")) for gate in gates)
    return f"{met}/{len(gates)}"


def _is_true(conditions: Sequence[Document], type: str) -> bool:
    """Whether the first condition of a type is true."""
    return next((each.get("status") == "True" for each in conditions if each.get("type") == type), False)


def _has_true(conditions: Sequence[Document], type: str) -> bool:
    """Whether any condition of a type is true."""
    return any(each.get("type") == type and each.get("status") == "True" for each in conditions)
