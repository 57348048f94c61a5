"""Jobs from their creation to their end, with simulated pods."""

import asyncio
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from job_rig import Run, batch_world, conditions, counts
from pykubelet.api.generated.batch import Job
from pykubelet.api.generated.core import Pod
from pykubelet.api.scheme import JOBS
from pykubelet.controllers.job.status import COMPLETION_INDEX, has_tracking_finalizer, is_finished
from pykubelet.testing.virtual_time import VirtualClock


def index_of(pod: Pod) -> int:
    return int(pod.metadata.labels[COMPLETION_INDEX])


async def test_job_completes_when_enough_pods_have_succeeded(tmp_path: Path) -> None:
    """With parallelism 2 and completions 4, two pods run at a time."""
    async with batch_world(tmp_path) as world, world.controllers():
        await world.create_job(parallelism=2, completions=4)
        running = await world.until(lambda job: job.status.ready == 2)
        assert counts(running.status) == (2, 0, 0)
        job = await world.until(is_finished)
        assert counts(job.status) == (0, 4, 0)
        reason = "CompletionsReached"
        assert conditions(job) == [("SuccessCriteriaMet", reason), ("Complete", reason)]
        assert job.status.start_time is not None
        assert job.status.completion_time is not None
        assert not any(has_tracking_finalizer(pod) for pod in await world.pods())
        assert world.reasons("SuccessfulCreate") == ["Completed"]
        assert len(world.runner.seen) == 4


async def test_failed_pods_are_replaced_later_each_time_until_the_limit(tmp_path: Path) -> None:
    """The backoff is 10 seconds after the first failure and 20 after the second.

    The third failure exceeds the limit.
    """
    started: list[float] = []

    def fail(_: Pod) -> Run:
        started.append(VirtualClock().monotonic())
        return Run(seconds=4, code=1)

    async with batch_world(tmp_path, fail) as world, world.controllers():
        await world.create_job(backoffLimit=2)
        job = await world.until(is_finished)
        assert counts(job.status) == (0, 0, 3)
        assert conditions(job) == [("FailureTarget", "BackoffLimitExceeded"), ("Failed", "BackoffLimitExceeded")]
        assert [round(later - earlier) for earlier, later in pairwise(started)] == [15, 25]
        assert world.told[-1] == ("BackoffLimitExceeded", "Job has reached the specified backoff limit")
        assert job.status.completion_time is None


async def test_indexed_job_gives_each_pod_its_index(tmp_path: Path) -> None:
    """The index is in a label, an annotation, the host name, the pod name and a variable. A failed index is retried."""
    failed: set[int] = set()

    def fail_second_once(pod: Pod) -> Run:
        code = int(index_of(pod) == 1 and not failed)
        failed.update([1] * code)
        return Run(code=code)

    async with batch_world(tmp_path, fail_second_once) as world, world.controllers():
        await world.create_job(completionMode="Indexed", completions=3, parallelism=3)
        job = await world.until(is_finished)
        assert (counts(job.status), job.status.completed_indexes) == ((0, 3, 1), "0-2")
        assert sorted(map(index_of, world.runner.seen.values())) == [0, 1, 1, 2]
        for pod in world.runner.seen.values():
            index = index_of(pod)
            assert pod.metadata.annotations[COMPLETION_INDEX] == str(index)
            assert pod.spec.hostname == f"job-{index}"
            assert pod.metadata.name.startswith(f"job-{index}-")
            (variable,) = pod.spec.containers[0].env
            assert variable.name == "JOB_COMPLETION_INDEX"
            assert variable.value_from is not None
            assert variable.value_from.field_ref is not None
            assert variable.value_from.field_ref.field_path == f"metadata.labels['{COMPLETION_INDEX}']"


async def test_each_index_has_its_own_limit(tmp_path: Path) -> None:
    """A retry pod carries the failure count of its index; the other indexes complete."""
    async with batch_world(tmp_path, lambda pod: Run(code=int(index_of(pod) == 1))) as world, world.controllers():
        await world.create_job(completionMode="Indexed", completions=3, parallelism=2, backoffLimitPerIndex=1)
        job = await world.until(is_finished)
        status = job.status
        assert (counts(status), status.completed_indexes, status.failed_indexes) == ((0, 2, 2), "0,2", "1")
        assert conditions(job) == [("FailureTarget", "FailedIndexes"), ("Failed", "FailedIndexes")]
        tries = [pod for pod in world.runner.seen.values() if index_of(pod) == 1]
        annotation = "batch.kubernetes.io/job-index-failure-count"
        assert [pod.metadata.annotations[annotation] for pod in tries] == ["0", "1"]
        assert world.told[-1] == ("FailedIndexes", "Job has failed indexes")


EXIT_7: dict[str, Any] = {"onExitCodes": {"operator": "In", "values": [7]}}
ENDS: list[tuple[str, dict[str, Any], dict[int, int], str, tuple[int, int]]] = [
    (
        "too many failed indexes",
        {"completions": 4, "backoffLimitPerIndex": 0, "maxFailedIndexes": 1},
        {0: 1, 1: 1},
        "MaxFailedIndexesExceeded",
        (2, 2),
    ),
    (
        "index failed by policy",
        {
            "completions": 2,
            "backoffLimitPerIndex": 5,
            "podFailurePolicy": {"rules": [{"action": "FailIndex", **EXIT_7}]},
        },
        {1: 7},
        "FailedIndexes",
        (1, 1),
    ),
    (
        "job failed by policy",
        {"completions": 2, "podFailurePolicy": {"rules": [{"action": "FailJob", **EXIT_7}]}},
        {1: 7},
        "PodFailurePolicy",
        (1, 1),
    ),
    (
        "enough by policy",
        {"completions": 4, "parallelism": 2, "successPolicy": {"rules": [{"succeededIndexes": "1"}]}},
        {},
        "SuccessPolicy",
        (2, 0),
    ),
    ("too long", {"completions": 2, "activeDeadlineSeconds": 3}, {}, "DeadlineExceeded", (0, 2)),
]


@pytest.mark.parametrize(
    ("spec", "codes", "reason", "ended"), [pytest.param(*row[1:], id=row[0].replace(" ", "-")) for row in ENDS]
)
async def test_indexed_job_ends_early(
    tmp_path: Path, spec: dict[str, Any], codes: dict[int, int], reason: str, ended: tuple[int, int]
) -> None:
    """The interim condition has the same reason, and every pod is counted once."""
    async with batch_world(tmp_path, lambda pod: Run(code=codes.get(index_of(pod), 0))) as world, world.controllers():
        await world.create_job(**{"completionMode": "Indexed", "parallelism": 4, **spec})
        job = await world.until(is_finished)
        assert {why for _, why in conditions(job)} == {reason}
        assert (job.status.succeeded, job.status.failed) == ended
        assert (job.status.active, job.status.ready, job.status.terminating) == (0, 0, 0)
        assert not any(has_tracking_finalizer(pod) for pod in await world.pods())


async def test_ignored_failures_do_not_count(tmp_path: Path) -> None:
    """Two ignored failures with backoffLimit 0 are followed by a success."""
    left = [7, 7]
    rule = {"action": "Ignore", **EXIT_7}
    async with batch_world(tmp_path, lambda _: Run(code=left.pop() if left else 0)) as world, world.controllers():
        await world.create_job(backoffLimit=0, podFailurePolicy={"rules": [rule]})
        job = await world.until(is_finished)
        assert (counts(job.status), len(world.runner.seen)) == ((0, 1, 0), 3)


async def test_suspended_job_has_no_pods_and_loses_no_count(tmp_path: Path) -> None:
    """Succeeded pods stay counted; the other indexes start again on resumption."""
    async with batch_world(tmp_path, lambda pod: Run(seconds=5 + 20 * index_of(pod))) as world, world.controllers():
        await world.create_job(completionMode="Indexed", completions=3, parallelism=3)
        await world.until(lambda job: job.status.succeeded == 1)
        await world.change(JOBS, "job", suspend=True)
        job = await world.until(lambda job: job.status.active == 0 and job.status.terminating == 0)
        assert (counts(job.status), conditions(job)) == ((0, 1, 0), [("Suspended", "JobSuspended")])
        await asyncio.sleep(100)
        assert len(await world.pods()) == 1
        await world.change(JOBS, "job", suspend=False)
        job = await world.until(is_finished)
        assert (counts(job.status), len(world.runner.seen)) == ((0, 3, 0), 5)
        assert world.reasons("SuccessfulCreate", "SuccessfulDelete") == ["Suspended", "Resumed", "Completed"]


async def test_indexed_job_grows_and_shrinks(tmp_path: Path) -> None:
    """Completions and parallelism change together; an index that is then out of range is not counted any more."""

    def run_low_ones_longer(pod: Pod) -> Run:
        return Run(seconds=55 if index_of(pod) < 2 else 5)

    async with batch_world(tmp_path, run_low_ones_longer) as world, world.controllers():
        await world.create_job(completionMode="Indexed", completions=2, parallelism=2)
        await world.until(lambda job: job.status.ready == 2)
        await world.change(JOBS, "job", completions=4, parallelism=4)
        job = await world.until(lambda job: job.status.succeeded == 2)
        assert (job.status.active, job.status.completed_indexes) == (2, "2,3")
        await world.change(JOBS, "job", completions=3, parallelism=3)
        job = await world.until(is_finished)
        assert (counts(job.status), job.status.completed_indexes) == ((0, 3, 0), "0-2")
        assert sorted(map(index_of, world.runner.seen.values())) == [0, 1, 2, 3]


@pytest.mark.parametrize(("policy", "at_once"), [("Failed", False), ("TerminatingOrFailed", True)])
async def test_deleted_pod_is_replaced(tmp_path: Path, policy: str, *, at_once: bool) -> None:
    """The policy decides: while the deleted pod still terminates, or only after it has ended."""
    async with batch_world(tmp_path, lambda _: Run(seconds=60, stop_seconds=25)) as world, world.controllers():
        await world.create_job(podReplacementPolicy=policy)
        await world.until(lambda job: job.status.ready == 1)
        (pod,) = await world.pods()
        await world.delete_pod(pod)
        await asyncio.sleep(15)
        assert (len(world.runner.seen) == 2) == at_once
        assert (await world.job()).status.terminating == 1
        job = await world.until(is_finished)
        assert (counts(job.status), len(world.runner.seen)) == ((0, 1, 1), 2)


async def test_pods_of_a_deleted_job_lose_their_finalizer(tmp_path: Path) -> None:
    async with batch_world(tmp_path, lambda _: Run(seconds=60)) as world, world.controllers():
        await world.create_job(parallelism=2)
        await world.until(lambda job: job.status.ready == 2)
        await world.client.delete(JOBS, "job", namespace="default")
        await asyncio.sleep(5)
        pods = await world.pods()
        assert len(pods) == 2
        assert not any(has_tracking_finalizer(pod) for pod in pods)


async def test_job_of_another_controller_is_left_alone(tmp_path: Path) -> None:
    """A job with managedBy gets no pods, events or status."""
    async with batch_world(tmp_path) as world, world.controllers():
        await world.create_job(managedBy="example.com/other")
        await asyncio.sleep(100)
        assert (world.told, len(world.runner.seen)) == ([], 0)
        assert (await world.job()).status == Job().status


async def test_finished_job_goes_when_its_time_to_live_is_over(tmp_path: Path) -> None:
    """The TTL controller waits for the full TTL, also when it was extended meanwhile."""
    async with batch_world(tmp_path) as world, world.controllers():
        await world.create_job(ttlSecondsAfterFinished=30)
        await world.until(is_finished)
        await asyncio.sleep(20)
        await world.change(JOBS, "job", ttlSecondsAfterFinished=60)
        await asyncio.sleep(38)
        assert (await world.job()).metadata.deletion_timestamp is None
        await asyncio.sleep(3)
        meta = (await world.job()).metadata
        assert meta.deletion_timestamp is not None
        assert meta.finalizers == ("foregroundDeletion",)
