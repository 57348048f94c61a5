"""Case 6.24-44: when a container's image is pulled, and which events and reasons result."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from pykubelet.api.generated.core import ObjectReference
from pykubelet.kinds.pod.defaults import parse_image_name
from pykubelet.kubelet.images.image_manager import ImageManager, pull_failure
from pykubelet.runtimes.protocol import RuntimeFailure
from pykubelet.runtimes.sim.runtime import ImageBehaviour, SimImages
from pykubelet.testing.build import container, pod
from pykubelet.testing.virtual_time import VirtualClock

IMAGE = "example/app:1"
HERE = ImageBehaviour(is_present=True)
BROKEN = ImageBehaviour(pull_error="no such host")
INVOLVED = ObjectReference(kind="Pod", name="web")


class Told:
    """Records events in the form that users see."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def event(self, _: ObjectReference, event_type: str, reason: str, message: str) -> None:
        self.events.append(f"{event_type} {reason} {message}")


@asynccontextmanager
async def puller(behaviour: ImageBehaviour, image: str = IMAGE) -> AsyncIterator[tuple[ImageManager, Told]]:
    """A running ImageManager whose backoff starts at 1 s."""
    told = Told()
    clock = VirtualClock()
    images = SimImages({image: behaviour})
    found = ImageManager(images=images, events=told, clock=clock, first_seconds=1, limit_seconds=100)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(found.run(asyncio.Event()))
        yield found, told
        task.cancel()


async def _reason(found: ImageManager, policy: str, image: str = IMAGE) -> str:
    """The waiting reason, empty if the image is there."""
    try:
        await found.ensure(pod(), container(image=image, image_pull_policy=policy), INVOLVED)
    except RuntimeFailure as failure:
        return failure.reason
    return ""


@pytest.mark.case("6.24-44 IfNotPresent, present: inspect only, Pulled")
async def test_image_that_is_here_is_used() -> None:
    async with puller(HERE) as (found, told):
        assert await _reason(found, "IfNotPresent") == ""
        assert await _reason(found, "Never") == ""
    assert told.events == [f'Normal Pulled Container image "{IMAGE}" already present on machine'] * 2


@pytest.mark.case("6.24-44 Always: Pulling, Pulled each time")
async def test_image_is_pulled_each_time_under_always() -> None:
    async with puller(ImageBehaviour(is_present=True, pull_seconds=1.2345, size_bytes=77)) as (found, told):
        assert [await _reason(found, "Always") for _ in range(2)] == ["", ""]
    pulled = f'Successfully pulled image "{IMAGE}" in 1.234s (1.234s including waiting). Image size: 77 bytes.'
    assert told.events == [f'Normal Pulling Pulling image "{IMAGE}"', f"Normal Pulled {pulled}"] * 2


@pytest.mark.case("6.24-44 Never, missing: ErrImageNeverPull")
async def test_missing_image_is_refused_under_never() -> None:
    async with puller(ImageBehaviour()) as (found, told):
        assert await _reason(found, "Never") == "ErrImageNeverPull"
    message = f'Container image "{IMAGE}" is not present with pull policy of Never'
    assert told.events == [f"Warning ErrImageNeverPull {message}"]


@pytest.mark.case("6.24-44 inspect error: ImageInspectError")
async def test_image_that_cannot_be_inspected_is_an_error() -> None:
    async with puller(ImageBehaviour(find_error="disk on fire")) as (found, told):
        assert await _reason(found, "IfNotPresent") == "ImageInspectError"
    assert told.events == [f'Warning InspectFailed Failed to inspect image "{IMAGE}": disk on fire']


@pytest.mark.case("6.24-44 pull failing, polls 1 s apart, 1 s base: pull, pull, backoff, pull, backoff, backoff")
async def test_failing_pull_backs_off() -> None:
    async with puller(BROKEN) as (found, told):
        reasons = []
        for _ in range(6):
            reasons.append(await _reason(found, "IfNotPresent"))
            await asyncio.sleep(1)
    pull, backoff = "ErrImagePull", "ImagePullBackOff"
    assert reasons == [pull, pull, backoff, pull, backoff, backoff]
    assert told.events[:2] == [
        f'Normal Pulling Pulling image "{IMAGE}"',
        f'Warning Failed Failed to pull image "{IMAGE}": no such host',
    ]
    assert told.events[-1] == f'Normal BackOff Back-off pulling image "{IMAGE}"'


@pytest.mark.case("6.24-44 the message of a back-off holds the previous error")
async def test_back_off_message_holds_the_pull_error() -> None:
    async with puller(BROKEN) as (found, _):
        await _reason(found, "Always")
        with pytest.raises(RuntimeFailure) as caught:
            await found.ensure(pod(), container(image=IMAGE, image_pull_policy="Always"), INVOLVED)
    assert caught.value.message == f'Back-off pulling image "{IMAGE}": ErrImagePull: no such host'
    assert caught.value.retry_at is not None


@pytest.mark.parametrize(
    ("image", "why"),
    [
        ("FAILED_IMAGE", "invalid reference format: repository name (library/FAILED_IMAGE) must be lowercase"),
        ("http://url", "invalid reference format"),
        ("a" * 64, f"invalid repository name ({'a' * 64}), cannot specify 64-byte hexadecimal strings"),
        ("x@sha256:" + "a" * 40, "invalid checksum digest length"),
        ("x@md5:" + "a" * 32, "unsupported digest algorithm"),
        ("x@sha256:" + "A" * 64, "invalid checksum digest format"),
        ("x" * 256, "repository name must not be more than 255 characters"),
    ],
    ids=lambda text: f"6.24-44 {text[:20]}",
)
async def test_invalid_image_name_is_refused(image: str, why: str) -> None:
    async with puller(HERE) as (found, told):
        assert await _reason(found, "Always", image) == "InvalidImageName"
    text = f'Failed to apply default image tag "{image}": couldn\'t parse image name "{image}": {why}'
    assert told.events == [f"Warning InspectFailed {text}"]


@pytest.mark.case("6.24-44 a missing tag gets latest")
async def test_name_without_a_tag_means_latest() -> None:
    async with puller(HERE, "example/app:latest") as (found, told):
        assert await _reason(found, "IfNotPresent", "example/app") == ""
    assert told.events == ['Normal Pulled Container image "example/app" already present on machine']
    assert parse_image_name("busybox").repository == "docker.io/library/busybox"


@pytest.mark.case("6.24-44 a runtime that knows more than that the pull failed")
def test_pull_failure_has_the_reason_the_runtime_knows() -> None:
    assert pull_failure("x", "RegistryUnavailable: 503") == (
        "RegistryUnavailable",
        "image pull failed for x because the registry is unavailable: 503",
    )
    assert pull_failure("x", "SignatureValidationFailed")[0] == "SignatureValidationFailed"
    assert pull_failure("x", "boom") == ("ErrImagePull", "boom")
