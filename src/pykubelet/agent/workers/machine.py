"""The life of every pod on this node: sync, terminating, terminated, finished.

Pure: work, times and outcomes in; which workers to wake or to interrupt out. No state is ever left backwards. The pool
carries out what is decided here. Upstream: UpdatePod, startPodSync, complete* and SyncKnownPods in
pkg/kubelet/pod_workers.go.

| from | to | when |
|---|---|---|
| unknown | sync | first work |
| unknown | terminated | first work shows a terminal phase, and the runtime is known to run nothing |
| sync | terminating | deletion, terminal phase, kill, only the runtime knows it; SyncPod says it has ended; no longer desired |
| terminating | terminated | SyncTerminatingPod succeeded |
| terminating | unknown | SyncTerminatingRuntimePod succeeded, for a pod that only the runtime knew |
| terminating | finished | the pod was never started |
| terminated | finished | SyncTerminatedPod succeeded |
| finished | unknown | no longer desired, or wanted anew under the same UID |
"""

from collections.abc import Container

from msgspec import Struct
from msgspec.structs import replace

from pykubelet.agent.flow import PodWork, StatusChange, SyncType, WorkerState
from pykubelet.agent.workers.record import (
    SHORTEST_GRACE_SECONDS,
    PodRecord,
    effective_grace,
    is_quiet,
    replayed,
    taken_up,
)
from pykubelet.agent.workers.turns import StaticTurns
from pykubelet.api.keys import PodUid, full_name
from pykubelet.api.pods import is_static_pod, is_terminal, pod_full_name
from pykubelet.runtime.protocol import RuntimePod


class Decision(Struct, frozen=True):
    """What follows from a transition: workers to wake, a sync to interrupt, and what has become of a pod.

    `stopped` is a pod of which no container can run any more, `ended` one whose worker has nothing left to do.
    """

    wake: tuple[PodUid, ...] = ()
    interrupt: PodUid | None = None
    stopped: PodUid | None = None
    ended: PodUid | None = None


IGNORED = Decision()


class Job(Struct, frozen=True):
    """One sync to run: in which state, of what, and how long a pod that ends gets."""

    uid: PodUid
    state: WorkerState
    work: PodWork
    grace_seconds: int = 0
    change_status: StatusChange | None = None


class Machine:
    """The records of all pods that workers know."""

    def __init__(self) -> None:
        self.records: dict[PodUid, PodRecord] = {}
        self.turns = StaticTurns()
        self.has_synced = False
        """Whether the desired pods were named once; before that, a pod nobody knows may still come."""

    def update(self, work: PodWork, now: float, seen: RuntimePod | None = None) -> Decision:
        """Take note of work for a pod. `seen` is what the runtime has of it, None if that is not known."""
        uid, is_orphan = uid_of(work), work.pod is None
        if is_orphan and work.type is not SyncType.KILL:
            return IGNORED
        record = self.records.get(uid)
        if record is None:
            record = self._first_seen(uid, work, now, seen)
        elif record.is_terminating and work.type is SyncType.CREATE:
            self.records[uid] = replace(record, restart_requested=True)
            return IGNORED
        if is_orphan:
            record = replace(record, observed=True)
            # Only the containers are known by now, unless the worker was told of the pod before.
            if record.pod is not None:
                work = replace(work, pod=record.pod, running=None)
        else:
            work = replace(work, running=None)
        self.records[uid] = record
        if record.finished or (record.is_terminated and is_orphan):
            return IGNORED
        return self._queue(uid, record, work, now, is_orphan=is_orphan)

    def begin(self, uid: PodUid, now: float) -> Job | None:
        """The next sync of a pod, taken up by its worker; None if there is none, or it is not the pod's turn."""
        record = self.records.get(uid)
        if record is None or record.finished or record.pending is None:
            return None
        work = record.pending
        waits_in_line = _is_static(work) and not record.is_started and not record.is_terminating
        if waits_in_line and not self.turns.try_start(record.full_name, uid, self._can_start):
            return None
        if work.pod is not None and not record.is_started:
            record = replace(record, started_at=now)
        record = replace(taken_up(record, work), acknowledged=record.is_terminating)
        self.records[uid] = record
        return Job(uid, record.state, work, record.grace_seconds, record.change_status)

    def complete(self, job: Job, now: float, *, is_terminal: bool = False) -> Decision:
        """A sync went well. `is_terminal` is SyncPod's word that the pod has come to its end."""
        record = self.records.get(job.uid)
        if record is None:
            return IGNORED
        if job.state is WorkerState.SYNC:
            return self._ended_by_itself(job.uid, record, now) if is_terminal else IGNORED
        if job.state is WorkerState.TERMINATED:
            return self._finish(job.uid, record)
        if job.work.running is not None:
            return self._forget(job.uid)
        self.records[job.uid] = replayed(replace(record, terminated_at=now, change_status=None))
        return Decision(wake=(job.uid,), stopped=job.uid)

    def replay(self, uid: PodUid) -> Decision:
        """Have the last work of a pod done again."""
        record = self.records.get(uid)
        if record is None or record.finished:
            return IGNORED
        self.records[uid] = replayed(record)
        return Decision(wake=(uid,))

    def sync_known(self, desired: Container[PodUid], now: float) -> list[Decision]:
        """Have every pod that is not desired come to its end, and forget those that have.

        The caller starts desired pods anew that are not known afterwards.
        """
        self.has_synced = True
        return [self.settle(uid, now, is_desired=uid in desired) for uid in tuple(self.records)]

    def settle(self, uid: PodUid, now: float, *, is_desired: bool) -> Decision:
        """The same for one pod."""
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
            return Decision(wake=(uid,))
        pod = record.active.pod if record.active is not None else None
        grace = effective_grace(record.grace_seconds, pod, None) if pod is not None else SHORTEST_GRACE_SECONDS
        self.records[uid] = replayed(replace(record, terminating_at=now, grace_seconds=grace))
        return Decision(wake=(uid,), interrupt=uid)

    def _first_seen(self, uid: PodUid, work: PodWork, now: float, seen: RuntimePod | None) -> PodRecord:
        pod, running = work.pod, work.running
        if pod is None:
            assert running is not None
            return PodRecord(full_name=full_name(running.name, running.namespace))
        record = PodRecord(full_name=pod_full_name(pod))
        if is_static_pod(pod):
            self.turns.wait(record.full_name, uid)
        if is_terminal(pod.status.phase) and seen is not None and is_quiet(seen):
            # It ended before this agent started: only what comes after the end is left to do.
            return replace(record, terminating_at=now, terminated_at=now, acknowledged=True)
        return record

    def _queue(self, uid: PodUid, record: PodRecord, work: PodWork, now: float, *, is_orphan: bool) -> Decision:
        """Make this the work to do next; it may turn the pod to its end."""
        was_terminating, old_grace = record.is_terminating, record.grace_seconds
        if not was_terminating:
            record = _turned(record, work, now, is_orphan=is_orphan)
        if record.is_terminated or not record.is_terminating:
            self.records[uid] = replace(record, pending=replace(work, kill=None))
            return Decision(wake=(uid,))
        if not record.is_started and not record.observed and _is_static(work):
            # It waited for its turn: there is nothing to stop.
            self.records[uid] = replace(record, terminated_at=now, acknowledged=True, finished=True, pending=None)
            return self._ended(uid, record)
        grace = effective_grace(old_grace, work.pod, work.kill)
        change = work.kill.change_status if work.kill is not None else None
        change = change or record.change_status
        self.records[uid] = replace(record, grace_seconds=grace, change_status=change, pending=work)
        is_shorter = old_grace not in (0, grace)
        return Decision(wake=(uid,), interrupt=uid if is_shorter or not was_terminating else None)

    def _ended_by_itself(self, uid: PodUid, record: PodRecord, now: float) -> Decision:
        if not record.is_terminating:
            pod = record.active.pod if record.active is not None else None
            record = replace(record, terminating_at=now, grace_seconds=effective_grace(0, pod, None))
        self.records[uid] = replayed(replace(record, acknowledged=True))
        return Decision(wake=(uid,))

    def _finish(self, uid: PodUid, record: PodRecord) -> Decision:
        self.records[uid] = replace(record, finished=True, pending=None, change_status=None)
        return self._ended(uid, record)

    def _forget(self, uid: PodUid) -> Decision:
        return self._ended(uid, self.records.pop(uid))

    def _ended(self, uid: PodUid, record: PodRecord) -> Decision:
        """A pod is done with: the next of its name may start."""
        self.turns.release(record.full_name, uid)
        stopped = None if record.is_terminated else uid
        return Decision(wake=(uid, *self._next_up(record.full_name)), stopped=stopped, ended=uid)

    def _next_up(self, name: str) -> tuple[PodUid, ...]:
        uid = self.turns.next_up(name, self._can_start)
        return (uid,) if uid is not None else ()

    def _can_start(self, uid: PodUid) -> bool:
        return uid in self.records and not self.records[uid].is_terminating


def uid_of(work: PodWork) -> PodUid:
    """Whom work is about."""
    if work.pod is not None:
        return PodUid(work.pod.metadata.uid)
    if work.running is None:
        raise ValueError("work needs a pod, or what the runtime has of one")
    return work.running.uid


def _is_static(work: PodWork) -> bool:
    return work.pod is not None and is_static_pod(work.pod)


def _turned(record: PodRecord, work: PodWork, now: float, *, is_orphan: bool) -> PodRecord:
    """The record of a pod that ran so far, turned to its end if this work says so."""
    if is_orphan or (work.pod is not None and work.pod.metadata.deletion_timestamp is not None):
        return replace(record, terminating_at=now, deleted=True)
    if work.pod is not None and is_terminal(work.pod.status.phase):
        return replace(record, terminating_at=now)
    if work.type is SyncType.KILL:
        return replace(record, terminating_at=now, evicted=work.kill is not None and work.kill.evict)
    return record
