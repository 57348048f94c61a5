"""PodConfig and its update stream: back-pressure, order, and recovery from a bad message."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from pykubelet.api.generated.core import ObjectReference, Pod
from pykubelet.kubelet.config.config import LIMIT, PodConfig, SourcesReady, UpdateStream
from pykubelet.kubelet.types import PodOperation, PodUpdate
from pykubelet.testing.virtual_time import VirtualClock

MakePod = Callable[..., Pod]


class Silent:
    def event(self, involved: ObjectReference, event_type: str, reason: str, message: str) -> None:
        raise AssertionError(message)


@asynccontextmanager
async def running(config: PodConfig) -> AsyncIterator[None]:
    ready = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(config.run(ready))
        await ready.wait()
        yield
        task.cancel()


@pytest.fixture
def config() -> PodConfig:
    return PodConfig(clock=VirtualClock(), recorder=Silent())


async def test_source_blocks_while_the_stream_is_full(config: PodConfig, make_pod: MakePod) -> None:
    """The stream holds 50 updates, the merge one message and the channel one more; then the source blocks."""
    channel = config.channel("api")
    sent = 0

    async def send() -> None:
        nonlocal sent
        for number in range(200):
            await channel.send(PodOperation.ADD, (make_pod(f"p{number}"),))
            sent = number + 1

    async with running(config), asyncio.TaskGroup() as tasks:
        tasks.create_task(send())
        await asyncio.sleep(1)
        assert sent == LIMIT + 2
        updates = config.updates()
        names = [(await anext(updates)).pods[0].metadata.name for _ in range(200)]
    assert names == [f"p{number}" for number in range(200)]


async def test_bad_message_does_not_stop_its_source(config: PodConfig, make_pod: MakePod) -> None:
    """A message that cannot be merged is dropped; the next one is merged."""
    channel = config.channel("api")
    async with running(config):
        await channel.send(PodOperation.ADD, (make_pod(deletion_timestamp="2026-01-01T00:00:00Z"),))
        await channel.send(PodOperation.ADD, (make_pod(deletion_timestamp="yesterday"),))
        await channel.send(PodOperation.ADD, (make_pod("next"),))
        updates = [await anext(config.updates()) for _ in range(2)]
    assert [update.pods[0].metadata.name for update in updates] == ["web", "next"]


async def test_run_may_be_started_again(config: PodConfig, make_pod: MakePod) -> None:
    """Known pods survive the restart, and a message sent in between is merged."""
    channel = config.channel("api")
    async with running(config):
        await channel.send(PodOperation.SET, (make_pod(),))
        await anext(config.updates())
    await channel.send(PodOperation.SET, (make_pod(), make_pod("more")))
    async with running(config):
        update = await anext(config.updates())
    assert [pod.metadata.name for pod in update.pods] == ["more"]
    assert len(config.pods()) == 2


async def test_stream_keeps_the_updates_of_one_merge_together() -> None:
    """Pushing never blocks, even beyond the limit; wait_for_room blocks until enough updates are read."""
    stream = UpdateStream(limit=2)
    updates = [PodUpdate(PodOperation.ADD, str(number)) for number in range(3)]
    stream.push(updates)
    waiting = asyncio.timeout(1)
    with pytest.raises(TimeoutError):
        async with waiting:
            await stream.wait_for_room()
    assert [await anext(stream), await anext(stream)] == updates[:2]
    await stream.wait_for_room()
    assert len(stream) == 1
    async for update in stream:
        assert update is updates[2]
        break


async def test_restored_pods_do_not_make_a_source_ready(config: PodConfig, make_pod: MakePod) -> None:
    """A source is ready only after an update other than RESTORE was handled."""
    config.channel("api")
    ready = SourcesReady(config)
    for update in config.merge("api", PodUpdate(PodOperation.RESTORE, "api", (make_pod(),))):
        ready.saw(update)
    [told] = config.merge("api", PodUpdate(PodOperation.SET, "api", (make_pod(),)))
    assert (ready.is_ready("api"), ready.waiting_for()) == (False, ("api",))
    ready.saw(told)
    assert ready.is_ready("api")
    assert not ready.is_ready("unheard of")


async def test_channel_is_delivered_once_all_pods_of_its_source_are_in_the_stream(
    config: PodConfig, make_pod: MakePod
) -> None:
    """Only a SET marks the channel as delivered; a SET of a source without a channel is ignored."""
    channel = config.channel("api")
    config.merge("api", PodUpdate(PodOperation.ADD, "api", (make_pod("a"),)))
    assert not channel.delivered.is_set()
    config.merge("other", PodUpdate(PodOperation.SET, "other", ()))
    config.merge("api", PodUpdate(PodOperation.SET, "api", ()))
    assert channel.delivered.is_set()
