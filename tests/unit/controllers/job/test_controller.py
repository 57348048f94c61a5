"""The Job controller with the real PodControl finishes jobs with correct counts, whichever request fails."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from pykubelet.api import serializer
from pykubelet.api.generated.batch import Job, JobSpec, JobStatus
from pykubelet.api.generated.core import (
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    ObjectReference,
    Pod,
    PodSpec,
    PodTemplateSpec,
)
from pykubelet.api.generated.meta import LabelSelector, ObjectMeta
from pykubelet.api.scheme import JOBS, PODS
from pykubelet.api.times import format_time
from pykubelet.client.indexer import ObjectIndex, PodIndex
from pykubelet.client.interface import Client
from pykubelet.controllers.framework.ownership import ClaimError, new_controller_ref
from pykubelet.controllers.framework.pod_control import PodControl
from pykubelet.controllers.job.controller import JobController
from pykubelet.controllers.job.status import TRACKING_FINALIZER, has_tracking_finalizer, is_finished
from pykubelet.testing.fake_pod_control import PodFeed
from pykubelet.testing.faults import CALL_FAULTS, Fault, FaultyClient
from pykubelet.testing.memory_api import MemoryApi
from pykubelet.testing.virtual_time import VirtualClock

KEY = "default/job"
LABELS = {"job": "x"}


def job(parallelism: int = 2, completions: int | None = 4, **spec: Any) -> Job:
    template = PodTemplateSpec(metadata=ObjectMeta(labels=LABELS), spec=PodSpec(node_name="n1"))
    return Job(
        metadata=ObjectMeta(name="job", namespace="default", uid="job-uid", generation=1),
        spec=JobSpec(
            parallelism=parallelism,
            completions=completions,
            selector=LabelSelector(match_labels=LABELS),
            template=template,
            **spec,
        ),
    )


class World:
    """A controller between an API and the informer caches that a test fills, and a node that runs the pods."""

    def __init__(self, one: Job, client: Client | None = None, *, api: MemoryApi | None = None) -> None:
        self.api = api or MemoryApi(VirtualClock())
        self.told: list[tuple[str, str]] = []
        self.api.put(JOBS.resource, serializer.to_document(one))
        self.jobs: ObjectIndex[Job] = ObjectIndex()
        pods = PodIndex()
        self.controller = JobController(
            client=client or self.api,
            pod_control=PodControl(client=client or self.api, recorder=self),
            recorder=self,
            pods=pods,
            jobs=self.jobs,
            clock=VirtualClock(),
        )
        self.feed = PodFeed(self.api, pods, self.controller.events)

    def event(self, involved: ObjectReference, event_type: str, reason: str, message: str) -> None:
        if not reason.startswith("Successful"):
            self.told.append((reason, message))

    def show_jobs(self) -> None:
        for document in self.api.documents(JOBS.resource):
            new = serializer.from_document(document, Job)
            old = self.jobs.put(new)
            if old is None:
                self.controller.events.job_added(new)
            elif old != new:
                self.controller.events.job_updated(old, new)

    async def round(self, *, shows_jobs: bool = True) -> None:
        """Copy the API's objects to the caches, process the queue, and wait half a second."""
        if shows_jobs:
            self.show_jobs()
        self.feed.show()
        while len(self.controller.queue):
            await self.controller.process_next()
        self.feed.show()
        await asyncio.sleep(0.5)

    def job(self) -> Job:
        (document,) = self.api.documents(JOBS.resource)
        return serializer.from_document(document, Job)

    def pods(self) -> list[Pod]:
        return [serializer.from_document(document, Pod) for document in self.api.documents(PODS.resource)]

    def change(self, **spec: Any) -> None:
        one = self.job()
        metadata = replace(one.metadata, generation=one.metadata.generation + 1)
        one = replace(one, metadata=metadata, spec=replace(one.spec, **spec))
        self.api.put(JOBS.resource, serializer.to_document(one))

    def end_one(self, phase: str) -> bool:
        """End the first running pod, after removing deleted pods without finalizers."""
        for one in self.pods():
            if one.metadata.deletion_timestamp is not None and not one.metadata.finalizers:
                self.api.remove(PODS.resource, namespace="default", name=one.metadata.name)
        for one in self.pods():
            if one.status.phase not in ("Succeeded", "Failed"):
                terminated = ContainerStateTerminated(finished_at=format_time(VirtualClock().now()))
                statuses = (ContainerStatus(name="c", state=ContainerState(terminated=terminated)),)
                status = replace(one.status, phase=phase, container_statuses=statuses)
                self.api.put(PODS.resource, serializer.to_document(replace(one, status=status)))
                return True
        return False

    async def finish(self, *phases: str) -> JobStatus:
        """End pods with these phases, then with Succeeded, until the job has finished."""
        left = list(phases)
        for number in range(200):
            await self.round(shows_jobs=number % 2 == 0)
            if is_finished(self.job()):
                break
            if self.end_one(left[0] if left else "Succeeded"):
                left = left[1:]
        return self.job().status


def types(status: JobStatus) -> list[str]:
    return [condition.type for condition in status.conditions if condition.status == "True"]


@pytest.mark.parametrize("fault", CALL_FAULTS)
async def test_job_counts_right_whatever_fails(fault: Fault) -> None:
    """Injects one fault at each call in turn; the cached job is stale half of the time."""
    at = 0
    while True:
        api = MemoryApi(VirtualClock())
        client = FaultyClient(api, fault, at=at)
        world = World(job(), client, api=api)
        status = await world.finish("Succeeded", "Failed")
        phases = [one.status.phase for one in world.pods()]
        assert types(status) == ["SuccessCriteriaMet", "Complete"]
        assert (status.succeeded, status.failed) == (phases.count("Succeeded"), phases.count("Failed")) == (4, 1)
        assert not any(has_tracking_finalizer(one) for one in world.pods())
        if not client.injected:
            break
        at += 1
    assert at > 10
    assert [reason for reason, _ in world.told] == ["Completed"]


async def test_failing_job_deletes_what_still_runs() -> None:
    """The Failed condition waits until the deleted pod is gone; afterwards no more requests are sent."""
    world = World(job(2, 4, backoff_limit=0))
    await world.round()
    assert world.end_one("Failed")
    for _ in range(3):
        await world.round()
    status = world.job().status
    assert types(status) == ["FailureTarget"]
    assert (status.active, status.terminating, status.failed) == (0, 1, 2)
    status = await world.finish()
    assert types(status) == ["FailureTarget", "Failed"]
    assert (status.active, status.failed, status.completion_time) == (0, 2, None)
    assert world.told == [("BackoffLimitExceeded", "Job has reached the specified backoff limit")]
    calls = len(world.api.calls)
    for _ in range(4):
        await world.round()
    assert len(world.api.calls) == calls


async def test_suspended_job_has_no_pods_and_starts_anew() -> None:
    """Events report both changes, and the start time is reset on resumption."""
    world = World(job(2, 4, active_deadline_seconds=100))
    await world.round()
    started = world.job().status.start_time
    world.change(suspend=True)
    for _ in range(4):
        await world.round()
        world.end_one("Failed")
    status = world.job().status
    assert (types(status), status.active, status.failed, status.start_time) == (["Suspended"], 0, 0, started)
    await asyncio.sleep(50)
    world.change(suspend=False)
    for _ in range(4):
        await world.round()
    status = world.job().status
    assert (types(status), status.active) == ([], 2)
    assert started is not None
    assert status.start_time is not None
    assert status.start_time > started
    assert world.told == [("Suspended", "Job suspended"), ("Resumed", "Job resumed")]


async def test_job_ends_at_its_deadline() -> None:
    """The deadline itself requeues the job."""
    world = World(job(1, 1, active_deadline_seconds=60))
    for _ in range(4):
        await world.round()
    world.change(active_deadline_seconds=30)
    await world.round()
    loop = asyncio.get_running_loop()
    await asyncio.sleep(30 - loop.time() - 0.001)
    assert len(world.controller.queue) == 0
    await asyncio.sleep(0.001)
    assert len(world.controller.queue) == 1
    status = await world.finish()
    assert types(status) == ["FailureTarget", "Failed"]
    assert world.told == [("DeadlineExceeded", "Job was active longer than specified deadline")]


async def test_pod_is_counted_once_while_its_old_copy_still_shows_the_finalizer() -> None:
    """The cached job is fresh, the cached pod is not."""
    world = World(job(1, 2))
    await world.round()
    assert world.end_one("Succeeded")
    world.feed.show()
    for _ in range(3):
        world.show_jobs()
        await world.controller.sync(KEY)
        assert world.job().status.succeeded == 1
    assert sum(call.verb == "patch" and call.resource == "pods" for call in world.api.calls) == 1


async def test_job_does_not_end_while_a_pod_may_be_unseen() -> None:
    """A pending creation may still have to be counted."""
    world = World(job(1, 2, backoff_limit=0))
    await world.round()
    assert world.end_one("Failed")
    world.feed.show()
    world.show_jobs()
    expectations = world.controller._job_pods.expectations
    expectations.expect_creations(KEY, 1, now_seconds=VirtualClock().monotonic())
    await world.controller.sync(KEY)
    status = world.job().status
    assert (types(status), status.failed) == ([], 1)
    expectations.creation_observed(KEY)
    world.show_jobs()
    await world.controller.sync(KEY)
    assert types(world.job().status) == ["FailureTarget", "Failed"]


async def test_pod_that_was_never_seen_is_replaced_after_five_minutes() -> None:
    """It was created and deleted while the watch was down, so no event ends the wait for it."""
    world = World(job(1, 1))
    world.show_jobs()
    await world.controller.process_next()
    (unseen,) = world.pods()
    world.api.remove(PODS.resource, namespace="default", name=unseen.metadata.name)
    await asyncio.sleep(310)
    assert len(world.controller.queue) == 1
    await world.controller.process_next()
    assert len(world.pods()) == 1


async def test_pod_that_vanished_before_its_release_is_counted() -> None:
    """It is listed as uncounted, and a deleted pod needs no removal of its finalizer."""
    world = World(job(1, 2))
    await world.round()
    assert world.end_one("Succeeded")
    world.feed.show()
    world.show_jobs()
    (only,) = world.pods()
    world.api.remove(PODS.resource, namespace="default", name=only.metadata.name)
    await world.controller.sync(KEY)
    assert world.job().status.succeeded == 1


@pytest.mark.parametrize("at", [0, 1])
async def test_failed_deletion_is_not_awaited(at: int) -> None:
    """The next sync retries, whether the finalizer removal or the pod deletion failed."""
    api = MemoryApi(VirtualClock())
    world = World(job(1, 2), api=api)
    await world.round()
    world.change(parallelism=0)
    client = FaultyClient(api, Fault.FAILED, at=at)
    world.controller._job_pods._pod_control = PodControl(client=client, recorder=world)
    for _ in range(8):
        await world.round()
    assert client.injected
    (only,) = world.pods()
    assert only.metadata.deletion_timestamp is not None
    assert (world.job().status.active, world.job().status.terminating) == (0, 1)


async def test_adopted_pod_is_counted() -> None:
    """Adoption adds the tracking finalizer."""
    world = World(job(1, 1))
    orphan = Pod(metadata=ObjectMeta(name="o", namespace="default", uid="o", labels=LABELS))
    world.api.put(
        PODS.resource, serializer.to_document(replace(orphan, status=replace(orphan.status, phase="Succeeded")))
    )
    status = await world.finish()
    assert (status.succeeded, types(status)) == (1, ["SuccessCriteriaMet", "Complete"])
    (only,) = world.pods()
    assert only.metadata.owner_references == (new_controller_ref(job()),)


async def test_too_many_successes_are_reported() -> None:
    """Extra successes are no failure of the job."""
    world = World(job(1, 1))
    for name in ("a", "b"):
        orphan = Pod(metadata=ObjectMeta(name=name, namespace="default", uid=name, labels=LABELS))
        done = replace(orphan, status=replace(orphan.status, phase="Succeeded"))
        world.api.put(PODS.resource, serializer.to_document(done))
    await world.finish()
    message = "Too many succeeded pods running after completion count reached"
    assert world.told == [("TooManySucceededPods", message), ("Completed", "Job completed")]


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"managed_by": "example.com/other"}, []),
        ({"completion_mode": "Odd"}, ["UnknownCompletionMode"]),
    ],
)
async def test_job_that_is_not_for_us_is_left_alone(spec: dict[str, Any], told: list[str]) -> None:
    """No request is sent for it."""
    world = World(job(**spec))
    await world.round()
    assert world.api.calls == []
    assert [reason for reason, _ in world.told] == told


async def test_deleted_job_is_forgotten() -> None:
    """A new job of the same name starts without its failure record and expectations."""
    world = World(job(1, 1))
    await world.round()
    world.end_one("Failed")
    for _ in range(3):
        await world.round()
    assert world.controller._job_pods.failures
    gone = world.job()
    world.jobs.remove(gone)
    world.controller.events.job_deleted(gone)
    await world.controller.process_next()
    assert not world.controller._job_pods.failures
    assert world.controller._job_pods.expectations.get(KEY) is None


def pod(**meta: Any) -> Pod:
    fields = {"name": "p", "namespace": "default", "uid": "p", "labels": LABELS, **meta}
    return Pod(metadata=ObjectMeta(**{"owner_references": (new_controller_ref(job()),), **fields}))


@pytest.mark.parametrize(
    ("old", "new", "wakes"),
    [
        (None, {}, True),
        (None, {"deletion_timestamp": "t"}, True),
        (None, {"owner_references": ()}, True),
        (None, {"owner_references": (), "labels": {"job": "y"}}, False),
        ({}, {}, False),
        ({}, {"resource_version": "2"}, True),
        ({}, {"resource_version": "2", "deletion_timestamp": "t"}, True),
        ({}, {"resource_version": "2", "owner_references": ()}, True),
        ({"owner_references": ()}, {"resource_version": "2", "owner_references": ()}, False),
        (
            {"owner_references": (), "labels": {"job": "y"}},
            {"resource_version": "2", "owner_references": ()},
            True,
        ),
    ],
)
async def test_pod_changes_wake_the_job(old: dict[str, Any] | None, new: dict[str, Any], wakes: bool) -> None:
    """A pending removal of the pod's finalizer does not matter."""
    world = World(job())
    world.jobs.put(world.job())
    world.controller._job_pods.removals.expect(KEY, ["p"])
    if old is None:
        world.controller.events.pod_added(pod(**new))
    else:
        world.controller.events.pod_updated(pod(**old), pod(**new))
    assert (KEY in world.controller.queue) == wakes


async def test_removal_of_a_finalizer_is_awaited_until_it_is_seen() -> None:
    """An update without the finalizer or the pod's deletion ends the wait; other updates do not."""
    world = World(job())
    world.jobs.put(world.job())
    removals = world.controller._job_pods.removals
    held: dict[str, Any] = {"finalizers": (TRACKING_FINALIZER,)}
    ways: list[Callable[[], None]] = [
        lambda: world.controller.events.pod_updated(pod(**held), pod(resource_version="2")),
        lambda: world.controller.events.pod_updated(pod(**held), pod(resource_version="2", deletion_timestamp="t")),
        lambda: world.controller.events.pod_deleted(pod(**held)),
    ]
    for seen in ways:
        removals.expect(KEY, ["p"])
        world.controller.events.pod_updated(pod(**held), pod(resource_version="2", **held))
        world.controller.events.pod_updated(pod(**held), pod(resource_version="2", deletion_timestamp="t", **held))
        assert removals.awaited(KEY) == {"p"}
        seen()
        assert removals.awaited(KEY) == frozenset()


async def test_namesake_of_a_job_starts_clean() -> None:
    """The watch may report a recreated job as an update. The old job's pods are queued to lose their finalizer."""
    world = World(job())
    await world.round()
    old = world.job()
    new = replace(old, metadata=replace(old.metadata, uid="new-uid"))
    world.jobs.put(new)
    world.controller.events.job_updated(old, new)
    assert world.controller._job_pods.expectations.get(KEY) is None
    assert len(world.controller.orphans.queue) == 2


async def test_pod_without_owner_wakes_its_former_one_and_is_let_go() -> None:
    """No job counts the pod any more, so its finalizer must be removed."""
    world = World(job())
    world.jobs.put(world.job())
    held: dict[str, Any] = {"finalizers": (TRACKING_FINALIZER,)}
    orphan = pod(resource_version="2", owner_references=(), **held)
    world.controller.events.pod_updated(pod(**held), orphan)
    assert KEY in world.controller.queue
    assert len(world.controller.orphans.queue) == 1
    for told in (world.controller.events.pod_added, world.controller.events.pod_deleted):
        other = pod(name=told.__name__, uid=told.__name__, owner_references=(), **held)
        told(other)
        assert f"default/{told.__name__}" in world.controller.orphans.queue


async def test_sync_does_nothing_while_pods_cannot_be_claimed() -> None:
    """The error is raised, and no pod is created."""
    api = MemoryApi(VirtualClock())
    world = World(job(1, 1), FaultyClient(api, Fault.FAILED), api=api)
    orphan = Pod(metadata=ObjectMeta(name="o", namespace="default", uid="o", labels=LABELS))
    api.put(PODS.resource, serializer.to_document(orphan))
    world.show_jobs()
    world.feed.show()
    with pytest.raises(ClaimError, match="can't adopt Pod default/o"):
        await world.controller.sync(KEY)
    assert len(world.pods()) == 1
