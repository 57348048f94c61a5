"""Indexed jobs: completed, failed and pending indexes, success policies; the cases of Kubernetes' own tests."""

from datetime import timedelta
from typing import Any

import pytest

from pykubelet.api.generated.batch import (
    Job,
    JobSpec,
    JobStatus,
    PodFailurePolicy,
    PodFailurePolicyOnExitCodesRequirement,
    PodFailurePolicyRule,
    SuccessPolicy,
    SuccessPolicyRule,
)
from pykubelet.api.generated.core import (
    Container,
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    EnvVar,
    Pod,
    PodSpec,
    PodStatus,
    PodTemplateSpec,
)
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.times import format_time
from pykubelet.controllers.job.indexes import IndexSet, parse_indexes
from pykubelet.controllers.job.pods import index_prefix, plan_pods, pod_template, with_index
from pykubelet.controllers.job.policies import NO_FAILURES, match_success_policy
from pykubelet.controllers.job.status import (
    COMPLETION_INDEX,
    FAILURE_COUNT,
    IGNORED_FAILURE_COUNT,
    TRACKING_FINALIZER,
    count_job_pods,
    finished_condition_of,
)
from pykubelet.testing.virtual_time import EPOCH


def job(completions: int = 2, parallelism: int = 9, *, status: JobStatus | None = None, **spec: Any) -> Job:
    template = PodTemplateSpec(metadata=ObjectMeta(labels={"a": "b"}), spec=PodSpec(containers=(Container(name="c"),)))
    fields = {"completion_mode": "Indexed", "backoff_limit": 99, "template": template, **spec}
    return Job(
        metadata=ObjectMeta(name="job", namespace="ns"),
        spec=JobSpec(completions=completions, parallelism=parallelism, **fields),
        status=status or JobStatus(),
    )


def pod(
    index: int | str | None,
    phase: str = "Failed",
    *,
    uid: str = "",
    failures: int | str | None = 0,
    code: int = 1,
    ended: int = 0,
    **meta: Any,
) -> Pod:
    annotations = {} if index is None else {COMPLETION_INDEX: str(index)}
    if failures is not None:
        annotations[FAILURE_COUNT] = str(failures)
    at = format_time(EPOCH + timedelta(seconds=ended))
    state = ContainerState(terminated=ContainerStateTerminated(exit_code=code, finished_at=at))
    over = phase in ("Succeeded", "Failed")
    metadata = ObjectMeta(
        **{
            "name": uid or "p",
            "uid": uid or f"{index}-{phase}",
            "annotations": annotations,
            "finalizers": (TRACKING_FINALIZER,),
            **meta,
        }
    )
    statuses = (ContainerStatus(name="c", state=state),) if over else ()
    return Pod(metadata=metadata, status=PodStatus(phase=phase, container_statuses=statuses))


def done(*indexes: int | str | None) -> list[Pod]:
    return [pod(index, "Succeeded") for index in indexes]


SUCCEEDED: list[tuple[str, str, list[Pod], int, str]] = [
    ("one index", "", done(1), 2, "1"),
    ("two separate", "", [*done(5, 5, 10), pod(2), pod(10)], 11, "5,10"),
    ("two intervals", "", [pod(0, "Running"), *done(2, 3, 5, 6, 7)], 8, "2,3,5-7"),
    ("one of each", "", [*done(0, 2, 3, 4, 5, None, "-2"), pod(1)], 6, "0,2-5"),
    ("out of range", "", [*done(0, 1, 2, 4, 5, None, "-2"), pod(3)], 5, "0-2,4"),
    ("before out of range", "0-5,8-10", [], 8, "0-5"),
    ("before partly out of range", "0-5,8-10", [], 10, "0-5,8,9"),
    ("before and new separate", "0,4,5,10-12", done(2, 7, 8), 13, "0,2,4,5,7,8,10-12"),
    ("before between new", "3,4,6", done(2, 7, 8), 9, "2-4,6-8"),
    ("new between before", "2,7,8", done(3, 4, 6), 9, "2-4,6-8"),
    ("new within before", "2-7", done(0, 3, 5, 9), 10, "0,2-7,9"),
    ("corrupted", "0,1-foo,bar", [], 4, "0"),
    ("not a number", "", done("x", 1), 2, "1"),
    ("already released", "", [pod(1, "Succeeded", finalizers=())], 2, ""),
]


@pytest.mark.parametrize(
    ("before", "pods", "completions", "after"), [pytest.param(*row[1:], id=row[0]) for row in SUCCEEDED]
)
def test_succeeded_indexes(before: str, pods: list[Pod], completions: int, after: str) -> None:
    """They are the indexes in the status plus those of succeeded pods that are not counted yet."""
    one = job(completions, status=JobStatus(completed_indexes=before))
    state = count_job_pods(one, pods).indexes
    assert state is not None
    assert (str(state.succeeded), state.counted) == (after, parse_indexes(before, completions))
    assert state.failed is None


KEPT: list[tuple[str, int, int, list[Pod], set[str]]] = [
    (
        "of indexes that go on",
        3,
        1,
        [pod(0, uid="a"), pod(1, uid="b", failures=1), pod(2, uid="c")],
        {"a", "c"},
    ),
    ("not without the finalizer", 2, 0, [pod(0, uid="a", finalizers=())], set()),
    ("not when released", 2, 1, [pod(0, uid="released")], set()),
    ("not when out of range", 2, 0, [pod(4, uid="a")], set()),
    ("not when replaced", 2, 1, [pod(0, uid="a"), pod(0, "Running", uid="b", failures=1)], set()),
    ("not when the index is done", 2, 1, [pod(0, uid="a"), pod(0, "Succeeded", uid="b", failures=1)], set()),
    (
        "the one with most failures",
        2,
        4,
        [pod(0, uid="a"), pod(0, uid="c", failures=2), pod(0, uid="b", failures=1)],
        {"c"},
    ),
    (
        "the last one",
        2,
        4,
        [pod(0, uid="a", ended=1), pod(0, uid="c", ended=2), pod(0, uid="b")],
        {"c"},
    ),
    (
        "with a count that makes no sense",
        2,
        1,
        [pod(0, uid="a", failures="x"), pod(1, uid="b", failures=-1)],
        {"a", "b"},
    ),
]


@pytest.mark.parametrize(("completions", "limit", "pods", "kept"), [pytest.param(*row[1:], id=row[0]) for row in KEPT])
def test_failed_pod_is_kept_until_it_is_replaced(completions: int, limit: int, pods: list[Pod], kept: set[str]) -> None:
    """Only that pod records how often its index has failed."""
    state = count_job_pods(job(completions, backoff_limit_per_index=limit), pods, frozenset({"released"})).indexes
    assert state is not None
    assert {one.metadata.uid for one in state.to_replace.values()} == kept


def rules(action: str) -> PodFailurePolicy:
    codes = PodFailurePolicyOnExitCodesRequirement(operator="In", values=(7,))
    return PodFailurePolicy(rules=(PodFailurePolicyRule(action=action, on_exit_codes=codes),))


@pytest.mark.parametrize(
    ("action", "failures", "code", "failed", "next_counts"),
    [
        (None, 0, 7, "", ("1", None)),
        (None, 1, 7, "0", ("2", None)),
        ("Ignore", 1, 7, "", ("1", "1")),
        ("FailIndex", 0, 7, "0", ("1", None)),
        ("FailIndex", 0, 1, "", ("1", None)),
        ("Count", 1, 7, "0", ("2", None)),
    ],
)
def test_failures_of_an_index(
    action: str | None, failures: int, code: int, failed: str, next_counts: tuple[str, str | None]
) -> None:
    """With a limit of 1 the second failure is too many; an ignored failure counts only for the delay."""
    policy = rules(action) if action is not None else None
    one, last = job(2, backoff_limit_per_index=1, pod_failure_policy=policy), pod(0, failures=failures, code=code)
    state = count_job_pods(one, [last]).indexes
    assert state is not None
    assert str(state.failed) == failed
    annotations = with_index(pod_template(one), one, 0, last).metadata.annotations
    assert (annotations[FAILURE_COUNT], annotations.get(IGNORED_FAILURE_COUNT)) == next_counts


PLANS: list[tuple[str, Job, list[Pod], list[str], tuple[int, ...]]] = [
    ("first ones", job(5, 2), [], [], (0, 1)),
    ("gaps", job(6, 4), [pod(1, "Running"), *done(0, 3)], [], (2, 4, 5)),
    ("doubles go", job(5, 5), [pod(1, "Running", uid="a"), pod(1, "Pending", uid="b")], ["b"], ()),
    ("without index goes", job(5, 5), [pod(None, "Running", uid="a"), pod(0, "Running")], ["a"], ()),
    ("out of range goes", job(1, 1), [pod(0, "Running"), pod(1, "Running", uid="b")], ["b"], ()),
    (
        "doubles before others",
        job(5, 1),
        [pod(0, "Pending", uid="a"), pod(1, "Running", uid="b"), pod(1, "Running", uid="c")],
        ["b", "a"],
        (),
    ),
    (
        "failed indexes are over",
        job(3, 3, backoff_limit_per_index=0),
        [pod(1)],
        [],
        (0, 2),
    ),
    (
        "leaving pods keep their index",
        job(3, 3, pod_replacement_policy="Failed"),
        [pod(0, "Running", deletion_timestamp="2026-01-01T00:00:00Z")],
        [],
        (1, 2),
    ),
]


@pytest.mark.parametrize(("one", "pods", "deleted", "created"), [pytest.param(*row[1:], id=row[0]) for row in PLANS])
def test_pods_an_indexed_job_wants(one: Job, pods: list[Pod], deleted: list[str], created: tuple[int, ...]) -> None:
    """Each index that is neither finished nor active gets one pod."""
    now = EPOCH + timedelta(hours=1)
    plan = plan_pods(one, count_job_pods(one, pods), NO_FAILURES, now)
    assert [each.metadata.uid for each in plan.delete] == deleted
    assert (plan.create, plan.wait_seconds) == (created, 0)


def test_each_index_waits_by_itself() -> None:
    """Indexes without a delay get their pods now; if all must wait, the plan waits for the earliest."""
    pods = [pod(0, failures=1), pod(1, failures=0)]
    one = job(3, 3, backoff_limit_per_index=5)
    now = EPOCH + timedelta(seconds=4)
    assert plan_pods(one, count_job_pods(one, pods), NO_FAILURES, now).create == (2,)
    plan = plan_pods(one, count_job_pods(one, [*pods, pod(2, "Running")]), NO_FAILURES, now)
    assert (plan.create, plan.wait_seconds) == ((), 6)
    later = plan_pods(one, count_job_pods(one, pods), NO_FAILURES, EPOCH + timedelta(seconds=10))
    assert later.create == (1, 2)


def rule(indexes: str | None = None, count: int | None = None) -> SuccessPolicyRule:
    return SuccessPolicyRule(succeeded_indexes=indexes, succeeded_count=count)


@pytest.mark.parametrize(
    ("given", "succeeded", "number"),
    [
        ((), "0", None),
        ((rule("invalid-format"),), "0-2", None),
        ((rule("0,1"),), "0,1", 0),
        ((rule("0,1"),), "0", None),
        ((rule(count=2),), "0,5", 0),
        ((rule(count=3),), "0,5", None),
        ((rule("9"), rule("0,1")), "0,1", 1),
        ((rule("0-5", 2),), "1,9", None),
        ((rule("0-5", 2),), "1,3", 0),
        ((rule("0"),), "", None),
        ((rule("2-5,7"),), "1-9", 0),
        ((rule("4-9", 3),), "1-6", 0),
        ((rule("4-9", 4),), "1-6", None),
        ((rule("30-50"),), "0-9", None),
    ],
)
def test_success_policy(given: tuple[SuccessPolicyRule, ...], succeeded: str, number: int | None) -> None:
    """The first matching rule wins; indexes beyond the completions match no rule."""
    policy = SuccessPolicy(rules=given)
    assert match_success_policy(policy, parse_indexes(succeeded, 10), 10) == number
    assert match_success_policy(None, parse_indexes(succeeded, 10), 10) is None
    one = job(10, success_policy=policy, status=JobStatus(completed_indexes=succeeded))
    ending = finished_condition_of(one, count_job_pods(one, []), EPOCH)
    expected = None if number is None else ("SuccessCriteriaMet", "SuccessPolicy", f"Matched rules at index {number}")
    assert (None if ending is None else (ending.type, ending.reason, ending.message)) == expected


def test_variable_that_the_user_has_set_stays() -> None:
    """The template of the Job itself is not changed."""
    own = EnvVar(name="JOB_COMPLETION_INDEX", value="mine")
    template = PodTemplateSpec(
        spec=PodSpec(containers=(Container(name="c", env=(own,)),), init_containers=(Container(name="i"),))
    )
    one = job(3, template=template)
    made = with_index(pod_template(one), one, 2, None)
    assert made.spec.containers[0].env == (own,)
    assert [each.name for each in made.spec.init_containers[0].env] == ["JOB_COMPLETION_INDEX"]
    assert (made.spec.hostname, made.metadata.labels) == ("job-2", {COMPLETION_INDEX: "2"})
    assert FAILURE_COUNT not in made.metadata.annotations
    assert one.spec.template is template


@pytest.mark.parametrize(
    ("name", "index", "prefix"),
    [("job", 0, "job-0-"), ("x" * 60, 12, f"{'x' * 54}-12-"), ("x" * 55, 1, f"{'x' * 55}-1-"), ("", 1, "-1-")],
)
def test_name_of_an_indexs_pod(name: str, index: int, prefix: str) -> None:
    """A long name is shortened, and the index is never cut off."""
    assert index_prefix(name, index) == prefix
    assert IndexSet() == parse_indexes("", 9)
