"""The pod cache, and waiting for a status that is newer than a given moment."""

import asyncio

import pytest

from pykubelet.api.pods import PodUid
from pykubelet.kubelet.pleg.pleg import BEGINNING, CachedStatus, PodCache
from pykubelet.runtimes.protocol import RuntimeFailure, RuntimePod

UID = PodUid("uid")
POD = RuntimePod(uid=UID, namespace="default", name="web")


def test_unknown_pod_is_empty() -> None:
    """A pod that was never inspected has no sandboxes and no containers."""
    found = PodCache().get(UID)
    assert (found.uid, found.sandboxes, found.containers) == (UID, (), ())


def test_failed_inspection_is_raised_until_one_succeeds() -> None:
    cache = PodCache()
    cache.put(UID, CachedStatus(cache.begin(), RuntimeFailure("broken")))
    with pytest.raises(RuntimeFailure, match="broken"):
        cache.get(UID)
    cache.put(UID, CachedStatus(cache.begin(), POD))
    assert cache.get(UID) is POD


def test_older_inspection_does_not_replace_a_newer_one() -> None:
    cache = PodCache()
    slow, quick = cache.begin(), cache.begin()
    cache.put(UID, CachedStatus(quick, POD))
    cache.put(UID, CachedStatus(slow, RuntimeFailure("outdated")))
    assert cache.get(UID) is POD


def test_pod_that_is_gone_takes_no_room() -> None:
    cache = PodCache()
    cache.put(UID, CachedStatus(cache.begin(), POD))
    assert list(cache) == [UID]
    cache.put(UID, CachedStatus(cache.begin(), None))
    assert len(cache) == 0


async def test_newer_inspection_is_awaited_with_any_clock_resolution() -> None:
    """An inspection that began before the sync ended does not count, although no time has passed."""
    cache = PodCache()
    under_way = cache.begin()
    sync_ended = cache.moment()
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(cache.newer_than(UID, sync_ended))
        await asyncio.sleep(0)
        cache.put(UID, CachedStatus(under_way, RuntimePod(uid=UID, namespace="old", name="web")))
        await asyncio.sleep(0)
        assert not waiting.done()
        assert cache.is_newer(UID, BEGINNING)
        assert not cache.is_newer(UID, sync_ended)
        cache.put(UID, CachedStatus(cache.begin(), POD))
    assert waiting.result() is POD
    assert await cache.newer_than(UID, sync_ended) is POD


async def test_waiting_ends_when_the_pod_turns_out_to_be_gone() -> None:
    cache = PodCache()
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(cache.newer_than(UID, cache.moment()))
        await asyncio.sleep(0)
        cache.put(UID, CachedStatus(cache.begin(), None))
    assert waiting.result().containers == ()


async def test_inspections_in_quick_succession_wake_a_waiter_once() -> None:
    """The first status that is new enough is returned; a cancelled waiter does not disturb the others."""
    cache = PodCache()
    waiting = asyncio.create_task(cache.newer_than(UID, BEGINNING))
    cancelled = asyncio.create_task(cache.newer_than(UID, BEGINNING))
    await asyncio.sleep(0)
    cancelled.cancel()
    cache.put(UID, CachedStatus(cache.begin(), POD))
    cache.put(UID, CachedStatus(cache.begin(), RuntimeFailure("later")))
    assert await waiting is POD
    with pytest.raises(asyncio.CancelledError):
        await cancelled


async def test_waiting_leaves_nothing_behind_when_cancelled() -> None:
    cache = PodCache()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await cache.newer_than(UID, cache.moment())
    assert cache._waiting == {}
