"""Removes unused images when their disk is too full, when they are too old, or on demand.

Unused images go in order of last use until the disk is empty enough; pinned images and recent ones stay. Failures become
events on the node. Unlike upstream, the age of a never used image counts from when it was first seen, so that an image
just pulled is not removed for its age.

Upstream: pkg/kubelet/images/image_gc_manager.go, pkg/kubelet/kubelet.go
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.api.field_errors import aggregate_messages
from pykubelet.api.generated.core import ObjectReference
from pykubelet.api.quantity import MAX_INT64
from pykubelet.api.times import format_duration
from pykubelet.client.recorder import WARNING, EventRecorder
from pykubelet.runtimes.protocol import FileSystem, Image, ImageFs, Images, Runtime, RuntimeFailure, RuntimePod

log = get_logger(__name__)

IMAGE_GC_PERIOD_SECONDS = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageGcPolicy:
    """The disk usage that starts the removal of images, the usage that ends it, and the maximum age of an unused image.

    A maximum age of 0 means no maximum. Raises ValueError for invalid percentages.
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
        """Whether images are never removed automatically."""
        return self.high_percent == 100 and not self.max_age_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRecord:
    """An image, when it was first seen, and when it was last seen in use (None if never)."""

    image: Image
    detected_at: datetime
    used_at: datetime | None = None


ImageRecords = Mapping[str, ImageRecord]
"""Image records by image id."""


def detect_images(
    before: ImageRecords, images: Iterable[Image], pods: Iterable[RuntimePod], now: datetime
) -> ImageRecords:
    """The records after listing images and pods again; drops images that are gone."""
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
    """The images unused for longer than the maximum age; none until we have observed for that long."""
    too_long = timedelta(seconds=policy.max_age_seconds)
    if not too_long or now - began_at <= too_long:
        return ()
    return tuple(one.image for one in _unused(records, now) if now - (one.used_at or one.detected_at) > too_long)


def unused_images(records: ImageRecords, policy: ImageGcPolicy, now: datetime) -> tuple[Image, ...]:
    """The images that may be removed to free disk space, in order of removal."""
    newest = now - timedelta(seconds=policy.min_age_seconds)
    return tuple(one.image for one in _unused(records, now) if one.detected_at <= newest)


def percent_used(disk: FileSystem) -> int:
    """The disk usage in percent; the capacity must not be 0."""
    return 100 - min(disk.available_bytes, disk.capacity_bytes) * 100 // disk.capacity_bytes


def bytes_to_free(disk: FileSystem, policy: ImageGcPolicy) -> int:
    """How many bytes of images to remove; 0 if the disk is not too full."""
    if percent_used(disk) < policy.high_percent:
        return 0
    return max(disk.capacity_bytes * (100 - policy.low_percent) // 100 - disk.available_bytes, 0)


def _unused(records: ImageRecords, now: datetime) -> list[ImageRecord]:
    """The unused images that are not pinned: never used ones first, then by last use."""
    found = [one for one in records.values() if one.used_at != now and not one.image.is_pinned]
    return sorted(found, key=lambda one: (one.used_at is not None, one.used_at or now, one.detected_at))


class ImageGcManager:
    """Removes unused images every five minutes, as the policy says, and on demand."""

    def __init__(
        self,
        *,
        images: Images,
        image_fs: ImageFs,
        runtime: Runtime,
        events: EventRecorder,
        node: ObjectReference,
        clock: Clock,
        policy: ImageGcPolicy,
    ) -> None:
        self._images, self._image_fs, self._runtime = images, image_fs, runtime
        self._events, self._node, self._clock, self._policy = events, node, clock, policy
        self._records: ImageRecords = {}

    async def run(self, ready: asyncio.Event) -> None:
        """Collect until cancelled; records images even if the policy is off, for removal on demand."""
        began_at, has_failed = self._clock.now(), False
        ready.set()
        while True:
            try:
                await self.collect(began_at)
                has_failed = False
            except RuntimeFailure as failure:
                log.warning("image garbage collection failed", cause=failure.message)
                if has_failed:
                    # A single failure may come from a runtime that has just started.
                    self._events.event(self._node, WARNING, "ImageGCFailed", failure.message)
                has_failed = True
            await asyncio.sleep(IMAGE_GC_PERIOD_SECONDS)

    async def collect(self, began_at: datetime) -> None:
        """Remove images that are too old, and as many as the disk needs; RuntimeFailure if that is not possible."""
        now = await self._update_records()
        if self._policy.is_off:
            return
        await self._remove_past_maximum_age(now, began_at)
        disk = await self._image_fs.image_file_system()
        if not disk.capacity_bytes:
            message = "invalid capacity 0 on image filesystem"
            self._events.event(self._node, WARNING, "InvalidDiskCapacity", message)
            raise RuntimeFailure(message)
        needed = bytes_to_free(disk, self._policy)
        if not needed:
            return
        log.info("image disk is too full", percent=percent_used(disk), bytes_to_free=needed)
        freed = await self._free(needed, now)
        if freed < needed:
            message = (
                f"Failed to garbage collect required amount of images. Attempted to free {needed} bytes, "
                f"but only found {freed} bytes eligible to free."
            )
            self._events.event(self._node, WARNING, "FreeDiskSpaceFailed", message)
            raise RuntimeFailure(message)

    async def remove_unused(self) -> None:
        """Remove all unused images, however full the disk is; RuntimeFailure if one cannot be removed."""
        await self._free(MAX_INT64, await self._update_records())

    async def _update_records(self) -> datetime:
        """List images and pods, update the records; the time of the update."""
        images, pods = await self._images.images(), await self._runtime.pods()
        now = self._clock.now()
        self._records = detect_images(self._records, images, pods, now)
        return now

    async def _remove_past_maximum_age(self, now: datetime, began_at: datetime) -> None:
        _, failures = await self._remove(images_past_maximum_age(self._records, self._policy, now, began_at), MAX_INT64)
        if failures:
            age = format_duration(self._policy.max_age_seconds)
            errors = aggregate_messages(failures)
            raise RuntimeFailure(
                f"wanted to free images older than {age}, encountered errors in image deletion: {errors}"
            )

    async def _free(self, needed: int, now: datetime) -> int:
        freed, failures = await self._remove(unused_images(self._records, self._policy, now), needed)
        if failures:
            raise RuntimeFailure(
                f"wanted to free {needed} bytes, but freed {freed} bytes space with errors in image deletion: "
                f"{aggregate_messages(failures)}"
            )
        return freed

    async def _remove(self, images: Iterable[Image], needed: int) -> tuple[int, list[str]]:
        """Remove images until enough is freed: the bytes freed, and the errors."""
        freed, failures = 0, list[str]()
        for image in images:
            if freed >= needed:
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
