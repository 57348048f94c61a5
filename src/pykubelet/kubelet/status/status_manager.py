"""The status manager: decides what the node reports about each pod, and sends it to the API server.

Setters never wait. Changed pods are queued and several are sent at once, those with terminal phases and readiness
changes first. Of one pod only the newest status is sent. Failed sends are retried with back-off, not before the time
the server asked for. Every ten seconds all statuses are compared with what the API shows. Upstream has one worker and no
priorities. A container that cannot be found when its pod terminates counts as failed; containers that never started
stay waiting.

Upstream: pkg/kubelet/status/status_manager.go
"""

import asyncio
from collections.abc import Container
from contextlib import suppress
from enum import IntEnum

from msgspec.structs import replace

from pykubelet.aio.backoff import Backoff
from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.aio.queues import KeyedQueue
from pykubelet.aio.tasks import start_supervised
from pykubelet.api.generated.core import ContainerState, ContainerStateTerminated, ContainerStatus, Pod, PodStatus
from pykubelet.api.pods import (
    CONFIG_HASH,
    CONFIG_MIRROR,
    PodUid,
    is_restartable_init_container,
    is_static_pod,
    is_terminal,
    pod_label,
)
from pykubelet.api.times import format_time
from pykubelet.client.interface import Client
from pykubelet.kubelet.pod.pod_manager import PodManager
from pykubelet.kubelet.status import conditions, normalize
from pykubelet.kubelet.status.cache import (
    ApiView,
    KnownApiPods,
    PodDeletionSafety,
    ResizeConditions,
    StatusObserver,
    StatusRecords,
    VersionedStatus,
)
from pykubelet.kubelet.status.conditions import is_true, replace_or_append, with_transition_time
from pykubelet.kubelet.status.normalize import equal_by_node, normalize_status
from pykubelet.kubelet.status.sync import StatusRetry, StatusSyncer


class StatusUrgency(IntEnum):
    """The priority of a status; lower values are sent first."""

    END = 0
    READINESS = 1
    OTHER = 2


def urgency_of(pod: Pod, old: PodStatus, new: PodStatus, *, finished: bool) -> StatusUrgency:
    if finished or pod.metadata.deletion_timestamp is not None or is_terminal(new.phase):
        return StatusUrgency.END
    if is_true(old.conditions, "Ready") != is_true(new.conditions, "Ready"):
        return StatusUrgency.READINESS
    return StatusUrgency.OTHER


log = get_logger(__name__)

# Enough to hide the latency of an answer, few enough to leave room for the node's other requests.
IN_FLIGHT = 16
RECONCILE_SECONDS = 10.0
LAST_STATUS_SECONDS = 1.0
"""How long a mirror pod waits for the last status of its pod before it is deleted."""
# The longest delay is the reconcile period, in which upstream retries too.
BACKOFF = Backoff(first_seconds=0.1, limit_seconds=RECONCILE_SECONDS, jitter=0.2)


class StatusSender:
    """The queue of pods whose status has to be sent, and the tasks that send them."""

    def __init__(self, *, syncer: StatusSyncer, clock: Clock) -> None:
        self._syncer, self._clock = syncer, clock
        self._queue: KeyedQueue[PodUid, StatusUrgency] = KeyedQueue()
        self._failures: dict[PodUid, int] = {}
        # Until when, on the monotonic clock, the server asked not to retry a pod.
        self._held_until: dict[PodUid, float] = {}

    def offer(self, uid: PodUid, urgency: StatusUrgency) -> None:
        """Queue a pod that may have something to send. Never waits."""
        held = self._held_until.get(uid, 0.0) - self._clock.monotonic()
        if held > 0:
            self._queue.put_later(uid, urgency, held, priority=urgency)
        else:
            self._queue.put(uid, urgency, priority=urgency)

    def withdraw(self, uid: PodUid) -> None:
        self._queue.discard(uid)
        self._failures.pop(uid, None)
        self._held_until.pop(uid, None)

    def reconcile(self, uid: PodUid) -> None:
        """Queue this pod if the API lacks its status or shows another one."""
        if uid not in self._queue and self._syncer.is_due(uid):
            self.offer(uid, StatusUrgency.OTHER)

    async def sync_batch(self, *, all: bool) -> int:
        """Send once what is due and wait for it; return how many pods were tried. Do not call it beside `run`."""
        due = self._syncer.due(all=all)
        for uid in due:
            self.withdraw(uid)
        left = iter(due)

        async def work() -> None:
            for uid in left:
                await self._syncer.sync_pod(uid)

        await asyncio.gather(*(work() for _ in range(min(IN_FLIGHT, len(due)))))
        return len(due)

    async def run(self, ready: asyncio.Event) -> None:
        """Send queued statuses until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(IN_FLIGHT):
                start_supervised(group, f"status sender {number}", self._work)
            start_supervised(group, "status reconciler", self._reconcile_all)
            ready.set()

    async def _work(self) -> None:
        while True:
            uid, urgency = await self._queue.get()
            try:
                retry = await self._syncer.sync_pod(uid)
            except Exception as error:  # noqa: BLE001  one odd pod must not hold up the others
                log.error("status not sent", error=error, pod=self._syncer.pod_name(uid), uid=uid)
                retry = StatusRetry()
            finally:
                self._queue.done(uid)
            if retry is None:
                self._failures.pop(uid, None)
                self._held_until.pop(uid, None)
            else:
                self._retry(uid, urgency, retry)

    def _retry(self, uid: PodUid, urgency: StatusUrgency, retry: StatusRetry) -> None:
        failures = self._failures[uid] = self._failures.get(uid, 0) + 1
        delay = BACKOFF.delay_seconds(failures)
        if retry.after_seconds:
            delay = max(delay, retry.after_seconds)
            self._held_until[uid] = self._clock.monotonic() + delay
            # Newer changes of the pod wait as well.
            self._queue.discard(uid)
        self._queue.put_later(uid, urgency, delay, priority=urgency)

    async def _reconcile_all(self) -> None:
        while True:
            await asyncio.sleep(RECONCILE_SECONDS)
            for uid in self._syncer.due(all=True):
                if uid not in self._queue:
                    self.offer(uid, StatusUrgency.OTHER)


UNKNOWN = ContainerState(
    terminated=ContainerStateTerminated(
        reason="ContainerStatusUnknown",
        message="The container could not be located when the pod was terminated",
        exit_code=137,
    )
)


def final_status(pod: Pod, status: PodStatus) -> PodStatus:
    """The status with every container that may have run terminated, and for other than static pods a terminal phase.

    Whether the pod has initialized is judged by `pod.status`, not by `status`.
    """
    containers = status.container_statuses
    if has_initialized(pod):
        containers = _terminated(containers)
    tried = _tried(status.init_container_statuses)
    inits = (*_terminated(status.init_container_statuses[:tried]), *status.init_container_statuses[tried:])
    phase = status.phase if is_static_pod(pod) or is_terminal(status.phase) else "Failed"
    return replace(status, container_statuses=containers, init_container_statuses=inits, phase=phase)


def has_initialized(pod: Pod) -> bool:
    """Whether the pod's status proves that its init containers completed."""
    if not pod.spec.init_containers:
        return True
    if any(_has_tried(status) for status in pod.status.container_statuses):
        return True
    inits = pod.status.init_container_statuses
    last = len(inits) - 1
    if last < 0 or last >= len(pod.spec.init_containers):
        return False
    status, container = inits[last], pod.spec.init_containers[last]
    if status.name != container.name:
        return False
    if is_restartable_init_container(container):
        return status.state.running is not None and bool(status.started)
    ends = (status.last_state.terminated, status.state.terminated)
    return any(end is not None and end.exit_code == 0 for end in ends)


def _tried(statuses: tuple[ContainerStatus, ...]) -> int:
    """How many init containers must be accounted for: all up to the last that was started, at least one."""
    for index in range(len(statuses) - 1, -1, -1):
        if _has_tried(statuses[index]):
            return index + 1
    return min(len(statuses), 1)


def _has_tried(status: ContainerStatus) -> bool:
    return status.state.waiting is None or status.last_state.terminated is not None


def _terminated(statuses: tuple[ContainerStatus, ...]) -> tuple[ContainerStatus, ...]:
    return tuple(one if one.state.terminated is not None else replace(one, state=UNKNOWN) for one in statuses)


_DATED_CONDITIONS = (
    "ContainersReady",
    "Ready",
    "Initialized",
    "PodReadyToStartContainers",
    "PodScheduled",
    "DisruptionTarget",
)


class StatusManager:
    """The statuses of this node's pods. Without a client they are kept, but not sent.

    `view` knows the API's objects; by default from the pod manager and the API's answers.
    """

    def __init__(
        self,
        *,
        client: Client | None,
        pods: PodManager,
        safety: PodDeletionSafety,
        clock: Clock,
        observer: StatusObserver | None = None,
        view: ApiView | None = None,
    ) -> None:
        self._pods, self._clock, self._observer = pods, clock, observer
        self.resize = ResizeConditions(clock)
        self._records = StatusRecords(resize=self.resize, view=view or KnownApiPods(pods), observer=observer)
        self._cache = self._records.cache
        self._sender: StatusSender | None = None
        if client is not None:
            syncer = StatusSyncer(
                client=client, pods=pods, safety=safety, records=self._records, observer=observer, clock=clock
            )
            self._sender = StatusSender(syncer=syncer, clock=clock)

    async def run(self, ready: asyncio.Event) -> None:
        """Send statuses until cancelled; returns at once without a client."""
        if self._sender is None:
            log.info("no API server: statuses are not sent")
            ready.set()
            return
        await self._sender.run(ready)

    async def sync_batch(self, *, all: bool) -> int:
        """Send unsent statuses, with `all` also those that the API shows wrongly; return how many pods were tried.

        For callers that drive the manager themselves; never beside `run`.
        """
        return await self._sender.sync_batch(all=all) if self._sender is not None else 0

    def pod_status(self, uid: str) -> PodStatus | None:
        """The newest status of a pod, by its own UID or its mirror pod's."""
        entry = self._cache.get(self._pods.translate_pod_uid(uid))
        return entry.status if entry is not None else None

    def has_unsent(self) -> bool:
        """Whether any status is unsent; always False without a client."""
        return self._sender is not None and bool(self._cache.unsent)

    def is_unsent(self, uid: PodUid) -> bool:
        """Whether the newest status of this pod is unsent; always False without a client."""
        return self._sender is not None and self._cache.is_unsent(uid)

    async def until_sent(self, full_names: Container[str]) -> None:
        """Waits until the pods with these full names have no unsent status, but not long."""
        if self._sender is None:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_STATUS_SECONDS):
                while any(entry.full_name in full_names for entry in map(self._cache.get, self._cache.unsent) if entry):
                    await self._cache.until_fewer_unsent()

    def is_exit_reported(self, uid: PodUid, container_id: str) -> bool | None:
        """Whether the API shows the exit of this container, or already has a newer status; None without a status."""
        entry = self._cache.get(uid)
        if entry is None or not self.is_unsent(uid):
            return None if entry is None else True
        known = self._records.view.newest(uid, entry)
        return known is not None and container_id in _exited_ids(known.status)

    def shown_status(self, pod: Pod) -> PodStatus:
        """The status that the API shows of a pod, the base after a restart: no condition may move without cause."""
        mirror = self._pods.mirror_pod_by_pod(pod)
        if mirror is None:
            return pod.status
        # The mirror pod of another version says nothing about this one.
        shows = mirror.metadata.annotations.get(CONFIG_MIRROR)
        return mirror.status if shows == pod.metadata.annotations.get(CONFIG_HASH) else pod.status

    def set_pod_status(self, pod: Pod, status: PodStatus) -> None:
        """Set the pod's status; for a pod that is being deleted it is sent even if unchanged."""
        status = replace(status, observed_generation=pod.metadata.generation)
        self._accept(pod, status, force=pod.metadata.deletion_timestamp is not None, finished=False)

    def set_container_readiness(self, uid: PodUid, container_id: str, *, ready: bool) -> None:
        """Set a container's readiness; the conditions Ready and ContainersReady follow."""
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
        """Records the result of a container's startup probe in the pod's status."""
        found = self._find_container(uid, container_id)
        if found is None or found[2].started == started:
            return
        pod, old, container = found
        status = _with_container(old, container, replace(container, started=started))
        self._accept(pod, status, force=False, finished=False)

    def terminate_pod(self, pod: Pod) -> None:
        """Make the pod's status final: nothing of it is left on this node, and the API may delete it."""
        entry = self._cache.get(PodUid(pod.metadata.uid))
        status = entry.status if entry is not None else pod.status
        self._accept(pod, final_status(pod, status), force=True, finished=True)

    def remove_orphaned_statuses(self, keep: Container[PodUid]) -> None:
        """Forget every pod that is not in `keep`."""
        for uid in self._cache.orphans(keep):
            self._records.drop(uid)
            if self._sender is not None:
                self._sender.withdraw(uid)

    def reconcile_pod(self, uid: str) -> None:
        """Queue our status if the API object with this UID, a pod or mirror pod, shows another one; only a hint."""
        if self._sender is not None:
            self._sender.reconcile(self._pods.translate_pod_uid(uid))

    def _find_container(self, uid: PodUid, container_id: str) -> tuple[Pod, PodStatus, ContainerStatus] | None:
        """A pod, its cached status and the status of the container with this ID; None if one of them is unknown."""
        pod = self._pods.pod_by_uid(uid)
        if pod is None:
            return None
        entry = self._cache.get(PodUid(pod.metadata.uid))
        if entry is None:
            log.info("container result ignored: its pod has no status yet", pod=pod_label(pod), container=container_id)
            return None
        status = entry.status
        for container in (*status.container_statuses, *status.init_container_statuses):
            if container.container_id == container_id:
                return pod, status, container
        log.info("container result ignored: unknown container", pod=pod_label(pod), container=container_id)
        return None

    def _accept(self, pod: Pod, status: PodStatus, *, force: bool, finished: bool) -> None:
        """Make this the pod's status, unless the transition is illegal or nothing changed."""
        entry = self._cache.get(PodUid(pod.metadata.uid))
        old = entry.status if entry is not None else self.shown_status(pod)
        if why := normalize.illegal_transition(old, status, pod.spec):
            self._refuse(pod, why)
            return
        latched = normalize.latch_phase(old, status)
        if latched is not status:
            self._refuse(pod, f"terminal phase {old.phase} attempted illegal transition to {status.phase or 'none'}")
        status = normalize_status(pod, self._continued(old, latched))
        if entry is not None and not force and equal_by_node(old, status):
            return
        self._cache.put(pod, status, finished=finished or _stays_finished(pod, entry), at=self._clock.monotonic())
        if self._sender is not None:
            self._sender.offer(PodUid(pod.metadata.uid), urgency_of(pod, old, status, finished=finished))

    def _continued(self, old: PodStatus, new: PodStatus) -> PodStatus:
        """The new status with transition times, start time and generation of the old one."""
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
        log.warning("illegal status transition rejected", pod=pod_label(pod), why=why)
        if self._observer is not None:
            self._observer.status_refused(pod, why)


def _exited_ids(status: PodStatus) -> set[str]:
    """The containers whose exit a status shows, by the runtime's ID."""
    statuses = (*status.init_container_statuses, *status.container_statuses, *status.ephemeral_container_statuses)
    ends = (state.terminated for one in statuses for state in (one.state, one.last_state))
    return {end.container_id.rpartition("://")[2] for end in ends if end is not None}


def _stays_finished(pod: Pod, entry: VersionedStatus | None) -> bool:
    """Whether a pod was finished before; only a static pod can come back under its UID."""
    return entry is not None and entry.finished and not is_static_pod(pod)


def _with_container(status: PodStatus, old: ContainerStatus, new: ContainerStatus) -> PodStatus:
    return replace(
        status,
        container_statuses=tuple(new if one is old else one for one in status.container_statuses),
        init_container_statuses=tuple(new if one is old else one for one in status.init_container_statuses),
    )
