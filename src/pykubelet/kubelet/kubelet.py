"""The kubelet's sync loop: turns pod updates, runtime changes and probe results into work for pods.

`Kubelet` waits for every input in a task of its own; `SyncHandler` handles one input at a time and never waits, so that
handlers never interleave. While the runtime is down nothing is handled. Upstream checks every second which pods are
due; here the pod workers know.

Upstream: pkg/kubelet/kubelet.go
"""

import asyncio
from collections.abc import AsyncIterator, Callable

from msgspec import Struct

from pykubelet.aio.backoff import Backoff, Retries
from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.aio.queues import KeyedQueue
from pykubelet.aio.tasks import start_supervised
from pykubelet.api.generated.core import Pod
from pykubelet.api.pods import PodUid, is_mirror_pod, is_terminal, pod_label
from pykubelet.kubelet.config.config import SourcesReady
from pykubelet.kubelet.housekeeping import Housekeeper
from pykubelet.kubelet.kuberuntime.container_gc import PodContainerDeletor
from pykubelet.kubelet.lifecycle.admission import PodAdmission
from pykubelet.kubelet.nodestatus.node_status import NodeHealth
from pykubelet.kubelet.pleg.pleg import PodLifecycleChanges, PodLifecycleEventGenerator, PodLifecycleEventType
from pykubelet.kubelet.pod.pod_manager import PodManager
from pykubelet.kubelet.pod_workers.pod_workers import PodWorkers
from pykubelet.kubelet.status.conditions import need_to_reconcile_pod_readiness
from pykubelet.kubelet.status.status_manager import StatusManager
from pykubelet.kubelet.types import (
    PodOperation,
    PodUpdate,
    ProbeOutcome,
    ProbeResult,
    ProbeType,
    SyncPodType,
    Trail,
    UpdatePodOptions,
)

log = get_logger(__name__)

COMPONENT = "loop"
HOUSEKEEPING_SECONDS = 2.0
# Without any hint, housekeeping runs every 30th round, to find what no event reported.
_QUIET_ROUNDS = 30
_SLOW_HOUSEKEEPING_SECONDS = 1.0
# How long to wait for the runtime: 0.1 s at first, at most 5 s.
_RUNTIME_DOWN = Backoff(first_seconds=0.1, limit_seconds=5)
_RESYNC_SECONDS = 60.0
_LEAST_STUCK_SECONDS = 300.0


class PodStopped(Struct, frozen=True):
    """No container of this pod can run any more."""

    uid: PodUid


class PodEnded(Struct, frozen=True):
    """The worker of this pod has nothing left to do."""

    uid: PodUid


class ReferencesArrived(Struct, frozen=True):
    """An object that this pod references may be available now."""

    uid: PodUid


Notification = ReferencesArrived | PodStopped | PodEnded | ProbeResult


class SyncLoopInbox:
    """Queues notifications of workers, probes and the object cache for the sync loop. Putting one never waits.

    Repeated notifications are merged until taken, so the queue never holds more than the pods there are.
    """

    def __init__(self) -> None:
        self._queue: KeyedQueue[tuple[object, ...], Notification] = KeyedQueue()

    def pod_stopped(self, uid: PodUid) -> None:
        self._queue.put((PodStopped, uid), PodStopped(uid))

    def pod_ended(self, uid: PodUid) -> None:
        self._queue.put((PodEnded, uid), PodEnded(uid))

    def objects_arrived(self, uid: PodUid) -> None:
        self._queue.put((ReferencesArrived, uid), ReferencesArrived(uid))

    def probed(self, result: ProbeResult) -> None:
        self._queue.put((ProbeResult, result.container_id, result.kind), result)

    async def next(self) -> Notification:
        """Wait for the oldest notification and take it."""
        key, notification = await self._queue.get()
        self._queue.done(key)
        return notification


class SyncHandler:
    """Turns each input into work for pods. A pod that cannot be handled does not affect the others."""

    def __init__(
        self,
        *,
        pods: PodManager,
        workers: PodWorkers,
        admission: PodAdmission,
        statuses: StatusManager,
        sources: SourcesReady,
        deletor: PodContainerDeletor,
        trail: Trail,
        first_seen: Callable[[PodUid], None] = lambda _: None,
    ) -> None:
        """`first_seen` is called for every added pod."""
        self._pods, self._workers, self._admission = pods, workers, admission
        self._statuses, self._sources, self._deletor, self._trail = statuses, sources, deletor, trail
        self._first_seen = first_seen
        self._handlers: dict[PodOperation, Callable[[Pod, str], None]] = {
            PodOperation.ADD: self._added,
            PodOperation.RESTORE: self._added,
            PodOperation.UPDATE: self._updated,
            PodOperation.DELETE: self._updated,
            PodOperation.REMOVE: self._removed,
            PodOperation.RECONCILE: self._reconciled,
        }

    def handle(self, update: PodUpdate) -> None:
        handler = self._handlers.get(update.op)
        if handler is None:
            log.error("sync loop does not support snapshot updates", source=update.source, op=update.op.name)
        else:
            for pod in sorted(update.pods, key=_creation) if handler == self._added else update.pods:
                self._guarded(handler, pod, update)
        self._sources.saw(update)

    def pod_changed(self, changes: PodLifecycleChanges) -> bool:
        """Handle changed containers of a pod; return whether the pod is known."""
        pod = self._pods.pod_by_uid(changes.uid)
        if pod is not None and any(change.kind is not PodLifecycleEventType.REMOVED for change in changes.changes):
            self.sync(pod)
        for change in changes.changes:
            if change.kind is PodLifecycleEventType.DIED:
                self._deletor.prune(changes.uid)
        return pod is not None

    def probed(self, result: ProbeResult) -> None:
        is_success = result.verdict is ProbeOutcome.SUCCESS
        if result.kind is ProbeType.READINESS:
            self._statuses.set_container_readiness(result.uid, result.container_id, ready=is_success)
        elif result.kind is ProbeType.STARTUP:
            self._statuses.set_container_startup(result.uid, result.container_id, started=is_success)
        elif result.verdict is not ProbeOutcome.FAILURE:
            # A successful liveness probe changes nothing.
            return
        facts = {"container": result.container} if result.container else {}
        self._trail.note(result.uid, "probes", f"{result.kind} probe", verdict=result.verdict, **facts)
        if pod := self._pods.pod_by_uid(result.uid):
            self.sync(pod)

    def references_arrived(self, uid: PodUid) -> None:
        """Sync a pod because an object that it references may be available now."""
        if pod := self._pods.pod_by_uid(uid):
            self.sync(pod)

    def sync(self, pod: Pod) -> None:
        """Queue a sync of a regular pod."""
        self._queue(SyncPodType.SYNC, pod)

    def _guarded(self, handler: Callable[[Pod, str], None], pod: Pod, update: PodUpdate) -> None:
        try:
            handler(pod, update.source)
        except Exception as error:  # noqa: BLE001  a pod that cannot be handled must not stop the node
            log.error("pod not handled", error=error, pod=pod_label(pod), op=update.op.name)
            self._trail.note(PodUid(pod.metadata.uid), COMPONENT, "not handled", op=update.op.name, why=error)

    def _added(self, pod: Pod, source: str) -> None:
        self._pods.update_pod(pod)
        if is_mirror_pod(pod):
            self._mirror_changed(pod)
        else:
            uid = PodUid(pod.metadata.uid)
            self._first_seen(uid)
            self._trail.note(uid, COMPONENT, "added", source=source)
            self._admission.add(pod)

    def _updated(self, pod: Pod, source: str) -> None:
        self._pods.update_pod(pod)
        if is_mirror_pod(pod):
            self._mirror_changed(pod)
        else:
            self._trail.note(PodUid(pod.metadata.uid), COMPONENT, "changed", source=source)
            self._admission.update(pod)
            self._queue(SyncPodType.UPDATE, pod)

    def _removed(self, pod: Pod, source: str) -> None:
        self._pods.delete_pod(pod)
        if is_mirror_pod(pod):
            self._mirror_changed(pod)
            return
        uid = PodUid(pod.metadata.uid)
        # Its containers' exits have no place any more.
        self._deletor.prune(uid)
        was_held = self._admission.is_held(uid)
        self._admission.forget(uid)
        is_ready = self._sources.is_ready(source)
        self._trail.note(
            uid, COMPONENT, "removed", source=source, kill="now" if is_ready else "once all sources are known"
        )
        if is_ready and not was_held:
            self._workers.update(UpdatePodOptions(SyncPodType.KILL, pod))

    def _reconciled(self, pod: Pod, _source: str) -> None:
        self._pods.update_pod(pod)
        self._statuses.reconcile_pod(pod.metadata.uid)
        known = self._pods.pod_by_mirror_pod(pod) if is_mirror_pod(pod) else pod
        if known is None:
            return
        # Another client may have set a terminal phase; upstream notices at the next resync. Rejected pods do not count.
        is_dead = is_terminal(known.status.phase) and self._admission.is_on_node(PodUid(known.metadata.uid))
        if is_dead or need_to_reconcile_pod_readiness(known):
            self.sync(known)
        if (known.status.phase, known.status.reason) == ("Failed", "Evicted"):
            self._deletor.remove_all(PodUid(known.metadata.uid))

    def _mirror_changed(self, mirror: Pod) -> None:
        """Have the static pod's worker reconcile the mirror pod, and the status manager its status."""
        self._statuses.reconcile_pod(mirror.metadata.uid)
        if pod := self._pods.pod_by_mirror_pod(mirror):
            self._queue(SyncPodType.UPDATE, pod)

    def _queue(self, type: SyncPodType, pod: Pod) -> None:
        # A pod that waits for preemption must not start before it ended.
        if not self._admission.is_held(PodUid(pod.metadata.uid)):
            self._workers.update(UpdatePodOptions(type, pod))


def _creation(pod: Pod) -> str:
    return pod.metadata.creation_timestamp or ""


class Kubelet:
    """The sync loop of a node."""

    def __init__(
        self,
        *,
        updates: AsyncIterator[PodUpdate],
        pleg: PodLifecycleEventGenerator,
        inbox: SyncLoopInbox,
        handler: SyncHandler,
        admission: PodAdmission,
        housekeeper: Housekeeper,
        health: NodeHealth,
        clock: Clock,
    ) -> None:
        self._updates, self._pleg, self._inbox = updates, pleg, inbox
        self._handler, self._admission, self._housekeeper = handler, admission, housekeeper
        self._health, self._clock = health, clock
        self._iterated_at: float | None = None
        self._needs_housekeeping = True
        self._may_have_orphans = asyncio.Event()

    async def run(self, ready: asyncio.Event) -> None:
        """Handle all inputs until cancelled, or until there are no more updates to come."""
        async with asyncio.TaskGroup() as group:
            others = [
                start_supervised(group, "runtime changes", self._handle_runtime_changes),
                start_supervised(group, "loop inbox", self._handle_notifications),
                start_supervised(group, "housekeeping", self._keep_house),
                start_supervised(group, "orphaned mirrors", self._delete_orphaned_mirrors),
                start_supervised(group, "admission", lambda: self._admission.run(asyncio.Event())),
            ]
            ready.set()
            async for update in self._updates:
                await self._wait_for_runtime()
                log.debug("pods changed", op=update.op.name, source=update.source, pods=len(update.pods))
                self._handler.handle(update)
                # A changed status leaves nothing to clean up.
                if update.op is not PodOperation.RECONCILE:
                    self._needs_housekeeping = True
                    self._may_have_orphans.set()
            log.error("sync loop ends: the stream of pod updates has ended")
            for task in others:
                task.cancel()

    def stuck_error(self, resync_seconds: float = _RESYNC_SECONDS) -> str:
        """Why the loop counts as stuck: no iteration for too long; empty if it is not, or has not begun."""
        limit = max(2 * resync_seconds, _LEAST_STUCK_SECONDS)
        if self._iterated_at is not None and self._clock.monotonic() - self._iterated_at > limit:
            return "sync Loop took longer than expected"
        return ""

    async def _wait_for_runtime(self) -> None:
        """Begin an iteration: wait until the runtime works, then record that the loop is alive."""
        retries = Retries(_RUNTIME_DOWN)
        while error := self._health.runtime_error():
            log.warning("sync loop waits: the container runtime is down", cause=error)
            await asyncio.sleep(retries.next_delay_seconds())
        self._iterated_at = self._clock.monotonic()

    async def _handle_runtime_changes(self) -> None:
        while True:
            changes = await self._pleg.next_changes()
            await self._wait_for_runtime()
            if not self._handler.pod_changed(changes):
                self._needs_housekeeping = True

    async def _handle_notifications(self) -> None:
        while True:
            notification = await self._inbox.next()
            await self._wait_for_runtime()
            if isinstance(notification, ProbeResult):
                self._handler.probed(notification)
            elif isinstance(notification, ReferencesArrived):
                self._handler.references_arrived(notification.uid)
            elif isinstance(notification, PodStopped):
                self._admission.forget(notification.uid)
            else:
                self._needs_housekeeping = True
                self._housekeeper.tidy(notification.uid)
                self._may_have_orphans.set()

    async def _delete_orphaned_mirrors(self) -> None:
        """Delete mirror pods as soon as their static pods are gone; a slow API server delays nothing else."""
        while True:
            await self._may_have_orphans.wait()
            self._may_have_orphans.clear()
            if self._health.all_sources_ready():
                await self._housekeeper.delete_orphaned_mirrors()

    async def _keep_house(self) -> None:
        quiet_rounds = 0
        while True:
            await asyncio.sleep(HOUSEKEEPING_SECONDS)
            await self._wait_for_runtime()
            quiet_rounds += 1
            if not self._health.all_sources_ready() or not (self._needs_housekeeping or quiet_rounds >= _QUIET_ROUNDS):
                continue
            quiet_rounds, self._needs_housekeeping = 0, False
            began = self._clock.monotonic()
            is_settled = await self._housekeeper.clean()
            self._needs_housekeeping |= not is_settled
            if (took := self._clock.monotonic() - began) > _SLOW_HOUSEKEEPING_SECONDS:
                log.warning("housekeeping took longer than expected", seconds=round(took, 3))
