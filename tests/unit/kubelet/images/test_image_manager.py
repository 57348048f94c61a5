"""The image manager with several containers."""

import asyncio

import pytest

from pykubelet.api.generated.core import ObjectReference
from pykubelet.kubelet.images.image_manager import ImageManager
from pykubelet.runtimes.protocol import RuntimeFailure
from pykubelet.runtimes.sim.runtime import ImageBehaviour, SimImages
from pykubelet.testing.build import container, pod
from pykubelet.testing.virtual_time import VirtualClock

INVOLVED = ObjectReference(kind="Pod", name="web")


class Told:
    """Records the reasons of events."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def event(self, _involved: ObjectReference, _type: str, reason: str, _message: str) -> None:
        self.reasons.append(reason)


def puller(images: SimImages, told: Told | None = None) -> ImageManager:
    return ImageManager(images=images, events=told or Told(), clock=VirtualClock())


async def test_failure_of_one_pull_counts_once_for_two_containers() -> None:
    """The back-off is ten seconds, not twenty, and the next sync shows it."""
    images = SimImages({"a:1": ImageBehaviour(pull_seconds=1, pull_error="boom")})
    found = puller(images)
    wanted = pod()
    running = asyncio.create_task(found.run(asyncio.Event()))
    for reason, wait in (("ErrImagePull", None), ("ImagePullBackOff", 10)):
        failures = await asyncio.gather(
            *(found.ensure(wanted, container(name, image="a:1"), INVOLVED) for name in ("one", "two")),
            return_exceptions=True,
        )
        for failure in failures:
            assert isinstance(failure, RuntimeFailure)
            assert failure.reason == reason
            until = failure.retry_at
            assert (None if until is None else (until - VirtualClock().now()).total_seconds()) == wait
    running.cancel()


async def test_pull_that_succeeds_again_has_events_for_each_container() -> None:
    images = SimImages({"a:1": ImageBehaviour(pull_error="boom")})
    told = Told()
    found = puller(images, told)
    running = asyncio.create_task(found.run(asyncio.Event()))
    with pytest.raises(RuntimeFailure, match="boom"):
        await found.ensure(pod(), container(image="a:1"), INVOLVED)
    images.script("a:1", ImageBehaviour(pull_seconds=1))
    # Another pod has not failed yet, so it need not wait.
    assert await found.ensure(pod("other"), container(image="a:1"), INVOLVED)
    await asyncio.sleep(10)
    assert await found.ensure(pod(), container(image="a:1"), INVOLVED)
    assert told.reasons == ["Pulling", "Failed", "Pulling", "Pulled", "Pulling", "Pulled"]
    running.cancel()


async def test_user_of_an_image_is_none_when_unknown() -> None:
    found = puller(SimImages({"a:latest": ImageBehaviour(is_present=True)}))
    assert await found.user_of(container(image="a")) is None
    assert await found.user_of(container(image="missing")) is None
