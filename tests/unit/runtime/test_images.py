"""The image puller among many containers."""

import asyncio

import pytest

from pykubelet.api.generated.core import ObjectReference
from pykubelet.runtime.images import ImagePuller
from pykubelet.runtime.protocol import RuntimeFailure
from pykubelet.runtime.sim.behaviour import ImageBehaviour
from pykubelet.runtime.sim.images import SimImages
from pykubelet.testing.build import container, pod
from pykubelet.testing.virtual_time import VirtualClock

INVOLVED = ObjectReference(kind="Pod", name="web")


class Told:
    """Remembers the reasons of events."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def event(self, _involved: ObjectReference, _type: str, reason: str, _message: str) -> None:
        self.reasons.append(reason)


def puller(images: SimImages, told: Told | None = None) -> ImagePuller:
    return ImagePuller(images=images, events=told or Told(), clock=VirtualClock())


async def test_failure_of_one_pull_counts_once_for_two_containers() -> None:
    """Both wait ten seconds, not twenty, before the pull is tried again."""
    images = SimImages({"a:1": ImageBehaviour(pull_seconds=1, pull_error="boom")})
    found = puller(images)
    wanted = pod()
    running = asyncio.create_task(found.run(asyncio.Event()))
    failures = await asyncio.gather(
        *(found.ensure(wanted, container(name, image="a:1"), INVOLVED) for name in ("one", "two")),
        return_exceptions=True,
    )
    waits = [
        one.retry_at - VirtualClock().now() for one in failures if isinstance(one, RuntimeFailure) and one.retry_at
    ]
    assert [wait.total_seconds() for wait in waits] == [10, 10]
    running.cancel()


async def test_pull_that_works_again_is_told_to_each_container() -> None:
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


async def test_user_of_an_image_is_what_the_machine_knows() -> None:
    found = puller(SimImages({"a:latest": ImageBehaviour(is_present=True)}))
    assert await found.user_of(container(image="a")) is None
    assert await found.user_of(container(image="missing")) is None
