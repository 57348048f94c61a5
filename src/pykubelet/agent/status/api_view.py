"""The newest object of a pod in the API that we know of, without asking for it.

Upstream reads a pod before each patch. The watch shows us every pod anyway, and the answer to a patch shows the pod
as it is after it, so the newer of the two is as good, and costs no request.
"""

from typing import Protocol

from pykubelet.agent.status.cache import VersionedStatus
from pykubelet.agent.status.collaborators import PodManager
from pykubelet.api.generated.core import Pod
from pykubelet.api.keys import PodUid
from pykubelet.api.pods import is_static_pod


class ApiView(Protocol):
    """What the API holds, as far as we know. Never waits."""

    def newest(self, uid: PodUid, entry: VersionedStatus, /) -> Pod | None:
        """The newest known API object for a pod's status, for a static pod its mirror; None if none is known."""

    def learn(self, uid: PodUid, pod: Pod, /) -> None:
        """The API answered with this object."""

    def forget(self, uid: PodUid, /) -> None:
        """What was learned of this pod is worth nothing any more."""


class KnownPods:
    """The pod manager's objects, which come from the watch, and the API's own answers, whichever are newer."""

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
