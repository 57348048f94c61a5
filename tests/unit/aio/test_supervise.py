"""The supervisor restarts crashed tasks with backoff, and passes on cancellation and its own giving up."""

import asyncio
import logging

import pytest

from pykubelet.aio.backoff import Backoff
from pykubelet.aio.log import facts_of
from pykubelet.aio.tasks import GaveUpError, RestartLimit, start_supervised, supervise

STEADY = Backoff(first_seconds=1, limit_seconds=8)


class Crashing:
    """Fails a number of times, then returns."""

    def __init__(self, times: int) -> None:
        self.left, self.starts = times, 0

    async def run(self) -> None:
        self.starts += 1
        if self.left:
            self.left -= 1
            raise RuntimeError("boom")


async def test_crashed_task_starts_again_after_a_growing_wait(caplog: pytest.LogCaptureFixture) -> None:
    """Three crashes take 1 + 2 + 4 seconds and log three lines with the task's name."""
    task = Crashing(3)
    await supervise("status", task.run, backoff=STEADY)

    assert task.starts == 4
    assert asyncio.get_running_loop().time() == 7
    lines = [record for record in caplog.records if record.message == "task crashed"]
    assert [facts_of(line)["task"] for line in lines] == ["status"] * 3
    assert all(line.levelno == logging.ERROR and line.exc_info for line in lines)


async def test_backoff_starts_over_after_a_long_run_without_a_crash() -> None:
    starts: list[float] = []
    loop = asyncio.get_running_loop()

    async def run() -> None:
        starts.append(loop.time())
        if len(starts) == 3:
            await asyncio.sleep(1000)
        if len(starts) < 5:
            raise RuntimeError("boom")

    await supervise("x", run, backoff=STEADY, limit=RestartLimit(within_seconds=100))
    assert starts == [0, 1, 3, 1004, 1006]


async def test_too_many_crashes_are_final() -> None:
    """Beyond the restart limit the supervisor raises GaveUpError with the last crash as its cause."""
    with pytest.raises(GaveUpError, match="x crashed 3 times in 60 s") as caught:
        await supervise("x", Crashing(99).run, backoff=STEADY, limit=RestartLimit(crashes=2, within_seconds=60))
    assert isinstance(caught.value.__cause__, RuntimeError)


async def test_cancellation_ends_a_supervised_task_at_once() -> None:
    """Cancellation is not handled as a crash."""
    async with asyncio.TaskGroup() as group:
        task = start_supervised(group, "forever", asyncio.Event().wait)
        await asyncio.sleep(5)
        task.cancel()
    assert task.cancelled()
    assert task.get_name() == "forever"


async def test_crash_in_one_task_leaves_its_siblings_alone() -> None:
    """A crashing task does not cancel its task group."""
    other = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        bad = start_supervised(group, "bad", Crashing(10**6).run)
        good = start_supervised(group, "good", other.wait)
        await asyncio.sleep(100)
        assert not good.done()
        bad.cancel()
        other.set()
