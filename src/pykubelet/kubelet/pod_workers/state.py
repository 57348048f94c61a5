"""The state machine of pod workers: sync, terminating, terminated, finished.

Pure: takes work, times and results; returns which workers to wake and which sync to interrupt. A state never moves
back.

| from | to | when |
|---|---|---|
| unknown | sync | first work |
| unknown | terminated | first work shows a terminal phase, and the runtime runs nothing of the pod |
| sync | terminating | deletion, terminal phase, kill, known to the runtime only; SyncPod reports the end; no longer desired |
| terminating | terminated | SyncTerminatingPod succeeded |
| terminating | unknown | SyncTerminatingRuntimePod succeeded, for a pod that only the runtime knew |
| terminating | finished | the pod was never started |
| terminated | finished | SyncTerminatedPod succeeded |
| finished | unknown | no longer desired, or desired again under the same UID |

Static pods with the same full name run one after the other: an edited manifest is a new pod with an old name, and both
at once would compete for ports, paths and the mirror pod. They start in the order in which they were first seen.
Upstream checks every ten seconds whether the name is free; here releasing the name wakes the next pod.

Upstream: pkg/kubelet/pod_workers.go
"""

from collections.abc import Callable, Container

from msgspec import Struct
from msgspec.structs import replace

from pykubelet.api.generated.core import Pod
from pykubelet.api.pods import PodUid, full_name, is_static_pod, is_terminal, pod_full_name
from pykubelet.api.times import MAX_DURATION_SECONDS
from pykubelet.kubelet.types import KillPodOptions, PodStatusFunc, PodWorkerState, SyncPodType, UpdatePodOptions
from pykubelet.runtimes.protocol import ContainerState, RuntimePod

SHORTEST_GRACE_SECONDS = 1
"""The shortest grace period, so that zero can mean "not decided yet"."""


class PodSyncStatus(Struct, frozen=True, kw_only=True):
    """The record of one pod's worker. Times are on the monotonic clock; None means "not yet".

    `acknowledged` is set once the worker itself has seen the termination request: from then on nothing is started.
    `observed` means that the runtime has something of a pod which this worker may never have started. `pending` is the
    next work, `active` the last one taken.
    """

    full_name: str
    started_at: float | None = None
    terminating_at: float | None = None
    terminated_at: float | None = None
    acknowledged: bool = False
    deleted: bool = False
    evicted: bool = False
    finished: bool = False
    restart_requested: bool = False
    observed: bool = False
    grace_seconds: int = 0
    change_status: PodStatusFunc | None = None
    pending: UpdatePodOptions | None = None
    active: UpdatePodOptions | None = None

    @property
    def state(self) -> PodWorkerState:
        """The worker's state, derived from the times recorded here."""
        if self.finished:
            return PodWorkerState.FINISHED
        if self.terminated_at is not None:
            return PodWorkerState.TERMINATED
        return PodWorkerState.SYNC if self.terminating_at is None else PodWorkerState.TERMINATING

    @property
    def is_terminating(self) -> bool:
        """Whether termination was requested, in any later state too."""
        return self.terminating_at is not None

    @property
    def is_terminated(self) -> bool:
        """Whether no container of the pod runs any more."""
        return self.terminated_at is not None

    @property
    def is_started(self) -> bool:
        return self.started_at is not None

    @property
    def pod(self) -> Pod | None:
        """The newest pod the worker received; None for a pod known to the runtime only."""
        if self.pending is not None and self.pending.pod is not None:
            return self.pending.pod
        return self.active.pod if self.active is not None else None


def replayed(record: PodSyncStatus) -> PodSyncStatus:
    """The record with its last work pending again, unless newer work is pending or there was none."""
    return record if record.pending is not None else replace(record, pending=record.active)


def effective_grace(recorded: int, pod: Pod | None, kill: KillPodOptions | None) -> int:
    """The pod's grace period in seconds (calculateEffectiveGracePeriod): the shortest of the recorded, the API's and the kill's.

    Zero in `recorded` means none. Without any of them it is the grace period of the pod's spec. A single container's grace
    period is decided by `kill_grace_seconds` in kuberuntime.
    """
    asked = (pod.metadata.deletion_grace_period_seconds if pod else None, kill.grace_seconds if kill else None)
    grace, is_asked = recorded, False
    for seconds in asked:
        if seconds is not None and (grace == 0 or seconds < grace):
            grace, is_asked = seconds, True
    if not is_asked and grace == 0 and pod is not None:
        grace = pod.spec.termination_grace_period_seconds or 0
    return min(max(grace, SHORTEST_GRACE_SECONDS), MAX_DURATION_SECONDS)


def is_running(pod: RuntimePod) -> bool:
    """Whether the runtime runs anything of a pod: a container, or its sandbox."""
    return any(sandbox.is_ready for sandbox in pod.sandboxes) or any(
        container.state is ContainerState.RUNNING for container in pod.containers
    )


def is_active(pod: Pod, worker: PodWorkerState | None, own_phase: str) -> bool:
    """Whether a pod has not terminated, according to the API, this node or its worker."""
    if worker is not None and worker >= PodWorkerState.TERMINATED:
        return False
    return worker is PodWorkerState.TERMINATING or not (is_terminal(pod.status.phase) or is_terminal(own_phase))


CanStart = Callable[[PodUid], bool]
"""Whether a waiting pod may start: it is known, and its termination was not requested."""


class StaticPodQueue:
    """The static pod that holds each full name, and those that wait for it."""

    def __init__(self) -> None:
        self._holders: dict[str, PodUid] = {}
        # Dicts as ordered sets: a pod waits once, and can leave from anywhere.
        self._waiting: dict[str, dict[PodUid, None]] = {}

    def wait(self, full_name: str, uid: PodUid) -> None:
        """Append a newly seen static pod to the queue of its name."""
        self._waiting.setdefault(full_name, {})[uid] = None

    def try_start(self, full_name: str, uid: PodUid, can_start: CanStart) -> bool:
        """Whether it is this pod's turn; if so it holds the name from now on."""
        if full_name in self._holders:
            return self._holders[full_name] == uid
        if self.next_up(full_name, can_start) not in (uid, None):
            return False
        self._leave(full_name, uid)
        self._holders[full_name] = uid
        return True

    def hold(self, full_name: str, uid: PodUid) -> None:
        """Let a pod that only the runtime knows hold its name, if that is free: it may be a static pod of an earlier run."""
        self._holders.setdefault(full_name, uid)

    def next_up(self, full_name: str, can_start: CanStart) -> PodUid | None:
        """The next pod in the queue, if the name is free."""
        if full_name in self._holders:
            return None
        return next((uid for uid in self._waiting.get(full_name, ()) if can_start(uid)), None)

    def holder(self, full_name: str) -> PodUid | None:
        """The static pod that started under this name and has not finished."""
        return self._holders.get(full_name)

    def release(self, full_name: str, uid: PodUid) -> None:
        """Remove a finished or forgotten pod from the holders and the queue."""
        if self._holders.get(full_name) == uid:
            del self._holders[full_name]
        self._leave(full_name, uid)

    def _leave(self, full_name: str, uid: PodUid) -> None:
        waiting = self._waiting.get(full_name, {})
        waiting.pop(uid, None)
        if not waiting:
            self._waiting.pop(full_name, None)


class WorkerDecision(Struct, frozen=True):
    """Workers to wake, the sync to interrupt, the pod that stopped, and the pod whose worker has nothing left to do."""

    wake: tuple[PodUid, ...] = ()
    interrupt: PodUid | None = None
    stopped: PodUid | None = None
    ended: PodUid | None = None


IGNORED = WorkerDecision()


class SyncJob(Struct, frozen=True):
    """One sync to run: the worker's state, its work, and the grace period of a terminating pod."""

    uid: PodUid
    state: PodWorkerState
    work: UpdatePodOptions
    grace_seconds: int
    change_status: PodStatusFunc | None


class PodStateMachine:
    """The records of all pods that have a worker."""

    def __init__(self) -> None:
        self.records: dict[PodUid, PodSyncStatus] = {}
        self.turns = StaticPodQueue()
        self.has_synced = False
        """Whether the desired pods were listed once; before that, an unknown pod may still arrive."""

    def update(self, work: UpdatePodOptions, now: float, seen: RuntimePod | None = None) -> WorkerDecision:
        """Record work for a pod. `seen` is what the runtime has of it, None if unknown."""
        uid, is_orphan = uid_of(work), work.pod is None
        if is_orphan and work.type is not SyncPodType.KILL:
            return IGNORED
        record = self.records.get(uid)
        if record is None:
            record = self._first_seen(uid, work, now, seen)
        elif record.is_terminating and work.type is SyncPodType.CREATE:
            self.records[uid] = replace(record, restart_requested=True)
            return IGNORED
        if is_orphan:
            record = replace(record, observed=True)
            # The runtime knows only the containers; the worker may have the pod from earlier work.
            if record.pod is not None:
                work = replace(work, pod=record.pod, running=None)
        else:
            work = replace(work, running=None)
        self.records[uid] = record
        if record.finished or (record.is_terminated and is_orphan):
            return IGNORED
        return self._queue(uid, record, work, now, is_orphan=is_orphan)

    def begin(self, uid: PodUid, now: float) -> SyncJob | None:
        """Take the next sync of a pod; None if there is none, or another pod holds its name."""
        record = self.records.get(uid)
        if record is None or record.finished or record.pending is None:
            return None
        work = record.pending
        waits_in_line = _is_static(work) and not record.is_started and not record.is_terminating
        if waits_in_line and not self.turns.try_start(record.full_name, uid, self._can_start):
            return None
        if work.pod is not None and not record.is_started:
            record = replace(record, started_at=now)
        # The record itself keeps the kill options.
        record = replace(record, pending=None, active=replace(work, kill=None), acknowledged=record.is_terminating)
        self.records[uid] = record
        return SyncJob(uid, record.state, work, record.grace_seconds, record.change_status)

    def complete(self, job: SyncJob, now: float, *, is_terminal: bool = False) -> WorkerDecision:
        """Record a successful sync. `is_terminal` means that SyncPod found a terminal phase."""
        record = self.records.get(job.uid)
        if record is None:
            return IGNORED
        if job.state is PodWorkerState.SYNC:
            return self._ended_by_itself(job.uid, record, now) if is_terminal else IGNORED
        if job.state is PodWorkerState.TERMINATED:
            return self._finish(job.uid, record)
        if job.work.running is not None:
            return self._forget(job.uid)
        self.records[job.uid] = replayed(replace(record, terminated_at=now, change_status=None))
        return WorkerDecision(wake=(job.uid,), stopped=job.uid)

    def replay(self, uid: PodUid) -> WorkerDecision:
        """Make the last work of a pod pending again."""
        record = self.records.get(uid)
        if record is None or record.finished:
            return IGNORED
        self.records[uid] = replayed(record)
        return WorkerDecision(wake=(uid,))

    def sync_known(self, desired: Container[PodUid], now: float) -> list[WorkerDecision]:
        """Terminate pods that are not desired and forget finished ones; the caller starts desired pods without a worker."""
        self.has_synced = True
        return [self.settle(uid, now, is_desired=uid in desired) for uid in tuple(self.records)]

    def settle(self, uid: PodUid, now: float, *, is_desired: bool) -> WorkerDecision:
        """Apply `sync_known` to one pod."""
        record = self.records.get(uid)
        if record is None or (is_desired and not record.restart_requested):
            return IGNORED
        if record.finished:
            del self.records[uid]
            return IGNORED
        if is_desired:
            return IGNORED
        record = replace(record, deleted=True)
        if not record.is_started and not record.observed:
            return self._forget(uid)
        if record.is_terminating:
            self.records[uid] = replayed(record)
            return WorkerDecision(wake=(uid,))
        pod = record.active.pod if record.active is not None else None
        grace = effective_grace(record.grace_seconds, pod, None) if pod is not None else SHORTEST_GRACE_SECONDS
        self.records[uid] = replayed(replace(record, terminating_at=now, grace_seconds=grace))
        return WorkerDecision(wake=(uid,), interrupt=uid)

    def _first_seen(self, uid: PodUid, work: UpdatePodOptions, now: float, seen: RuntimePod | None) -> PodSyncStatus:
        pod, running = work.pod, work.running
        if pod is None:
            assert running is not None
            name = full_name(running.name, running.namespace)
            self.turns.hold(name, uid)
            return PodSyncStatus(full_name=name)
        record = PodSyncStatus(full_name=pod_full_name(pod))
        if is_static_pod(pod):
            self.turns.wait(record.full_name, uid)
        if is_terminal(pod.status.phase) and seen is not None and not is_running(seen):
            # It ended before this process started: only the cleanup after termination is left.
            return replace(record, terminating_at=now, terminated_at=now, acknowledged=True)
        return record

    def _queue(
        self, uid: PodUid, record: PodSyncStatus, work: UpdatePodOptions, now: float, *, is_orphan: bool
    ) -> WorkerDecision:
        """Make this the pending work; it may turn the pod to termination."""
        was_terminating, old_grace = record.is_terminating, record.grace_seconds
        if not was_terminating:
            record = _turned(record, work, now, is_orphan=is_orphan)
        if record.is_terminated or not record.is_terminating:
            self.records[uid] = replace(record, pending=replace(work, kill=None))
            return WorkerDecision(wake=(uid,))
        if not record.is_started and not record.observed and _is_static(work):
            # It still waited for its name: there is nothing to stop.
            self.records[uid] = replace(record, terminated_at=now, acknowledged=True, finished=True, pending=None)
            return self._ended(uid, record)
        grace = effective_grace(old_grace, work.pod, work.kill)
        change = work.kill.change_status if work.kill is not None else None
        change = change or record.change_status
        self.records[uid] = replace(record, grace_seconds=grace, change_status=change, pending=work)
        is_shorter = old_grace not in (0, grace)
        return WorkerDecision(wake=(uid,), interrupt=uid if is_shorter or not was_terminating else None)

    def _ended_by_itself(self, uid: PodUid, record: PodSyncStatus, now: float) -> WorkerDecision:
        if not record.is_terminating:
            pod = record.active.pod if record.active is not None else None
            record = replace(record, terminating_at=now, grace_seconds=effective_grace(0, pod, None))
        self.records[uid] = replayed(replace(record, acknowledged=True))
        return WorkerDecision(wake=(uid,))

    def _finish(self, uid: PodUid, record: PodSyncStatus) -> WorkerDecision:
        self.records[uid] = replace(record, finished=True, pending=None, change_status=None)
        return self._ended(uid, record)

    def _forget(self, uid: PodUid) -> WorkerDecision:
        return self._ended(uid, self.records.pop(uid))

    def _ended(self, uid: PodUid, record: PodSyncStatus) -> WorkerDecision:
        """Release the pod's name and wake the next static pod with it."""
        self.turns.release(record.full_name, uid)
        stopped = None if record.is_terminated else uid
        return WorkerDecision(wake=(uid, *self._next_up(record.full_name)), stopped=stopped, ended=uid)

    def _next_up(self, name: str) -> tuple[PodUid, ...]:
        uid = self.turns.next_up(name, self._can_start)
        return (uid,) if uid is not None else ()

    def _can_start(self, uid: PodUid) -> bool:
        return uid in self.records and not self.records[uid].is_terminating


def uid_of(work: UpdatePodOptions) -> PodUid:
    """The UID of the pod that work is about."""
    if work.pod is not None:
        return PodUid(work.pod.metadata.uid)
    if work.running is None:
        raise ValueError("work needs a pod, or what the runtime has of one")
    return work.running.uid


def _is_static(work: UpdatePodOptions) -> bool:
    return work.pod is not None and is_static_pod(work.pod)


def _turned(record: PodSyncStatus, work: UpdatePodOptions, now: float, *, is_orphan: bool) -> PodSyncStatus:
    """The record, set to terminating if this work asks for it."""
    if is_orphan or (work.pod is not None and work.pod.metadata.deletion_timestamp is not None):
        return replace(record, terminating_at=now, deleted=True)
    if work.pod is not None and is_terminal(work.pod.status.phase):
        return replace(record, terminating_at=now)
    if work.type is SyncPodType.KILL:
        return replace(record, terminating_at=now, evicted=work.kill is not None and work.kill.evict)
    return record
