"""Model test: pod worker states never go backwards, and static pods of one name run one at a time."""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace

from pod_workers_rig import api_pod, deleted, file_pod, in_runtime
from pykubelet.api.generated.core import Pod
from pykubelet.api.pods import PodUid
from pykubelet.kubelet.pod_workers.state import PodStateMachine, SyncJob, WorkerDecision
from pykubelet.kubelet.types import KillPodOptions, PodWorkerState, SyncPodType, UpdatePodOptions

PODS = {uid: file_pod(uid) for uid in ("s1", "s2", "s3")} | {uid: api_pod(uid) for uid in ("a1",)}
UIDS = st.sampled_from(["s1", "s2", "s3", "a1"])


class Lives(RuleBasedStateMachine):
    """Drives the state machine like the worker pool, with workers that run in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.machine, self.now = PodStateMachine(), 0.0
        self.jobs: dict[PodUid, SyncJob] = {}
        self.woken: set[PodUid] = set()
        self.states: dict[PodUid, PodWorkerState] = {}
        self.graces: dict[PodUid, int] = {}

    def carry_out(self, decision: WorkerDecision) -> None:
        self.now += 1
        self.woken |= set(decision.wake)
        if decision.interrupt is not None:
            self.jobs.pop(decision.interrupt, None)
        for uid in decision.stopped, decision.ended:
            assert uid is None or self.machine.records.get(uid) is None or self.machine.records[uid].is_terminated
        for uid in set(self.states) - set(self.machine.records):
            # Forgotten: the next pod with this UID is a new one.
            del self.states[uid]
            self.graces.pop(uid, None)

    def update(self, type: SyncPodType, pod: Pod, **rest: Any) -> None:
        self.carry_out(self.machine.update(UpdatePodOptions(type, pod, **rest), self.now))

    @rule(uid=UIDS, type=st.sampled_from([SyncPodType.CREATE, SyncPodType.UPDATE, SyncPodType.SYNC]))
    def wanted(self, uid: str, type: SyncPodType) -> None:
        self.update(type, PODS[uid])

    @rule(uid=UIDS, grace=st.none() | st.integers(0, 60), evict=st.booleans())
    def killed(self, uid: str, grace: int | None, evict: bool) -> None:
        self.update(SyncPodType.KILL, PODS[uid], kill=KillPodOptions(evict=evict, grace_seconds=grace))

    @rule(uid=UIDS, grace=st.integers(0, 60), way=st.sampled_from(["deleted", "ended", "orphaned"]))
    def told_to_end(self, uid: str, grace: int, way: str) -> None:
        pod = PODS[uid]
        if way == "deleted":
            self.update(SyncPodType.UPDATE, deleted(pod, grace))
        elif way == "ended":
            self.update(SyncPodType.SYNC, replace(pod, status=replace(pod.status, phase="Failed")))
        else:
            work = UpdatePodOptions(SyncPodType.KILL, running=in_runtime(uid), kill=KillPodOptions(grace_seconds=1))
            self.carry_out(self.machine.update(work, self.now))

    @rule(gone=UIDS)
    def housekeeping(self, gone: str) -> None:
        for decision in self.machine.sync_known({PodUid(uid) for uid in PODS if uid != gone}, self.now):
            self.carry_out(decision)

    @precondition(lambda self: self.woken - set(self.jobs))
    @rule()
    def everyone_woken_runs(self) -> None:
        for uid in sorted(self.woken - set(self.jobs)):
            self.run_worker(uid)

    @precondition(lambda self: self.woken - set(self.jobs))
    @rule()
    def someone_woken_runs(self) -> None:
        self.run_worker(min(self.woken - set(self.jobs)))

    @rule()
    def time_passes(self) -> None:
        """All workers run until idle, without failures."""
        while self.jobs or self.woken:
            self.everyone_woken_runs()
            for job in tuple(self.jobs.values()):
                self.jobs.pop(job.uid, None)
                self.carry_out(self.machine.complete(job, self.now))
        assert all(
            record.state in (PodWorkerState.SYNC, PodWorkerState.FINISHED) for record in self.machine.records.values()
        )

    def run_worker(self, uid: PodUid) -> None:
        self.woken.discard(uid)
        job = self.machine.begin(uid, self.now)
        if job is not None:
            self.jobs[uid] = job
            assert (job.grace_seconds > 0) == (
                job.state is PodWorkerState.TERMINATING
            ) or job.state > job.state.TERMINATING

    @precondition(lambda self: self.jobs)
    @rule(data=st.data(), is_terminal=st.booleans())
    def sync_succeeds(self, data: st.DataObject, is_terminal: bool) -> None:
        job = self.jobs.pop(data.draw(st.sampled_from(sorted(self.jobs))))
        self.woken.add(job.uid)
        self.carry_out(self.machine.complete(job, self.now, is_terminal=is_terminal))

    @precondition(lambda self: self.jobs)
    @rule(data=st.data())
    def sync_fails(self, data: st.DataObject) -> None:
        job = self.jobs.pop(data.draw(st.sampled_from(sorted(self.jobs))))
        self.carry_out(self.machine.replay(job.uid))

    @invariant()
    def no_state_is_left_backwards(self) -> None:
        for uid, record in self.machine.records.items():
            assert record.state >= self.states.get(uid, PodWorkerState.SYNC)
            self.states[uid] = record.state

    @invariant()
    def grace_only_shrinks(self) -> None:
        for uid, record in self.machine.records.items():
            if record.grace_seconds:
                assert 1 <= record.grace_seconds <= self.graces.get(uid, record.grace_seconds)
                self.graces[uid] = record.grace_seconds

    @invariant()
    def one_static_pod_of_a_name_runs(self) -> None:
        running = [uid for uid, job in self.jobs.items() if uid.startswith("s") and job.state is PodWorkerState.SYNC]
        assert len(running) <= 1

    @invariant()
    def whoever_has_work_is_awake(self) -> None:
        """Pending work has a running or woken worker, or waits for a static pod of the same name."""
        for uid, record in self.machine.records.items():
            if record.pending is not None and uid not in self.jobs and uid not in self.woken:
                assert uid.startswith("s")
                assert not record.is_started
                holder = self.machine.turns.holder(record.full_name)
                next_up = self.machine.turns.next_up(record.full_name, lambda one: one in self.machine.records)
                assert holder is not None or next_up in self.woken

    @invariant()
    def finished_pods_have_nothing_to_do(self) -> None:
        for uid, record in self.machine.records.items():
            assert not record.finished or record.pending is None
            assert not record.finished or record.is_terminated
            assert not record.is_terminated or record.is_terminating
            assert not record.finished or self.machine.turns.holder(record.full_name) != uid


Lives.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestLives = Lives.TestCase
