"""Virtual time: it jumps, it waits for threads, and clock and loop agree."""

import asyncio

import pytest

from pykubelet.testing.virtual_time import EPOCH, VirtualClock


async def test_sleep_takes_exactly_its_time_and_no_real_one() -> None:
    """An hour passes at once, on the loop and on the clock."""
    clock = VirtualClock()
    await asyncio.sleep(3600)
    assert asyncio.get_running_loop().time() == 3600
    assert (clock.now() - EPOCH).total_seconds() == clock.monotonic() == 3600


async def test_timeout_fires_at_its_virtual_deadline() -> None:
    """A timeout of a day is over at once, after a day."""
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(86400):
            await asyncio.Event().wait()
    assert asyncio.get_running_loop().time() == 86400


async def test_thread_wins_against_a_timeout() -> None:
    """Time stands still while a thread works."""
    async with asyncio.timeout(0.001):
        assert await asyncio.to_thread(sum, (1, 2)) == 3
    assert asyncio.get_running_loop().time() == 0
