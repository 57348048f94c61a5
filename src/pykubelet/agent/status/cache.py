"""What this node believes about each pod's status, numbered, and which of it has not been sent.

One entry per pod UID as the node knows it. As long as a pod is cached its version only grows. `unsent` makes a change
of one pod cost nothing for the others: nobody has to search for what is new. One loop owns both.
Upstream: pkg/kubelet/status/status_manager.go (versionedPodStatus).
"""

from collections.abc import Container, Iterator

from msgspec import Struct
from msgspec.structs import replace

from pykubelet.api.generated.core import Pod, PodStatus
from pykubelet.api.keys import PodUid


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
