"""The pull queue: limits parallel pulls, shares pulls of one image, and drops pulls without waiters."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from pykubelet.kubelet.images.image_manager import PullQueue
from pykubelet.runtimes.protocol import Image, RegistryCredentials, RuntimeFailure
from pykubelet.runtimes.sim.runtime import ImageBehaviour, SimImages
from pykubelet.testing.virtual_time import VirtualClock

SLOW = ImageBehaviour(pull_seconds=10)


class Counting(SimImages):
    """Counts the pulls and how many run at once."""

    def __init__(self, **scripts: ImageBehaviour) -> None:
        super().__init__(scripts)
        self.pulled: list[str] = []
        self.at_once = self.most_at_once = 0

    async def pull(self, name: str, credentials: Sequence[RegistryCredentials]) -> Image:
        self.pulled.append(name)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            return await super().pull(name, credentials)
        finally:
            self.at_once -= 1


@asynccontextmanager
async def pulling(images: Counting, parallel: int = 1) -> AsyncIterator[PullQueue]:
    queue = PullQueue(images=images, clock=VirtualClock(), parallel=parallel)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(queue.run(asyncio.Event()))
        yield queue
        task.cancel()


async def test_pull_is_shared_by_all_who_wait_for_the_image() -> None:
    images = Counting(a=SLOW)
    async with pulling(images) as queue:
        pulled = await asyncio.gather(*(queue.pull("a", ()) for _ in range(30)))
        assert len(set(pulled)) == 1
        assert pulled[0].seconds == 10
        await queue.pull("a", ())
    assert images.pulled == ["a", "a"]


async def test_pull_is_not_shared_when_the_credentials_differ() -> None:
    """A pod without access must not get the image through another pod's pull."""
    images = Counting(a=ImageBehaviour(pull_seconds=10, needs_user="me"))
    async with pulling(images, parallel=2) as queue:
        mine, theirs = await asyncio.gather(
            queue.pull("a", (RegistryCredentials("me", "secret"),)),
            queue.pull("a", (RegistryCredentials("you", "other"),)),
            return_exceptions=True,
        )
    assert not isinstance(mine, BaseException)
    assert isinstance(theirs, RuntimeFailure)


@pytest.mark.parametrize("parallel", [1, 2, 5])
async def test_pulls_are_limited_to_the_number_given(parallel: int) -> None:
    names = [f"image{number}" for number in range(6)]
    images = Counting(**dict.fromkeys(names, SLOW))
    async with pulling(images, parallel) as queue:
        await asyncio.gather(*(queue.pull(name, ()) for name in names))
    assert images.most_at_once == parallel
    assert images.pulled == names


async def test_failure_reaches_all_who_wait() -> None:
    images = Counting(a=ImageBehaviour(pull_seconds=1, pull_error="boom"))
    async with pulling(images) as queue:
        outcomes = await asyncio.gather(*(queue.pull("a", ()) for _ in range(3)), return_exceptions=True)
    assert [str(one) for one in outcomes] == ["boom"] * 3
    assert images.pulled == ["a"]


async def test_pull_continues_when_its_caller_is_cancelled() -> None:
    images = Counting(a=SLOW)
    async with pulling(images) as queue:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await queue.pull("a", ())
        await queue.pull("a", ())
        assert await images.find("a") is not None
    assert images.pulled == ["a"]


async def test_queued_pull_without_waiters_is_not_started() -> None:
    images = Counting(a=SLOW, b=SLOW)
    async with pulling(images) as queue:
        async with asyncio.TaskGroup() as group:
            group.create_task(queue.pull("a", ()))
            await asyncio.sleep(1)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1):
                    await queue.pull("b", ())
        await asyncio.sleep(20)
    assert images.pulled == ["a"]


async def test_waiters_get_an_error_when_the_queue_stops() -> None:
    images = Counting(a=SLOW)
    queue = PullQueue(images=images, clock=VirtualClock())
    running = asyncio.create_task(queue.run(asyncio.Event()))
    waiting = asyncio.create_task(queue.pull("a", ()))
    await asyncio.sleep(1)
    running.cancel()
    with pytest.raises(RuntimeFailure, match="interrupted"):
        await waiting
    with pytest.raises(asyncio.CancelledError):
        await running
