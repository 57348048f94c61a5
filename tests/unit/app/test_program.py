"""Running the long-lived parts of a program, and its process-wide settings."""

import asyncio
import gc
import resource
from collections.abc import Iterator

import pytest

from pykubelet.aio.tasks import running, with_ready_event
from pykubelet.app.program import raise_file_limit, tune_garbage_collection


async def test_parts_run_as_long_as_the_context() -> None:
    """All parts run until the context ends and are then cancelled."""
    ready, ended = asyncio.Event(), asyncio.Event()

    async def part(is_ready: asyncio.Event) -> None:
        is_ready.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with running({"one": with_ready_event(part, ready), "two": with_ready_event(part)}):
        await ready.wait()
        assert not ended.is_set()
    assert ended.is_set()


async def test_failure_of_the_program_comes_out_as_it_is() -> None:
    """It is not wrapped in an ExceptionGroup, so callers can catch it by type."""
    with pytest.raises(KeyError, match="lost"):
        async with running({"one": with_ready_event(_forever)}):
            raise KeyError("lost")


async def _forever(ready: asyncio.Event) -> None:
    ready.set()
    await asyncio.Event().wait()


async def test_part_that_crashes_is_started_again() -> None:
    starts = 0

    async def crashing() -> None:
        nonlocal starts
        starts += 1
        raise ValueError("boom")

    async with running({"crashing": crashing}):
        await asyncio.sleep(1)
    assert starts > 1


@pytest.fixture
def restored() -> Iterator[None]:
    """Restores the limits and garbage collector settings of the process after the test."""
    limits, thresholds = resource.getrlimit(resource.RLIMIT_NOFILE), gc.get_threshold()
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    gc.set_threshold(*thresholds)
    gc.unfreeze()


@pytest.mark.usefixtures("restored")
def test_file_limit_is_raised_to_what_the_machine_allows() -> None:
    """A second call, with nothing left to raise, changes nothing."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(512, most), most))
    for _ in range(2):
        raise_file_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (most, most)


@pytest.mark.usefixtures("restored")
def test_garbage_is_still_collected_but_less_often() -> None:
    """Objects that exist before tuning are frozen."""
    tune_garbage_collection()
    assert gc.isenabled()
    assert gc.get_threshold()[0] > 700
    assert gc.get_freeze_count() > 0
