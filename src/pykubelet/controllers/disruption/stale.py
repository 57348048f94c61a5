"""When the announcement of a pod's end is stale: the pod is still there, and nobody deletes it.

Pure. What the node itself announces may take as long as it takes. Upstream:
nonTerminatingPodHasStaleDisruptionCondition in pkg/controller/disruption/disruption.go.
"""

from datetime import datetime, timedelta

from pykubelet.api.generated.core import Pod
from pykubelet.api.pods import is_terminal
from pykubelet.api.times import format_time, parse_time
from pykubelet.api.wire import Document
from pykubelet.controllers.pod_status_patch import condition_of

CONDITION = "DisruptionTarget"
TIMEOUT = timedelta(minutes=2)
_BY_KUBELET = "TerminationByKubelet"


def seconds_until_stale(pod: Pod, now: datetime) -> float | None:
    """How long until the pod's announced end is overdue; None if none is announced, or it has begun."""
    if pod.metadata.deletion_timestamp is not None or is_terminal(pod.status.phase):
        return None
    condition = condition_of(pod, CONDITION)
    if condition is None or condition.status != "True" or condition.reason == _BY_KUBELET:
        return None
    if not condition.last_transition_time:
        return 0.0
    return max(0.0, (parse_time(condition.last_transition_time) + TIMEOUT - now).total_seconds())


def withdrawal(pod: Pod, now: datetime) -> Document:
    """The strategic merge patch of a pod's status that takes the announcement back."""
    condition = {
        "type": CONDITION,
        "status": "False",
        "lastTransitionTime": format_time(now),
        "observedGeneration": pod.metadata.generation or None,
        "reason": None,
        "message": None,
    }
    return {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}}
