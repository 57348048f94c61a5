"""The status of a Job: wanted pods, finished conditions, failure policies, and the backoff for failed pods."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api.generated.batch import (
    Job,
    JobCondition,
    JobSpec,
    JobStatus,
    PodFailurePolicy,
    PodFailurePolicyOnExitCodesRequirement,
    PodFailurePolicyOnPodConditionsPattern,
    PodFailurePolicyRule,
)
from pykubelet.api.generated.core import (
    Container,
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
    PodTemplateSpec,
)
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.times import ZERO_TIME, format_time
from pykubelet.controllers.job.pods import plan_pods, wanted_active
from pykubelet.controllers.job.policies import (
    NO_FAILURES,
    FailureRecord,
    finished_at,
    match_pod_failure_policy,
    next_record,
    remaining_seconds,
)
from pykubelet.controllers.job.status import (
    count_job_pods,
    finished_condition_of,
    new_condition,
    success_of,
    with_condition,
)
from pykubelet.testing.virtual_time import EPOCH


def at(seconds: float) -> str:
    return format_time(EPOCH + timedelta(seconds=seconds))


def pod(
    phase: str = "Running", *, uid: str = "u", code: int | None = None, ended: str | None = None, **meta: Any
) -> Pod:
    terminated = ContainerStateTerminated(exit_code=code or 0, finished_at=ended)
    state = ContainerState(terminated=terminated if code is not None or ended else None)
    return Pod(
        metadata=ObjectMeta(
            name="p", namespace="ns", uid=uid, finalizers=("batch.kubernetes.io/job-tracking",), **meta
        ),
        status=PodStatus(phase=phase, container_statuses=(ContainerStatus(name="main", state=state),)),
    )


COUNTS = st.integers(0, 700)


@settings(deadline=None, max_examples=200)
@given(
    parallelism=COUNTS,
    completions=st.none() | COUNTS,
    phases=st.lists(st.sampled_from(["Running", "Pending", "Succeeded", "Failed", "deleted"]), max_size=30),
    policy=st.sampled_from([None, "Failed", "TerminatingOrFailed"]),
    is_suspended=st.booleans(),
)
def test_plan_never_overshoots(
    parallelism: int, completions: int | None, phases: list[str], policy: str | None, is_suspended: bool
) -> None:
    """A plan creates at most 500 pods, never passes the wanted number, and never both creates and deletes."""
    spec = JobSpec(
        parallelism=parallelism, completions=completions, pod_replacement_policy=policy, suspend=is_suspended
    )
    pods = [
        pod(uid=str(n), deletion_timestamp=at(0)) if phase == "deleted" else pod(phase, uid=str(n))
        for n, phase in enumerate(phases)
    ]
    job = Job(spec=spec)
    census = count_job_pods(job, pods)
    plan = plan_pods(job, census, NO_FAILURES, EPOCH)
    active = len(census.active)
    wanted = 0 if is_suspended else wanted_active(job, active, census.succeeded)
    created = len(plan.create)
    assert created <= 500
    assert not (plan.create and plan.delete)
    if plan.delete:
        assert active - len(plan.delete) >= wanted
    occupied = active + (census.terminating if policy == "Failed" else 0)
    assert created == 0 or occupied + created <= wanted
    assert wanted <= max(parallelism, active)


def test_job_wants_one_pod_by_default() -> None:
    """After a success in a work queue the other pods run on, and none is added."""
    assert wanted_active(Job(spec=JobSpec(completions=1)), 0, 0) == 1
    assert wanted_active(Job(spec=JobSpec(parallelism=3)), 2, 0) == 3
    assert wanted_active(Job(spec=JobSpec(parallelism=3)), 2, 1) == 2


def condition(kind: str, status: str = "True", reason: str = "") -> JobCondition:
    return JobCondition(type=kind, status=status, reason=reason)


def restarting(count: int) -> Pod:
    statuses = (ContainerStatus(name="c", restart_count=count),)
    return Pod(status=PodStatus(phase="Running", container_statuses=statuses))


ON_FAILURE = PodTemplateSpec(spec=PodSpec(restart_policy="OnFailure"))
FAIL_JOB = PodFailurePolicy(
    rules=(
        PodFailurePolicyRule(
            action="FailJob", on_exit_codes=PodFailurePolicyOnExitCodesRequirement(operator="In", values=(42,))
        ),
    )
)


@pytest.mark.parametrize(
    ("spec", "conditions", "pods", "ending"),
    [
        ({}, [], [], None),
        ({}, [condition("SuccessCriteriaMet", reason="r")], [], ("SuccessCriteriaMet", "r")),
        ({}, [condition("SuccessCriteriaMet", "False")], [], None),
        ({}, [condition("FailureTarget", reason="r")], [], ("Failed", "r")),
        ({}, [condition("FailureTarget", "False")], [], None),
        ({"backoff_limit": 0}, [], [pod("Failed")], ("FailureTarget", "BackoffLimitExceeded")),
        ({"backoff_limit": 1}, [], [pod("Failed")], None),
        ({}, [], [pod("Failed", uid=str(n)) for n in range(7)], ("FailureTarget", "BackoffLimitExceeded")),
        ({"backoff_limit": 2, "template": ON_FAILURE}, [], [restarting(1)], None),
        ({"backoff_limit": 2, "template": ON_FAILURE}, [], [restarting(2)], ("FailureTarget", "BackoffLimitExceeded")),
        ({"backoff_limit": 0, "template": ON_FAILURE}, [], [restarting(0)], None),
        ({"backoff_limit": 0, "template": ON_FAILURE}, [], [restarting(1)], ("FailureTarget", "BackoffLimitExceeded")),
        ({"active_deadline_seconds": 10}, [], [], ("FailureTarget", "DeadlineExceeded")),
        ({"active_deadline_seconds": 10, "suspend": True}, [], [], None),
        ({"active_deadline_seconds": 11}, [], [], None),
        ({"pod_failure_policy": FAIL_JOB}, [], [pod("Failed", code=42)], ("FailureTarget", "PodFailurePolicy")),
        ({"pod_failure_policy": FAIL_JOB}, [], [pod("Failed", code=1), pod(code=42)], None),
    ],
)
def test_ending_of_a_job(
    spec: dict[str, Any], conditions: list[JobCondition], pods: list[Pod], ending: tuple[str, str] | None
) -> None:
    """An earlier decision stands, then failures are checked in their order. The job started ten seconds ago."""
    status = JobStatus(conditions=tuple(conditions), start_time=at(-10))
    job = Job(spec=JobSpec(**{"completions": 9, **spec}), status=status)
    found = finished_condition_of(job, count_job_pods(job, pods), EPOCH)
    assert (None if found is None else (found.type, found.reason)) == ending


def test_job_without_completions_to_reach_is_complete_at_once() -> None:
    """Zero completions are reached at once; a missing number is a work queue."""
    assert success_of(Job(spec=JobSpec(completions=0)), 0, 0, EPOCH) is not None
    assert success_of(Job(spec=JobSpec()), 0, 0, EPOCH) is None


def test_unchanged_condition_keeps_the_same_tuple() -> None:
    """A False condition is not added where there was none."""
    there = (condition("Other"), condition("Suspended", reason="JobSuspended"))
    assert with_condition(there, condition("Suspended", reason="JobSuspended")) is there
    assert with_condition((), condition("Suspended", "False")) == ()
    resumed = new_condition("Suspended", "False", "JobResumed", "Job resumed", EPOCH)
    assert with_condition(there, resumed) == (there[0], resumed)


RULE_TABLE = [
    ("Ignore", "In", (1,), None, 1, (False, None)),
    ("Count", "In", (1,), None, 1, (True, None)),
    ("FailIndex", "NotIn", (2,), None, 1, (True, None)),
    ("Ignore", "NotIn", (1,), None, 1, (True, None)),
    ("Ignore", "Odd", (1,), None, 1, (True, None)),
    ("Odd", "In", (1,), None, 1, (True, None)),
    ("Ignore", "In", (0,), None, 0, (True, None)),
    ("Ignore", "In", (1,), "side", 1, (True, None)),
    ("Ignore", "In", (1,), "main", 1, (False, None)),
    (
        "FailJob",
        "In",
        (1,),
        None,
        1,
        (True, "Container main for pod ns/p failed with exit code 1 matching FailJob rule at index 0"),
    ),
]


@pytest.mark.parametrize(("action", "operator", "values", "container", "code", "verdict"), RULE_TABLE)
def test_exit_code_rules(
    action: str, operator: str, values: tuple[int, ...], container: str | None, code: int, verdict: tuple[bool, Any]
) -> None:
    """Exit code 0 never matches."""
    codes = PodFailurePolicyOnExitCodesRequirement(operator=operator, values=values, container_name=container)
    policy = PodFailurePolicy(rules=(PodFailurePolicyRule(action=action, on_exit_codes=codes),))
    found = match_pod_failure_policy(policy, pod("Failed", code=code))
    assert (found.counts, found.fails_job) == verdict


def test_condition_rules() -> None:
    """A rule without patterns matches nothing."""
    pattern = PodFailurePolicyOnPodConditionsPattern(type="DisruptionTarget", status="True")
    rules = (
        PodFailurePolicyRule(action="Ignore"),
        PodFailurePolicyRule(action="FailJob", on_pod_conditions=(pattern,)),
    )
    policy = PodFailurePolicy(rules=rules)
    hit = Pod(
        metadata=ObjectMeta(name="p", namespace="ns"),
        status=PodStatus(conditions=(PodCondition(type="DisruptionTarget", status="True"),)),
    )
    message = "Pod ns/p has condition DisruptionTarget matching FailJob rule at index 1"
    assert match_pod_failure_policy(policy, hit).fails_job == message
    assert match_pod_failure_policy(policy, Pod()).fails_job is None
    job = Job(spec=JobSpec(pod_failure_policy=PodFailurePolicy(rules=(PodFailurePolicyRule(action="Ignore"),))))
    assert count_job_pods(job, [pod("Failed")]).failed == 1


@pytest.mark.parametrize(
    ("failures", "elapsed", "left"),
    [(0, 0, 0), (1, 0, 10), (1, 4, 6), (1, 10, 0), (1, 99, 0), (2, 0, 20), (6, 0, 320), (7, 0, 600), (70, 100, 500)],
)
def test_wait_doubles_with_each_failure(failures: int, elapsed: float, left: float) -> None:
    """The backoff is ten seconds at first and ten minutes at most."""
    record = FailureRecord(failures, EPOCH)
    assert remaining_seconds(record, EPOCH + timedelta(seconds=elapsed)) == left


def test_only_failures_after_the_last_success_count() -> None:
    """A success resets the record."""
    old = FailureRecord(3, EPOCH)
    late = EPOCH + timedelta(seconds=9)

    def ended(*seconds: int) -> list[Pod]:
        return [pod("Failed", ended=at(second)) for second in seconds]

    assert next_record(old, [], []) == old
    assert next_record(old, [], ended(9, 5)) == FailureRecord(5, late)
    assert next_record(old, ended(7), []) == NO_FAILURES
    assert next_record(old, ended(9), ended(9, 5)) == NO_FAILURES
    assert next_record(old, ended(5), ended(9, 5, 7)) == FailureRecord(2, late)
    assert next_record(old, ended(8, 5), ended(9, 5, 7)) == FailureRecord(1, late)


SIDECAR = PodSpec(init_containers=(Container(name="side", restart_policy="Always"), Container(name="init")))


def status_of(name: str, ended: str | None) -> ContainerStatus:
    return ContainerStatus(name=name, state=ContainerState(terminated=ContainerStateTerminated(finished_at=ended)))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (pod("Failed", ended=at(5)), EPOCH + timedelta(seconds=5)),
        (
            Pod(
                spec=SIDECAR,
                status=PodStatus(
                    container_statuses=(status_of("c", at(5)), status_of("d", at(4))),
                    init_container_statuses=(status_of("side", at(7)), status_of("init", at(99))),
                ),
            ),
            EPOCH + timedelta(seconds=7),
        ),
        (
            Pod(
                status=PodStatus(
                    container_statuses=(status_of("c", None),),
                    conditions=(PodCondition(type="Ready", status="False", last_transition_time=at(3)),),
                )
            ),
            EPOCH + timedelta(seconds=3),
        ),
        (
            Pod(metadata=ObjectMeta(deletion_timestamp=at(40), deletion_grace_period_seconds=30)),
            EPOCH + timedelta(seconds=10),
        ),
        (Pod(metadata=ObjectMeta(creation_timestamp=at(1))), EPOCH + timedelta(seconds=1)),
        (Pod(), ZERO_TIME),
    ],
)
def test_time_a_pod_finished(found: Pod, expected: datetime) -> None:
    """The time comes from containers, then Ready, the deletion, and the creation."""
    assert finished_at(found) == expected
