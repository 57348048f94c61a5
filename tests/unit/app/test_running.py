"""Parts of a program that run as long as it lasts."""

import asyncio

import pytest

from pykubelet.app.running import running, with_event


async def test_parts_run_as_long_as_the_context() -> None:
    """They are started together, say when they are ready, and are cancelled at the end."""
    ready, ended = asyncio.Event(), asyncio.Event()

    async def part(is_ready: asyncio.Event) -> None:
        is_ready.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with running({"one": with_event(part, ready), "two": with_event(part)}):
        await ready.wait()
        assert not ended.is_set()
    assert ended.is_set()


async def test_failure_of_the_program_comes_out_as_it_is() -> None:
    """Not wrapped in a group, so that whoever catches it knows it."""
    with pytest.raises(KeyError, match="lost"):
        async with running({"one": with_event(_forever)}):
            raise KeyError("lost")


async def _forever(ready: asyncio.Event) -> None:
    ready.set()
    await asyncio.Event().wait()


async def test_part_that_crashes_is_started_again() -> None:
    """The others go on."""
    starts = 0

    async def crashing() -> None:
        nonlocal starts
        starts += 1
        raise ValueError("boom")

    async with running({"crashing": crashing}):
        await asyncio.sleep(1)
    assert starts > 1
