"""The CronJob controller in unusual situations: unknown jobs, invalid schedules, failing requests."""

import asyncio
from collections.abc import Callable
from datetime import UTC, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pykubelet.api import serializer
from pykubelet.api.errors import Conflict, InternalError
from pykubelet.api.generated.batch import CronJob, CronJobSpec, CronJobStatus, Job, JobCondition, JobStatus
from pykubelet.api.generated.core import ObjectReference
from pykubelet.api.generated.meta import ObjectMeta, OwnerReference
from pykubelet.api.scheme import CRON_JOBS, JOBS
from pykubelet.api.times import format_time
from pykubelet.client.indexer import ObjectIndex
from pykubelet.client.interface import Client
from pykubelet.client.recorder import reference_to
from pykubelet.controllers.cronjob.cronjob_controller import CronJobController
from pykubelet.controllers.cronjob.schedule import jobs_to_remove, new_job, review_active_jobs
from pykubelet.controllers.framework.ownership import new_controller_ref
from pykubelet.testing.faults import Fault, FaultyClient
from pykubelet.testing.memory_api import MemoryApi
from pykubelet.testing.virtual_time import EPOCH, VirtualClock

KEY = "default/cron"
HOUR_AGO = EPOCH - timedelta(hours=1)
MINUTES = int(EPOCH.timestamp()) // 60


def cron(schedule: str = "0 * * * *", *, active: tuple[Job, ...] = (), last: bool = True, **spec: Any) -> CronJob:
    """A CronJob created almost two hours ago with the last start an hour ago; the next start is now."""
    made = format_time(EPOCH - timedelta(minutes=119))
    status = CronJobStatus(
        active=tuple(map(reference_to, active)), last_schedule_time=format_time(HOUR_AGO) if last else None
    )
    return CronJob(
        metadata=ObjectMeta(name="cron", namespace="default", uid="cron-uid", creation_timestamp=made),
        spec=CronJobSpec(schedule=schedule, **spec),
        status=status,
    )


def job(name: str = f"cron-{MINUTES - 60}", *, ends: str | None = None, at: int = 0, **meta: Any) -> Job:
    owner = {"owner_references": (new_controller_ref(cron()),), **meta}
    done = format_time(EPOCH + timedelta(seconds=at))
    conditions = () if ends is None else (JobCondition(type=ends, status="True", last_transition_time=done),)
    status = JobStatus(conditions=conditions, start_time=done, completion_time=done if ends == "Complete" else None)
    return Job(metadata=ObjectMeta(name=name, namespace="default", uid=f"uid-{name}", **owner), status=status)


class World:
    """A controller with one CronJob and some jobs, in the API and in its indexes."""

    def __init__(self, one: CronJob, *jobs: Job, unseen: tuple[Job, ...] = (), client: Client | None = None) -> None:
        self.api, self.told = MemoryApi(VirtualClock()), list[tuple[str, str]]()
        stored = serializer.from_document(self.api.put(CRON_JOBS.resource, serializer.to_document(one)), CronJob)
        for each in (*jobs, *unseen):
            self.api.put(JOBS.resource, serializer.to_document(each))
        self.crons, self.jobs = ObjectIndex([stored]), ObjectIndex(jobs)
        self.use(client or self.api)

    def use(self, client: Client) -> None:
        self.controller = CronJobController(
            client=client, recorder=self, crons=self.crons, jobs=self.jobs, clock=VirtualClock()
        )

    def event(self, involved: ObjectReference, event_type: str, reason: str, message: str) -> None:
        assert involved.name == "cron"
        self.told.append((reason, message))

    def status(self) -> CronJobStatus:
        (document,) = self.api.documents(CRON_JOBS.resource)
        return serializer.from_document(document, CronJob).status

    def names(self) -> list[str]:
        return sorted(document["metadata"]["name"] for document in self.api.documents(JOBS.resource))


NEW = f"cron-{MINUTES}"
ODD: list[tuple[str, CronJob, list[str]]] = [
    (
        "unknown zone",
        cron(time_zone="Mars/Olympus"),
        ['UnknownTimeZone invalid timeZone: "Mars/Olympus": unknown time zone Mars/Olympus'],
    ),
    (
        "unparseable",
        cron("* *"),
        ['UnparseableSchedule unparseable schedule: "* *" : expected exactly 5 fields, found 2: [* *]'],
    ),
    (
        "never",
        cron("0 0 31 2 *"),
        ["InvalidSchedule invalid schedule: 0 0 31 2 * : time difference between two schedules is less than 1 second"],
    ),
    ("suspended", cron(suspend=True), []),
    ("deleted", replace(cron(), metadata=replace(cron().metadata, deletion_timestamp="2026-01-01T00:00:00Z")), []),
]


@pytest.mark.parametrize(("one", "told"), [pytest.param(*row[1:], id=row[0]) for row in ODD])
async def test_cron_job_that_makes_nothing(one: CronJob, told: list[str]) -> None:
    """An invalid schedule or zone causes a warning. The CronJob is not requeued."""
    world = World(one)
    await world.controller.sync(KEY)
    assert [" ".join(event) for event in world.told] == told
    assert (world.names(), world.status()) == ([], one.status)
    assert KEY not in world.controller.queue


async def test_zone_within_the_schedule_is_reported_and_used() -> None:
    """It is unsupported, but works and overrides the timeZone field."""
    world = World(cron("TZ=UTC 0 * * * *", time_zone="Asia/Kolkata"))
    await world.controller.sync(KEY)
    assert [reason for reason, _ in world.told] == ["UnsupportedSchedule", "SuccessfulCreate"]
    assert world.names() == [NEW]


async def test_schedule_is_in_the_time_zone_of_its_field() -> None:
    """Midnight in UTC is half past five in India."""
    for zone, names in (("Asia/Kolkata", [NEW]), ("UTC", [])):
        world = World(cron("30 5 * * *", time_zone=zone))
        await world.controller.sync(KEY)
        assert world.names() == names


async def test_start_is_missed_when_its_deadline_is_over() -> None:
    """No event is emitted, and the controller waits for the next start."""
    world = World(cron(starting_deadline_seconds=5))
    await asyncio.sleep(6)
    await world.controller.sync(KEY)
    assert (world.names(), world.told) == ([], [])
    await asyncio.sleep(3594)
    assert len(world.controller.queue) == 0
    await asyncio.sleep(0.2)
    assert len(world.controller.queue) == 1


async def test_unknown_active_job_is_reported_and_only_our_own_is_added_to_the_status() -> None:
    """A job that was created but is missing from the status is added to it, so Forbid holds."""
    foreign = job("by-hand")
    ours = new_job(cron(), HOUR_AGO, UTC)
    ours = replace(ours, metadata=replace(ours.metadata, uid="ours", namespace="default"))
    one = cron(last=False, concurrency_policy="Forbid")
    world = World(one, foreign, ours)
    await world.controller.sync(KEY)
    said = "Saw a job that the controller did not create or forgot:"
    busy = "Not starting job because prior execution is running and concurrency policy is Forbid"
    assert world.told == [
        ("UnexpectedJob", f"{said} by-hand"),
        ("UnexpectedJob", f"{said} {ours.metadata.name}"),
        ("JobAlreadyActive", busy),
    ]
    status = world.status()
    assert ([one.uid for one in status.active], status.last_schedule_time) == (["ours"], format_time(HOUR_AGO))


async def test_active_job_that_is_gone_is_forgotten() -> None:
    """A job that is only missing from the index stays, because the index may be late."""
    there, gone = job(), job("cron-gone")
    world = World(cron(suspend=True, active=(there, gone)), unseen=(there,))
    await world.controller.sync(KEY)
    assert world.told == [("MissingJob", "Active job went missing: cron-gone")]
    assert [one.name for one in world.status().active] == [there.metadata.name]


@pytest.mark.parametrize("is_ours", [True, False])
async def test_job_of_the_name_exists_already(*, is_ours: bool) -> None:
    """A job that the CronJob controls is added to the status; another one is left alone."""
    owners = (new_controller_ref(cron()),) if is_ours else (OwnerReference(kind="X", name="x", uid="x"),)
    world = World(cron(), unseen=(job(NEW, owner_references=owners),))
    await world.controller.sync(KEY)
    assert (world.names(), world.told) == ([NEW], [])
    assert [one.name for one in world.status().active] == ([NEW] if is_ours else [])


@pytest.mark.parametrize(
    ("at", "event"),
    [
        (0, ("FailedGet", "Get job: the database is on fire")),
        (1, ("FailedDelete", "Deleted job: the database is on fire")),
        (2, ("FailedCreate", "Error creating job: the database is on fire")),
    ],
    ids=["get", "delete", "create"],
)
async def test_failed_replacement_is_reported_and_raised(at: int, event: tuple[str, str]) -> None:
    """A job that was deleted before the failure is removed from the status."""
    old = job()
    world = World(cron(active=(old,), concurrency_policy="Replace"), old)
    world.use(FaultyClient(world.api, Fault.FAILED, at=at))
    with pytest.raises(InternalError):
        await world.controller.sync(KEY)
    assert world.told[-1] == event
    assert [one.name for one in world.status().active] == ([] if at == 2 else [old.metadata.name])


async def test_status_is_not_written_over_a_newer_one() -> None:
    """The job has been created; the next sync, with a newer copy, finds it."""
    world = World(cron())
    (document,) = world.api.documents(CRON_JOBS.resource)
    world.api.put(CRON_JOBS.resource, document)
    with pytest.raises(Conflict):
        await world.controller.sync(KEY)
    assert world.names() == [NEW]


async def test_cron_job_that_is_gone_or_another_by_now_is_left_alone() -> None:
    """A CronJob recreated under the same name does not adopt the old one's jobs."""
    world = World(cron(), job())
    await world.controller.sync("default/none")
    stored = serializer.to_document(replace(cron(), metadata=replace(cron().metadata, uid="other")))
    world.api.put(CRON_JOBS.resource, stored)
    await world.controller.sync(KEY)
    assert (world.told, len(world.names())) == ([], 1)


async def test_start_is_not_made_again_when_it_is_in_the_status() -> None:
    """The name identifies the job of a start."""
    made = job(NEW)
    world = World(cron(active=(made,)), made)
    await world.controller.sync(KEY)
    assert (world.told, world.names()) == ([], [NEW])


async def test_new_schedule_wakes_the_cron_job_when_it_is_due() -> None:
    """An unparseable schedule causes an event instead."""
    world = World(cron())
    queue = world.controller.queue
    world.controller.cron_updated(cron(), cron("x"))
    assert world.told == [("UnParseableCronJobSchedule", "unparseable schedule for cronjob: x")]
    assert KEY not in queue
    world.controller.cron_updated(cron(), cron("30 * * * *", last=False))
    world.controller.cron_updated(cron(), cron(time_zone="Asia/Kolkata", last=False))
    await asyncio.sleep(0.05)
    assert (KEY in queue, len(queue)) == (True, 0)
    await asyncio.sleep(1800.1)
    assert len(queue) == 1


CHANGES: list[tuple[str, Callable[[CronJobController], None], bool]] = [
    ("cron job", lambda controller: controller.cron_changed(cron()), True),
    ("its spec", lambda controller: controller.cron_updated(cron(), cron(suspend=True)), True),
    ("new job", lambda controller: controller.job_changed(job()), True),
    ("job of nobody", lambda controller: controller.job_changed(job(owner_references=())), False),
    ("job changed", lambda controller: controller.job_updated(job(), job(resource_version="2")), True),
    ("job not changed", lambda controller: controller.job_updated(job(), job()), False),
    (
        "job lost",
        lambda controller: controller.job_updated(job(), job(resource_version="2", owner_references=())),
        True,
    ),
]


@pytest.mark.parametrize(("change", "wakes"), [pytest.param(*row[1:], id=row[0]) for row in CHANGES])
async def test_changes_wake_the_cron_job(change: Callable[[CronJobController], None], *, wakes: bool) -> None:
    """Changes of the CronJob and of jobs that it controls or controlled count."""
    world = World(cron())
    change(world.controller)
    assert len(world.controller.queue) == wakes


ENDS = st.lists(st.tuples(st.sampled_from([None, "Complete", "Failed"]), st.booleans(), st.integers(0, 9)), max_size=12)


@settings(max_examples=60)
@given(ends=ENDS, good=st.none() | st.integers(0, 4), bad=st.none() | st.integers(0, 4))
def test_history_keeps_the_newest_and_review_forgets_the_finished(
    ends: list[tuple[str | None, bool, int]], good: int | None, bad: int | None
) -> None:
    """The jobs and the status list of active jobs are arbitrary."""
    jobs = [job(f"j{number}", ends=kind, at=at) for number, (kind, _, at) in enumerate(ends)]
    listed = tuple(one for one, (_, is_listed, _) in zip(jobs, ends, strict=True) if is_listed)
    one = cron(active=listed, successful_jobs_history_limit=good, failed_jobs_history_limit=bad)
    gone = {each.metadata.uid for each in jobs_to_remove(one, jobs)}
    for kind, limit in (("Complete", good), ("Failed", bad)):
        ended = [each for each, (how, _, _) in zip(jobs, ends, strict=True) if how == kind]
        kept = [each for each in ended if each.metadata.uid not in gone]
        assert len(kept) == (len(ended) if limit is None else min(limit, len(ended)))
        removed = [each.status.start_time or "" for each in ended if each.metadata.uid in gone]
        assert not kept or not removed or max(removed) <= min(each.status.start_time or "" for each in kept)
    found = review_active_jobs(one, jobs)
    running = {each.metadata.uid for each, (how, _, _) in zip(jobs, ends, strict=True) if how is None}
    uids = {each.metadata.uid for each in listed}
    assert {each.uid for each in found.status.active} == uids & running
    assert {each.metadata.uid for each in found.unexpected} == running - uids
    assert {each.metadata.uid for each in found.completed} == uids - running
    assert found.missing == ()
    successes = [each.status.completion_time for each in jobs if each.status.completion_time]
    assert found.status.last_successful_time == max(successes, default=None)
