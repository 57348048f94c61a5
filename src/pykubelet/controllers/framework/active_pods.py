"""Which pods are active, ready and available, and the order in which surplus pods are deleted.

Upstream: pkg/controller/controller_utils.go, pkg/api/v1/pod/util.go
"""

import math
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cmp_to_key, partial

from pykubelet.api.generated.core import Pod, PodCondition
from pykubelet.api.labels import Selector
from pykubelet.api.pods import is_restartable_init_container, is_terminal
from pykubelet.api.times import nanoseconds, parse_time, seconds_after
from pykubelet.client.indexer import controller_of

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_PHASE_ORDER = {"Pending": 0, "Unknown": 1, "Running": 2}


def is_pod_active(pod: Pod) -> bool:
    return not is_terminal(pod.status.phase) and pod.metadata.deletion_timestamp is None


def is_pod_terminating(pod: Pod) -> bool:
    """Whether the pod is being deleted and has not finished yet."""
    return not is_terminal(pod.status.phase) and pod.metadata.deletion_timestamp is not None


def is_claimed(pod: Pod, owner_uid: str, selector: Selector) -> bool:
    """Whether this owner controls the pod and its selector matches."""
    controller = controller_of(pod)
    return controller is not None and controller.uid == owner_uid and selector.matches(pod.metadata.labels)


def ready_condition(pod: Pod) -> PodCondition | None:
    ready = next((condition for condition in pod.status.conditions if condition.type == "Ready"), None)
    return ready if ready is not None and ready.status == "True" else None


def is_pod_available(pod: Pod, min_ready_seconds: int, now: datetime) -> bool:
    """Whether the pod has been ready for `min_ready_seconds`."""
    ready = ready_condition(pod)
    if ready is None:
        return False
    if min_ready_seconds == 0:
        return True
    if not ready.last_transition_time:
        return False
    return next_availability_seconds(pod, min_ready_seconds, now) is None


def next_availability_seconds(pod: Pod, min_ready_seconds: int, now: datetime) -> float | None:
    """Seconds until a ready pod becomes available; None if it is available already or not ready."""
    ready = ready_condition(pod)
    if ready is None or min_ready_seconds <= 0 or not ready.last_transition_time:
        return None
    left = (seconds_after(parse_time(ready.last_transition_time), min_ready_seconds) - now).total_seconds()
    # A time further in the future than that is from before the clock was set back.
    return left if 0 < left <= 2 * min_ready_seconds else None


def earliest_availability_seconds(
    pods: Iterable[Pod], min_ready_seconds: int, evaluated_at: datetime, now: datetime
) -> float | None:
    """Seconds until the first pod that was unavailable at `evaluated_at` becomes available; 0 if it has since."""
    waiting = [(left, pod) for pod in pods if (left := next_availability_seconds(pod, min_ready_seconds, evaluated_at))]
    if not waiting:
        return None
    _, first = min(waiting, key=lambda one: one[0])
    return next_availability_seconds(first, min_ready_seconds, now) or 0.0


def deletion_cost(pod: Pod) -> int:
    """The pod-deletion-cost annotation; 0 if absent or malformed."""
    text = pod.metadata.annotations.get(DELETION_COST, "")
    if text != "0" and text[:1] not in set("-123456789"):
        return 0
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        return 0
    cost = int(text) if len(digits) <= 20 else 2**31
    return cost if -(2**31) <= cost < 2**31 else 0


def deletion_order(pods: Iterable[Pod]) -> list[Pod]:
    """Sorts pods so that those to delete first come first; stable."""
    return sorted(pods, key=cmp_to_key(_compare))


def ranked_deletion_order(pods: Sequence[Pod], ranks: Sequence[int], now: datetime | None) -> list[Pod]:
    """Like `deletion_order`, but compares deletion cost and rank (related pods on the node) before age.

    With `now`, ages are compared by powers of two, so that the newest pod is not always the victim.
    """
    ranked = sorted(zip(pods, ranks, strict=True), key=cmp_to_key(partial(compare_ranked, now=now)))
    return [pod for pod, _ in ranked]


def compare_ranked(left: tuple[Pod, int], right: tuple[Pod, int], now: datetime | None) -> int:
    """Below zero if the first pod, given with its rank, is deleted before the second."""
    now_nanos = None if now is None else nanoseconds(now.isoformat())
    return (
        _compare_state(left[0], right[0])
        or deletion_cost(left[0]) - deletion_cost(right[0])
        or right[1] - left[1]
        or _compare_history(left[0], right[0], now_nanos)
    )


def log_order(pods: Iterable[Pod]) -> list[Pod]:
    """Sorts pods so that those with the most useful logs come first."""

    def compare(left: Pod, right: Pod) -> int:
        state = _compare_state(left, right)
        if state or left.status.phase != right.status.phase:
            return -state
        return (
            -_later_first(_ready_time(left), _ready_time(right))
            or _more_restarts_first(left, right)
            or -_later_first(_created(left), _created(right))
        )

    return sorted(pods, key=cmp_to_key(compare))


def _compare(left: Pod, right: Pod) -> int:
    return _compare_state(left, right) or _compare_history(left, right, None)


def _compare_state(left: Pod, right: Pod) -> int:
    """Compares node, phase and readiness: an unassigned, pending or unready pod is deleted first."""
    return (
        bool(left.spec.node_name) - bool(right.spec.node_name)
        or _PHASE_ORDER.get(left.status.phase, 0) - _PHASE_ORDER.get(right.status.phase, 0)
        or (ready_condition(left) is not None) - (ready_condition(right) is not None)
    )


def _compare_history(left: Pod, right: Pod, now_nanos: int | None) -> int:
    """Compares time since ready, restarts and age."""
    uids = left.metadata.uid, right.metadata.uid
    return (
        _younger_first(_ready_time(left), _ready_time(right), uids, now_nanos)
        or _more_restarts_first(left, right)
        or _younger_first(_created(left), _created(right), uids, now_nanos)
    )


def _younger_first(left: int, right: int, uids: tuple[str, str], now_nanos: int | None) -> int:
    if left == right or now_nanos is None or not left or not right:
        return _later_first(left, right)
    buckets = _age_bucket(now_nanos - left), _age_bucket(now_nanos - right)
    # Pods of about the same age are ordered by UID, independent of their age.
    return buckets[0] - buckets[1] or (uids[0] > uids[1]) - (uids[0] < uids[1])


def _age_bucket(nanos: int) -> int:
    return int(math.log2(nanos)) if nanos > 0 else -1


def _later_first(left: int, right: int) -> int:
    """Orders the later time first; a missing time counts as latest."""
    if not left or not right:
        return bool(left) - bool(right)
    return (left < right) - (left > right)


def _more_restarts_first(left: Pod, right: Pod) -> int:
    restarts = _restarts(left), _restarts(right)
    return (restarts[0] < restarts[1]) - (restarts[0] > restarts[1])


def _ready_time(pod: Pod) -> int:
    ready = ready_condition(pod)
    return nanoseconds(ready.last_transition_time) if ready and ready.last_transition_time else 0


def _created(pod: Pod) -> int:
    return nanoseconds(pod.metadata.creation_timestamp) if pod.metadata.creation_timestamp else 0


def _restarts(pod: Pod) -> tuple[int, int]:
    """The highest restart count of a regular container, then of a sidecar."""
    sidecars = {container.name for container in pod.spec.init_containers if is_restartable_init_container(container)}
    return (
        max((status.restart_count for status in pod.status.container_statuses), default=0),
        max((s.restart_count for s in pod.status.init_container_statuses if s.name in sidecars), default=0),
    )
