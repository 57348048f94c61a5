"""Patches of a pod's status by controllers: one condition, perhaps the phase.

Pure. Nothing that others wrote is touched. Upstream: UpdatePodCondition in pkg/api/v1/pod/util.go, PatchPodStatus in pkg/util/pod/pod.go.
"""

from datetime import datetime

from pykubelet.api.generated.core import Pod, PodCondition
from pykubelet.api.times import format_time
from pykubelet.api.wire import Document


def condition_of(pod: Pod, kind: str) -> PodCondition | None:
    """The condition of this type, if the pod has it."""
    return next((condition for condition in pod.status.conditions if condition.type == kind), None)


def condition_patch(pod: Pod, wanted: PodCondition, now: datetime, *, phase: str = "") -> Document | None:
    """The strategic merge patch that gives a pod this condition, and the phase if there is one to set.

    None if it is so already. The time of the condition moves only if its status does.
    """
    old = condition_of(pod, wanted.type)
    is_same = old is not None and (old.status, old.reason, old.message) == (
        wanted.status,
        wanted.reason,
        wanted.message,
    )
    if is_same and not phase:
        return None
    since = old.last_transition_time if old is not None and old.status == wanted.status else format_time(now)
    condition: Document = {
        "type": wanted.type,
        "status": wanted.status,
        "reason": wanted.reason,
        "message": wanted.message,
        "lastTransitionTime": since,
        "observedGeneration": pod.metadata.generation,
    }
    return _patch(pod, {"conditions": [{name: value for name, value in condition.items() if value}]}, phase)


def phase_patch(pod: Pod, phase: str) -> Document:
    """The patch that only sets the phase."""
    return _patch(pod, {}, phase)


def _patch(pod: Pod, status: Document, phase: str) -> Document:
    if phase:
        status = {**status, "phase": phase, "observedGeneration": pod.metadata.generation}
    # The UID: a namesake that came after the pod must not get its status.
    return {"metadata": {"uid": pod.metadata.uid}, "status": status}
