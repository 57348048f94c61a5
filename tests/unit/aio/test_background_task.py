"""background_task runs a coroutine for the duration of a `with` block and cancels it at the end."""

import asyncio

import pytest

from pykubelet.aio.tasks import background_task


async def forever(ended: list[str]) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        ended.append("ended")


async def test_background_task_runs_until_the_block_ends() -> None:
    ended: list[str] = []
    async with background_task(forever(ended), "task") as task:
        await asyncio.sleep(1)
        assert (ended, task.get_name()) == ([], "task")
    assert ended == ["ended"]


@pytest.mark.parametrize("kind", [ConnectionError, ValueError, asyncio.CancelledError])
async def test_exception_in_the_block_propagates_unwrapped(kind: type[BaseException]) -> None:
    """The exception is not put into an ExceptionGroup, and the task has been cancelled."""
    ended: list[str] = []

    async def fail() -> None:
        async with background_task(forever(ended), "task"):
            await asyncio.sleep(0)
            raise kind("mine")

    with pytest.raises(kind, match="mine"):
        await fail()
    assert ended == ["ended"]


async def test_cancelling_the_block_cancels_the_background_task() -> None:
    ended: list[str] = []

    async def start() -> None:
        async with background_task(forever(ended), "task"):
            await asyncio.sleep(1000)

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await start()
    assert ended == ["ended"]
