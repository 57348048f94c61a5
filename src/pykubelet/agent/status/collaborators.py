"""What the status manager asks of the rest of the node.

Each Protocol is as narrow as its use; `app` passes the real ones. All but the client's calls are answered at once.
Upstream: pkg/kubelet/status/status_manager.go (PodManager, PodDeletionSafetyProvider, PodStartupLatencyStateHelper).
"""

from collections.abc import Mapping
from typing import Protocol

from pykubelet.api.generated.core import Pod, PodStatus
from pykubelet.api.keys import MirrorUid, PodUid
from pykubelet.kube.client import Reader, Writer


class ApiClient(Reader, Writer, Protocol):
    """Reads pods, patches their status, deletes them; every call raises ApiError."""


class PodManager(Protocol):
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
