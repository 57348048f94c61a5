"""Sees to it that a container's image is on this machine: looks, pulls, backs off, and tells the user.

In: a pod, a container and credentials, from the pod's worker. Out: the image's id, or RuntimeFailure with the waiting
reason. What to do is decided in `image_plan.py`, the pulling is done by `pull_queue.py`. `run` must be running.
Upstream: pkg/kubelet/images/image_manager.go.
"""

import asyncio
from collections.abc import Callable, Sequence

from pykubelet.aio.clock import Clock
from pykubelet.api.generated.core import ObjectReference, Pod
from pykubelet.api.image_names import with_default_tag
from pykubelet.api.keys import PodUid
from pykubelet.runtime import image_plan as words
from pykubelet.runtime.events import NORMAL, WARNING, AnyContainer, Events
from pykubelet.runtime.image_plan import ImageStep, image_step, must_look
from pykubelet.runtime.keyed_backoff import KeyedBackoff
from pykubelet.runtime.protocol import Credentials, Images, RuntimeFailure
from pykubelet.runtime.pull_queue import PullQueue


class ImagePuller:
    """The images of all containers of a node; pulls one at a time unless told otherwise."""

    def __init__(
        self,
        *,
        images: Images,
        events: Events,
        clock: Clock,
        parallel: int = 1,
        first_seconds: float = 10.0,
        limit_seconds: float = 300.0,
        pulled: Callable[[PodUid, float, float], None] = lambda *_: None,
    ) -> None:
        """`pulled` hears for which pod an image was pulled, from when to when on the monotonic clock."""
        self._pulled = pulled
        self._images, self._events, self._clock = images, events, clock
        self._queue = PullQueue(images=images, clock=clock, parallel=parallel)
        self._backoff: KeyedBackoff[tuple[str, str]] = KeyedBackoff(
            first_seconds=first_seconds, limit_seconds=limit_seconds
        )
        self._last_failures: dict[tuple[str, str], str] = {}

    async def run(self, ready: asyncio.Event) -> None:
        """Pull what is asked for, until cancelled."""
        await self._queue.run(ready)

    async def ensure(
        self,
        pod: Pod,
        container: AnyContainer,
        involved: ObjectReference,
        credentials: Sequence[Credentials] = (),
    ) -> str:
        """The id of the container's image, which is then here; events are about `involved`."""
        image, policy = container.image, container.image_pull_policy
        try:
            name = with_default_tag(image)
        except ValueError as error:
            text = words.invalid_name_text(image, str(error))
            raise self._failed(involved, "InspectFailed", text, words.INVALID_IMAGE_NAME) from error
        found = await self._find(involved, image, name) if must_look(policy) else ""
        step = image_step(policy, is_here=bool(found))
        if step is ImageStep.REFUSE:
            text = words.never_pulled_text(image)
            raise self._failed(involved, words.ERR_IMAGE_NEVER_PULL, text, words.ERR_IMAGE_NEVER_PULL)
        if step is ImageStep.USE:
            self._events.event(involved, NORMAL, "Pulled", words.already_here_text(image))
            return found
        return await self._pull((pod.metadata.uid, image), name, involved, credentials)

    async def user_of(self, container: AnyContainer) -> str | None:
        """Whom the container's image runs as, number or name; None if the image has no say."""
        found = await self._images.find(with_default_tag(container.image))
        return found.user if found is not None else None

    async def _find(self, involved: ObjectReference, image: str, name: str) -> str:
        try:
            found = await self._images.find(name)
        except RuntimeFailure as failure:
            text = words.not_inspected_text(image, failure.message)
            raise self._failed(involved, "InspectFailed", text, words.IMAGE_INSPECT_ERROR) from failure
        return found.id if found is not None else ""

    async def _pull(
        self, key: tuple[str, str], name: str, involved: ObjectReference, credentials: Sequence[Credentials]
    ) -> str:
        uid, image = key
        until = self._backoff.waits_since_advance(key, self._clock.now())
        if until is not None:
            text = words.back_off_text(image)
            self._events.event(involved, NORMAL, "BackOff", text)
            message = f"{text}: {self._last_failures[key]}" if key in self._last_failures else text
            raise RuntimeFailure(message, reason=words.IMAGE_PULL_BACK_OFF, retry_at=until)
        self._last_failures.pop(key, None)
        self._events.event(involved, NORMAL, "Pulling", words.pulling_text(image))
        started = self._clock.monotonic()
        try:
            pulled = await self._queue.pull(name, credentials)
        except RuntimeFailure as failure:
            raise self._pull_failed(key, involved, failure) from failure
        ended = self._clock.monotonic()
        self._pulled(PodUid(uid), started, ended)
        text = words.pulled_text(
            image, pull_seconds=pulled.seconds, total_seconds=ended - started, size_bytes=pulled.image.size_bytes
        )
        self._events.event(involved, NORMAL, "Pulled", text)
        self._prune()
        return pulled.image.id

    def _pull_failed(self, key: tuple[str, str], involved: ObjectReference, failure: RuntimeFailure) -> RuntimeFailure:
        _, image = key
        self._events.event(involved, WARNING, "Failed", words.not_pulled_text(image, failure.message))
        now = self._clock.now()
        if self._backoff.waits_since_advance(key, now) is None:
            # Two containers of a pod that waited for one pull failed once, not twice.
            self._backoff.advance(key, event_at=now, now=now)
        reason, message = words.pull_failure(image, failure.message, failure.reason)
        self._last_failures[key] = f"{reason}: {message}"
        # When to try again is not told yet: the pod is to come here before, and to show that it backs off.
        return RuntimeFailure(message, reason=reason)

    def _failed(self, involved: ObjectReference, event_reason: str, message: str, reason: str) -> RuntimeFailure:
        self._events.event(involved, WARNING, event_reason, message)
        return RuntimeFailure(message, reason=reason)

    def _prune(self) -> None:
        self._backoff.prune(self._clock.now())
        self._last_failures = {key: text for key, text in self._last_failures.items() if key in self._backoff}
