"""One task per pod UID: carries out what the machine decides.

In: work for pods, from the loop; the newest wins. Out: syncs, each in the task of its pod, so that no pod waits for
another. Upstream: podWorkers in pkg/kubelet/pod_workers.go.
"""

import asyncio
from collections.abc import Container, Mapping
from typing import Protocol

from pykubelet.agent.flow import PodWork, SyncType, Trail, WaitAt, WorkerState
from pykubelet.agent.workers.machine import Decision, Job, Machine, uid_of
from pykubelet.agent.workers.queries import WorkerQueries
from pykubelet.agent.workers.worker import JobRunner, Worker
from pykubelet.aio.clock import Clock
from pykubelet.aio.supervise import start_supervised
from pykubelet.api.generated.core import Pod
from pykubelet.api.keys import PodUid
from pykubelet.runtime.pod_cache import BEGINNING, Moment
from pykubelet.runtime.protocol import RuntimeFailure, RuntimePod

STATION = "workers"


class SeenPods(Protocol):
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


class WorkerPool:
    """The workers of all pods; owned by one loop. `queries` answers what others ask about them."""

    def __init__(
        self,
        *,
        runner: JobRunner,
        seen: SeenPods,
        desired: DesiredPods,
        listener: WorkerListener,
        clock: Clock,
        trail: Trail,
        machine: Machine | None = None,
    ) -> None:
        """A `machine` that is given can be asked about the workers before there are any."""
        self._runner, self._seen, self._desired = runner, seen, desired
        self._listener, self._clock, self._trail = listener, clock, trail
        self._machine = machine or Machine()
        self.queries = WorkerQueries(self._machine)
        self._workers: dict[PodUid, Worker] = {}
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

    def update(self, work: PodWork) -> None:
        """Have a worker see to a pod; what waits for it already is replaced."""
        uid = uid_of(work)
        before = self.queries.state(uid)
        seen = self._last_seen(uid) if before is None else None
        self._carry_out(self._machine.update(work, self._clock.monotonic(), seen))
        self._note(uid, before, f"{work.type.name.lower()} requested")

    def sync_known_pods(self, desired: Container[PodUid]) -> Mapping[PodUid, WorkerState]:
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

    def begin(self, uid: PodUid) -> Job | None:
        """The next sync of a pod; for its worker."""
        job = self._machine.begin(uid, self._clock.monotonic())
        record = self._machine.records.get(uid)
        if job is None and record is not None and record.pending is not None:
            holder = self._machine.turns.holder(record.full_name)
            self._trail.waits(uid, WaitAt.TURNS, f"static pod {holder} of the same name ends")
        elif job is not None:
            self._trail.waits(uid, WaitAt.TURNS, "")
            self._trail.waits(uid, WaitAt.RETRY, "")
        return job

    def complete(self, job: Job, *, is_terminal: bool) -> None:
        """A sync went well; for the worker."""
        before = self.queries.state(job.uid)
        self._carry_out(self._machine.complete(job, self._clock.monotonic(), is_terminal=is_terminal))
        self._note(job.uid, before, "pod came to its end" if is_terminal else "done")

    def fail(self, job: Job, why: str, again_in_seconds: float) -> None:
        """A sync failed and will be tried again; for the worker."""
        self._trail.note(job.uid, STATION, "sync failed", state=job.state.name.lower(), why=why)
        self._trail.waits(job.uid, WaitAt.RETRY, f"another try: {why}", again_in_seconds)

    def ask_again(self, uid: PodUid) -> None:
        """Have a pod synced once more, as its source shows it now; for its worker.

        One that is not desired any more goes on with what it had.
        """
        pod = self._desired.pod_by_uid(uid)
        if pod is not None:
            self.update(PodWork(SyncType.SYNC, pod))
        else:
            self._carry_out(self._machine.replay(uid))

    def is_over(self, uid: PodUid) -> bool:
        """Whether the worker of this pod is no longer needed."""
        record = self._machine.records.get(uid)
        return record is None or record.finished

    def _carry_out(self, decision: Decision) -> None:
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
            self._workers[uid] = worker = Worker(uid, jobs=self, runner=self._runner)
            start_supervised(self._tasks, f"pod worker {uid}", lambda: self._work(uid, worker))

    async def _work(self, uid: PodUid, worker: Worker) -> None:
        await worker.run()
        self._workers.pop(uid, None)

    def _last_seen(self, uid: PodUid) -> RuntimePod | None:
        try:
            return self._seen.get(uid) if self._seen.is_newer(uid, BEGINNING) else None
        except RuntimeFailure:
            return None

    def _note(self, uid: PodUid, before: WorkerState | None, why: str) -> None:
        after = self.queries.state(uid)
        if after != before:
            self._trail.note(uid, STATION, after.name.lower() if after is not None else "forgotten", why=why)
