"""The keyed queue: newest wins, one at a time per key, priorities, delays."""

import asyncio
from collections import defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.aio.queues import KeyedQueue


async def test_get_gives_only_the_newest_value_of_a_key() -> None:
    """What waits is replaced, and keeps its place."""
    queue: KeyedQueue[str, int] = KeyedQueue()
    queue.put("a", 1)
    queue.put("b", 1)
    queue.put("a", 2)

    assert [await queue.get(), await queue.get()] == [("a", 2), ("b", 1)]
    assert len(queue) == 0


async def test_key_under_way_is_not_handed_out_before_done() -> None:
    """Work on one key never happens twice at once."""
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


async def test_delayed_value_comes_at_its_time_unless_something_came_before() -> None:
    """A delay is a fallback, not an appointment."""
    queue: KeyedQueue[str, str] = KeyedQueue()
    queue.put_later("a", "late", 60)
    queue.put_later("b", "late", 30)
    queue.put("b", "now")

    assert await queue.get() == ("b", "now")
    assert await queue.get() == ("a", "late")
    assert asyncio.get_running_loop().time() == 60


async def test_delayed_key_that_waits_already_stays_as_it_is() -> None:
    """A later try never replaces work that is due now."""
    queue: KeyedQueue[str, str] = KeyedQueue()
    queue.put("a", "now")
    queue.put_later("a", "late", 60)

    assert await queue.get() == ("a", "now")
    assert len(queue) == 0


async def test_discard_drops_what_waits_and_what_is_delayed() -> None:
    """A discarded key is as if it had never been put."""
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
    """With any mix of puts and three workers: order per key, last value seen, no key worked on twice at once."""

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


async def test_another_worker_gets_the_key_when_the_one_that_was_woken_is_cancelled() -> None:
    """In the very moment in which the key came."""
    queue: KeyedQueue[str, int] = KeyedQueue()
    first, second = (asyncio.create_task(queue.get()) for _ in range(2))
    await asyncio.sleep(0)
    queue.put("a", 1)
    first.cancel()
    await asyncio.wait({first, second}, timeout=1)
    assert first.cancelled()
    assert second.result() == ("a", 1)


async def test_worker_that_is_cancelled_while_it_waits_leaves_nothing_behind() -> None:
    """The next key goes to one that still waits."""
    queue: KeyedQueue[str, int] = KeyedQueue()
    first, second = (asyncio.create_task(queue.get()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    queue.put("a", 1)
    assert await asyncio.wait_for(second, 1) == ("a", 1)
