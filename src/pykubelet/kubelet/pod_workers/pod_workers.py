"""Pod workers: one task per pod UID runs the pod's syncs, so that no pod waits for another.

The sync loop queues work; newer work replaces what still waits. `state.py` decides what follows, the pod's task runs it
through the `SyncRunner`. Every sync uses a pod status read after the previous sync ended. A sync is interrupted when its
pod has to terminate, or to terminate sooner. Cancelling the workers leaves the pods running.

Upstream: pkg/kubelet/pod_workers.go
"""

import asyncio
from collections.abc import Container, Mapping
from typing import Protocol

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.aio.tasks import start_supervised
from pykubelet.api.generated.core import Pod, PodStatus
from pykubelet.api.pods import PodUid, is_static_pod
from pykubelet.client.recorder import WARNING, EventRecorder, reference_to
from pykubelet.kubelet.config.config import SourcesReady
from pykubelet.kubelet.pleg.pleg import BEGINNING, PodLifecycleEventGenerator
from pykubelet.kubelet.pod.pod_manager import PodManager
from pykubelet.kubelet.pod_workers.state import (
    PodStateMachine,
    SyncJob,
    WorkerDecision,
    is_active,
    is_running,
    uid_of,
)
from pykubelet.kubelet.pod_workers.sync import SyncFailed, SyncRunner
from pykubelet.kubelet.status.status_manager import StatusManager
from pykubelet.kubelet.types import KillPodOptions, PodWorkerState, SyncPodType, Trail, UpdatePodOptions, WaitStage
from pykubelet.runtimes.protocol import RuntimeFailure, RuntimePod

log = get_logger(__name__)

COMPONENT = "workers"
ORPHAN_KILL = KillPodOptions(grace_seconds=1)
"""How a pod ends that only the runtime knows."""
EXCEEDED_GRACE_PERIOD = "ExceededGracePeriod"
# A sync that asks to run again at once must not keep the other pods from working.
_SOONEST_SECONDS = 0.1
# Even the shortest kill leaves the runtime this long to carry it out.
_SHORTEST_KILL_TIMEOUT_SECONDS = 10


class PodWorkerQueries:
    """What the rest of the node asks about the workers: the sole authority on which containers may run.

    Until all desired pods were listed once (`has_synced`), a pod without a worker may still arrive; afterwards nothing
    of it needs to be kept.
    """

    def __init__(self, machine: PodStateMachine) -> None:
        self._machine = machine

    def state(self, uid: PodUid) -> PodWorkerState | None:
        """The state of a pod's worker; None if it has none."""
        record = self._machine.records.get(uid)
        return record.state if record is not None else None

    def is_known_terminated(self, uid: PodUid) -> bool:
        """Whether a worker has seen the last container of this pod stop."""
        record = self._machine.records.get(uid)
        return record is not None and record.is_terminated

    def could_have_running_containers(self, uid: PodUid) -> bool:
        """Whether a container of this pod may be running."""
        record = self._machine.records.get(uid)
        return not record.is_terminated if record is not None else not self._machine.has_synced

    def is_termination_requested(self, uid: PodUid) -> bool:
        """Whether termination was requested; the pod may still be starting."""
        record = self._machine.records.get(uid)
        return record is not None and record.is_terminating

    def should_containers_be_terminating(self, uid: PodUid) -> bool:
        """Whether nothing of this pod may be set up any more: its worker has seen the termination request."""
        record = self._machine.records.get(uid)
        return record.acknowledged if record is not None else self._machine.has_synced

    def should_pod_runtime_be_removed(self, uid: PodUid) -> bool:
        """Whether what running containers need, such as mounted volumes, may be removed."""
        record = self._machine.records.get(uid)
        return record.is_terminated if record is not None else self._machine.has_synced

    def should_pod_content_be_removed(self, uid: PodUid) -> bool:
        """Whether everything of the pod may be deleted: it was evicted, or is deleted and has terminated."""
        record = self._machine.records.get(uid)
        if record is None:
            return self._machine.has_synced
        return record.evicted or (record.deleted and record.is_terminated)

    def should_be_finished(self, uid: PodUid) -> bool:
        """Whether the worker of this pod has nothing left to do."""
        record = self._machine.records.get(uid)
        return record.finished if record is not None else self._machine.has_synced

    def is_static_pod_terminating(self, full_name: str) -> bool:
        """Whether the static pod started under this full name is terminating; its mirror pod has to outlive that."""
        holder = self._machine.turns.holder(full_name)
        record = self._machine.records.get(holder) if holder is not None else None
        return record is not None and record.is_terminating and not record.is_terminated


class PodRemoval:
    """Decides what of a pod may be removed: its object from the API, its containers and logs from the node.

    A pod whose worker has finished has released containers, volumes and cgroup. Of a pod without a worker, such as a
    rejected one, nothing is left if the runtime has nothing of it.
    """

    def __init__(self, *, queries: PodWorkerQueries, pleg: PodLifecycleEventGenerator, sources: SourcesReady) -> None:
        self._queries, self._pleg, self._sources = queries, pleg, sources

    def all_sources_ready(self) -> bool:
        """Whether every source has delivered its pods, so that an unknown pod is not desired."""
        return self._sources.all_ready()

    def should_pod_content_be_removed(self, uid: PodUid) -> bool:
        return self._queries.should_pod_content_be_removed(uid)

    def should_pod_runtime_be_removed(self, uid: PodUid) -> bool:
        return self._queries.should_pod_runtime_be_removed(uid)

    def could_have_running_containers(self, uid: PodUid, /) -> bool:
        """Whether a container of this pod may be running."""
        if self._queries.state(uid) is None and self._pleg.has_no_containers_of(uid):
            return False
        return self._queries.could_have_running_containers(uid)

    def pod_resources_are_reclaimed(self, pod: Pod, _: PodStatus, /) -> bool:
        """Whether nothing of the pod is left on this node."""
        uid = PodUid(pod.metadata.uid)
        return not self.could_have_running_containers(uid) and self._queries.should_be_finished(uid)


class KillTimedOut(Exception):
    """The pod was not stopped in time; its worker keeps trying."""


class WorkerListener(Protocol):
    """Receives the ends of pods. Called in the middle of a transition: it must neither wait nor call back."""

    def pod_stopped(self, uid: PodUid) -> None:
        """No container of this pod can run any more."""

    def pod_ended(self, uid: PodUid) -> None:
        """The worker of this pod has nothing left to do."""


class _Worker:
    """The task of one pod: its wake-up signal, the sync in progress, and when the last sync ended."""

    __slots__ = ("last_sync", "sync", "woken")

    def __init__(self) -> None:
        self.woken = asyncio.Event()
        self.sync: asyncio.Timeout | None = None
        # Before the first sync every cached pod status is new enough.
        self.last_sync = BEGINNING

    def interrupt(self) -> None:
        """Abort the sync in progress, if any, in favour of more urgent work."""
        sync, self.sync = self.sync, None
        if sync is not None:
            sync.reschedule(asyncio.get_running_loop().time())


class PodWorkers(PodWorkerQueries):
    """The workers of all pods, and the queries about them; only tasks of the node's event loop call it."""

    def __init__(
        self,
        *,
        runner: SyncRunner,
        pods: PodManager,
        statuses: StatusManager,
        listener: WorkerListener,
        recorder: EventRecorder,
        clock: Clock,
        trail: Trail,
        machine: PodStateMachine | None = None,
    ) -> None:
        """Pass a `machine` to answer queries about workers before there are any."""
        super().__init__(machine or PodStateMachine())
        self._runner, self._cache, self._pods, self._statuses = runner, runner.cache, pods, statuses
        self._listener, self._recorder, self._clock, self._trail = listener, recorder, clock, trail
        self._workers: dict[PodUid, _Worker] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._until_stopped: dict[PodUid, asyncio.Event] = {}

    async def run(self, ready: asyncio.Event) -> None:
        """Work until cancelled, which stops the workers and leaves the pods alone."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                # Resumes what an earlier, cancelled run left undone.
                for uid in tuple(self._machine.records):
                    self._carry_out(self._machine.replay(uid))
                ready.set()
                await asyncio.Event().wait()
            finally:
                self._tasks = None
                self._workers.clear()

    def update(self, work: UpdatePodOptions) -> None:
        """Queue work for the pod's worker; it replaces what already waits."""
        uid = uid_of(work)
        before = self.state(uid)
        observed = self._cached(uid) if before is None else None
        if before is None and work.pod is not None and is_static_pod(work.pod):
            self._end_former(work.pod)
        self._carry_out(self._machine.update(work, self._clock.monotonic(), observed))
        self._note(uid, before, f"{work.type.name.lower()} requested")

    def _end_former(self, pod: Pod) -> None:
        """Kill what an earlier run of the kubelet left of static pods with this name: their manifest has changed since."""
        for one in self._runner.namesakes(pod):
            if is_running(one) and self.state(one.uid) is None and self._pods.pod_by_uid(one.uid) is None:
                self.update(UpdatePodOptions(SyncPodType.KILL, running=one, kill=ORPHAN_KILL))

    def sync_known_pods(self, desired: Container[PodUid]) -> Mapping[PodUid, PodWorkerState]:
        """Terminate pods that are not desired and forget finished ones; return the states of the remaining workers."""
        for decision in self._machine.sync_known(desired, self._clock.monotonic()):
            self._carry_out(decision)
        return {uid: record.state for uid, record in self._machine.records.items()}

    def settle(self, uid: PodUid) -> bool:
        """Do the same for one pod; return whether it still has a worker."""
        is_desired = self._pods.pod_by_uid(uid) is not None
        self._carry_out(self._machine.settle(uid, self._clock.monotonic(), is_desired=is_desired))
        return uid in self._machine.records

    async def until_stopped(self, uid: PodUid) -> None:
        """Return when no container of this pod can run any more; at once if the pod has no worker."""
        record = self._machine.records.get(uid)
        if record is not None and not record.is_terminated:
            await self._until_stopped.setdefault(uid, asyncio.Event()).wait()

    async def kill_now(self, pod: Pod, kill: KillPodOptions) -> None:
        """Kill a pod and wait until none of its containers can run any more; KillTimedOut if that takes too long."""
        self.update(UpdatePodOptions(SyncPodType.KILL, pod, kill=kill))
        try:
            async with asyncio.timeout(kill_timeout_seconds(pod, kill)):
                await self.until_stopped(PodUid(pod.metadata.uid))
        except TimeoutError:
            message = "Container runtime did not kill the pod within specified grace period."
            self._recorder.event(reference_to(pod), WARNING, EXCEEDED_GRACE_PERIOD, message)
            raise KillTimedOut("timeout waiting to kill pod") from None

    def active_pods(self) -> tuple[Pod, ...]:
        """The desired pods that have not terminated, according to the API, this node or their worker."""
        return tuple(pod for pod in self._pods.pods() if self._is_active(pod))

    def _is_active(self, pod: Pod) -> bool:
        uid = PodUid(pod.metadata.uid)
        own = self._statuses.pod_status(uid)
        return is_active(pod, self.state(uid), own.phase if own is not None else "")

    def _carry_out(self, decision: WorkerDecision) -> None:
        for uid in decision.wake:
            self._wake(uid)
        if decision.interrupt is not None and (worker := self._workers.get(decision.interrupt)):
            worker.interrupt()
        if decision.stopped is not None:
            if event := self._until_stopped.pop(decision.stopped, None):
                event.set()
            self._listener.pod_stopped(decision.stopped)
        if decision.ended is not None:
            self._listener.pod_ended(decision.ended)

    def _wake(self, uid: PodUid) -> None:
        if worker := self._workers.get(uid):
            worker.woken.set()
        elif self._tasks is not None and not self._is_over(uid):
            self._workers[uid] = worker = _Worker()
            start_supervised(self._tasks, f"pod worker {uid}", lambda: self._worker_loop(uid, worker))

    async def _worker_loop(self, uid: PodUid, worker: _Worker) -> None:
        """Run the pod's syncs until its worker has nothing left to do."""
        loop, delays = asyncio.get_running_loop(), self._runner.delays
        due_at = loop.time() + delays.failed.delay_seconds(1)
        while not self._is_over(uid):
            worker.woken.clear()
            job = self._begin(uid)
            if job is not None:
                due_at = loop.time() + await self._sync(job, worker)
                continue
            try:
                async with asyncio.timeout_at(due_at):
                    await worker.woken.wait()
            except TimeoutError:
                due_at = loop.time() + delays.resync.delay_seconds(1)
                self._resync(uid)
        self._workers.pop(uid, None)

    def _begin(self, uid: PodUid) -> SyncJob | None:
        """Take the pod's next sync, if there is one and its full name is free."""
        job = self._machine.begin(uid, self._clock.monotonic())
        record = self._machine.records.get(uid)
        if job is None and record is not None and record.pending is not None:
            holder = self._machine.turns.holder(record.full_name)
            self._trail.waits(uid, WaitStage.TURNS, f"static pod {holder} of the same name ends")
        elif job is not None:
            self._trail.waits(uid, WaitStage.TURNS, "")
            self._trail.waits(uid, WaitStage.RETRY, "")
        return job

    async def _sync(self, job: SyncJob, worker: _Worker) -> float:
        """Run one sync; return after how many seconds to run the next if nothing happens before."""
        delays = self._runner.delays
        worker.sync = sync = asyncio.timeout(None)
        try:
            async with sync:
                result = await self._runner.run(job, worker.last_sync)
        except Exception as error:  # noqa: BLE001  a failure affects only this pod
            # An interrupted sync has newer work waiting.
            return delays.failed.delay_seconds(1) if sync.expired() else self._failed(job, error)
        finally:
            worker.sync = None
            worker.last_sync = self._cache.moment()
        before = self.state(job.uid)
        self._carry_out(self._machine.complete(job, self._clock.monotonic(), is_terminal=result.is_terminal))
        self._note(job.uid, before, "pod came to its end" if result.is_terminal else "done")
        resync = delays.resync.delay_seconds(1)
        return (
            resync if result.again_in_seconds is None else max(min(resync, result.again_in_seconds), _SOONEST_SECONDS)
        )

    def _failed(self, job: SyncJob, error: Exception) -> float:
        delay = self._retry_seconds(error)
        facts = {"pod": self._name(job), "uid": job.uid, "state": job.state.name}
        if isinstance(error, SyncFailed):
            log.warning("pod sync failed", cause=str(error), **facts)
        else:
            log.error("pod sync failed", error=error, **facts)
        why = str(error) or type(error).__name__
        self._trail.note(job.uid, COMPONENT, "sync failed", state=job.state.name.lower(), why=why)
        self._trail.waits(job.uid, WaitStage.RETRY, f"another try: {why}", delay)
        return delay

    def _name(self, job: SyncJob) -> str:
        record = self._machine.records.get(job.uid)
        name, _, namespace = record.full_name.rpartition("_") if record is not None else ("", "", "")
        return f"{namespace}/{name}"

    def _retry_seconds(self, error: Exception) -> float:
        delays = self._runner.delays
        if not isinstance(error, SyncFailed):
            return delays.failed.delay_seconds(1)
        if error.retry_in_seconds is not None:
            return max(error.retry_in_seconds, _SOONEST_SECONDS)
        return (delays.transient if error.is_transient else delays.failed).delay_seconds(1)

    def _resync(self, uid: PodUid) -> None:
        """Queue another sync of the pod as its source shows it now; an undesired pod repeats its last work."""
        pod = self._pods.pod_by_uid(uid)
        if pod is not None:
            self.update(UpdatePodOptions(SyncPodType.SYNC, pod))
        else:
            self._carry_out(self._machine.replay(uid))

    def _is_over(self, uid: PodUid) -> bool:
        record = self._machine.records.get(uid)
        return record is None or record.finished

    def _cached(self, uid: PodUid) -> RuntimePod | None:
        try:
            return self._cache.get(uid) if self._cache.is_newer(uid, BEGINNING) else None
        except RuntimeFailure:
            return None

    def _note(self, uid: PodUid, before: PodWorkerState | None, why: str) -> None:
        after = self.state(uid)
        if after != before:
            self._trail.note(uid, COMPONENT, after.name.lower() if after is not None else "forgotten", why=why)


def kill_timeout_seconds(pod: Pod, kill: KillPodOptions) -> int:
    """One and a half times the grace period, at least ten seconds."""
    grace = kill.grace_seconds if kill.grace_seconds is not None else pod.spec.termination_grace_period_seconds or 0
    return max(grace + grace // 2, _SHORTEST_KILL_TIMEOUT_SECONDS)
