"""A Job counts its pods exactly once, despite crashes, failed calls and late events."""

from dataclasses import dataclass, field

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pykubelet.api.generated.batch import Job, JobCondition, JobSpec, JobStatus, UncountedTerminatedPods
from pykubelet.api.generated.core import Pod, PodStatus
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.controllers.job.status import TRACKING_FINALIZER, count_job_pods, has_tracking_finalizer, uncounted_of
from pykubelet.controllers.job.tracking import MAX_UNCOUNTED_PODS, count_released_pods, plan_tracking

PODS = ("a", "b", "c", "d")


def pod(uid: str, phase: str = "Running", **meta: str) -> Pod:
    metadata = ObjectMeta(name=uid, uid=uid, finalizers=(TRACKING_FINALIZER,), **meta)  # type: ignore[arg-type]  # one str field
    return Pod(metadata=metadata, status=PodStatus(phase=phase))


class Crash(Exception):
    """The controller stops at this point, or an API call fails."""


@dataclass
class Model:
    """An API with a job and its pods, and a controller with in-memory state and possibly stale copies."""

    status: JobStatus = field(default_factory=JobStatus)
    version: int = 0
    pods: dict[str, Pod] = field(default_factory=lambda: {uid: pod(uid) for uid in PODS})
    seen_status: tuple[int, JobStatus] = (0, JobStatus())
    seen_pods: dict[str, Pod] = field(default_factory=dict)
    released: set[str] = field(default_factory=set)

    def end(self, uid: str, phase: str) -> None:
        """Ends or deletes a running pod; it keeps its finalizer."""
        one = self.pods.get(uid)
        if one is None or one.status.phase != "Running":
            return
        if phase == "deleted":
            one = replace(one, metadata=replace(one.metadata, deletion_timestamp="2026-01-01T00:00:00Z"))
        else:
            one = replace(one, status=PodStatus(phase=phase))
        self.pods[uid] = one

    def show_job(self) -> None:
        self.seen_status = (self.version, self.status)

    def show_pods(self) -> None:
        self.seen_pods = dict(self.pods)
        self.released = {uid for uid in self.released if uid in self.pods and has_tracking_finalizer(self.pods[uid])}

    def restart(self) -> None:
        """Clears the in-memory state and refreshes the copies."""
        self.released.clear()
        self.show_job()
        self.show_pods()

    def write(self, version: int, status: JobStatus) -> int:
        if version != self.version:
            raise Crash("conflict")
        self.version, self.status = self.version + 1, status
        return self.version

    def release(self, one: Pod, *, works: bool) -> bool:
        uid = one.metadata.uid
        if not works:
            return False
        self.released.add(uid)
        if uid in self.pods:
            held = self.pods[uid]
            self.pods[uid] = replace(held, metadata=replace(held.metadata, finalizers=()))
            if held.metadata.deletion_timestamp is not None:
                del self.pods[uid]
        return True

    def sync(self, crash_at: int, works: int) -> None:
        """One sync; it may crash before any of its steps, and bit n of `works` is set if the n-th release succeeds."""
        version, status = self.seen_status
        job = Job(spec=JobSpec(backoff_limit=100, completions=100), status=status)
        plan = plan_tracking(
            job, status, count_job_pods(job, list(self.seen_pods.values()), frozenset(self.released)), None
        )
        steps = iter(range(100))

        def step() -> None:
            if next(steps) == crash_at:
                raise Crash

        step()
        status = replace(status, uncounted_terminated_pods=uncounted_of(job))
        if plan.status != status:
            version, status = self.write(version, plan.status), plan.status
        gone = set()
        for number, one in enumerate(plan.release):
            step()
            if self.release(one, works=bool(works >> number & 1)):
                gone.add(one.metadata.uid)
        settled = count_released_pods(status, plan.holders - gone)
        step()
        if settled != status:
            self.write(version, settled)


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["Succeeded", "Failed", "deleted"]), st.sampled_from(PODS)),
        st.tuples(st.sampled_from(["show job", "show pods", "restart"]), st.just("")),
        st.tuples(
            st.just("sync"), st.tuples(st.sampled_from([-1, -1, -1, 0, 1, 2, 3, 4, 5]), st.sampled_from([15, 0, 6]))
        ),
    ),
    max_size=40,
)


ALL_GOES_WELL, NO_RELEASE = ("sync", (-1, 15)), ("sync", (-1, 0))
SHOW_JOB, SHOW_PODS = ("show job", ""), ("show pods", "")
OLD_PODS = [("Succeeded", "a"), SHOW_PODS, ALL_GOES_WELL, SHOW_JOB, ALL_GOES_WELL]
OLD_JOB = [("Succeeded", "a"), SHOW_PODS, ALL_GOES_WELL, SHOW_PODS, ALL_GOES_WELL]
DELETED_THEN_WELL = [
    *(("deleted", "a"), SHOW_PODS, NO_RELEASE),
    *(("Succeeded", "a"), SHOW_JOB, SHOW_PODS, NO_RELEASE, SHOW_JOB, ALL_GOES_WELL),
]


@settings(deadline=None, max_examples=200)
@given(ACTIONS)
@example(OLD_PODS)
@example(OLD_JOB)
@example(DELETED_THEN_WELL)
def test_every_finished_pod_is_counted_exactly_once(story: list[tuple[str, str | tuple[int, int]]]) -> None:
    """The steps are any sequence of ended pods, stale copies, failed calls, crashes and restarts."""
    model = Model()
    for action, about in story:
        if action == "show job":
            model.show_job()
        elif action == "show pods":
            model.show_pods()
        elif action == "restart":
            model.restart()
        elif isinstance(about, tuple):
            try:
                model.sync(*about)
            except Crash as crash:
                # Only a crash of the whole program loses the in-memory state; a conflict does not.
                if str(crash) != "conflict":
                    model.restart()
        else:
            model.end(about, action)
    ended = {uid for action, uid in story if action in ("Succeeded", "Failed", "deleted")}
    for _ in range(3):
        model.show_job()
        model.show_pods()
        model.sync(-1, 15)
    status = model.status
    assert status.succeeded + status.failed == len(ended)
    assert uncounted_of(Job(status=status)) == UncountedTerminatedPods()
    assert not any(has_tracking_finalizer(one) for uid, one in model.pods.items() if uid in ended)
    assert all(has_tracking_finalizer(one) for uid, one in model.pods.items() if uid not in ended)


def test_status_never_notes_more_pods_than_fit() -> None:
    """The plan is marked as full, so later syncs count the rest."""
    pods = [pod(f"p{number}", "Succeeded") for number in range(MAX_UNCOUNTED_PODS + 5)]
    job = Job(spec=JobSpec(completions=10**6))
    plan = plan_tracking(job, job.status, count_job_pods(job, pods), None)
    noted = plan.status.uncounted_terminated_pods
    assert noted is not None
    assert len(noted.succeeded) == len(plan.release) == MAX_UNCOUNTED_PODS
    assert plan.is_full


@pytest.mark.parametrize("ended", [MAX_UNCOUNTED_PODS - 1, MAX_UNCOUNTED_PODS, MAX_UNCOUNTED_PODS + 5])
@pytest.mark.parametrize("failed", [0, 10])
def test_indexes_count_towards_what_fits(ended: int, failed: int) -> None:
    """Succeeded pods of an indexed job are recorded as indexes, failed ones by their UID."""
    pods = [indexed(pod(f"p{number}", "Failed" if number < failed else "Succeeded"), number) for number in range(ended)]
    job = Job(spec=JobSpec(completions=10**6, completion_mode="Indexed"))
    plan = plan_tracking(job, job.status, count_job_pods(job, pods), None)
    assert (len(plan.release), plan.is_full) == (min(ended, MAX_UNCOUNTED_PODS), ended >= MAX_UNCOUNTED_PODS)


def indexed(one: Pod, number: int) -> Pod:
    index = {"batch.kubernetes.io/job-completion-index": str(number)}
    return replace(one, metadata=replace(one.metadata, annotations=index))


def test_job_that_fails_takes_its_running_pods_with_it() -> None:
    """Running pods of a failing job count as failed; those of a succeeding job are not counted."""
    pods = [pod("a"), pod("b", "Succeeded")]
    job = Job(spec=JobSpec(completions=10))
    for kind, failed in (("FailureTarget", ("a",)), ("SuccessCriteriaMet", ())):
        ending = JobCondition(type=kind, status="True")
        plan = plan_tracking(job, job.status, count_job_pods(job, pods), ending)
        noted = UncountedTerminatedPods(succeeded=("b",), failed=failed)
        assert plan.status.uncounted_terminated_pods == noted
        assert plan.status.conditions == (ending,)
        assert len(plan.release) == 2
        again = plan_tracking(replace(job, status=plan.status), plan.status, count_job_pods(job, pods), ending)
        assert again.status.uncounted_terminated_pods == noted


def test_pod_noted_as_failed_is_not_noted_as_succeeded_too() -> None:
    """A deleted pod counts as failed, even if it succeeds afterwards."""
    status = JobStatus(uncounted_terminated_pods=UncountedTerminatedPods(failed=("a",)))
    job = Job(spec=JobSpec(completions=1), status=status)
    plan = plan_tracking(job, status, count_job_pods(job, [pod("a", "Succeeded")]), None)
    assert plan.status == status
    assert count_released_pods(plan.status, frozenset()).failed == 1
