"""What this node believes about each pod's status, numbered, and which of it has not been sent.

One entry per pod UID as the node knows it. As long as a pod is cached its version only grows. `unsent` makes a change
of one pod cost nothing for the others: nobody has to search for what is new. One loop owns both.
Upstream: pkg/kubelet/status/status_manager.go (versionedPodStatus).

All that is kept about a pod's status, so that it is forgotten in one go.

The statuses themselves, the conditions of a resize, and what we know of the API's copy. One loop owns them.

The newest object of a pod in the API that we know of, without asking for it.

Upstream reads a pod before each patch. The watch shows us every pod anyway, and the answer to a patch shows the pod
as it is after it, so the newer of the two is as good, and costs no request.

What the status manager asks of the rest of the node.

Each Protocol is as narrow as its use; `app` passes the real ones. All but the client's calls are answered at once.
Upstream: pkg/kubelet/status/status_manager.go (PodManager, PodDeletionSafetyProvider, PodStartupLatencyStateHelper).

The two conditions about a resize of a running pod: one waits, one is under way.

Kept by pod until cleared; the status generator puts them into the status. One loop owns the map.
Upstream: pkg/kubelet/status/status_manager.go (podResizeConditions).
"""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from pykubelet.aio.clock import Clock
from pykubelet.api.generated.core import Pod, PodCondition, PodStatus
from pykubelet.api.pods import MirrorUid, PodUid, is_static_pod
from pykubelet.api.times import format_time
from pykubelet.client.interface import Reader, Writer

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


class VersionedStatus(Struct, frozen=True):
    """One version of a pod's status, and where to send it.

    `finished` says that nothing of the pod is left on this node. `unsent_since` is on the monotonic clock: when the
    oldest change that this version still has to carry to the API came up.
    """

    version: int
    namespace: str
    name: str
    status: PodStatus
    unsent_since: float
    finished: bool = False


class StatusCache:
    """The newest status of each pod."""

    def __init__(self) -> None:
        self._entries: dict[PodUid, VersionedStatus] = {}
        self._unsent: dict[PodUid, None] = {}

    def get(self, uid: PodUid) -> VersionedStatus | None:
        """The newest status of a pod."""
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
        )
        self._entries[uid] = entry
        self._unsent[uid] = None
        return entry

    def restamp(self, uid: PodUid, version: int, status: PodStatus) -> None:
        """Correct times in a version that is still the newest, without making a new one of it."""
        entry = self._entries.get(uid)
        if entry is not None and entry.version == version:
            self._entries[uid] = replace(entry, status=status)

    @property
    def unsent(self) -> tuple[PodUid, ...]:
        """The pods with something to send, the longest waiting first."""
        return tuple(self._unsent)

    def is_unsent(self, uid: PodUid) -> bool:
        """Whether there is something to send of this pod."""
        return uid in self._unsent

    def mark_sent(self, uid: PodUid, version: int) -> None:
        """The API has this version; if there is a newer one, that is still unsent."""
        entry = self._entries.get(uid)
        if entry is not None and entry.version == version:
            self._unsent.pop(uid, None)

    def mark_unsent(self, uid: PodUid) -> None:
        """The API lost, or never got, what it was sent."""
        if uid in self._entries:
            self._unsent[uid] = None

    def drop(self, uid: PodUid) -> bool:
        """Forget a pod; whether it was there."""
        self._unsent.pop(uid, None)
        return self._entries.pop(uid, None) is not None

    def orphans(self, keep: Container[PodUid]) -> tuple[PodUid, ...]:
        """The cached pods that are not to be kept."""
        return tuple(uid for uid in self._entries if uid not in keep)


class StatusApi(Reader, Writer, Protocol):
    """Reads pods, patches their status, deletes them; every call raises ApiError."""


class StatusPodManager(Protocol):
    """The pods this node should run, as their sources last showed them, and their mirrors.

    A pod from the API must carry the resource version of what it shows: that is how a newer answer is told from it.
    """

    def pod_by_uid(self, uid: PodUid, /) -> Pod | None:
        """The regular pod with this UID; a mirror's UID finds nothing."""

    def mirror_pod_by_pod(self, pod: Pod, /) -> Pod | None:
        """The mirror of a pod."""

    def translate_pod_uid(self, uid: str, /) -> PodUid:
        """For a mirror's UID its pod's, any other unchanged."""

    def uid_translations(self) -> tuple[Mapping[PodUid, MirrorUid], Mapping[MirrorUid, PodUid]]:
        """From static pods to their mirrors (NO_MIRROR where there is none) and from mirrors to pods."""


class PodDeletionSafety(Protocol):
    """Knows what is left of a pod on this node."""

    def could_have_running_containers(self, uid: PodUid, /) -> bool:
        """Whether a container of this pod could still be running; such a pod has not ended yet."""

    def pod_resources_are_reclaimed(self, pod: Pod, status: PodStatus, /) -> bool:
        """Whether the pod's containers, volumes and cgroup are gone, so that the API may forget it too."""


class StatusObserver(Protocol):
    """Hears what becomes of statuses: for measuring how long starts take, and for telling people of problems."""

    def status_sent(self, pod: Pod, waited_seconds: float, /) -> None:
        """The API took a status; `pod` is its answer, the wait counts from the oldest change in it."""

    def status_not_sent(self, uid: PodUid, why: str, /) -> None:
        """The API did not take a status, or could not be reached; it is tried again."""

    def pod_forgotten(self, uid: PodUid, /) -> None:
        """The status of this pod is no longer kept."""

    def status_refused(self, pod: Pod, why: str, /) -> None:
        """A status, or the phase in it, was not accepted, because it cannot follow from the one before."""


class ApiView(Protocol):
    """What the API holds, as far as we know. Never waits."""

    def newest(self, uid: PodUid, entry: VersionedStatus, /) -> Pod | None:
        """The newest known API object for a pod's status, for a static pod its mirror; None if none is known."""

    def learn(self, uid: PodUid, pod: Pod, /) -> None:
        """The API answered with this object."""

    def forget(self, uid: PodUid, /) -> None:
        """What was learned of this pod is worth nothing any more."""


class KnownApiPods:
    """The pod manager's objects, which come from the watch, and the API's own answers, whichever are newer."""

    def __init__(self, pods: StatusPodManager) -> None:
        self._pods = pods
        self._answers: dict[PodUid, Pod] = {}

    def newest(self, uid: PodUid, _: VersionedStatus, /) -> Pod | None:
        watched = self._watched(uid)
        answer = self._answers.get(uid)
        if answer is None or watched is None:
            return answer or watched
        if _revision(answer) > _revision(watched):
            return answer
        # The watch has caught up: keeping the answer would only hold a second copy of the pod.
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
    """Resource versions of one kind are numbers that grow; what is none counts as oldest."""
    text = pod.metadata.resource_version
    return int(text) if text.isascii() and text.isdigit() else -1


class StatusRecords:
    """Everything we hold about pods' statuses."""

    def __init__(self, *, resize: ResizeConditions, view: ApiView, observer: StatusObserver | None) -> None:
        self.cache = StatusCache()
        self.resize = resize
        self.view = view
        self._observer = observer

    def drop(self, uid: PodUid) -> None:
        """Forget a pod, if it is known at all."""
        self.resize.drop(uid)
        self.view.forget(uid)
        if self.cache.drop(uid) and self._observer is not None:
            self._observer.pod_forgotten(uid)
