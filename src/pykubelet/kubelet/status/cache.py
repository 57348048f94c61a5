"""What the status manager keeps per pod: versioned status, resize conditions, newest API object.

The version of a pod's status only grows while it is cached; unsent pods are tracked, so that a change of one pod costs
nothing for the others. Upstream reads a pod before each patch. Here the newer of the watched object and the answer to
the last patch serves as the base, without a request.

Upstream: pkg/kubelet/status/status_manager.go
"""

import asyncio
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from pykubelet.aio.clock import Clock
from pykubelet.api.generated.core import Pod, PodCondition, PodStatus
from pykubelet.api.pods import PodUid, is_static_pod
from pykubelet.api.times import format_time
from pykubelet.kubelet.pod.pod_manager import PodManager

PENDING = "PodResizePending"
IN_PROGRESS = "PodResizeInProgress"
DEFERRED = "Deferred"
INFEASIBLE = "Infeasible"


class _Resize(Struct, frozen=True):
    """The resize conditions of one pod; at least one is set."""

    pending: PodCondition | None = None
    in_progress: PodCondition | None = None


_NONE = _Resize()


class ResizeConditions:
    """The resize conditions of all pods, kept until cleared; the generated status includes them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._resizes: dict[PodUid, _Resize] = {}

    def of(self, uid: PodUid) -> tuple[PodCondition, ...]:
        """The conditions of a pod: the pending one first, then the one in progress."""
        resize = self._resizes.get(uid, _NONE)
        return tuple(condition for condition in (resize.pending, resize.in_progress) if condition is not None)

    def set_pending(self, uid: PodUid, *, reason: str, message: str, generation: int) -> None:
        """Set PodResizePending; its transition time moves only with its reason."""
        resize = self._resizes.get(uid, _NONE)
        pending = self._condition(PENDING, resize.pending, reason, message, generation)
        self._resizes[uid] = replace(resize, pending=pending)

    def set_in_progress(self, uid: PodUid, *, reason: str, message: str, generation: int) -> None:
        """Set PodResizeInProgress; while it is set, its generation stays, and empty texts keep the old ones."""
        resize = self._resizes.get(uid, _NONE)
        if old := resize.in_progress:
            generation = old.observed_generation
            if not reason and not message:
                reason, message = old.reason, old.message
        in_progress = self._condition(IN_PROGRESS, resize.in_progress, reason, message, generation)
        self._resizes[uid] = replace(resize, in_progress=in_progress)

    def clear_pending(self, uid: PodUid) -> None:
        """Clear PodResizePending, if it is set."""
        self._keep(uid, replace(self._resizes.get(uid, _NONE), pending=None))

    def clear_in_progress(self, uid: PodUid) -> bool:
        """Clear PodResizeInProgress; return whether it was set."""
        resize = self._resizes.get(uid, _NONE)
        self._keep(uid, replace(resize, in_progress=None))
        return resize.in_progress is not None

    def is_deferred(self, uid: PodUid) -> bool:
        """Whether a resize is deferred until the node has room."""
        return self._pending_reason(uid) == DEFERRED

    def is_infeasible(self, uid: PodUid) -> bool:
        """Whether a resize can never be done on this node."""
        return self._pending_reason(uid) == INFEASIBLE

    def backfill(self, pods: Iterable[Pod]) -> None:
        """Take over the conditions of the pods' statuses after a restart; their times start now."""
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
        self._resizes.pop(uid, None)

    def pending_counts(self) -> Mapping[str, int]:
        """The number of pending resizes by reason, in lower case."""
        return Counter(resize.pending.reason.lower() for resize in self._resizes.values() if resize.pending)

    def in_progress_count(self) -> int:
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


class VersionedStatus(Struct, frozen=True):
    """One version of a pod's status, and where to send it.

    `finished` means that nothing of the pod is left on this node. `unsent_since` is when the oldest unsent change was
    made, on the monotonic clock. `is_known` means that the API has this version or an earlier one.
    """

    version: int
    namespace: str
    name: str
    status: PodStatus
    unsent_since: float
    finished: bool
    is_known: bool

    @property
    def full_name(self) -> str:
        return f"{self.name}_{self.namespace}"


class StatusCache:
    """The newest status of each pod, by UID."""

    def __init__(self) -> None:
        self._entries: dict[PodUid, VersionedStatus] = {}
        self._unsent: dict[PodUid, None] = {}
        self._fewer_unsent: asyncio.Event | None = None
        """Set with the next status that is sent or dropped; None unless something waits for that."""

    def get(self, uid: PodUid) -> VersionedStatus | None:
        return self._entries.get(uid)

    def __contains__(self, uid: object) -> bool:
        return uid in self._entries

    def __iter__(self) -> Iterator[PodUid]:
        return iter(tuple(self._entries))

    def put(self, pod: Pod, status: PodStatus, *, finished: bool, at: float) -> VersionedStatus:
        """Store a status under the next version; it counts as unsent."""
        uid = PodUid(pod.metadata.uid)
        old = self._entries.get(uid)
        entry = VersionedStatus(
            version=old.version + 1 if old is not None else 1,
            namespace=pod.metadata.namespace,
            name=pod.metadata.name,
            status=status,
            unsent_since=old.unsent_since if old is not None and uid in self._unsent else at,
            finished=finished,
            is_known=old is not None and old.is_known,
        )
        self._entries[uid] = entry
        self._unsent[uid] = None
        return entry

    def restamp(self, uid: PodUid, version: int, status: PodStatus) -> None:
        """Correct times in the newest version without making a new one."""
        entry = self._entries.get(uid)
        if entry is not None and entry.version == version:
            self._entries[uid] = replace(entry, status=status)

    @property
    def unsent(self) -> tuple[PodUid, ...]:
        """The pods with an unsent status, the longest waiting first."""
        return tuple(self._unsent)

    def is_unsent(self, uid: PodUid) -> bool:
        return uid in self._unsent

    def mark_sent(self, uid: PodUid, version: int) -> None:
        """Record that the API has this version; a newer one stays unsent."""
        entry = self._entries.get(uid)
        if entry is None or entry.version < version:
            return
        self._entries[uid] = replace(entry, is_known=True)
        if entry.version == version:
            self._settle(uid)

    def mark_unsent(self, uid: PodUid) -> None:
        """Record that the API does not have what it was sent."""
        if uid in self._entries:
            self._unsent[uid] = None

    def drop(self, uid: PodUid) -> bool:
        """Forget a pod; return whether it was cached."""
        self._settle(uid)
        return self._entries.pop(uid, None) is not None

    async def until_fewer_unsent(self) -> None:
        """Waits until a status has been sent or dropped."""
        self._fewer_unsent = self._fewer_unsent or asyncio.Event()
        await self._fewer_unsent.wait()

    def _settle(self, uid: PodUid) -> None:
        self._unsent.pop(uid, None)
        if self._fewer_unsent is not None:
            self._fewer_unsent.set()
            self._fewer_unsent = None

    def orphans(self, keep: Container[PodUid]) -> tuple[PodUid, ...]:
        """The cached pods that are not in `keep`."""
        return tuple(uid for uid in self._entries if uid not in keep)


class PodDeletionSafety(Protocol):
    """Knows what is left of a pod on this node; the pod workers implement it."""

    def could_have_running_containers(self, uid: PodUid, /) -> bool:
        """Whether a container of this pod may be running; such a pod is not reported as ended."""

    def pod_resources_are_reclaimed(self, pod: Pod, status: PodStatus, /) -> bool:
        """Whether containers, volumes and cgroup are gone, so that the API may delete the pod."""


class StatusObserver(Protocol):
    """Receives the results of sending statuses, for metrics and trails."""

    def status_sent(self, pod: Pod, waited_seconds: float, /) -> None:
        """The API accepted a status; `pod` is its answer, the wait counts from the oldest change in it."""

    def status_not_sent(self, uid: PodUid, why: str, /) -> None:
        """The API rejected a status or was not reached; sending is retried."""

    def pod_forgotten(self, uid: PodUid, /) -> None:
        """The status of this pod is no longer cached."""

    def status_refused(self, pod: Pod, why: str, /) -> None:
        """A status, or its phase, was rejected as an illegal transition."""


class ApiView(Protocol):
    """The newest known API objects of pods; answers from memory."""

    def newest(self, uid: PodUid, entry: VersionedStatus, /) -> Pod | None:
        """The newest known API object for a pod's status, for a static pod its mirror pod; None if unknown."""

    def learn(self, uid: PodUid, pod: Pod, /) -> None:
        """Take an object that the API answered with."""

    def forget(self, uid: PodUid, /) -> None:
        """Forget what the API answered for this pod."""


class KnownApiPods:
    """The newer of the pod manager's watched object and the API's last answer."""

    def __init__(self, pods: PodManager) -> None:
        self._pods = pods
        self._answers: dict[PodUid, Pod] = {}

    def newest(self, uid: PodUid, _: VersionedStatus, /) -> Pod | None:
        watched = self._watched(uid)
        answer = self._answers.get(uid)
        if answer is None or watched is None:
            return answer or watched
        if _revision(answer) > _revision(watched):
            return answer
        # The watch has caught up, so the answer is no longer needed.
        del self._answers[uid]
        return watched

    def learn(self, uid: PodUid, pod: Pod, /) -> None:
        self._answers[uid] = pod

    def forget(self, uid: PodUid, /) -> None:
        self._answers.pop(uid, None)

    def _watched(self, uid: PodUid) -> Pod | None:
        pod = self._pods.pod_by_uid(uid)
        return self._pods.mirror_pod_by_pod(pod) if pod is not None and is_static_pod(pod) else pod


def _revision(pod: Pod) -> int:
    """The resource version as a number; -1 if it is not one."""
    text = pod.metadata.resource_version
    return int(text) if text.isascii() and text.isdigit() else -1


class StatusRecords:
    """Everything the status manager keeps about pods."""

    def __init__(self, *, resize: ResizeConditions, view: ApiView, observer: StatusObserver | None) -> None:
        self.cache = StatusCache()
        self.resize = resize
        self.view = view
        self._observer = observer

    def drop(self, uid: PodUid) -> None:
        self.resize.drop(uid)
        self.view.forget(uid)
        if self.cache.drop(uid) and self._observer is not None:
            self._observer.pod_forgotten(uid)
