"""What happened to a pod between two looks at the runtime.

Two views of one pod in, the changes out; pure. A sandbox counts as a container that runs while it is ready.
Upstream: generateEvents and computeEvents in pkg/kubelet/pleg/generic.go.
"""

from dataclasses import dataclass
from enum import StrEnum

from pykubelet.runtime.protocol import ContainerState, RuntimePod


class ChangeKind(StrEnum):
    """What happened; the names are upstream's. CHANGED says only that one should look closer."""

    STARTED = "ContainerStarted"
    DIED = "ContainerDied"
    REMOVED = "ContainerRemoved"
    CHANGED = "ContainerChanged"


@dataclass(frozen=True, slots=True)
class ContainerChange:
    """One thing that happened to one container or sandbox."""

    kind: ChangeKind
    container_id: str


def compare(old: RuntimePod | None, new: RuntimePod | None) -> tuple[ContainerChange, ...]:
    """What happened from the one view to the other; None is a pod of which there is nothing."""
    before, after = _states(old), _states(new)
    return tuple(
        ContainerChange(kind, container_id)
        for container_id in before | after
        for kind in _kinds(before.get(container_id), after.get(container_id))
    )


def _states(pod: RuntimePod | None) -> dict[str, ContainerState]:
    if pod is None:
        return {}
    containers = {container.id: container.state for container in pod.containers}
    sandboxes = {one.id: ContainerState.RUNNING if one.is_ready else ContainerState.EXITED for one in pod.sandboxes}
    return containers | sandboxes


def _kinds(old: ContainerState | None, new: ContainerState | None) -> tuple[ChangeKind, ...]:
    if new is None:
        is_reported = old == ContainerState.EXITED
        return (ChangeKind.REMOVED,) if is_reported else (ChangeKind.DIED, ChangeKind.REMOVED)
    if new == ContainerState.RUNNING:
        return () if old == new else (ChangeKind.STARTED,)
    if new == ContainerState.EXITED:
        return () if old == new else (ChangeKind.DIED,)
    # Created and unknown are one to us: nothing follows from either until one has looked.
    return () if old in {ContainerState.CREATED, ContainerState.UNKNOWN} else (ChangeKind.CHANGED,)
