"""Removes images that nobody uses, when their disk is too full or they are too old, or when told to.

In: the images, what runs, the file system of images. Out: fewer images, and events on the node if that was not enough or
failed twice in a row. What may go is decided in `image_gc_plan.py`.

Upstream: pkg/kubelet/images/image_gc_manager.go, StartGarbageCollection in pkg/kubelet/kubelet.go

Which images may go, in which order, and how much room they must make.

Pure. Images that no container has go, the longest unused first, once the disk is too full, until it is empty enough; those
of the runtime's own and those that just came stay. On purpose other than upstream: an image that was never used is as
old as the time since it came, so that one just pulled does not go for its age.

Upstream: pkg/kubelet/images/image_gc_manager.go
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.api.generated.core import ObjectReference
from pykubelet.api.int64 import MAX_INT64
from pykubelet.api.times import format_duration
from pykubelet.kubelet.events import WARNING, EventReporter
from pykubelet.runtimes.protocol import FileSystem, Image, ImageFs, Images, RuntimeFailure, RuntimePod


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageGcPolicy:
    """From which use of the disk on images go, down to which, and how old they have to be. A maximum age of 0 is none.

    ValueError if the percentages make no sense.
    """

    high_percent: int = 85
    low_percent: int = 80
    min_age_seconds: float = 120.0
    max_age_seconds: float = 0.0

    def __post_init__(self) -> None:
        for name, percent in (("HighThresholdPercent", self.high_percent), ("LowThresholdPercent", self.low_percent)):
            if not 0 <= percent <= 100:
                raise ValueError(f"invalid {name} {percent}, must be in range [0-100]")
        if self.low_percent > self.high_percent:
            raise ValueError(
                f"LowThresholdPercent {self.low_percent} can not be higher than "
                f"HighThresholdPercent {self.high_percent}"
            )

    @property
    def is_off(self) -> bool:
        """Whether no image ever goes."""
        return self.high_percent == 100 and not self.max_age_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRecord:
    """An image, since when we know it, and when it was last seen in use; None if never."""

    image: Image
    detected_at: datetime
    used_at: datetime | None = None


ImageRecords = Mapping[str, ImageRecord]
"""By the id of the image."""


def detect_images(
    before: ImageRecords, images: Iterable[Image], pods: Iterable[RuntimePod], now: datetime
) -> ImageRecords:
    """What is known after another look; images that are gone are forgotten."""
    named = {name for pod in pods for container in pod.containers for name in (container.image, container.image_id)}
    records = {}
    for image in images:
        known = before.get(image.id)
        is_used = not named.isdisjoint((image.id, *image.names))
        records[image.id] = ImageRecord(
            image=image,
            detected_at=known.detected_at if known is not None else now,
            used_at=now if is_used else known.used_at if known is not None else None,
        )
    return records


def images_past_maximum_age(
    records: ImageRecords, policy: ImageGcPolicy, now: datetime, began_at: datetime
) -> tuple[Image, ...]:
    """The images that nobody has used for too long; none before we have watched for as long."""
    too_long = timedelta(seconds=policy.max_age_seconds)
    if not too_long or now - began_at <= too_long:
        return ()
    return tuple(one.image for one in _unused(records, now) if now - (one.used_at or one.detected_at) > too_long)


def unused_images(records: ImageRecords, policy: ImageGcPolicy, now: datetime) -> tuple[Image, ...]:
    """The images that may go to make room, in the order in which they do."""
    newest = now - timedelta(seconds=policy.min_age_seconds)
    return tuple(one.image for one in _unused(records, now) if one.detected_at <= newest)


def percent_used(disk: FileSystem) -> int:
    """How full a disk is; its capacity is not 0."""
    return 100 - min(disk.available_bytes, disk.capacity_bytes) * 100 // disk.capacity_bytes


def bytes_to_free(disk: FileSystem, policy: ImageGcPolicy) -> int:
    """How much room images must make; 0 if the disk is not too full."""
    if percent_used(disk) < policy.high_percent:
        return 0
    return max(disk.capacity_bytes * (100 - policy.low_percent) // 100 - disk.available_bytes, 0)


def _unused(records: ImageRecords, now: datetime) -> list[ImageRecord]:
    """Those that nothing has and that are not the runtime's own, the longest unused first, never used ones before them."""
    found = [one for one in records.values() if one.used_at != now and not one.image.is_pinned]
    return sorted(found, key=lambda one: (one.used_at is not None, one.used_at or now, one.detected_at))


log = get_logger(__name__)

IMAGE_GC_PERIOD_SECONDS = 300.0


class ImageGcRuntime(Protocol):
    """Knows which containers there are; a Runtime does."""

    async def pods(self) -> Sequence[RuntimePod]:
        """Everything there is."""


class ImageGcManager:
    """Collects images that are of no use any more."""

    def __init__(
        self,
        *,
        images: Images,
        image_fs: ImageFs,
        runtime: ImageGcRuntime,
        events: EventReporter,
        node: ObjectReference,
        clock: Clock,
        policy: ImageGcPolicy,
    ) -> None:
        self._images, self._image_fs, self._runtime = images, image_fs, runtime
        self._events, self._node, self._clock, self._policy = events, node, clock, policy
        self._records: ImageRecords = {}

    async def run(self, ready: asyncio.Event) -> None:
        """Collect until cancelled; images are noted even if none ever goes by itself."""
        began_at, has_failed = self._clock.now(), False
        ready.set()
        while True:
            try:
                await self.collect(began_at)
                has_failed = False
            except RuntimeFailure as failure:
                log.warning("image garbage collection failed", cause=failure.message)
                if has_failed:
                    # One failure may be that of a runtime that has just started.
                    self._events.event(self._node, WARNING, "ImageGCFailed", failure.message)
                has_failed = True
            await asyncio.sleep(IMAGE_GC_PERIOD_SECONDS)

    async def collect(self, began_at: datetime) -> None:
        """Remove what is too old, and as much as the disk needs; RuntimeFailure if that cannot be done."""
        now = await self._note()
        if self._policy.is_off:
            return
        await self._remove_outdated(now, began_at)
        disk = await self._image_fs.image_file_system()
        if not disk.capacity_bytes:
            message = "invalid capacity 0 on image filesystem"
            self._events.event(self._node, WARNING, "InvalidDiskCapacity", message)
            raise RuntimeFailure(message)
        wanted = bytes_to_free(disk, self._policy)
        if not wanted:
            return
        log.info("the disk with images is too full", percent=percent_used(disk), bytes_to_free=wanted)
        freed = await self._free(wanted, now)
        if freed < wanted:
            message = (
                f"Failed to garbage collect required amount of images. Attempted to free {wanted} bytes, "
                f"but only found {freed} bytes eligible to free."
            )
            self._events.event(self._node, WARNING, "FreeDiskSpaceFailed", message)
            raise RuntimeFailure(message)

    async def remove_unused(self) -> None:
        """Remove all that may go, however full the disk is; RuntimeFailure if one cannot be removed."""
        await self._free(MAX_INT64, await self._note())

    async def _note(self) -> datetime:
        """Look at the images and at who uses them; the time of it."""
        images, pods = await self._images.images(), await self._runtime.pods()
        now = self._clock.now()
        self._records = detect_images(self._records, images, pods, now)
        return now

    async def _remove_outdated(self, now: datetime, began_at: datetime) -> None:
        _, failures = await self._remove(images_past_maximum_age(self._records, self._policy, now, began_at), MAX_INT64)
        if failures:
            age = format_duration(self._policy.max_age_seconds)
            raise RuntimeFailure(
                f"wanted to free images older than {age}, encountered errors in image deletion: {_joined(failures)}"
            )

    async def _free(self, wanted: int, now: datetime) -> int:
        freed, failures = await self._remove(unused_images(self._records, self._policy, now), wanted)
        if failures:
            raise RuntimeFailure(
                f"wanted to free {wanted} bytes, but freed {freed} bytes space with errors in image deletion: "
                f"{_joined(failures)}"
            )
        return freed

    async def _remove(self, images: Iterable[Image], wanted: int) -> tuple[int, list[str]]:
        """Remove one after the other until enough is freed: how much that was, and what went wrong."""
        freed, failures = 0, list[str]()
        for image in images:
            if freed >= wanted:
                break
            try:
                await self._images.remove_image(image.id)
            except RuntimeFailure as failure:
                failures.append(failure.message)
                continue
            log.info("image removed", image=image.id, names=list(image.names), bytes=image.size_bytes)
            self._records = {id: record for id, record in self._records.items() if id != image.id}
            freed += image.size_bytes
        return freed, failures


def _joined(failures: list[str]) -> str:
    """Several errors as upstream shows them."""
    told = tuple(dict.fromkeys(failures))
    return told[0] if len(told) == 1 else f"[{', '.join(told)}]"
