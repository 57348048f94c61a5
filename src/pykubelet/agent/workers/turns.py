"""Static pods of one full name take turns: the next starts when the one before has finished.

Pure. An edited manifest is a new pod with an old name; both at once would fight over ports, paths and the mirror. Pods
start in the order in which they were first seen. Upstream: allowStaticPodStart in pkg/kubelet/pod_workers.go, which
looks again every ten seconds; here whoever frees a name asks `next_up` and wakes that pod.
"""

from collections.abc import Callable

from pykubelet.api.keys import PodUid

CanStart = Callable[[PodUid], bool]
"""Whether a waiting pod may start at all: it is still known and was not asked to end."""


class StaticTurns:
    """Who holds each name and who waits for it."""

    def __init__(self) -> None:
        self._holders: dict[str, PodUid] = {}
        # Ordered sets: a pod waits once, and leaves from anywhere.
        self._waiting: dict[str, dict[PodUid, None]] = {}

    def wait(self, full_name: str, uid: PodUid) -> None:
        """A static pod was seen for the first time; it stands at the end of the line."""
        self._waiting.setdefault(full_name, {})[uid] = None

    def try_start(self, full_name: str, uid: PodUid, can_start: CanStart) -> bool:
        """Whether it is this pod's turn; if so it holds the name from now on."""
        if full_name in self._holders:
            return self._holders[full_name] == uid
        if self.next_up(full_name, can_start) not in (uid, None):
            return False
        self._leave(full_name, uid)
        self._holders[full_name] = uid
        return True

    def next_up(self, full_name: str, can_start: CanStart) -> PodUid | None:
        """The pod whose turn it is, if the name is free and anyone waits."""
        if full_name in self._holders:
            return None
        return next((uid for uid in self._waiting.get(full_name, ()) if can_start(uid)), None)

    def holder(self, full_name: str) -> PodUid | None:
        """The static pod that was started under this name and has not finished."""
        return self._holders.get(full_name)

    def release(self, full_name: str, uid: PodUid) -> None:
        """A pod has finished, or is forgotten: it neither holds the name nor waits for it."""
        if self._holders.get(full_name) == uid:
            del self._holders[full_name]
        self._leave(full_name, uid)

    def _leave(self, full_name: str, uid: PodUid) -> None:
        waiting = self._waiting.get(full_name, {})
        waiting.pop(uid, None)
        if not waiting:
            self._waiting.pop(full_name, None)
