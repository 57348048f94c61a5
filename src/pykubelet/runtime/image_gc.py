"""Removes images that nobody uses, when their disk is too full or they are too old, or when told to.

In: the images, what runs, the file system of images. Out: fewer images, and events on the node if that was not enough or
failed twice in a row. What may go is decided in `image_gc_plan.py`.

Upstream: pkg/kubelet/images/image_gc_manager.go, StartGarbageCollection in pkg/kubelet/kubelet.go
"""

import asyncio
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Protocol

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.api.durations import format_duration
from pykubelet.api.generated.core import ObjectReference
from pykubelet.api.int64 import MAX_INT64
from pykubelet.runtime.events import WARNING, Events
from pykubelet.runtime.file_system import ImageFs
from pykubelet.runtime.image_gc_plan import (
    ImagePolicy,
    ImageRecords,
    bytes_to_free,
    noted,
    outdated,
    percent_used,
    removable,
)
from pykubelet.runtime.protocol import Image, Images, RuntimeFailure, RuntimePod

log = get_logger(__name__)

PERIOD_SECONDS = 300.0


class RunningPods(Protocol):
    """Knows which containers there are; a Runtime does."""

    async def pods(self) -> Sequence[RuntimePod]:
        """Everything there is."""


class ImageGc:
    """Collects images that are of no use any more."""

    def __init__(
        self,
        *,
        images: Images,
        image_fs: ImageFs,
        runtime: RunningPods,
        events: Events,
        node: ObjectReference,
        clock: Clock,
        policy: ImagePolicy,
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
            await asyncio.sleep(PERIOD_SECONDS)

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
        self._records = noted(self._records, images, pods, now)
        return now

    async def _remove_outdated(self, now: datetime, began_at: datetime) -> None:
        _, failures = await self._remove(outdated(self._records, self._policy, now, began_at), MAX_INT64)
        if failures:
            age = format_duration(self._policy.max_age_seconds)
            raise RuntimeFailure(
                f"wanted to free images older than {age}, encountered errors in image deletion: {_joined(failures)}"
            )

    async def _free(self, wanted: int, now: datetime) -> int:
        freed, failures = await self._remove(removable(self._records, self._policy, now), wanted)
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
