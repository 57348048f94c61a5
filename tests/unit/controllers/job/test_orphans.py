"""Pods that no job counts lose their finalizer, and finished jobs are deleted when their TTL expires."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.api import serializer
from pykubelet.api.errors import InternalError, NotFound
from pykubelet.api.generated.batch import Job, JobCondition, JobSpec, JobStatus
from pykubelet.api.generated.core import Pod
from pykubelet.api.generated.meta import ObjectMeta, OwnerReference
from pykubelet.api.scheme import JOBS
from pykubelet.api.times import format_time
from pykubelet.client.indexer import ObjectIndex, PodIndex
from pykubelet.controllers.framework.ownership import new_controller_ref
from pykubelet.controllers.job.status import TRACKING_FINALIZER
from pykubelet.controllers.job.tracking import OrphanPodReleaser
from pykubelet.controllers.ttlafterfinished.ttlafterfinished_controller import TtlAfterFinishedController, expires_at
from pykubelet.testing.fake_pod_control import FakePodControl
from pykubelet.testing.memory_api import MemoryApi
from pykubelet.testing.virtual_time import EPOCH, VirtualClock


def job(*, ended: float | None = None, kind: str = "Complete", status: str = "True", **spec: Any) -> Job:
    at = format_time(EPOCH + timedelta(seconds=ended or 0))
    condition = JobCondition(type=kind, status=status, last_transition_time=at)
    return Job(
        metadata=ObjectMeta(name="job", namespace="default", uid="job-uid"),
        spec=JobSpec(**spec),
        status=JobStatus(conditions=() if ended is None else (condition,)),
    )


def pod(owner: OwnerReference | None, finalizers: tuple[str, ...] = (TRACKING_FINALIZER,)) -> Pod:
    owners = () if owner is None else (owner,)
    metadata = ObjectMeta(name="p", namespace="default", uid="p", finalizers=finalizers, owner_references=owners)
    return Pod(metadata=metadata)


OWNER = new_controller_ref(job())
OTHER = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="job", uid="x", controller=True)
LOST: list[tuple[str, Job | None, Pod, bool]] = [
    ("no owner", job(), pod(None), True),
    ("owner gone", None, pod(OWNER), True),
    ("owner finished", job(ended=1), pod(OWNER), True),
    ("owner at work", job(), pod(OWNER), False),
    ("owner of another controller", job(ended=1, managed_by="x/y"), pod(OWNER), False),
    ("owner no job", None, pod(OTHER), False),
    ("no finalizer", None, pod(OWNER, ()), False),
]


@pytest.mark.parametrize(("owner", "one", "freed"), [pytest.param(*row[1:], id=row[0]) for row in LOST])
async def test_only_pods_that_no_job_counts_lose_their_finalizer(owner: Job | None, one: Pod, *, freed: bool) -> None:
    """The decision is made when the pod is processed, not when it is enqueued."""
    control, pods = FakePodControl(), PodIndex()
    orphans = OrphanPodReleaser(pod_control=control, pods=pods, jobs=ObjectIndex([] if owner is None else [owner]))
    pods.put(one)
    orphans.enqueue(one)
    while len(orphans.queue):
        await orphans.process_next()
    assert len(control.patches) == freed


async def test_pod_that_cannot_be_freed_is_tried_again() -> None:
    """A pod that is already gone is not retried."""
    control, pods = FakePodControl(), PodIndex()
    orphans = OrphanPodReleaser(pod_control=control, pods=pods, jobs=ObjectIndex())
    pods.put(pod(OWNER))
    orphans.enqueue_all(job())
    control.error = InternalError("fire")
    await orphans.process_next()
    await asyncio.sleep(1.1)
    control.error = NotFound("gone")
    await orphans.process_next()
    assert len(control.patches) == 2
    assert "default/p" not in orphans.queue


@pytest.mark.parametrize(
    ("one", "seconds"),
    [
        (job(ended=5, ttl_seconds_after_finished=0), 5),
        (job(ended=5, kind="Failed", ttl_seconds_after_finished=10), 15),
        (job(ended=5), None),
        (job(ttl_seconds_after_finished=10), None),
        (job(ended=5, kind="Suspended", ttl_seconds_after_finished=10), None),
        (job(ended=5, status="False", ttl_seconds_after_finished=10), None),
    ],
)
def test_time_to_live_begins_at_the_end(one: Job, seconds: int | None) -> None:
    """An unfinished job and a job without a TTL do not expire."""
    assert expires_at(one) == (None if seconds is None else EPOCH + timedelta(seconds=seconds))


@given(st.integers(0, 2**31 - 1), st.integers(0, 10**6))
def test_any_time_to_live_has_an_end(seconds: int, ended: int) -> None:
    """The largest TTL causes no overflow."""
    assert expires_at(job(ended=ended, ttl_seconds_after_finished=seconds)) == EPOCH + timedelta(
        seconds=seconds + ended
    )


async def test_expired_job_is_deleted_only_if_the_server_agrees() -> None:
    """While the cached copy is old, the TTL may have been extended, or the job deleted."""
    api = MemoryApi(VirtualClock())
    jobs = ObjectIndex([job(ended=0, ttl_seconds_after_finished=10)])
    controller = TtlAfterFinishedController(client=api, jobs=jobs, clock=VirtualClock())
    controller.job_changed(job())
    assert len(controller.queue) == 0
    await asyncio.sleep(10)
    await controller.sync("default/job")
    api.put(JOBS.resource, serializer.to_document(job(ended=0, ttl_seconds_after_finished=30)))
    await controller.sync("default/job")
    assert [call.verb for call in api.calls] == ["get", "get"]
    await asyncio.sleep(20)
    await controller.process_next()
    assert [call.verb for call in api.calls] == ["get", "get", "get", "delete"]
    await controller.sync("default/none")
