"""Image garbage collection: which images are removed when the disk is full or they are too old."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api.generated.core import ObjectReference
from pykubelet.kubelet.images.image_gc_manager import (
    IMAGE_GC_PERIOD_SECONDS,
    ImageGcManager,
    ImageGcPolicy,
    ImageRecord,
    bytes_to_free,
    detect_images,
    images_past_maximum_age,
    unused_images,
)
from pykubelet.runtimes.protocol import FileSystem, Image, RuntimeFailure, read_file_system
from pykubelet.runtimes.sim.runtime import ImageBehaviour, SimImages
from pykubelet.testing.build import container, pod
from runtime_rig import Rig

NOW = datetime(2026, 1, 1, tzinfo=UTC)
POLICY = ImageGcPolicy()


def disk(available: int, capacity: int = 1000) -> FileSystem:
    return FileSystem(device=1, capacity_bytes=capacity, available_bytes=available)


@pytest.mark.parametrize(
    ("available", "wanted"),
    [(160, 0), (159, 41), (150, 50), (0, 200), (2000, 0)],
    ids=["84 %", "rounded up", "85 %", "full", "more than all"],
)
def test_room_is_made_from_85_percent_down_to_80(available: int, wanted: int) -> None:
    """The used percentage is rounded up, as upstream."""
    assert bytes_to_free(disk(available), POLICY) == wanted


@pytest.mark.parametrize(
    ("high", "low", "why"),
    [
        (101, 80, "invalid HighThresholdPercent 101"),
        (85, -1, "invalid LowThresholdPercent -1"),
        (70, 80, "not be higher"),
    ],
)
def test_invalid_policy_is_refused(high: int, low: int, why: str) -> None:
    """The errors are upstream's texts."""
    with pytest.raises(ValueError, match=why):
        ImageGcPolicy(high_percent=high, low_percent=low)


def record(name: str, *, detected: float, used: float | None = None, is_pinned: bool = False) -> ImageRecord:
    """An image that was detected and used the given number of seconds ago."""
    return ImageRecord(
        image=Image(id=name, names=(name,), is_pinned=is_pinned),
        detected_at=NOW - timedelta(seconds=detected),
        used_at=None if used is None else NOW - timedelta(seconds=used),
    )


def by_id(*records: ImageRecord) -> Mapping[str, ImageRecord]:
    return {one.image.id: one for one in records}


def test_images_go_in_the_order_in_which_they_were_last_used() -> None:
    """Never used images come first; images in use, pinned or new are kept."""
    records = by_id(
        record("lately", detected=999, used=10),
        record("long-ago", detected=999, used=500),
        record("never", detected=200),
        record("never-and-older", detected=300),
        record("new", detected=119),
        record("pinned", detected=999, is_pinned=True),
        record("in-use", detected=999, used=0),
    )
    assert [one.id for one in unused_images(records, POLICY, NOW)] == ["never-and-older", "never", "long-ago", "lately"]


@pytest.mark.parametrize(("began", "expected"), [(101, ["old", "never"]), (100, [])], ids=["long", "not so long"])
def test_images_unused_for_longer_than_the_maximum_age_go(began: float, expected: list[str]) -> None:
    """The node must have run that long itself; a never used image counts from its detection."""
    policy = ImageGcPolicy(max_age_seconds=100)
    records = by_id(
        record("old", detected=500, used=101),
        record("young", detected=500, used=100),
        record("never", detected=101),
        record("new", detected=1),
        record("pinned", detected=500, is_pinned=True),
    )
    found = images_past_maximum_age(records, policy, NOW, NOW - timedelta(seconds=began))
    assert sorted(one.id for one in found) == sorted(expected)
    assert images_past_maximum_age(records, POLICY, NOW, NOW - timedelta(days=9)) == ()


@settings(max_examples=60)
@given(ages=st.lists(st.tuples(st.integers(0, 400), st.none() | st.integers(0, 400), st.booleans()), max_size=8))
def test_what_is_in_use_pinned_or_new_never_goes(ages: list[tuple[int, int | None, bool]]) -> None:
    """All other images may be removed."""
    records = by_id(*(record(f"i{n}", detected=d, used=u, is_pinned=p) for n, (d, u, p) in enumerate(ages)))
    gone = {one.id for one in unused_images(records, POLICY, NOW)}
    assert gone == {f"i{n}" for n, (d, u, p) in enumerate(ages) if d >= 120 and u != 0 and not p}


class Room(Rig):
    """A node with an image disk of 1000 bytes."""

    def __init__(
        self,
        logs: Path,
        sizes: Mapping[str, ImageBehaviour],
        policy: ImageGcPolicy = POLICY,
        *,
        disk_bytes: int = 1000,
    ) -> None:
        super().__init__(logs, images=SimImages(sizes, disk_bytes=disk_bytes))
        self.gc = ImageGcManager(
            images=self.images,
            image_fs=self.images,
            runtime=self.sim,
            events=self.events,
            node=ObjectReference(kind="Node", name="node-1"),
            clock=self.clock,
            policy=policy,
        )

    async def names(self) -> list[str]:
        return [image.names[0] for image in await self.images.images()]

    async def collect_for(self, seconds: float) -> None:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self.gc.run(asyncio.Event()))
            await asyncio.sleep(seconds)
            task.cancel()


def present(size: int, *, is_pinned: bool = False, remove_error: str = "") -> ImageBehaviour:
    return ImageBehaviour(is_present=True, size_bytes=size, is_pinned=is_pinned, remove_error=remove_error)


async def test_full_disk_loses_images_until_it_is_empty_enough(tmp_path: Path) -> None:
    """They are removed in the second pass, once known for two minutes; an image in use stays."""
    sizes = {"used:1": present(500), "a": present(150), "b": present(150), "c": present(150)}
    async with Room(tmp_path, sizes).running() as room:
        await room.sync(pod(containers=[container(image="used:1")]))
        await room.collect_for(1)
        assert room.events.reasons()[-1] == "FreeDiskSpaceFailed"
        assert len(await room.names()) == 4
        await asyncio.sleep(IMAGE_GC_PERIOD_SECONDS)
        await room.collect_for(1)
        assert await room.names() == ["used:1", "b", "c"]


async def test_failed_collection_is_reported_from_the_second_time_on(tmp_path: Path) -> None:
    """One failure is ignored, since the runtime may just have started. FreeDiskSpaceFailed is reported every time."""
    async with Room(tmp_path, {"a": present(900, is_pinned=True)}).running() as room:
        await room.collect_for(IMAGE_GC_PERIOD_SECONDS + 1)
        message = (
            "Failed to garbage collect required amount of images. Attempted to free 100 bytes, "
            "but only found 0 bytes eligible to free."
        )
        assert room.events.seen == [
            ("Warning", "FreeDiskSpaceFailed", message),
            ("Warning", "FreeDiskSpaceFailed", message),
            ("Warning", "ImageGCFailed", message),
        ]


async def test_image_that_cannot_be_removed_does_not_keep_others(tmp_path: Path) -> None:
    """The failure names how many bytes were freed."""
    sizes = {"bad": present(500, remove_error="busy"), "good": present(450)}
    async with Room(tmp_path, sizes).running() as room:
        await room.collect_for(2 * IMAGE_GC_PERIOD_SECONDS + 1)
        assert await room.names() == ["bad"]
        assert room.events.seen[-1] == (
            "Warning",
            "ImageGCFailed",
            "wanted to free 150 bytes, but freed 450 bytes space with errors in image deletion: busy",
        )


@pytest.mark.parametrize(
    ("policy", "left"),
    [(ImageGcPolicy(max_age_seconds=200), []), (ImageGcPolicy(high_percent=100), ["a"]), (POLICY, ["a"])],
    ids=["age", "off", "enough room"],
)
async def test_disk_with_room_loses_only_what_is_too_old(
    tmp_path: Path, policy: ImageGcPolicy, left: list[str]
) -> None:
    """Without a maximum age nothing is removed."""
    async with Room(tmp_path, {"a": present(100)}, policy).running() as room:
        await room.collect_for(IMAGE_GC_PERIOD_SECONDS + 1)
        assert (await room.names(), room.events.seen) == (left, [])


async def test_old_image_that_cannot_be_removed_is_reported(tmp_path: Path) -> None:
    """The event is upstream's and appears from the second pass on."""
    policy = ImageGcPolicy(max_age_seconds=200)
    async with Room(tmp_path, {"a": present(1, remove_error="busy")}, policy).running() as room:
        await room.collect_for(2 * IMAGE_GC_PERIOD_SECONDS + 1)
        message = "wanted to free images older than 3m20s, encountered errors in image deletion: busy"
        assert room.events.seen == [("Warning", "ImageGCFailed", message)]


async def test_remove_unused_removes_all_unused_images(tmp_path: Path) -> None:
    """It ignores the thresholds, but keeps pinned images and those known for less than two minutes."""
    async with Room(tmp_path, {"a": present(1), "b": present(1, is_pinned=True)}).running() as room:
        await room.gc.remove_unused()
        await asyncio.sleep(120)
        await room.gc.remove_unused()
        assert await room.names() == ["b"]


async def test_disk_without_capacity_is_an_error_and_an_event(tmp_path: Path) -> None:
    """A percentage of nothing cannot be computed."""
    async with Room(tmp_path, {}, disk_bytes=0).running() as room:
        with pytest.raises(RuntimeFailure, match="invalid capacity 0 on image filesystem"):
            await room.gc.collect(room.clock.now())
        assert room.events.reasons() == ["InvalidDiskCapacity"]


def test_images_that_are_gone_are_forgotten() -> None:
    """If it returns it counts as new."""
    before = by_id(record("gone", detected=5), record("here", detected=5))
    assert set(detect_images(before, [Image(id="here", names=())], [], NOW)) == {"here"}


def test_file_system_of_a_path_is_read(tmp_path: Path) -> None:
    """The file system is identified by its device number."""
    found = read_file_system(str(tmp_path))
    assert 0 < found.available_bytes < found.capacity_bytes
    assert found.device == tmp_path.stat().st_dev
