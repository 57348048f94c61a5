"""Which images may go, in which order, and how much room they must make.

Pure. Images that no container has go, the longest unused first, once the disk is too full, until it is empty enough; those
of the runtime's own and those that just came stay. On purpose other than upstream: an image that was never used is as
old as the time since it came, so that one just pulled does not go for its age.

Upstream: pkg/kubelet/images/image_gc_manager.go
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from pykubelet.runtime.file_system import FileSystem
from pykubelet.runtime.protocol import Image, RuntimePod


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePolicy:
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


def noted(before: ImageRecords, images: Iterable[Image], pods: Iterable[RuntimePod], now: datetime) -> ImageRecords:
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


def outdated(records: ImageRecords, policy: ImagePolicy, now: datetime, began_at: datetime) -> tuple[Image, ...]:
    """The images that nobody has used for too long; none before we have watched for as long."""
    too_long = timedelta(seconds=policy.max_age_seconds)
    if not too_long or now - began_at <= too_long:
        return ()
    return tuple(one.image for one in _unused(records, now) if now - (one.used_at or one.detected_at) > too_long)


def removable(records: ImageRecords, policy: ImagePolicy, now: datetime) -> tuple[Image, ...]:
    """The images that may go to make room, in the order in which they do."""
    newest = now - timedelta(seconds=policy.min_age_seconds)
    return tuple(one.image for one in _unused(records, now) if one.detected_at <= newest)


def percent_used(disk: FileSystem) -> int:
    """How full a disk is; its capacity is not 0."""
    return 100 - min(disk.available_bytes, disk.capacity_bytes) * 100 // disk.capacity_bytes


def bytes_to_free(disk: FileSystem, policy: ImagePolicy) -> int:
    """How much room images must make; 0 if the disk is not too full."""
    if percent_used(disk) < policy.high_percent:
        return 0
    return max(disk.capacity_bytes * (100 - policy.low_percent) // 100 - disk.available_bytes, 0)


def _unused(records: ImageRecords, now: datetime) -> list[ImageRecord]:
    """Those that nothing has and that are not the runtime's own, the longest unused first, never used ones before them."""
    found = [one for one in records.values() if one.used_at != now and not one.image.is_pinned]
    return sorted(found, key=lambda one: (one.used_at is not None, one.used_at or now, one.detected_at))
