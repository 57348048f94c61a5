"""CronJobs over hours of their schedules."""

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from client_faults import CrashingClient
from job_rig import BatchWorld, Run, batch_world
from pykubelet.aio.tasks import running, with_ready_event
from pykubelet.api.generated.batch import Job
from pykubelet.api.scheme import CRON_JOBS, JOBS
from pykubelet.api.times import format_time, parse_time
from pykubelet.client.informers import Informers
from pykubelet.client.interface import Client
from pykubelet.controllers.cronjob.schedule import SCHEDULED_TIMESTAMP
from pykubelet.testing.faults import CALL_FAULTS, Fault, FaultyClient
from pykubelet.testing.virtual_time import EPOCH, VirtualClock

MINUTES = int(EPOCH.timestamp()) // 60


async def until(minutes: float, second: float = 30) -> None:
    """Sleep until this minute and second after the start of virtual time."""
    await asyncio.sleep(60 * minutes + second - VirtualClock().monotonic())


def names(jobs: tuple[Job, ...]) -> list[str]:
    """The names of the jobs, with their minutes counted from the start of virtual time."""
    return sorted(f"cron-{int(job.metadata.name.removeprefix('cron-')) - MINUTES}" for job in jobs)


async def test_job_is_made_at_each_start_and_the_oldest_go(tmp_path: Path) -> None:
    """The job's name ends in the scheduled minute, and an annotation holds the time.

    The status lists active jobs and the last success.
    """
    async with batch_world(tmp_path) as world, world.controllers():
        await world.create_cron("*/2 * * * *", timeZone="Europe/Berlin", successfulJobsHistoryLimit=2)
        await until(2, 1)
        (job,) = await world.jobs()
        assert names((job,)) == ["cron-2"]
        assert parse_time(job.metadata.creation_timestamp or "") == EPOCH + timedelta(minutes=2)
        assert job.metadata.annotations[SCHEDULED_TIMESTAMP] == "2026-01-01T01:02:00+01:00"
        assert job.metadata.labels["from"] == "cron"
        (reference,) = job.metadata.owner_references
        assert (reference.kind, reference.name, reference.controller) == ("CronJob", "cron", True)
        status = (await world.cron()).status
        assert [one.name for one in status.active] == [job.metadata.name]
        assert (status.last_schedule_time, status.last_successful_time) == ("2026-01-01T00:02:00Z", None)
        await until(9)
        assert names(await world.jobs()) == ["cron-6", "cron-8"]
        status = (await world.cron()).status
        ended = (await world.job(f"cron-{MINUTES + 8}")).status.completion_time
        assert (status.active, status.last_successful_time) == ((), ended)
        assert world.told[0] == ("SuccessfulCreate", f"Created job cron-{MINUTES + 2}")
        assert ("SawCompletedJob", f"Saw completed job: cron-{MINUTES + 2}, condition: Complete") in world.told
        assert ("SuccessfulDelete", f"Deleted job cron-{MINUTES + 2}") in world.told


POLICIES = [("Allow", [1, 2, 3, 4], 3), ("Forbid", [1, 3], 1), ("Replace", [1, 2, 3, 4], 1)]


@pytest.mark.parametrize(("policy", "started", "at_once"), POLICIES, ids=[row[0] for row in POLICIES])
async def test_jobs_that_take_longer_than_a_minute(
    tmp_path: Path, policy: str, started: list[int], at_once: int
) -> None:
    """Each job takes two and a half minutes: jobs overlap, wait, or are replaced, depending on the policy.

    With Forbid, a skipped start is made up for as soon as the job before it has ended.
    """
    async with batch_world(tmp_path, lambda _: Run(seconds=150)) as world, world.controllers():
        await world.create_cron("* * * * *", concurrencyPolicy=policy)
        await until(4)
        made = [message for reason, message in world.told if reason == "SuccessfulCreate" and "job cron" in message]
        assert made == [f"Created job cron-{MINUTES + minute}" for minute in started]
        assert len((await world.cron()).status.active) == at_once
        told = world.reasons("SuccessfulCreate", "SawCompletedJob", "Completed")
        message = "Not starting job because prior execution is running and concurrency policy is Forbid"
        if policy == "Forbid":
            assert ("JobAlreadyActive", message) in world.told
        elif policy == "Replace":
            assert told == ["SuccessfulDelete"] * 3
            assert len(await world.jobs()) == 1
        else:
            assert told == []


async def test_start_missed_by_a_controller_that_was_away(tmp_path: Path) -> None:
    """A missed start is made up for within its deadline.

    Of many missed starts only the last one is, with a TooManyMissedTimes warning.
    """
    async with batch_world(tmp_path) as world:
        await world.create_cron("*/5 * * * *", startingDeadlineSeconds=120)
        await until(13)
        async with world.controllers():
            await asyncio.sleep(1)
            assert await world.jobs() == ()
            await until(15, 1)
            assert names(await world.jobs()) == ["cron-15"]
        await until(21)
        async with world.controllers():
            await asyncio.sleep(1)
            assert names(await world.jobs()) == ["cron-15", "cron-20"]
        await world.change(CRON_JOBS, "cron", startingDeadlineSeconds=None)
        await until(700)
        async with world.controllers():
            await asyncio.sleep(1)
            assert names(await world.jobs())[-1] == "cron-700"
    message = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
    assert ("TooManyMissedTimes", message) in world.told


async def test_suspended_cron_job_makes_nothing(tmp_path: Path) -> None:
    """On resumption the controller creates a job for the last missed start."""
    async with batch_world(tmp_path) as world, world.controllers():
        await world.create_cron("*/10 * * * *", suspend=True)
        await until(25)
        assert await world.jobs() == ()
        await world.change(CRON_JOBS, "cron", suspend=False)
        await asyncio.sleep(1)
        assert names(await world.jobs()) == ["cron-20"]


async def test_new_schedule_counts_from_now_on(tmp_path: Path) -> None:
    """The old schedule no longer applies. A schedule with an impossible date is reported as an event."""
    async with batch_world(tmp_path) as world, world.controllers():
        await world.create_cron("0 * * * *")
        await until(10)
        await world.change(CRON_JOBS, "cron", schedule="12 * * * *")
        await until(12, 1)
        assert names(await world.jobs()) == ["cron-12"]
        await world.change(CRON_JOBS, "cron", schedule="0 0 31 2 *")
        await until(61)
        assert len(await world.jobs()) == 1
        error = "time difference between two schedules is less than 1 second"
        assert ("InvalidSchedule", f"invalid schedule: 0 0 31 2 * : {error}") in world.told


async def test_controller_sleeps_between_two_starts(tmp_path: Path) -> None:
    """The controller sends no request for six hours, then creates the job within half a second of its start."""
    async with batch_world(tmp_path) as world:
        client = CrashingClient(world.client, at=10**6, is_carried_out=False)
        async with world.controllers(client):
            await world.create_cron("0 6 * * *")
            await until(6 * 60 - 1, 59)
            assert client.calls == 0
            await until(6 * 60, 0.5)
            (job,) = await world.jobs()
            assert parse_time(job.metadata.creation_timestamp or "") == EPOCH + timedelta(hours=6)


async def test_job_that_was_not_written_down_still_forbids_the_next(tmp_path: Path) -> None:
    """The controller stopped right after it had created the job, and restarted when the next start was due."""
    async with batch_world(tmp_path, lambda _: Run(seconds=150)) as world:
        client = CrashingClient(world.client, at=0, is_carried_out=True)
        await world.create_cron("* * * * *", concurrencyPolicy="Forbid")
        async with world.controllers(client):
            await client.crashed.wait()
        assert ((await world.cron()).status.active, len(await world.jobs())) == ((), 1)
        await until(2)
        async with world.controllers():
            await asyncio.sleep(1)
            assert names(await world.jobs()) == ["cron-1"]
            assert [one.name for one in (await world.cron()).status.active] == [f"cron-{MINUTES + 1}"]
            assert {"UnexpectedJob", "JobAlreadyActive"} <= set(world.reasons())


class Births:
    """Counts the creations of each job, and the most jobs that were active at once."""

    def __init__(self, world: BatchWorld) -> None:
        self.informers = Informers(client=world.client, clock=VirtualClock())
        self.informers.add_event_handler(JOBS, added=self._added, updated=self._updated, deleted=self._deleted)
        self.names: Counter[str] = Counter()
        self._at_work: set[str] = set()
        self.most_at_once = 0

    def _added(self, job: Job) -> None:
        self.names[job.metadata.name] += 1
        self._at_work.add(job.metadata.uid)
        self.most_at_once = max(self.most_at_once, len(self._at_work))

    def _updated(self, _: Job, job: Job) -> None:
        if any(one.type in ("Complete", "Failed") for one in job.status.conditions):
            self._at_work.discard(job.metadata.uid)

    def _deleted(self, job: Job) -> None:
        self._at_work.discard(job.metadata.uid)


async def two_starts(folder: Path, policy: str, way: Callable[[Client], Client]) -> Client:
    """Two starts of a CronJob whose jobs take 70 seconds; `way` wraps the client of the first controllers."""
    clock = VirtualClock()
    await asyncio.sleep(-clock.monotonic() % 3600)
    begin = clock.monotonic()
    async with batch_world(folder, lambda _: Run(seconds=70)) as world:
        client, births, ready = way(world.client), Births(world), asyncio.Event()
        crashed = client.crashed if isinstance(client, CrashingClient) else asyncio.Event()
        async with running({"births": with_ready_event(births.informers.run, ready)}):
            await ready.wait()
            await world.create_cron("*/2 * * * *", concurrencyPolicy=policy, successfulJobsHistoryLimit=0)
            async with world.controllers(client):
                with suppress(TimeoutError):
                    await asyncio.wait_for(crashed.wait(), timeout=60 * 4.2)
            async with world.controllers():
                await asyncio.sleep(begin + 60 * 4.5 - clock.monotonic())
        last = (await world.cron()).status.last_schedule_time
        assert last == format_time(EPOCH + timedelta(seconds=begin + 60 * 4))
        first = MINUTES + int(begin) // 60
        assert births.names == {f"cron-{first + minute}": 1 for minute in (2, 4)}
        assert births.most_at_once == 1
        return client


async def made_once(folder: Path, policy: str, way: Callable[[int, Client], Client], hit: Callable[[Any], bool]) -> int:
    """Repeats two starts with the fault at each call in turn: one job per start, and never two active at once."""
    at = 0
    while True:
        (folder / str(at)).mkdir()
        client = await two_starts(folder / str(at), policy, partial(way, at))
        if not hit(client):
            return at
        at += 1


@pytest.mark.parametrize("policy", ["Forbid", "Replace"])
@pytest.mark.parametrize("is_carried_out", [False, True], ids=["before", "after"])
async def test_start_is_made_once_whenever_the_controller_stops(
    tmp_path: Path, policy: str, *, is_carried_out: bool
) -> None:
    """The controller stops at each of its calls, before or after the server has executed it."""

    def way(at: int, inner: Client) -> Client:
        return CrashingClient(inner, at=at, is_carried_out=is_carried_out)

    assert await made_once(tmp_path, policy, way, lambda client: client.crashed.is_set()) > 5


@pytest.mark.parametrize("fault", CALL_FAULTS)
async def test_start_is_made_once_whatever_fails(tmp_path: Path, fault: Fault) -> None:
    """Injects one fault at each call in turn."""

    def way(at: int, inner: Client) -> Client:
        return FaultyClient(inner, fault, at=at)

    assert await made_once(tmp_path, "Forbid", way, lambda client: client.injected) > 5
