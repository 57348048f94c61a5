"""What to send: the status the API server has, with the node's own put over it.

In: the pod, the API's status (old), the node's (new), whether containers could still be running, and the time. Out:
the status to send. What others own stays as they left it; an end is not reported before it is one. Pure.
Upstream: pkg/kubelet/status/status_manager.go (mergePodStatus).
"""

from msgspec.structs import replace

from pykubelet.agent.status.condition_list import (
    Conditions,
    find_condition,
    is_true,
    replace_or_append,
    with_transition_time,
)
from pykubelet.agent.status.conditions import unready_when_terminal
from pykubelet.api.generated.core import Pod, PodStatus
from pykubelet.api.pods import OWNED_CONDITIONS, is_terminal

_DISRUPTION = "DisruptionTarget"


def merge_status(pod: Pod, old: PodStatus, new: PodStatus, *, could_run: bool, now: str) -> PodStatus:
    """The status to send for `pod`; `could_run` says whether containers of it could still be running."""
    ending = not is_terminal(old.phase) and is_terminal(new.phase)
    new = stamp_disruption(old, new, could_run=could_run, now=now)
    held_back = ending and could_run
    said = old if held_back else new
    merged = replace(
        new,
        conditions=_merge_conditions(old, new, takes_disruption=ending and not could_run),
        resource_claim_statuses=old.resource_claim_statuses,
        extended_resource_claim_status=old.extended_resource_claim_status,
        phase=said.phase,
        reason=said.reason,
        message=said.message,
    )
    return _unready_if_terminal(pod, old, merged, now)


def stamp_disruption(old: PodStatus, new: PodStatus, *, could_run: bool, now: str) -> PodStatus:
    """The node's status, its DisruptionTarget dated anew on the step to the end.

    The condition was held back until now, so the time at which it was first thought of would mislead.
    """
    if is_terminal(old.phase) or not is_terminal(new.phase) or could_run:
        return new
    return replace(new, conditions=with_transition_time(new.conditions, old.conditions, _DISRUPTION, now))


def _merge_conditions(old: PodStatus, new: PodStatus, *, takes_disruption: bool) -> Conditions:
    merged = tuple(condition for condition in old.conditions if condition.type not in OWNED_CONDITIONS)
    for condition in new.conditions:
        if condition.type in OWNED_CONDITIONS:
            merged = (*merged, condition)
        elif condition.type == _DISRUPTION and takes_disruption:
            merged = replace_or_append(merged, find_condition(new.conditions, _DISRUPTION) or condition)
    return merged


def _unready_if_terminal(pod: Pod, old: PodStatus, status: PodStatus, now: str) -> PodStatus:
    """No pod has ended and is ready, whatever the probes have had time to say."""
    conditions = status.conditions
    if not is_terminal(status.phase) or not (is_true(conditions, "Ready") or is_true(conditions, "ContainersReady")):
        return status
    for kind in ("ContainersReady", "Ready"):
        before = find_condition(conditions, kind)
        since = before.last_transition_time if before is not None and before.status == "False" else now
        unready = replace(unready_when_terminal(pod, old, kind, status.phase), last_transition_time=since)
        conditions = replace_or_append(conditions, unready)
    return replace(status, conditions=conditions)
