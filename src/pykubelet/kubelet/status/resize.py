"""The two conditions about a resize of a running pod: one waits, one is under way.

Kept by pod until cleared; the status generator puts them into the status. One loop owns the map.
Upstream: pkg/kubelet/status/status_manager.go (podResizeConditions).
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from pykubelet.aio.clock import Clock
from pykubelet.api.generated.core import Pod, PodCondition
from pykubelet.api.pods import PodUid
from pykubelet.api.times import format_time

PENDING = "PodResizePending"
IN_PROGRESS = "PodResizeInProgress"
DEFERRED = "Deferred"
INFEASIBLE = "Infeasible"


class _Resize(Struct, frozen=True):
    """The conditions of one pod; at least one is there."""

    pending: PodCondition | None = None
    in_progress: PodCondition | None = None


_NONE = _Resize()


class ResizeConditions:
    """The resize conditions of all pods."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._resizes: dict[PodUid, _Resize] = {}

    def of(self, uid: PodUid) -> tuple[PodCondition, ...]:
        """The conditions of a pod: the pending one first, then the one in progress."""
        resize = self._resizes.get(uid, _NONE)
        return tuple(condition for condition in (resize.pending, resize.in_progress) if condition is not None)

    def set_pending(self, uid: PodUid, *, reason: str, message: str, generation: int) -> None:
        """A resize waits; its transition time moves only with its reason."""
        resize = self._resizes.get(uid, _NONE)
        pending = self._condition(PENDING, resize.pending, reason, message, generation)
        self._resizes[uid] = replace(resize, pending=pending)

    def set_in_progress(self, uid: PodUid, *, reason: str, message: str, generation: int) -> None:
        """A resize is under way.

        While one is, its generation stays, and reason and message are kept if both are given empty: clear it first.
        """
        resize = self._resizes.get(uid, _NONE)
        if old := resize.in_progress:
            generation = old.observed_generation
            if not reason and not message:
                reason, message = old.reason, old.message
        in_progress = self._condition(IN_PROGRESS, resize.in_progress, reason, message, generation)
        self._resizes[uid] = replace(resize, in_progress=in_progress)

    def clear_pending(self, uid: PodUid) -> None:
        """No resize waits any more."""
        self._keep(uid, replace(self._resizes.get(uid, _NONE), pending=None))

    def clear_in_progress(self, uid: PodUid) -> bool:
        """No resize is under way any more; whether one was."""
        resize = self._resizes.get(uid, _NONE)
        self._keep(uid, replace(resize, in_progress=None))
        return resize.in_progress is not None

    def is_deferred(self, uid: PodUid) -> bool:
        """Whether a resize waits until there is room."""
        return self._pending_reason(uid) == DEFERRED

    def is_infeasible(self, uid: PodUid) -> bool:
        """Whether a resize can never be done on this node."""
        return self._pending_reason(uid) == INFEASIBLE

    def backfill(self, pods: Iterable[Pod]) -> None:
        """Take over, after a restart, what the pods' statuses say; the times start anew."""
        for pod in pods:
            uid = PodUid(pod.metadata.uid)
            for known in pod.status.conditions:
                resize = self._resizes.get(uid, _NONE)
                fresh = self._condition(known.type, None, known.reason, known.message, known.observed_generation)
                if known.type == PENDING:
                    self._resizes[uid] = replace(resize, pending=fresh)
                elif known.type == IN_PROGRESS:
                    self._resizes[uid] = replace(resize, in_progress=fresh)

    def drop(self, uid: PodUid) -> None:
        """Forget a pod."""
        self._resizes.pop(uid, None)

    def pending_counts(self) -> Mapping[str, int]:
        """How many resizes wait, by their reason in lower case."""
        return Counter(resize.pending.reason.lower() for resize in self._resizes.values() if resize.pending)

    def in_progress_count(self) -> int:
        """How many resizes are under way."""
        return sum(resize.in_progress is not None for resize in self._resizes.values())

    def _pending_reason(self, uid: PodUid) -> str | None:
        pending = self._resizes.get(uid, _NONE).pending
        return pending.reason if pending is not None else None

    def _keep(self, uid: PodUid, resize: _Resize) -> None:
        if resize == _NONE:
            self._resizes.pop(uid, None)
        else:
            self._resizes[uid] = resize

    def _condition(
        self, kind: str, old: PodCondition | None, reason: str, message: str, generation: int
    ) -> PodCondition:
        now = format_time(self._clock.now())
        return PodCondition(
            type=kind,
            status="True",
            reason=reason,
            message=message,
            observed_generation=generation,
            last_probe_time=now,
            last_transition_time=old.last_transition_time if old is not None and old.reason == reason else now,
        )
