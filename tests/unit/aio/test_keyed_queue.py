"""The keyed queue keeps the newest value, one worker per key, priorities and delays."""

import asyncio
from collections import defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.aio.queues import KeyedQueue


async def test_get_returns_only_the_newest_value_of_a_key() -> None:
    """A new value replaces the waiting one and keeps its place in the queue."""
    queue: KeyedQueue[str, int] = KeyedQueue()
    queue.put("a", 1)
    queue.put("b", 1)
    queue.put("a", 2)

    assert [await queue.get(), await queue.get()] == [("a", 2), ("b", 1)]
    assert len(queue) == 0


async def test_key_in_progress_is_not_handed_out_before_done() -> None:
    queue: KeyedQueue[str, int] = KeyedQueue()
    queue.put("a", 1)
    key, _ = await queue.get()
    queue.put("a", 2)

    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(1)
    assert not waiting.done()

    queue.done(key)
    assert await waiting == ("a", 2)


async def test_urgent_key_overtakes_older_ones() -> None:
    """The lowest priority number goes first; raising the urgency of a waiting key moves it ahead."""
    queue: KeyedQueue[str, int] = KeyedQueue()
    queue.put("slow", 1, priority=2)
    queue.put("usual", 1, priority=1)
    queue.put("slow", 2, priority=0)

    assert await queue.get() == ("slow", 2)
    assert await queue.get() == ("usual", 1)


async def test_less_urgent_put_does_not_push_a_key_back() -> None:
    """A key stays as urgent as the most urgent value put since it was last handed out."""
    queue: KeyedQueue[str, int] = KeyedQueue()
    queue.put("a", 1, priority=0)
    queue.put("b", 1, priority=1)
    queue.put("a", 2, priority=5)

    assert await queue.get() == ("a", 2)


async def test_put_later_delivers_at_its_time_unless_put_comes_first() -> None:
    queue: KeyedQueue[str, str] = KeyedQueue()
    queue.put_later("a", "late", 60)
    queue.put_later("b", "late", 30)
    queue.put("b", "now")

    assert await queue.get() == ("b", "now")
    assert await queue.get() == ("a", "late")
    assert asyncio.get_running_loop().time() == 60


async def test_put_later_does_not_change_a_key_that_is_already_queued() -> None:
    """A delayed retry never replaces work that is due now."""
    queue: KeyedQueue[str, str] = KeyedQueue()
    queue.put("a", "now")
    queue.put_later("a", "late", 60)

    assert await queue.get() == ("a", "now")
    assert len(queue) == 0


async def test_discard_drops_queued_and_delayed_values() -> None:
    queue: KeyedQueue[str, int] = KeyedQueue()
    queue.put("a", 1)
    queue.put_later("b", 1, 5)
    queue.discard("a")
    queue.discard("b")
    assert len(queue) == 0
    assert "a" not in queue

    queue.put("c", 3)
    assert await queue.get() == ("c", 3)


OPS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 2), st.booleans()), max_size=40)


@settings(deadline=None, max_examples=100)
@given(OPS)
def test_every_key_ends_with_its_last_value_and_never_overlaps(ops: list[tuple[str, int, bool]]) -> None:
    """With any puts and three workers, each key is processed in order, never concurrently, up to its last value."""

    async def scenario() -> None:
        queue: KeyedQueue[str, int] = KeyedQueue()
        seen: dict[str, list[int]] = defaultdict(list)
        busy: set[str] = set()

        async def worker() -> None:
            while True:
                key, value = await queue.get()
                assert key not in busy
                busy.add(key)
                seen[key].append(value)
                await asyncio.sleep(0)
                busy.discard(key)
                queue.done(key)

        workers = [asyncio.create_task(worker()) for _ in range(3)]
        last: dict[str, int] = {}
        for number, (key, priority, pause) in enumerate(ops):
            queue.put(key, number, priority=priority)
            last[key] = number
            if pause:
                await asyncio.sleep(0)
        for _ in range(5 * len(ops) + 5):
            await asyncio.sleep(0)
        for task in workers:
            task.cancel()
        await asyncio.gather(*workers, return_exceptions=True)

        assert {key: values[-1] for key, values in seen.items()} == last
        assert all(values == sorted(values) for values in seen.values())

    asyncio.run(scenario())


async def test_another_worker_gets_the_key_when_the_woken_worker_is_cancelled() -> None:
    """The cancellation comes after the put and before the worker has run."""
    queue: KeyedQueue[str, int] = KeyedQueue()
    first, second = (asyncio.create_task(queue.get()) for _ in range(2))
    await asyncio.sleep(0)
    queue.put("a", 1)
    first.cancel()
    await asyncio.wait({first, second}, timeout=1)
    assert first.cancelled()
    assert second.result() == ("a", 1)


async def test_cancelled_waiting_worker_takes_no_key() -> None:
    """The next key goes to a worker that still waits."""
    queue: KeyedQueue[str, int] = KeyedQueue()
    first, second = (asyncio.create_task(queue.get()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    queue.put("a", 1)
    assert await asyncio.wait_for(second, 1) == ("a", 1)
