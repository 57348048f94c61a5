"""Broadcast delivers every value to every reader, or raises Lagged for a reader that is too slow."""

import asyncio

import pytest

from pykubelet.aio.queues import Broadcast, Lagged


async def test_every_reader_sees_every_value_in_order() -> None:
    broadcast: Broadcast[int] = Broadcast()
    with broadcast.subscribe() as one, broadcast.subscribe() as two:
        for value in (1, 2, 3):
            broadcast.publish(value)
        assert [await one.next() for _ in range(3)] == [await two.next() for _ in range(3)] == [1, 2, 3]
    assert len(broadcast) == 0


async def test_reader_waits_for_the_next_value() -> None:
    """An empty subscription blocks until something is published."""
    broadcast: Broadcast[str] = Broadcast()
    with broadcast.subscribe() as reader:
        waiting = asyncio.create_task(reader.next())
        await asyncio.sleep(1)
        assert not waiting.done()
        broadcast.publish("x")
        assert await waiting == "x"


async def test_slow_reader_gets_lagged_once_and_continues_with_newer_values() -> None:
    """A reader beyond its limit loses what was buffered."""
    broadcast: Broadcast[int] = Broadcast(limit=2)
    with broadcast.subscribe() as slow:
        for value in range(5):
            broadcast.publish(value)
        with pytest.raises(Lagged):
            await slow.next()
        broadcast.publish(5)
        assert await slow.next() == 5
        assert len(slow) == 0
