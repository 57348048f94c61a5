"""One task per pod UID: carries out what the machine decides.

In: work for pods, from the loop; the newest wins. Out: syncs, each in the task of its pod, so that no pod waits for
another. Upstream: podWorkers in pkg/kubelet/pod_workers.go.

Kills a pod because the node needs it to: eviction, shutdown, preemption. Waits until it is done.

In: a pod, how long it gets, what its status is to say. Out: nothing of it runs, or KillTimedOut; the worker goes on trying
then. Upstream: killPodNow in pkg/kubelet/pod_workers.go.

What the rest of the node may ask about the workers: the sole authority on what may run.

Pure. A pod that no worker knows is judged by whether all desired pods were named once: before that it may still come,
afterwards nothing of it may be left. Upstream: the query methods of PodWorkers in pkg/kubelet/pod_workers.go.
"""

import asyncio
from collections.abc import Container, Mapping
from typing import Protocol

from pykubelet.aio.clock import Clock
from pykubelet.aio.tasks import start_supervised
from pykubelet.api.generated.core import Pod
from pykubelet.api.pods import PodUid
from pykubelet.client.recorder import WARNING, EventRecorder, reference_to
from pykubelet.kubelet.pleg.pod_cache import BEGINNING, Moment
from pykubelet.kubelet.pod_workers.state import PodStateMachine, SyncJob, WorkerDecision, uid_of
from pykubelet.kubelet.pod_workers.worker import PodWorker, SyncJobRunner
from pykubelet.kubelet.types import KillPodOptions, PodWorkerState, SyncPodType, Trail, UpdatePodOptions, WaitStation
from pykubelet.runtimes.protocol import RuntimeFailure, RuntimePod


class PodWorkerQueries:
    """Answers from the machine's records; nothing here waits or changes anything."""

    def __init__(self, machine: PodStateMachine) -> None:
        self._machine = machine

    def state(self, uid: PodUid) -> PodWorkerState | None:
        """Where the worker of a pod is; None if there is none."""
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
        """Whether the pod was asked to end; it may still be starting."""
        record = self._machine.records.get(uid)
        return record is not None and record.is_terminating

    def should_containers_be_terminating(self, uid: PodUid) -> bool:
        """Whether nothing of this pod may be set up any more: its worker has seen that it is to end."""
        record = self._machine.records.get(uid)
        return record.acknowledged if record is not None else self._machine.has_synced

    def should_runtime_be_removed(self, uid: PodUid) -> bool:
        """Whether what running containers need, such as mounted volumes, may be taken away."""
        record = self._machine.records.get(uid)
        return record.is_terminated if record is not None else self._machine.has_synced

    def should_content_be_removed(self, uid: PodUid) -> bool:
        """Whether everything of the pod may be deleted: it was evicted, or is deleted and has ended."""
        record = self._machine.records.get(uid)
        if record is None:
            return self._machine.has_synced
        return record.evicted or (record.deleted and record.is_terminated)

    def should_be_finished(self, uid: PodUid) -> bool:
        """Whether the worker of this pod has nothing left to do."""
        record = self._machine.records.get(uid)
        return record.finished if record is not None else self._machine.has_synced

    def is_static_pod_terminating(self, full_name: str) -> bool:
        """Whether the static pod started under this name is being stopped; its mirror must outlive that."""
        holder = self._machine.turns.holder(full_name)
        record = self._machine.records.get(holder) if holder is not None else None
        return record is not None and record.is_terminating and not record.is_terminated


STATION = "workers"


class ObservedPods(Protocol):
    """What was last seen of each pod in the runtime; answers from memory."""

    def is_newer(self, uid: PodUid, moment: Moment) -> bool:
        """Whether something of a pod was seen after a moment."""

    def get(self, uid: PodUid) -> RuntimePod:
        """What there is of a pod; RuntimeFailure if the last look failed."""


class DesiredPods(Protocol):
    """The pods this node should run, as their sources last showed them."""

    def pod_by_uid(self, uid: PodUid) -> Pod | None:
        """The regular pod with this UID."""


class WorkerListener(Protocol):
    """Hears of ends. Called in the middle of a transition: it must neither wait nor call back."""

    def pod_stopped(self, uid: PodUid) -> None:
        """No container of this pod can run any more."""

    def pod_ended(self, uid: PodUid) -> None:
        """The worker of this pod has nothing left to do."""


class PodWorkers:
    """The workers of all pods; owned by one loop. `queries` answers what others ask about them."""

    def __init__(
        self,
        *,
        runner: SyncJobRunner,
        seen: ObservedPods,
        desired: DesiredPods,
        listener: WorkerListener,
        clock: Clock,
        trail: Trail,
        machine: PodStateMachine | None = None,
    ) -> None:
        """A `machine` that is given can be asked about the workers before there are any."""
        self._runner, self._seen, self._desired = runner, seen, desired
        self._listener, self._clock, self._trail = listener, clock, trail
        self._machine = machine or PodStateMachine()
        self.queries = PodWorkerQueries(self._machine)
        self._workers: dict[PodUid, PodWorker] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._until_stopped: dict[PodUid, asyncio.Event] = {}

    async def run(self, ready: asyncio.Event) -> None:
        """Work until cancelled, which stops the workers and leaves the pods alone."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                # Whatever was under way when this was cancelled before is taken up again.
                for uid in tuple(self._machine.records):
                    self._carry_out(self._machine.replay(uid))
                ready.set()
                await asyncio.Event().wait()
            finally:
                self._tasks = None
                self._workers.clear()

    def update(self, work: UpdatePodOptions) -> None:
        """Have a worker see to a pod; what waits for it already is replaced."""
        uid = uid_of(work)
        before = self.queries.state(uid)
        seen = self._last_seen(uid) if before is None else None
        self._carry_out(self._machine.update(work, self._clock.monotonic(), seen))
        self._note(uid, before, f"{work.type.name.lower()} requested")

    def sync_known_pods(self, desired: Container[PodUid]) -> Mapping[PodUid, PodWorkerState]:
        """Have pods that are not desired end, forget those that did; where the remaining workers are."""
        for decision in self._machine.sync_known(desired, self._clock.monotonic()):
            self._carry_out(decision)
        return {uid: record.state for uid, record in self._machine.records.items()}

    def settle(self, uid: PodUid) -> bool:
        """The same for one pod; whether a worker still knows it."""
        is_desired = self._desired.pod_by_uid(uid) is not None
        self._carry_out(self._machine.settle(uid, self._clock.monotonic(), is_desired=is_desired))
        return uid in self._machine.records

    async def until_stopped(self, uid: PodUid) -> None:
        """Return when no container of this pod can run any more; at once if no worker knows the pod."""
        record = self._machine.records.get(uid)
        if record is not None and not record.is_terminated:
            await self._until_stopped.setdefault(uid, asyncio.Event()).wait()

    def begin(self, uid: PodUid) -> SyncJob | None:
        """The next sync of a pod; for its worker."""
        job = self._machine.begin(uid, self._clock.monotonic())
        record = self._machine.records.get(uid)
        if job is None and record is not None and record.pending is not None:
            holder = self._machine.turns.holder(record.full_name)
            self._trail.waits(uid, WaitStation.TURNS, f"static pod {holder} of the same name ends")
        elif job is not None:
            self._trail.waits(uid, WaitStation.TURNS, "")
            self._trail.waits(uid, WaitStation.RETRY, "")
        return job

    def complete(self, job: SyncJob, *, is_terminal: bool) -> None:
        """A sync went well; for the worker."""
        before = self.queries.state(job.uid)
        self._carry_out(self._machine.complete(job, self._clock.monotonic(), is_terminal=is_terminal))
        self._note(job.uid, before, "pod came to its end" if is_terminal else "done")

    def fail(self, job: SyncJob, why: str, again_in_seconds: float) -> None:
        """A sync failed and will be tried again; for the worker."""
        self._trail.note(job.uid, STATION, "sync failed", state=job.state.name.lower(), why=why)
        self._trail.waits(job.uid, WaitStation.RETRY, f"another try: {why}", again_in_seconds)

    def ask_again(self, uid: PodUid) -> None:
        """Have a pod synced once more, as its source shows it now; for its worker.

        One that is not desired any more goes on with what it had.
        """
        pod = self._desired.pod_by_uid(uid)
        if pod is not None:
            self.update(UpdatePodOptions(SyncPodType.SYNC, pod))
        else:
            self._carry_out(self._machine.replay(uid))

    def is_over(self, uid: PodUid) -> bool:
        """Whether the worker of this pod is no longer needed."""
        record = self._machine.records.get(uid)
        return record is None or record.finished

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
            worker.wake()
        elif self._tasks is not None and not self.is_over(uid):
            self._workers[uid] = worker = PodWorker(uid, jobs=self, runner=self._runner)
            start_supervised(self._tasks, f"pod worker {uid}", lambda: self._work(uid, worker))

    async def _work(self, uid: PodUid, worker: PodWorker) -> None:
        await worker.run()
        self._workers.pop(uid, None)

    def _last_seen(self, uid: PodUid) -> RuntimePod | None:
        try:
            return self._seen.get(uid) if self._seen.is_newer(uid, BEGINNING) else None
        except RuntimeFailure:
            return None

    def _note(self, uid: PodUid, before: PodWorkerState | None, why: str) -> None:
        after = self.queries.state(uid)
        if after != before:
            self._trail.note(uid, STATION, after.name.lower() if after is not None else "forgotten", why=why)


EXCEEDED_GRACE_PERIOD = "ExceededGracePeriod"
# The runtime gets as long at least, to carry out even the shortest kill.
_SHORTEST_TIMEOUT_SECONDS = 10


class KillTimedOut(Exception):
    """The pod was not stopped in time."""


class PodKiller:
    """Kills pods through their workers."""

    def __init__(self, *, workers: PodWorkers, recorder: EventRecorder) -> None:
        self._workers, self._recorder = workers, recorder

    async def kill_now(self, pod: Pod, kill: KillPodOptions) -> None:
        """Kill a pod and wait until none of its containers can run any more; KillTimedOut if that takes too long."""
        self._workers.update(UpdatePodOptions(SyncPodType.KILL, pod, kill=kill))
        try:
            async with asyncio.timeout(kill_timeout_seconds(pod, kill)):
                await self._workers.until_stopped(PodUid(pod.metadata.uid))
        except TimeoutError:
            message = "Container runtime did not kill the pod within specified grace period."
            self._recorder.event(reference_to(pod), WARNING, EXCEEDED_GRACE_PERIOD, message)
            raise KillTimedOut("timeout waiting to kill pod") from None


def kill_timeout_seconds(pod: Pod, kill: KillPodOptions) -> int:
    """One and a half times the grace, ten seconds at least."""
    grace = kill.grace_seconds if kill.grace_seconds is not None else pod.spec.termination_grace_period_seconds or 0
    return max(grace + grace // 2, _SHORTEST_TIMEOUT_SECONDS)
