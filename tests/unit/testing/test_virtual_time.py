"""Virtual time skips idle periods, waits for threads, and is the same for clock and loop."""

import asyncio

import pytest

from pykubelet.testing.virtual_time import EPOCH, VirtualClock


async def test_sleep_advances_virtual_time_exactly() -> None:
    """The loop and the clock both advance by an hour."""
    clock = VirtualClock()
    await asyncio.sleep(3600)
    assert asyncio.get_running_loop().time() == 3600
    assert (clock.now() - EPOCH).total_seconds() == clock.monotonic() == 3600


async def test_timeout_fires_at_its_virtual_deadline() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(86400):
            await asyncio.Event().wait()
    assert asyncio.get_running_loop().time() == 86400


@pytest.mark.parametrize("days", [193, 195, 400, 36_500])
async def test_timers_fire_in_order_after_any_number_of_days(days: int) -> None:
    """Only delays of nearly zero may change places."""
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


async def test_time_stands_still_while_a_thread_works() -> None:
    """A timeout of a millisecond does not fire before the thread is done."""
    async with asyncio.timeout(0.001):
        assert await asyncio.to_thread(sum, (1, 2)) == 3
    assert asyncio.get_running_loop().time() == 0
