"""The Job controller: the cases of spec 5.10 from 42 to 46."""

import asyncio
import dataclasses
from dataclasses import dataclass
from typing import Any

import pytest
from msgspec.structs import replace

from pykubelet.api import serializer
from pykubelet.api.errors import InternalError
from pykubelet.api.generated.batch import Job, JobSpec, JobStatus, PodFailurePolicy
from pykubelet.api.generated.core import (
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    ObjectReference,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
    PodTemplateSpec,
)
from pykubelet.api.generated.meta import LabelSelector, ObjectMeta
from pykubelet.api.scheme import JOBS
from pykubelet.client.indexer import ObjectIndex, PodIndex
from pykubelet.controllers.framework.ownership import new_controller_ref
from pykubelet.controllers.job.controller import JobController
from pykubelet.controllers.job.status import TRACKING_FINALIZER
from pykubelet.testing.fake_pod_control import FakePodControl
from pykubelet.testing.memory_api import MemoryApi
from pykubelet.testing.virtual_time import VirtualClock

AT = "2026-01-01T00:00:00Z"
LONG_AGO = "2025-01-01T00:00:00Z"
KEY = "default/foobar"
LABELS = {"foo": "bar"}


def job(parallelism: int = 2, completions: int | None = 5, *, status: JobStatus | None = None, **fields: Any) -> Job:
    deleted = fields.pop("deleted", None)
    finalizers = ("foregroundDeletion",) if deleted else ()
    meta = ObjectMeta(
        name="foobar", namespace="default", uid="job-uid", deletion_timestamp=deleted, finalizers=finalizers
    )
    template = PodTemplateSpec(metadata=ObjectMeta(labels=LABELS), spec=PodSpec(restart_policy="Never"))
    spec = {"backoff_limit": 6, "selector": LabelSelector(match_labels=LABELS), "template": template, **fields}
    return Job(
        metadata=meta,
        spec=JobSpec(parallelism=parallelism, completions=completions, **spec),
        status=status or JobStatus(),
    )


def pods(count: int, phase: str, *, ready: bool = False, deleted: str | None = None) -> list[Pod]:
    """Pods of the job that are not counted yet; the finished ones finished long ago."""
    terminated = ContainerState(terminated=ContainerStateTerminated(finished_at=LONG_AGO))
    containers = (ContainerStatus(name="c", state=terminated),) if phase in ("Succeeded", "Failed") else ()
    conditions = (PodCondition(type="Ready", status="True"),) if ready else ()
    names = [f"{phase}-{ready}-{bool(deleted)}-{n}".lower() for n in range(count)]
    return [
        Pod(
            metadata=ObjectMeta(
                name=name,
                namespace="default",
                uid=f"uid-{name}",
                labels=LABELS,
                deletion_timestamp=deleted,
                finalizers=(TRACKING_FINALIZER,),
                owner_references=(new_controller_ref(job()),),
            ),
            status=PodStatus(phase=phase, conditions=conditions, container_statuses=containers),
        )
        for name in names
    ]


def mix(*, pending: int = 0, active: int = 0, ready: int = 0, succeeded: int = 0, failed: int = 0) -> list[Pod]:
    """Pods in these numbers; `ready` is how many of the `active` pods are ready."""
    return [
        *pods(pending, "Pending"),
        *pods(active - ready, "Running"),
        *pods(ready, "Running", ready=True),
        *pods(succeeded, "Succeeded"),
        *pods(failed, "Failed"),
    ]


class Events:
    """Records the emitted events."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str]] = []

    def event(self, involved: ObjectReference, event_type: str, reason: str, message: str) -> None:
        assert (involved.kind, involved.name) == ("Job", "foobar")
        self.seen.append((event_type, reason, message))


class World:
    """A controller with one Job, which is in the API and in the controller's index."""

    def __init__(self, one: Job, *found: Pod) -> None:
        self.api, self.events = MemoryApi(VirtualClock()), Events()
        self.control, self.pods = FakePodControl(), PodIndex()
        stored = self.api.put(JOBS.resource, serializer.to_document(one))
        self.jobs = ObjectIndex([serializer.from_document(stored, Job)])
        for each in found:
            self.pods.put(each)
        self.controller = JobController(
            client=self.api,
            pod_control=self.control,
            recorder=self.events,
            pods=self.pods,
            jobs=self.jobs,
            clock=VirtualClock(),
        )

    def status(self) -> JobStatus:
        (document,) = self.api.documents(JOBS.resource)
        return serializer.from_document(document, Job).status

    def conditions(self) -> list[tuple[str, str, str]]:
        return [(one.type, one.status, one.reason) for one in self.status().conditions]


@dataclass(frozen=True)
class Expected:
    """Creations, deletions and patches of pods, counts in the status, and the condition that ends the job."""

    created: int = 0
    deleted: int = 0
    patched: int = 0
    active: int = 0
    ready: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int = 0
    ends: str | None = None


DONE = {"Complete": "CompletionsReached", "Failed": "BackoffLimitExceeded"}
INTERIM = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}


async def check(world: World, expected: Expected, error: str | None = None) -> None:
    """Sync once and compare the outcome with all expected values."""
    if error is None:
        await world.controller.sync(KEY)
    else:
        with pytest.raises(Exception, match=error):
            await world.controller.sync(KEY)
    status = world.status()
    assert (*world.control.counts, status.active, status.ready, status.succeeded, status.failed) == (
        expected.created,
        expected.deleted,
        expected.patched,
        expected.active,
        expected.ready,
        expected.succeeded,
        expected.failed,
    )
    assert status.terminating == expected.terminating
    ends = expected.ends
    wanted = [(INTERIM[ends], "True", DONE[ends]), (ends, "True", DONE[ends])] if ends else []
    assert world.conditions() == wanted
    assert bool(status.completion_time) == (ends == "Complete")
    assert all(TRACKING_FINALIZER in one.metadata.finalizers for one in world.control.templates)
    assert all(one == new_controller_ref(job()) for one in world.control.controller_refs)


QUEUE = job(2, None)
SYNCS: list[tuple[str, Job, list[Pod], Expected]] = [
    ("start", job(), [], Expected(created=2, active=2)),
    ("work queue start", QUEUE, [], Expected(created=2, active=2)),
    ("two pending", job(), mix(pending=2), Expected(active=2)),
    ("right number", job(3), mix(active=3, ready=2), Expected(active=3, ready=2)),
    ("work queue right number", QUEUE, mix(active=2), Expected(active=2)),
    ("too few", job(), mix(active=1, succeeded=1), Expected(created=1, patched=1, active=2, succeeded=1)),
    ("work queue too few", QUEUE, mix(active=1), Expected(created=1, active=2)),
    ("too many", job(), mix(active=3), Expected(deleted=1, patched=1, active=2, terminating=1)),
    (
        "too many ready",
        job(),
        mix(active=3, ready=3),
        Expected(deleted=1, patched=1, active=2, ready=2, terminating=1),
    ),
    ("far too many", job(), mix(active=10), Expected(deleted=8, patched=8, active=2, terminating=8)),
    (
        "more than completions left",
        job(3, 4),
        mix(active=3, succeeded=2),
        Expected(deleted=1, patched=3, active=2, succeeded=2, terminating=1),
    ),
    ("finished", job(), mix(succeeded=5), Expected(patched=5, succeeded=5, ends="Complete")),
    ("work queue finishing", QUEUE, mix(active=1, succeeded=1), Expected(patched=1, active=1, succeeded=1)),
    ("work queue finished", QUEUE, mix(succeeded=2), Expected(patched=2, succeeded=2, ends="Complete")),
    (
        "work queue finished despite a failure",
        QUEUE,
        mix(succeeded=1, failed=1),
        Expected(patched=2, succeeded=1, failed=1, ends="Complete"),
    ),
    ("new failed pod", job(), mix(active=1, failed=1), Expected(created=1, patched=1, active=2, failed=1)),
    (
        "failed and succeeded",
        job(),
        mix(active=1, succeeded=1, failed=1),
        Expected(created=1, patched=2, active=2, succeeded=1, failed=1),
    ),
    ("counting only", job(), mix(active=2, succeeded=2), Expected(patched=2, active=2, succeeded=2)),
    (
        "job being deleted",
        job(deleted=AT),
        mix(pending=1, active=1, succeeded=1),
        Expected(patched=3, active=2, succeeded=1),
    ),
    (
        "too many failures while being deleted",
        job(backoff_limit=0, deleted=AT),
        mix(failed=1),
        Expected(patched=1, failed=1, ends="Failed"),
    ),
    (
        "leaving pods keep their place",
        job(1, None, pod_replacement_policy="Failed"),
        [*mix(active=1, failed=1), *pods(1, "Running", deleted=AT)],
        Expected(patched=1, active=1, failed=1, terminating=1),
    ),
    (
        "leaving pods have failed",
        job(1, None, pod_replacement_policy="TerminatingOrFailed"),
        [*mix(active=1, failed=1), *pods(1, "Running", deleted=AT)],
        Expected(patched=2, active=1, failed=2, terminating=1),
    ),
    (
        "more leaving than parallelism",
        job(1, 1, pod_failure_policy=PodFailurePolicy()),
        [*mix(active=2), *pods(4, "Running", deleted=AT)],
        Expected(deleted=1, patched=1, active=1, terminating=5),
    ),
]


@pytest.mark.parametrize(
    ("one", "found", "expected"), [pytest.param(*row[1:], id=f"5.10-42 {row[0]}") for row in SYNCS]
)
async def test_sync_of_a_job(one: Job, found: list[Pod], expected: Expected) -> None:
    await check(World(one, *found), expected)


@pytest.mark.parametrize(
    ("one", "found", "expected"),
    [
        pytest.param(job(1, 1), [], Expected(), id="5.10-43 none running"),
        pytest.param(job(2, 2), mix(active=1, ready=1), Expected(active=1, ready=1), id="5.10-43 one ready"),
    ],
)
async def test_job_in_backoff_creates_nothing(one: Job, found: list[Pod], expected: Expected) -> None:
    """The replacement of a pod that has just failed comes ten seconds later; the status keeps the other pods."""
    (failed,) = pods(1, "Failed")
    finished = ContainerState(terminated=ContainerStateTerminated(finished_at=AT))
    status = replace(failed.status, container_statuses=(ContainerStatus(name="c", state=finished),))
    world = World(one, *found, replace(failed, status=status))
    await check(world, dataclasses.replace(expected, failed=1, patched=1))
    assert KEY in world.controller.queue
    assert len(world.controller.queue) == 0
    await asyncio.sleep(9.9)
    assert len(world.controller.queue) == 0
    await asyncio.sleep(0.2)
    assert len(world.controller.queue) == 1
    world.pods.remove(failed)
    seen = world.api.documents(JOBS.resource)[0]
    world.jobs.put(serializer.from_document(seen, Job))
    await world.controller.process_next()
    assert len(world.control.templates) == 1


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(mix(active=1, succeeded=1), Expected(created=1, patched=1, active=1), id="5.10-44 creation"),
        pytest.param(mix(active=3), Expected(patched=1, active=3), id="5.10-44 deletion"),
        pytest.param(mix(active=1, failed=1), Expected(created=1, patched=1, active=1), id="5.10-44 only failed"),
    ],
)
async def test_failing_pod_control_leaves_the_counts(found: list[Pod], expected: Expected) -> None:
    """A failed creation is not active, a failed deletion stays active, and an unreleased pod is not counted."""
    world = World(job(), *found)
    world.control.error = InternalError("fake error")
    await check(world, expected, "fake error")
    assert len(world.events.seen) == 0


@pytest.mark.parametrize(
    ("parallelism", "limit", "active", "failed", "expected"),
    [
        pytest.param(1, 0, 1, 0, Expected(active=1), id="5.10-45 no failure, limit 0"),
        pytest.param(1, 1, 0, 1, Expected(created=1, active=1, failed=1, patched=1), id="5.10-45 1 of 1"),
        pytest.param(1, 1, 0, 2, Expected(failed=2, patched=2, ends="Failed"), id="5.10-45 2 of 1"),
        pytest.param(2, 6, 1, 6, Expected(created=1, active=2, failed=6, patched=6), id="5.10-45 6 of 6"),
        pytest.param(2, 6, 0, 7, Expected(failed=7, patched=7, ends="Failed"), id="5.10-45 7 of 6"),
    ],
)
async def test_backoff_limit(parallelism: int, limit: int, active: int, failed: int, expected: Expected) -> None:
    """One failure beyond the limit ends the job, with two conditions and an event."""
    world = World(job(parallelism, parallelism, backoff_limit=limit), *mix(active=active, failed=failed))
    await check(world, expected)
    message = "Job has reached the specified backoff limit"
    told = [("Warning", "BackoffLimitExceeded", message)] if expected.ends else []
    assert world.events.seen == told
    assert {condition.message for condition in world.status().conditions} == ({message} if told else set())


@pytest.mark.case("5.10-46 pod update waits a second")
async def test_pod_update_is_enqueued_after_a_second() -> None:
    """Further updates within that second add nothing and do not delay it."""
    world = World(job(1, 1))
    (old,) = pods(1, "Running")
    for version in range(1, 10):
        new = replace(old, metadata=replace(old.metadata, resource_version=str(version)))
        world.controller.events.pod_updated(old, new)
        assert len(world.controller.queue) == 0
        await asyncio.sleep(0.1)
        old = new
    assert KEY in world.controller.queue
    await asyncio.sleep(0.11)
    assert len(world.controller.queue) == 1
