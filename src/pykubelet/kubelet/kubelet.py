"""What the loop does with each thing it hears: changes of pods, of containers, verdicts of probes.

In: values. Out: calls to the pod manager, the entrance, the workers and the status manager. Nothing here waits, so that
no two of these ever mix. Upstream: the HandlePod* functions and syncLoopIteration in pkg/kubelet/kubelet.go.

The loop: takes what is heard from anywhere and has it handled, one thing at a time.

In: updates of the sources, changes in the runtime, what the inbox has, the time for housekeeping. Out: calls to the
handlers. Each input has a task that waits for it; the handlers themselves never wait, so one of them runs at a time.
While the runtime is down nothing is handled. Upstream: syncLoop in pkg/kubelet/kubelet.go; its tick every second for
pods that are due is gone, for workers know when they are.

What stations have to tell the loop: ends of pods, verdicts of probes, what pods waited for.

In: calls from any station, which never wait. Out: the same, one at a time, in order, for the loop. What is told twice
before it was taken is told once, in its newest form, so that this never grows beyond the pods there are.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Protocol

from msgspec import Struct

from pykubelet.aio.backoff import Backoff, Retries
from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.aio.queues import KeyedQueue
from pykubelet.aio.tasks import start_supervised
from pykubelet.api.generated.core import Pod
from pykubelet.api.pods import PodUid, is_mirror_pod, is_terminal, pod_label
from pykubelet.kubelet.housekeeping import Housekeeper
from pykubelet.kubelet.lifecycle.admission import AdmittedWorkers, PodAdmission
from pykubelet.kubelet.pleg.pleg import PodLifecycleChanges, PodLifecycleEventType
from pykubelet.kubelet.status.conditions import need_to_reconcile_pod_readiness
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

STATION = "loop"


class HandledPods(Protocol):
    """The pods this node should run, and the mirrors of static ones."""

    def update_pod(self, pod: Pod) -> None:
        """Take a pod or a mirror, new or changed."""

    def delete_pod(self, pod: Pod) -> None:
        """Forget a pod or a mirror."""

    def pod_by_uid(self, uid: PodUid) -> Pod | None:
        """The regular pod with this UID."""

    def pod_by_mirror_pod(self, mirror_pod: Pod) -> Pod | None:
        """The regular pod of a mirror's name."""


class ProbedStatuses(Protocol):
    """The statuses of pods, as far as probes and the API change them."""

    def set_container_readiness(self, uid: PodUid, container_id: str, *, ready: bool) -> None:
        """A container is ready or not."""

    def set_container_startup(self, uid: PodUid, container_id: str, *, started: bool) -> None:
        """A container has started or not."""

    def reconcile_pod(self, uid: str) -> None:
        """What the API shows of a pod or a mirror has changed."""


class HandledSources(Protocol):
    """Which sources have told all their pods."""

    def is_ready(self, source: str) -> bool:
        """Whether a pod that this source does not name may go."""

    def saw(self, update: PodUpdate) -> None:
        """An update has been handled."""


class ContainerGarbage(Protocol):
    """Containers that have ended. Both calls only ask for it."""

    def prune(self, uid: PodUid, container_id: str) -> None:
        """A container has ended: remove older ones of its name."""

    def remove_all(self, uid: PodUid) -> None:
        """Remove everything of a pod that has ended."""


class SyncHandler:
    """Turns what is heard into work. One pod that cannot be handled does not keep the others from it."""

    def __init__(
        self,
        *,
        pods: HandledPods,
        workers: AdmittedWorkers,
        entrance: PodAdmission,
        statuses: ProbedStatuses,
        sources: HandledSources,
        dead: ContainerGarbage,
        trail: Trail,
        first_seen: Callable[[PodUid], None] = lambda _: None,
    ) -> None:
        """`first_seen` hears of every pod that comes."""
        self._pods, self._workers, self._entrance = pods, workers, entrance
        self._statuses, self._sources, self._dead, self._trail = statuses, sources, dead, trail
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
        """Pods of one source changed."""
        handler = self._handlers.get(update.op)
        if handler is None:
            log.error("the loop takes no snapshots", source=update.source, op=update.op.name)
        else:
            for pod in sorted(update.pods, key=_creation) if handler == self._added else update.pods:
                self._guarded(handler, pod, update)
        self._sources.saw(update)

    def pod_changed(self, heard: PodLifecycleChanges) -> bool:
        """Containers of a pod changed; whether the pod is known."""
        pod = self._pods.pod_by_uid(heard.uid)
        if pod is not None and any(change.kind is not PodLifecycleEventType.REMOVED for change in heard.changes):
            self.sync(pod)
        for change in heard.changes:
            if change.kind is PodLifecycleEventType.DIED:
                self._dead.prune(heard.uid, change.container_id)
        return pod is not None

    def probed(self, result: ProbeResult) -> None:
        """A probe's verdict on a container changed."""
        is_success = result.verdict is ProbeOutcome.SUCCESS
        if result.kind is ProbeType.READINESS:
            self._statuses.set_container_readiness(result.uid, result.container_id, ready=is_success)
        elif result.kind is ProbeType.STARTUP:
            self._statuses.set_container_startup(result.uid, result.container_id, started=is_success)
        elif result.verdict is not ProbeOutcome.FAILURE:
            # That a container lives changes nothing.
            return
        facts = {"container": result.container} if result.container else {}
        self._trail.note(result.uid, "probes", f"{result.kind} probe", verdict=result.verdict, **facts)
        if pod := self._pods.pod_by_uid(result.uid):
            self.sync(pod)

    def arrived(self, uid: PodUid) -> None:
        """What a pod waits for may be there now."""
        if pod := self._pods.pod_by_uid(uid):
            self.sync(pod)

    def sync(self, pod: Pod) -> None:
        """Have a regular pod looked at by its worker."""
        self._tell(SyncPodType.SYNC, pod)

    def _guarded(self, handler: Callable[[Pod, str], None], pod: Pod, update: PodUpdate) -> None:
        try:
            handler(pod, update.source)
        except Exception as error:  # noqa: BLE001  a pod that cannot be handled must not stop the node
            log.error("pod not handled", error=error, pod=pod_label(pod), op=update.op.name)
            self._trail.note(PodUid(pod.metadata.uid), STATION, "not handled", op=update.op.name, why=error)

    def _added(self, pod: Pod, source: str) -> None:
        self._pods.update_pod(pod)
        if is_mirror_pod(pod):
            self._mirror_changed(pod)
        else:
            uid = PodUid(pod.metadata.uid)
            self._first_seen(uid)
            self._trail.note(uid, STATION, "added", source=source)
            self._entrance.let_in(pod)

    def _updated(self, pod: Pod, source: str) -> None:
        self._pods.update_pod(pod)
        if is_mirror_pod(pod):
            self._mirror_changed(pod)
        else:
            self._trail.note(PodUid(pod.metadata.uid), STATION, "changed", source=source)
            self._entrance.change(pod)
            self._tell(SyncPodType.UPDATE, pod)

    def _removed(self, pod: Pod, source: str) -> None:
        self._pods.delete_pod(pod)
        if is_mirror_pod(pod):
            self._mirror_changed(pod)
            return
        uid = PodUid(pod.metadata.uid)
        was_held = self._entrance.is_held(uid)
        self._entrance.forget(uid)
        is_ready = self._sources.is_ready(source)
        self._trail.note(
            uid, STATION, "removed", source=source, kill="now" if is_ready else "once all sources are known"
        )
        if is_ready and not was_held:
            self._workers.update(UpdatePodOptions(SyncPodType.KILL, pod))

    def _reconciled(self, pod: Pod, _source: str) -> None:
        self._pods.update_pod(pod)
        self._statuses.reconcile_pod(pod.metadata.uid)
        known = self._pods.pod_by_mirror_pod(pod) if is_mirror_pod(pod) else pod
        if known is None:
            return
        # Somebody else may have declared the pod dead; upstream finds out at the next resync. Not of one that was refused.
        is_dead = is_terminal(known.status.phase) and self._entrance.is_in(PodUid(known.metadata.uid))
        if is_dead or need_to_reconcile_pod_readiness(known):
            self.sync(known)
        if (known.status.phase, known.status.reason) == ("Failed", "Evicted"):
            self._dead.remove_all(PodUid(known.metadata.uid))

    def _mirror_changed(self, mirror: Pod) -> None:
        """The static pod's worker sees to it, and to what the API shows."""
        self._statuses.reconcile_pod(mirror.metadata.uid)
        if pod := self._pods.pod_by_mirror_pod(mirror):
            self._tell(SyncPodType.UPDATE, pod)

    def _tell(self, type: SyncPodType, pod: Pod) -> None:
        # A pod that waits for room must not start before there is.
        if not self._entrance.is_held(PodUid(pod.metadata.uid)):
            self._workers.update(UpdatePodOptions(type, pod))


def _creation(pod: Pod) -> str:
    return pod.metadata.creation_timestamp or ""


class PodStopped(Struct, frozen=True):
    """No container of this pod can run any more."""

    uid: PodUid


class PodEnded(Struct, frozen=True):
    """The worker of this pod has nothing left to do."""

    uid: PodUid


class ReferencesArrived(Struct, frozen=True):
    """Something this pod was waiting for may be there."""

    uid: PodUid


News = ReferencesArrived | PodStopped | PodEnded | ProbeResult


class SyncLoopInbox:
    """A letter box; a listener of workers and of probes."""

    def __init__(self) -> None:
        self._news: KeyedQueue[tuple[object, ...], News] = KeyedQueue()

    def pod_stopped(self, uid: PodUid) -> None:
        """No container of this pod can run any more."""
        self._news.put((PodStopped, uid), PodStopped(uid))

    def pod_ended(self, uid: PodUid) -> None:
        """The worker of this pod has nothing left to do."""
        self._news.put((PodEnded, uid), PodEnded(uid))

    def objects_arrived(self, uid: PodUid) -> None:
        """Something this pod was waiting for may be there."""
        self._news.put((ReferencesArrived, uid), ReferencesArrived(uid))

    def probed(self, result: ProbeResult) -> None:
        """A probe's verdict changed."""
        self._news.put((ProbeResult, result.container_id, result.kind), result)

    async def next(self) -> News:
        """What was told longest ago; waits for something."""
        key, news = await self._news.get()
        self._news.done(key)
        return news


HOUSEKEEPING_SECONDS = 2.0
# With nothing hinted at, a look once in a while finds what nobody told of.
_QUIET_ROUNDS = 30
_SLOW_HOUSEKEEPING_SECONDS = 1.0
# While the runtime is down: after 0.1 s, then ever later, at most every 5 s.
_RUNTIME_DOWN = Backoff(first_seconds=0.1, limit_seconds=5)
_LEAST_STUCK_SECONDS = 300.0


class PodLifecycleEvents(Protocol):
    """Tells what happened to pods in the runtime."""

    async def next_changes(self) -> PodLifecycleChanges:
        """What happened to one pod; waits for something."""


class SyncLoopHealth(Protocol):
    """What keeps the loop from working; answers at once."""

    def runtime_error(self) -> str:
        """Why nothing can be done with the runtime; empty if it works."""

    def all_sources_ready(self) -> bool:
        """Whether every source has told its pods, so that what nobody names may go."""


class Kubelet:
    """The heart of a node."""

    def __init__(
        self,
        *,
        updates: AsyncIterator[PodUpdate],
        changes: PodLifecycleEvents,
        inbox: SyncLoopInbox,
        handlers: SyncHandler,
        entrance: PodAdmission,
        housekeeper: Housekeeper,
        health: SyncLoopHealth,
        clock: Clock,
    ) -> None:
        self._updates, self._changes, self._inbox = updates, changes, inbox
        self._handlers, self._entrance, self._housekeeper = handlers, entrance, housekeeper
        self._health, self._clock = health, clock
        self._entered_at: float | None = None
        self._untidy = True
        self._may_have_orphans = asyncio.Event()

    async def run(self, ready: asyncio.Event) -> None:
        """Handle everything until cancelled, or until there are no more updates to come."""
        async with asyncio.TaskGroup() as group:
            others = [
                start_supervised(group, "runtime changes", self._hear_runtime),
                start_supervised(group, "loop inbox", self._hear_stations),
                start_supervised(group, "housekeeping", self._keep_house),
                start_supervised(group, "orphaned mirrors", self._delete_orphaned_mirrors),
                start_supervised(group, "entrance", lambda: self._entrance.run(asyncio.Event())),
            ]
            ready.set()
            async for update in self._updates:
                await self._enter()
                log.debug("pods changed", op=update.op.name, source=update.source, pods=len(update.pods))
                self._handlers.handle(update)
                # What the API only repeats leaves nothing behind.
                if update.op is not PodOperation.RECONCILE:
                    self._untidy = True
                    self._may_have_orphans.set()
            log.error("no more updates, the loop ends")
            for task in others:
                task.cancel()

    def stuck_error(self, resync_seconds: float) -> str:
        """What is wrong if the loop has not gone round for too long; empty if it has, or has not begun."""
        limit = max(2 * resync_seconds, _LEAST_STUCK_SECONDS)
        if self._entered_at is not None and self._clock.monotonic() - self._entered_at > limit:
            return "sync Loop took longer than expected"
        return ""

    async def _enter(self) -> None:
        """Every round goes through here: it waits until the runtime works, and notes that the loop is alive."""
        retries = Retries(_RUNTIME_DOWN)
        while error := self._health.runtime_error():
            log.warning("pods are not looked after, the runtime is down", cause=error)
            await asyncio.sleep(retries.next_delay_seconds())
        self._entered_at = self._clock.monotonic()

    async def _hear_runtime(self) -> None:
        while True:
            heard = await self._changes.next_changes()
            await self._enter()
            if not self._handlers.pod_changed(heard):
                self._untidy = True

    async def _hear_stations(self) -> None:
        while True:
            news = await self._inbox.next()
            await self._enter()
            if isinstance(news, ProbeResult):
                self._handlers.probed(news)
            elif isinstance(news, ReferencesArrived):
                self._handlers.arrived(news.uid)
            elif isinstance(news, PodStopped):
                self._entrance.forget(news.uid)
            else:
                self._untidy = True
                self._housekeeper.tidy(news.uid)
                self._may_have_orphans.set()

    async def _delete_orphaned_mirrors(self) -> None:
        """The mirror of a pod goes as soon as the pod has; a server that does not answer holds up nothing else."""
        while True:
            await self._may_have_orphans.wait()
            self._may_have_orphans.clear()
            if self._health.all_sources_ready():
                await self._housekeeper.delete_orphaned_mirrors()

    async def _keep_house(self) -> None:
        quiet_rounds = 0
        while True:
            await asyncio.sleep(HOUSEKEEPING_SECONDS)
            await self._enter()
            quiet_rounds += 1
            if not self._health.all_sources_ready() or not (self._untidy or quiet_rounds >= _QUIET_ROUNDS):
                continue
            quiet_rounds, self._untidy = 0, False
            began = self._clock.monotonic()
            is_settled = await self._housekeeper.clean()
            self._untidy |= not is_settled
            if (took := self._clock.monotonic() - began) > _SLOW_HOUSEKEEPING_SECONDS:
                log.warning("housekeeping took longer than expected", seconds=round(took, 3))
