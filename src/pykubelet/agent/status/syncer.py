"""Send one pod's status to the API server, and tell which pods have something to send.

A status goes out as a patch against the newest object we know, with the pod's UID as precondition; the server is
asked for the pod only if nothing is known of it, or if it refused the patch because of what it has. When a pod that
is being deleted has ended and nothing of it is left here, its deletion in the API is completed.
Upstream: pkg/kubelet/status/status_manager.go (syncBatch, syncPod, needsUpdate, needsReconcile, canBeDeleted).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pykubelet.agent.status.cache import VersionedStatus
from pykubelet.agent.status.collaborators import ApiClient, PodDeletionSafety, PodManager, StatusObserver
from pykubelet.agent.status.equality import equal_by_node
from pykubelet.agent.status.merge import merge_status, stamp_disruption
from pykubelet.agent.status.normalize import normalize_status
from pykubelet.agent.status.patch import is_unchanged, status_patch
from pykubelet.agent.status.records import StatusRecords
from pykubelet.agent.status.transitions import latch_phase
from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.api.errors import ApiError, Conflict, Invalid, NotFound
from pykubelet.api.generated.core import Pod, PodStatus
from pykubelet.api.keys import NO_MIRROR, MirrorUid, PodUid
from pykubelet.api.pods import is_mirror_pod, is_static_pod, is_terminal
from pykubelet.api.times import format_time
from pykubelet.api.typed import PODS
from pykubelet.kube.client import now_if_uid

log = get_logger(__name__)

# A pod's volumes and cgroup go within seconds of its containers; the API need not learn of it any sooner.
RECLAIM_POLL_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Retry:
    """A status could not be sent, or a deletion not completed: try again, at the earliest after this time."""

    after_seconds: float = 0.0


class StatusSyncer:
    """Sends statuses. Never call it twice at once for one pod; different pods may go side by side."""

    def __init__(
        self,
        *,
        client: ApiClient,
        pods: PodManager,
        safety: PodDeletionSafety,
        records: StatusRecords,
        observer: StatusObserver | None,
        clock: Clock,
    ) -> None:
        self._client = client
        self._pods = pods
        self._safety = safety
        self._records = records
        self._cache, self._view = records.cache, records.view
        self._observer = observer
        self._clock = clock
        # The last version sent, by the UID that the API server knows: a mirror's for a static pod.
        self._sent: dict[MirrorUid, int] = {}
        # What was last compared and found to say the same: the API's object and our status, neither of which ever changes.
        self._agreed: dict[PodUid, tuple[Pod, PodStatus]] = {}

    def due(self, *, all: bool) -> tuple[PodUid, ...]:
        """The pods to send now: those with a version not sent yet.

        With `all` every pod is looked at, and those join whose status in the API is not ours, and those that can be
        deleted; versions of pods that are gone are forgotten.
        """
        pod_to_mirror, mirror_to_pod = self._pods.uid_translations()
        if all:
            for known in tuple(self._sent):
                if PodUid(known) not in self._cache and known not in mirror_to_pod:
                    del self._sent[known]
            for agreed in self._agreed.keys() - set(self._cache):
                del self._agreed[agreed]
            return tuple(uid for uid in self._cache if self._is_due(uid, pod_to_mirror))
        # A mirror made anew has nothing of what was sent to the one before, and nobody marks that as unsent.
        remirrored = (uid for uid in pod_to_mirror if uid in self._cache)
        candidates: Iterable[PodUid] = dict.fromkeys((*self._cache.unsent, *remirrored))
        return tuple(uid for uid in candidates if self._has_unsent(uid, pod_to_mirror))

    def is_due(self, uid: PodUid) -> bool:
        """Whether `due(all=True)` would name this pod; the others are not looked at."""
        pod = self._pods.pod_by_uid(uid)
        mirror = self._pods.mirror_pod_by_pod(pod) if pod is not None else None
        if mirror is not None:
            return self._is_due(uid, {uid: MirrorUid(mirror.metadata.uid)})
        return self._is_due(uid, {uid: NO_MIRROR} if pod is not None and is_static_pod(pod) else {})

    def needs_update(self, api_uid: MirrorUid, entry: VersionedStatus) -> bool:
        """Whether the API has an older version than this, or the pod waits for its deletion."""
        if self._sent.get(api_uid, 0) < entry.version:
            return True
        pod = self._pods.pod_by_uid(PodUid(api_uid))
        return pod is not None and self.can_be_deleted(pod, entry)

    def needs_reconcile(self, uid: PodUid, status: PodStatus) -> bool:
        """Whether the API shows another status than ours, for whatever reason; ours is the truth."""
        pod = self._pods.pod_by_uid(uid)
        if pod is not None and is_static_pod(pod):
            pod = self._pods.mirror_pod_by_pod(pod)
        if pod is None:
            return False
        shown, ours = self._agreed.get(uid, (None, None))
        if shown is pod and ours is status:
            return False
        differs = not equal_by_node(normalize_status(pod, pod.status), status)
        if not differs:
            self._agreed[uid] = pod, status
        return differs

    def can_be_deleted(self, pod: Pod, entry: VersionedStatus) -> bool:
        """Whether the API may forget this pod: it ended there as well as here, and nothing of it is left."""
        return _waits_for_deletion(pod, entry) and self._safety.pod_resources_are_reclaimed(pod, entry.status)

    async def sync_pod(self, uid: PodUid) -> Retry | None:
        """Bring the API up to the newest version of this pod's status; None if nothing more can be done now.

        A pod that the API does not have, or that is another one by now, is no failure. Raises nothing of the API's.
        """
        entry = self._cache.get(uid)
        if entry is None or self._lacks_mirror(uid):
            return None
        facts = {"pod": f"{entry.namespace}/{entry.name}", "uid": uid, "version": entry.version}
        try:
            return await self._send(uid, entry)
        except NotFound:
            # Whoever forgets the pod will have its status dropped too.
            log.debug("pod is not in the API", **facts)
            return None
        except ApiError as error:
            log.warning("status not sent", reason=error.reason, why=error.message, **facts)
            if self._observer is not None:
                self._observer.status_not_sent(uid, error.message)
            # What the server will not have is not worth asking often; the next reconcile pass does.
            worth_repeating = error.retry or isinstance(error, Conflict)
            return Retry(error.retry_after_seconds or 0.0) if worth_repeating else None

    async def _send(self, uid: PodUid, entry: VersionedStatus) -> Retry | None:
        pod = self._view.newest(uid, entry) or await self._read(uid, entry)
        if self._is_another(uid, pod):
            return None
        try:
            pod = await self._patch(uid, entry, pod)
        except (Conflict, Invalid) as error:
            if not _is_about_identity(error):
                raise
            pod = await self._read(uid, entry)
            if self._is_another(uid, pod):
                return None
            pod = await self._patch(uid, entry, pod)
        self._sent[MirrorUid(pod.metadata.uid)] = entry.version
        self._cache.mark_sent(uid, entry.version)
        if not _waits_for_deletion(pod, entry):
            return None
        if not self.can_be_deleted(pod, entry):
            return Retry(RECLAIM_POLL_SECONDS)
        await self._delete(uid, entry, pod)
        return None

    async def _read(self, uid: PodUid, entry: VersionedStatus) -> Pod:
        pod = await self._client.get(PODS, entry.name, namespace=entry.namespace)
        self._learn(uid, pod)
        return pod

    async def _patch(self, uid: PodUid, entry: VersionedStatus, pod: Pod) -> Pod:
        """Have the API take the status over; its answer, or `pod` if that has it already."""
        could_run = self._safety.could_have_running_containers(uid)
        now = format_time(self._clock.now())
        status = stamp_disruption(pod.status, entry.status, could_run=could_run, now=now)
        if status != entry.status:
            self._cache.restamp(uid, entry.version, status)
        latched = latch_phase(pod.status, status)
        merged = merge_status(pod, pod.status, latched, could_run=could_run, now=now)
        patch = status_patch(pod.metadata.uid, pod.status, merged)
        if is_unchanged(patch):
            return pod
        answer = await self._client.patch(PODS, entry.name, patch, namespace=entry.namespace, subresource="status")
        self._learn(uid, answer)
        if self._observer is not None:
            self._observer.status_sent(answer, self._clock.monotonic() - entry.unsent_since)
        return answer

    async def _delete(self, uid: PodUid, entry: VersionedStatus, pod: Pod) -> None:
        try:
            options = now_if_uid(pod.metadata.uid)
            await self._client.delete(PODS, entry.name, namespace=entry.namespace, options=options)
        except NotFound:
            pass
        except Conflict:
            found = await self._read(uid, entry)
            if found.metadata.uid == pod.metadata.uid:
                raise
        log.debug("pod gone from the API", pod=f"{entry.namespace}/{entry.name}", uid=uid)
        self._records.drop(uid)

    def _learn(self, uid: PodUid, pod: Pod) -> None:
        # The pod may have been forgotten while we waited for the answer.
        if uid in self._cache:
            self._view.learn(uid, pod)

    def _is_another(self, uid: PodUid, pod: Pod) -> bool:
        """Whether the name belongs to another pod by now; then nobody needs the status of the one before."""
        translated = self._pods.translate_pod_uid(pod.metadata.uid)
        if not translated or translated == uid:
            return False
        log.info("pod was made anew, its old status is dropped", uid=uid, new_uid=translated)
        self._records.drop(uid)
        return True

    def _lacks_mirror(self, uid: PodUid) -> bool:
        pod = self._pods.pod_by_uid(uid)
        return pod is not None and is_static_pod(pod) and self._pods.mirror_pod_by_pod(pod) is None

    def _is_due(self, uid: PodUid, pod_to_mirror: Mapping[PodUid, MirrorUid]) -> bool:
        entry = self._cache.get(uid)
        api_uid = pod_to_mirror.get(uid, MirrorUid(uid))
        if entry is None or api_uid == NO_MIRROR:
            return False
        if self.needs_update(api_uid, entry):
            return True
        if not self.needs_reconcile(uid, entry.status):
            return False
        self._sent.pop(api_uid, None)
        self._cache.mark_unsent(uid)
        return True

    def _has_unsent(self, uid: PodUid, pod_to_mirror: Mapping[PodUid, MirrorUid]) -> bool:
        entry = self._cache.get(uid)
        api_uid = pod_to_mirror.get(uid, MirrorUid(uid))
        return entry is not None and api_uid != NO_MIRROR and self._sent.get(api_uid, 0) < entry.version


def _waits_for_deletion(pod: Pod, entry: VersionedStatus) -> bool:
    """Whether a pod is to be deleted and has come to its end; mirrors are deleted by whoever keeps them."""
    deleting = pod.metadata.deletion_timestamp is not None and not is_mirror_pod(pod)
    return deleting and is_terminal(pod.status.phase) and entry.finished


def _is_about_identity(error: Conflict | Invalid) -> bool:
    """Whether the server may have refused a patch because the name belongs to another pod."""
    return isinstance(error, Conflict) or any(cause.get("field") == "metadata.uid" for cause in error.causes)
