"""A task beside what its starter does."""

import asyncio

import pytest

from pykubelet.aio.tasks import background_task


async def forever(ended: list[str]) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        ended.append("ended")


async def test_task_ends_with_the_context() -> None:
    """And not before."""
    ended: list[str] = []
    async with background_task(forever(ended), "task") as task:
        await asyncio.sleep(1)
        assert (ended, task.get_name()) == ([], "task")
    assert ended == ["ended"]


@pytest.mark.parametrize("kind", [ConnectionError, ValueError, asyncio.CancelledError])
async def test_what_the_context_raises_comes_out_as_it_is(kind: type[BaseException]) -> None:
    """In no group; and the task has ended."""
    ended: list[str] = []

    async def fail() -> None:
        async with background_task(forever(ended), "task"):
            await asyncio.sleep(0)
            raise kind("mine")

    with pytest.raises(kind, match="mine"):
        await fail()
    assert ended == ["ended"]


async def test_cancelling_its_starter_ends_the_task() -> None:
    """Before the cancellation goes on."""
    ended: list[str] = []

    async def start() -> None:
        async with background_task(forever(ended), "task"):
            await asyncio.sleep(1000)

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await start()
    assert ended == ["ended"]
