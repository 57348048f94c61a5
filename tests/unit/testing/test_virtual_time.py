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


@pytest.mark.parametrize("days", [193, 195, 400, 36_500])
async def test_time_goes_on_after_any_number_of_days(days: int) -> None:
    """Timers of any length run in their order, however late it is."""
    await asyncio.sleep(days * 86400)
    loop = asyncio.get_running_loop()
    ran: list[float] = []
    for delay in (0.25, 0.0, 1e-12, 3600):
        loop.call_later(delay, ran.append, delay)
    started = loop.time()
    await asyncio.sleep(7200)
    assert loop.time() - started == 7200
    assert sorted(ran) == [0.0, 1e-12, 0.25, 3600]
    assert ran[2:] == [0.25, 3600]


async def test_thread_wins_against_a_timeout() -> None:
    """Time stands still while a thread works."""
    async with asyncio.timeout(0.001):
        assert await asyncio.to_thread(sum, (1, 2)) == 3
    assert asyncio.get_running_loop().time() == 0
