"""Sends one pod's status to the API server, and finds the pods that have something to send.

A status is sent as a strategic merge patch against the newest known object, with the pod's UID as precondition; the pod
is read from the server only if no object is known, or the server rejected the patch because of its own version. What
others own in the status stays; a terminal phase is sent only once no container can run. When a pod that is being
deleted has ended and nothing of it is left on the node, the syncer deletes it from the API.

Upstream: pkg/kubelet/status/status_manager.go, pkg/util/pod/pod.go
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.api.errors import ApiError, Conflict, Forbidden, Invalid, NotFound
from pykubelet.api.generated.core import Pod, PodStatus
from pykubelet.api.patch.strategic_diff import diff_strategic
from pykubelet.api.pods import (
    NO_MIRROR,
    OWNED_CONDITIONS,
    MirrorUid,
    PodUid,
    is_mirror_pod,
    is_static_pod,
    is_terminal,
    pod_label,
)
from pykubelet.api.scheme import PODS
from pykubelet.api.serializer import Document, to_document
from pykubelet.api.times import format_time
from pykubelet.client.interface import Client, now_if_uid
from pykubelet.kubelet.pod.pod_manager import PodManager, is_mirror_pod_of
from pykubelet.kubelet.status.cache import PodDeletionSafety, StatusObserver, StatusRecords, VersionedStatus
from pykubelet.kubelet.status.conditions import (
    Conditions,
    find_condition,
    is_true,
    replace_or_append,
    unready_when_terminal,
    with_transition_time,
)
from pykubelet.kubelet.status.normalize import equal_by_node, latch_phase, normalize_status

_DISRUPTION = "DisruptionTarget"


def merge_status(pod: Pod, old: PodStatus, new: PodStatus, *, could_run: bool, now: str) -> PodStatus:
    """The status to send for `pod`; `could_run` says whether its containers may still be running."""
    ending = not is_terminal(old.phase) and is_terminal(new.phase)
    new = stamp_disruption(old, new, could_run=could_run, now=now)
    shown = old if ending and could_run else new
    merged = replace(
        new,
        conditions=_merge_conditions(old, new, takes_disruption=ending and not could_run),
        resource_claim_statuses=old.resource_claim_statuses,
        extended_resource_claim_status=old.extended_resource_claim_status,
        phase=shown.phase,
        reason=shown.reason,
        message=shown.message,
    )
    return _unready_if_terminal(pod, old, merged, now)


def stamp_disruption(old: PodStatus, new: PodStatus, *, could_run: bool, now: str) -> PodStatus:
    """The node's status with a new time in DisruptionTarget when the pod reaches its terminal phase.

    The condition is held back until then, so its earlier time would mislead.
    """
    if is_terminal(old.phase) or not is_terminal(new.phase) or could_run:
        return new
    return replace(new, conditions=with_transition_time(new.conditions, old.conditions, _DISRUPTION, now))


def dated_as_shown(shown: PodStatus, status: PodStatus) -> PodStatus:
    """The first status of a static pod that its mirror pod gets: what stays as it is has not moved.

    The pod may have started before its mirror pod was known, or its status was forgotten when its file was removed.
    """
    dated = tuple(
        replace(one, last_transition_time=before.last_transition_time)
        if (before := find_condition(shown.conditions, one.type)) is not None and before.status == one.status
        else one
        for one in status.conditions
    )
    return replace(status, conditions=dated, start_time=shown.start_time or status.start_time)


def _merge_conditions(old: PodStatus, new: PodStatus, *, takes_disruption: bool) -> Conditions:
    merged = tuple(condition for condition in old.conditions if condition.type not in OWNED_CONDITIONS)
    for condition in new.conditions:
        if condition.type in OWNED_CONDITIONS:
            merged = (*merged, condition)
        elif condition.type == _DISRUPTION and takes_disruption:
            merged = replace_or_append(merged, find_condition(new.conditions, _DISRUPTION) or condition)
    return merged


def _unready_if_terminal(pod: Pod, old: PodStatus, status: PodStatus, now: str) -> PodStatus:
    """The status of a terminal pod with Ready and ContainersReady False, whatever its probes said last."""
    conditions = status.conditions
    if not is_terminal(status.phase) or not (is_true(conditions, "Ready") or is_true(conditions, "ContainersReady")):
        return status
    for kind in ("ContainersReady", "Ready"):
        before = find_condition(conditions, kind)
        since = before.last_transition_time if before is not None and before.status == "False" else now
        unready = replace(unready_when_terminal(pod, old, kind, status.phase), last_transition_time=since)
        conditions = replace_or_append(conditions, unready)
    return replace(status, conditions=conditions)


def status_patch(uid: str, old: PodStatus, new: PodStatus) -> Document:
    """The patch from `old` to `new` for the pod with this UID."""
    wanted = {"metadata": {"uid": uid}, "status": to_document(new)}
    return diff_strategic({"status": to_document(old)}, wanted, "core.v1.Pod")


def is_unchanged(patch: Document) -> bool:
    """Whether a status patch contains nothing but its precondition."""
    return patch.keys() == {"metadata"}


log = get_logger(__name__)

# Volumes and cgroup are released within seconds after the containers.
RECLAIM_POLL_SECONDS = 1.0
# The Node authorizer's reason, here and upstream, when no object connects the node with what it asks for.
_NO_RELATIONSHIP = "no relationship found between node"


@dataclass(frozen=True, slots=True)
class StatusRetry:
    """A status was not sent, or a deletion not completed: retry after this time at the earliest."""

    after_seconds: float = 0.0


class StatusSyncer:
    """Sends statuses: one pod at a time per pod, different pods concurrently."""

    def __init__(
        self,
        *,
        client: Client,
        pods: PodManager,
        safety: PodDeletionSafety,
        records: StatusRecords,
        observer: StatusObserver | None,
        clock: Clock,
    ) -> None:
        self._client, self._pods, self._safety, self._records = client, pods, safety, records
        self._cache, self._view = records.cache, records.view
        self._observer, self._clock = observer, clock
        # The last version sent, by the UID in the API: that of the mirror pod for a static pod.
        self._sent: dict[MirrorUid, int] = {}
        # The last compared equal pair of API object and own status, both immutable.
        self._agreed: dict[PodUid, tuple[Pod, PodStatus]] = {}

    def due(self, *, all: bool) -> tuple[PodUid, ...]:
        """The pods with an unsent version.

        With `all` also those whose status in the API differs from ours and those that can be deleted; versions of
        forgotten pods are dropped.
        """
        pod_to_mirror, mirror_to_pod = self._pods.uid_translations()
        if all:
            for known in tuple(self._sent):
                if PodUid(known) not in self._cache and known not in mirror_to_pod:
                    del self._sent[known]
            for agreed in self._agreed.keys() - set(self._cache):
                del self._agreed[agreed]
            return tuple(uid for uid in self._cache if self._is_due(uid, pod_to_mirror))
        # A recreated mirror pod lacks what was sent to its predecessor, although it counts as sent.
        remirrored = (uid for uid in pod_to_mirror if uid in self._cache)
        candidates: Iterable[PodUid] = dict.fromkeys((*self._cache.unsent, *remirrored))
        return tuple(uid for uid in candidates if self._has_unsent(uid, pod_to_mirror))

    def pod_name(self, uid: PodUid) -> str:
        """The namespace and name of a pod with a cached status, for logs; empty if there is none."""
        entry = self._cache.get(uid)
        return f"{entry.namespace}/{entry.name}" if entry is not None else ""

    def is_due(self, uid: PodUid) -> bool:
        """Whether `due(all=True)` would contain this pod."""
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
        """Whether the API shows another status than ours."""
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
        """Whether the API may delete this pod: it ended there and here, and nothing of it is left."""
        return _waits_for_deletion(pod, entry) and self._safety.pod_resources_are_reclaimed(pod, entry.status)

    async def sync_pod(self, uid: PodUid) -> StatusRetry | None:
        """Send the newest version of this pod's status; None if nothing is left to do now.

        A pod that is missing in the API, or was recreated, is no failure. Raises no ApiError.
        """
        entry = self._cache.get(uid)
        if entry is None or self._lacks_mirror(uid):
            return None
        facts = {"pod": self.pod_name(uid), "uid": uid, "version": entry.version}
        try:
            return await self._send(uid, entry)
        except ApiError as error:
            if self._is_gone(uid, error):
                # The status is dropped when the pod is forgotten.
                log.debug("pod is not in the API", **facts)
                return None
            log.warning("status not sent", reason=error.reason, why=error.message, **facts)
            if self._observer is not None:
                self._observer.status_not_sent(uid, error.message)
            # A rejected status is retried by the next reconcile pass only.
            worth_repeating = error.retry or isinstance(error, Conflict)
            return StatusRetry(error.retry_after_seconds or 0.0) if worth_repeating else None

    def _is_gone(self, uid: PodUid, error: ApiError) -> bool:
        """Whether an error means that the API no longer has the pod.

        The Node authorizer cannot tell a pod that is gone from another node's: both are forbidden.
        """
        if not isinstance(error, Forbidden):
            return isinstance(error, NotFound)
        pod = self._pods.pod_by_uid(uid)
        is_leaving = pod is None or pod.metadata.deletion_timestamp is not None
        return is_leaving or _NO_RELATIONSHIP in error.message

    async def _send(self, uid: PodUid, entry: VersionedStatus) -> StatusRetry | None:
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
            return StatusRetry(RECLAIM_POLL_SECONDS)
        await self._delete(uid, entry, pod)
        return None

    async def _read(self, uid: PodUid, entry: VersionedStatus) -> Pod:
        pod = await self._client.get(PODS, entry.name, namespace=entry.namespace)
        self._learn(uid, pod)
        return pod

    async def _patch(self, uid: PodUid, entry: VersionedStatus, pod: Pod) -> Pod:
        """Patch the status; return the API's answer, or `pod` if nothing had to be sent."""
        # Workers do not know the UID of a mirror pod: as upstream, its phase never waits for the worker's last sync.
        could_run = self._safety.could_have_running_containers(PodUid(pod.metadata.uid))
        now = format_time(self._clock.now())
        status = stamp_disruption(pod.status, entry.status, could_run=could_run, now=now)
        if is_mirror_pod(pod) and not entry.is_known:
            status = dated_as_shown(pod.status, status)
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
        log.debug("pod deleted from the API", pod=f"{entry.namespace}/{entry.name}", uid=uid)
        self._records.drop(uid)

    def _learn(self, uid: PodUid, pod: Pod) -> None:
        # The pod may have been forgotten while we waited.
        if uid in self._cache:
            self._view.learn(uid, pod)

    def _is_another(self, uid: PodUid, pod: Pod) -> bool:
        """Whether the name belongs to another pod by now; then the old status is dropped."""
        translated = self._pods.translate_pod_uid(pod.metadata.uid)
        if not translated or translated == uid:
            return False
        log.info("pod was recreated: its old status is dropped", pod=pod_label(pod), uid=uid, new_uid=translated)
        self._records.drop(uid)
        return True

    def _lacks_mirror(self, uid: PodUid) -> bool:
        """Whether a static pod has no mirror pod of its version: another one shows the pod that it was made for."""
        pod = self._pods.pod_by_uid(uid)
        if pod is None or not is_static_pod(pod):
            return False
        mirror = self._pods.mirror_pod_by_pod(pod)
        return mirror is None or not is_mirror_pod_of(mirror, pod)

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
    """Whether a pod is being deleted and has ended; mirror pods are deleted by the mirror client."""
    deleting = pod.metadata.deletion_timestamp is not None and not is_mirror_pod(pod)
    return deleting and is_terminal(pod.status.phase) and entry.finished


def _is_about_identity(error: Conflict | Invalid) -> bool:
    """Whether the server may have rejected a patch because the name belongs to another pod."""
    return isinstance(error, Conflict) or any(cause.get("field") == "metadata.uid" for cause in error.causes)
