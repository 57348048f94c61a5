"""The one place where it is decided what this node says about each pod.

Others tell what they saw (`set_*`, `terminate_pod`); what follows is kept, numbered and sent to the API server.
Setters are plain calls on the loop and never wait. Nothing is watched here.
Upstream: pkg/kubelet/status/status_manager.go.
"""

import asyncio
from collections.abc import Container

from msgspec.structs import replace

from pykubelet.agent.status import conditions, terminate, transitions
from pykubelet.agent.status.api_view import ApiView, KnownPods
from pykubelet.agent.status.cache import VersionedStatus
from pykubelet.agent.status.collaborators import ApiClient, PodDeletionSafety, PodManager, StatusObserver
from pykubelet.agent.status.condition_list import replace_or_append, with_transition_time
from pykubelet.agent.status.equality import equal_by_node
from pykubelet.agent.status.normalize import normalize_status
from pykubelet.agent.status.records import StatusRecords
from pykubelet.agent.status.resize import ResizeConditions
from pykubelet.agent.status.sender import StatusSender
from pykubelet.agent.status.syncer import StatusSyncer
from pykubelet.agent.status.urgency import urgency_of
from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.api.generated.core import ContainerStatus, Pod, PodStatus
from pykubelet.api.keys import PodUid
from pykubelet.api.pods import CONFIG_HASH, CONFIG_MIRROR, is_static_pod, pod_label
from pykubelet.api.times import format_time

log = get_logger(__name__)

_DATED_CONDITIONS = (
    "ContainersReady",
    "Ready",
    "Initialized",
    "PodReadyToStartContainers",
    "PodScheduled",
    "DisruptionTarget",
)


class StatusManager:
    """The statuses of this node's pods. Without a client they are kept, but sent nowhere.

    `view` says what is known of the API's objects; by default what the pod manager has and what the API answered.
    """

    def __init__(
        self,
        *,
        client: ApiClient | None,
        pods: PodManager,
        safety: PodDeletionSafety,
        clock: Clock,
        observer: StatusObserver | None = None,
        view: ApiView | None = None,
    ) -> None:
        self._pods = pods
        self._clock = clock
        self._observer = observer
        self.resize = ResizeConditions(clock)
        self._records = StatusRecords(resize=self.resize, view=view or KnownPods(pods), observer=observer)
        self._cache = self._records.cache
        self._sender: StatusSender | None = None
        if client is not None:
            syncer = StatusSyncer(
                client=client, pods=pods, safety=safety, records=self._records, observer=observer, clock=clock
            )
            self._sender = StatusSender(syncer=syncer, clock=clock)

    async def run(self, ready: asyncio.Event) -> None:
        """Send statuses until cancelled; returns at once if there is no client."""
        if self._sender is None:
            log.info("no API server: statuses are not sent")
            ready.set()
            return
        await self._sender.run(ready)

    async def sync_batch(self, *, all: bool) -> int:
        """Send what is unsent, with `all` also what the API shows wrongly; how many pods were tried.

        For callers that drive the manager themselves; never beside `run`.
        """
        return await self._sender.sync_batch(all=all) if self._sender is not None else 0

    def pod_status(self, uid: str) -> PodStatus | None:
        """The newest status of a pod, by its own UID or its mirror's."""
        entry = self._cache.get(self._pods.translate_pod_uid(uid))
        return entry.status if entry is not None else None

    def has_unsent(self) -> bool:
        """Whether the API server does not know every status yet; never without one."""
        return self._sender is not None and bool(self._cache.unsent)

    def is_unsent(self, uid: PodUid) -> bool:
        """Whether the API server does not know the newest status of this pod yet; never without one."""
        return self._sender is not None and self._cache.is_unsent(uid)

    def shown_status(self, pod: Pod) -> PodStatus:
        """What the API shows of a pod we have no status of: after a restart, no condition may move without cause."""
        mirror = self._pods.mirror_pod_by_pod(pod)
        if mirror is None:
            return pod.status
        # A mirror of another version says nothing about this one.
        shows = mirror.metadata.annotations.get(CONFIG_MIRROR)
        return mirror.status if shows == pod.metadata.annotations.get(CONFIG_HASH) else pod.status

    def set_pod_status(self, pod: Pod, status: PodStatus) -> None:
        """The pod's status is this now; for a pod that is being deleted it is sent even if nothing changed."""
        status = replace(status, observed_generation=pod.metadata.generation)
        self._accept(pod, status, force=pod.metadata.deletion_timestamp is not None, finished=False)

    def set_container_readiness(self, uid: PodUid, container_id: str, *, ready: bool) -> None:
        """A container is ready or not; the pod's Ready and ContainersReady follow."""
        found = self._find_container(uid, container_id)
        if found is None or found[2].ready == ready:
            return
        pod, old, container = found
        status = _with_container(old, container, replace(container, ready=ready))
        statuses = (*status.init_container_statuses, *status.container_statuses)
        for condition in (
            conditions.pod_ready(pod, old, status.conditions, statuses, status.phase),
            conditions.containers_ready(pod, old, statuses, status.phase),
        ):
            status = replace(status, conditions=replace_or_append(status.conditions, condition))
        self._accept(pod, status, force=False, finished=False)

    def set_container_startup(self, uid: PodUid, container_id: str, *, started: bool) -> None:
        """A container has started or not."""
        found = self._find_container(uid, container_id)
        if found is None or found[2].started == started:
            return
        pod, old, container = found
        status = _with_container(old, container, replace(container, started=started))
        self._accept(pod, status, force=False, finished=False)

    def terminate_pod(self, pod: Pod) -> None:
        """Nothing of the pod is left on this node: its status is final, and the API may forget the pod."""
        entry = self._cache.get(PodUid(pod.metadata.uid))
        status = entry.status if entry is not None else pod.status
        self._accept(pod, terminate.final_status(pod, status), force=True, finished=True)

    def remove_orphaned_statuses(self, keep: Container[PodUid]) -> None:
        """Forget every pod that is not to be kept."""
        for uid in self._cache.orphans(keep):
            self._records.drop(uid)
            if self._sender is not None:
                self._sender.withdraw(uid)

    def reconcile_pod(self, uid: str) -> None:
        """The API's object with this UID, a pod or a mirror, changed or is new: send our status if it shows another.

        A hint: without it the same happens within ten seconds.
        """
        if self._sender is not None:
            self._sender.reconcile(self._pods.translate_pod_uid(uid))

    def _find_container(self, uid: PodUid, container_id: str) -> tuple[Pod, PodStatus, ContainerStatus] | None:
        """A pod, its cached status and the status of the container with this ID; None if one of them is not known."""
        pod = self._pods.pod_by_uid(uid)
        if pod is None:
            return None
        entry = self._cache.get(PodUid(pod.metadata.uid))
        if entry is None:
            log.info("container changed before its pod has a status", pod=pod_label(pod), container=container_id)
            return None
        status = entry.status
        for container in (*status.container_statuses, *status.init_container_statuses):
            if container.container_id == container_id:
                return pod, status, container
        log.info("unknown container changed", pod=pod_label(pod), container=container_id)
        return None

    def _accept(self, pod: Pod, status: PodStatus, *, force: bool, finished: bool) -> None:
        """Make this the pod's status, unless it cannot follow from the one before or says nothing new."""
        entry = self._cache.get(PodUid(pod.metadata.uid))
        old = entry.status if entry is not None else self.shown_status(pod)
        if why := transitions.illegal_transition(old, status, pod.spec):
            self._refuse(pod, why)
            return
        latched = transitions.latch_phase(old, status)
        if latched is not status:
            self._refuse(pod, f"terminal phase {old.phase} attempted illegal transition to {status.phase or 'none'}")
        status = normalize_status(pod, self._continued(old, latched))
        if entry is not None and not force and equal_by_node(old, status):
            return
        self._cache.put(pod, status, finished=finished or _stays_finished(pod, entry), at=self._clock.monotonic())
        if self._sender is not None:
            self._sender.offer(PodUid(pod.metadata.uid), urgency_of(pod, old, status, finished=finished))

    def _continued(self, old: PodStatus, new: PodStatus) -> PodStatus:
        """The new status with all that the old one hands down: when conditions turned, the start, the generation."""
        now = format_time(self._clock.now())
        dated = new.conditions
        for kind in _DATED_CONDITIONS:
            dated = with_transition_time(dated, old.conditions, kind, now)
        return replace(
            new,
            conditions=dated,
            start_time=old.start_time or new.start_time or now,
            observed_generation=max(old.observed_generation, new.observed_generation),
        )

    def _refuse(self, pod: Pod, why: str) -> None:
        log.warning("status refused", pod=pod_label(pod), why=why)
        if self._observer is not None:
            self._observer.status_refused(pod, why)


def _stays_finished(pod: Pod, entry: VersionedStatus | None) -> bool:
    """Whether a pod was finished before; only a static pod can come back, under the UID it had."""
    return entry is not None and entry.finished and not is_static_pod(pod)


def _with_container(status: PodStatus, old: ContainerStatus, new: ContainerStatus) -> PodStatus:
    """The status with one container's status exchanged."""
    return replace(
        status,
        container_statuses=tuple(new if one is old else one for one in status.container_statuses),
        init_container_statuses=tuple(new if one is old else one for one in status.init_container_statuses),
    )
