"""The store's reserve on a disk that others have filled to the last byte."""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pykubelet.aio.clock import SystemClock
from pykubelet.api.errors import ServiceUnavailable
from pykubelet.apiserver.storage.durable_store import (
    FIRST_HOUSEKEEPING_SECONDS,
    FULL_HOUSEKEEPING_SECONDS,
    open_store,
)
from pykubelet.apiserver.storage.reserve import RESERVE_BYTES
from pykubelet.apiserver.storage.sqlite import Commit, StoreFile, StoreRow
from small_disk import SmallDisk, small_disk
from stored_objects import key_of, put, remove, value_of

TEXT = "x" * 3000


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk", 32) as found:
        yield found


def rows(*revisions: int, size: int = 3000) -> list[StoreRow]:
    return [StoreRow(number, 0, "configmaps", "default", f"n{number}", b"x" * size) for number in revisions]


def revisions_of(file: StoreFile) -> list[int]:
    return [row.revision for row in file.rows()]


def test_full_disk_takes_a_thousand_deletions_and_loses_nothing(disk: SmallDisk) -> None:
    """Growth that was in the log only when the disk became full has no place in the file; its space is reserved too."""
    path = disk.path / "state.db"
    file = StoreFile(path, reserve_bytes=RESERVE_BYTES)
    file.commit(Commit(rows=rows(*range(2, 1002))))
    assert not file.tidy()
    for number in range(1002, 1102):
        file.commit(Commit(rows=rows(number)))
    disk.fill()
    for number in range(2, 1002):
        tombstone = StoreRow(2000 + number, 0, "configmaps", "default", f"n{number}", None)
        file.commit(Commit(rows=[tombstone], dropped=frozenset({number}), compacted=number, revision=2000 + number))
        if not number % 100:
            disk.fill()
    assert file.reserve.is_used
    # As after a crash: the log is all that the next process has.
    copy = path.with_name("open")
    assert not copy.exists()
    kept = [*range(1002, 1102), *range(2002, 3002)]
    assert revisions_of(file) == kept
    file.close()
    with closing(StoreFile(path, reserve_bytes=RESERVE_BYTES)) as again:
        assert revisions_of(again) == kept
        again.commit(Commit(rows=rows(3002, size=100)))
        assert again.reserve.is_used
        disk.free()
        again.tidy()
        assert not again.reserve.is_used


async def test_store_on_a_full_disk_takes_what_makes_it_smaller(disk: SmallDisk) -> None:
    """Deletions and small updates succeed and new objects are refused until there is space; both soon."""
    path = disk.path / "state.db"
    async with open_store(path, clock=SystemClock()) as store:
        for number in range(100):
            await put(store, key_of(f"n{number}"), TEXT)
        await asyncio.sleep(FIRST_HOUSEKEEPING_SECONDS + 0.5)
        disk.fill()
        # Notices it.
        await put(store, key_of("n0"), TEXT + "y")
        for refused in (key_of("new"), key_of("n1")):
            with pytest.raises(ServiceUnavailable, match="storage is full: no object can be created"):
                await put(store, refused, TEXT * 3)
        for number in range(50):
            await remove(store, key_of(f"n{number}"))
            await put(store, key_of(f"n{number + 50}"), TEXT + "status" * 20)
        disk.fill()
        await asyncio.sleep(FULL_HOUSEKEEPING_SECONDS + 0.5)
        with pytest.raises(ServiceUnavailable):
            await put(store, key_of("new"))
        disk.free()
        await asyncio.sleep(FULL_HOUSEKEEPING_SECONDS + 0.5)
        await put(store, key_of("new"), TEXT)
    async with open_store(path, clock=SystemClock()) as store:
        assert {entry.key.name for entry in store.list("configmaps").entries} == {
            "new",
            *(f"n{number}" for number in range(50, 100)),
        }
        assert value_of(store.get(key_of("n50"))) == TEXT + "status" * 20
