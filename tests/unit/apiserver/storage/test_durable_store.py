"""Properties of the durable store alone: disk, time and slow readers."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from pykubelet.api.errors import ApiError, Conflict, Expired, ServiceUnavailable
from pykubelet.api.serializer import Document
from pykubelet.apiserver.storage.durable_store import DurableStore, open_store
from pykubelet.apiserver.storage.interfaces import ChangeWatch, StoreEntry, StoreSettings
from pykubelet.apiserver.storage.watch_cache import HELD_CHANGES, READ_AT_ONCE
from pykubelet.testing.virtual_time import VirtualClock
from stored_objects import document_of, drained, key_of, put, remove, told, value_of

A, B = key_of("a"), key_of("b")
LEASE = key_of("node", collection="leases.coordination.k8s.io")
SMALL = StoreSettings(max_bytes=200_000)
BIG = "x" * 70_000


def opened(folder: Path, settings: StoreSettings | None = None) -> AbstractAsyncContextManager[DurableStore]:
    return open_store(folder / "state.db", clock=VirtualClock(), settings=settings)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[DurableStore]:
    async with opened(tmp_path) as store:
        yield store


async def test_state_and_history_outlast_a_restart(tmp_path: Path) -> None:
    """Objects, revisions, past lists and watches continue as before."""
    async with opened(tmp_path) as store:
        await put(store, A, 1)
        await put(store, B, 1)
        await put(store, A, 2)
        await remove(store, B)
        last = store.revision
    async with opened(tmp_path) as store:
        assert store.revision == last
        assert value_of(store.get(A)) == 2
        assert store.get(B) is None
        assert [value_of(entry) for entry in store.list("configmaps", at=3).entries] == [1, 1]
        assert (await put(store, B, 3)).revision == last + 1
        async with store.watch("configmaps", 2) as watch:
            changes = (await anext(watch)).changes
        assert told(changes) == [(3, "b", 1), (4, "a", 2), (5, "b", None), (6, "b", 3)]
        assert value_of(changes[1].before) == 1


async def test_collection_without_history_resumes_live_but_not_over_a_restart(tmp_path: Path) -> None:
    """A watch that may have missed a change gets Expired."""
    async with opened(tmp_path) as store:
        for value in range(3):
            await put(store, LEASE, value)
        async with store.watch(LEASE.collection, 2) as watch:
            assert told((await anext(watch)).changes) == [(3, "node", 1), (4, "node", 2)]
    async with opened(tmp_path) as store:
        with pytest.raises(Expired):
            await store.watch(LEASE.collection, 3).__aenter__()
        async with store.watch(LEASE.collection, 4) as watch:
            await put(store, LEASE, 3)
            assert told(watch.take().changes) == [(5, "node", 3)]


async def test_revision_never_falls_back_even_if_its_rows_are_gone(tmp_path: Path) -> None:
    """The newest change is a removal whose row was dropped."""
    async with opened(tmp_path) as store:
        await put(store, LEASE)
        await put(store, A)
        await remove(store, A)
        await remove(store, LEASE)
        await asyncio.sleep(600)
    for _ in range(2):
        async with opened(tmp_path) as store:
            assert store.revision == 5
            assert store.list("configmaps").entries == ()
            await asyncio.sleep(60)


async def test_collection_that_gets_history_later_does_not_invent_any(tmp_path: Path) -> None:
    """A watch from before the history begins gets Expired."""
    async with opened(tmp_path) as store:
        await put(store, LEASE, 1)
        await put(store, LEASE, 2)
    async with opened(tmp_path, StoreSettings(without_history=frozenset())) as store:
        with pytest.raises(Expired):
            await store.watch(LEASE.collection, 2).__aenter__()
        await put(store, LEASE, 3)
    async with (
        opened(tmp_path, StoreSettings(without_history=frozenset())) as store,
        store.watch(LEASE.collection, 3) as watch,
    ):
        assert told(watch.take().changes) == [(4, "node", 3)]
        with pytest.raises(Expired):
            await store.watch(LEASE.collection, 2).__aenter__()


async def test_history_that_was_forgotten_stays_so_over_a_restart(tmp_path: Path) -> None:
    """This holds even with a larger history limit after the restart: the remaining rows are incomplete."""
    async with opened(tmp_path, StoreSettings(history_changes=2)) as store:
        for value in range(4):
            await put(store, A, value)
        await asyncio.sleep(15)
    async with opened(tmp_path) as store:
        with pytest.raises(Expired):
            await store.watch("configmaps", 2).__aenter__()
        async with store.watch("configmaps", 3) as watch:
            assert told(watch.take().changes) == [(4, "a", 2), (5, "a", 3)]


async def test_rows_to_drop_are_dropped_later_if_a_transaction_fails(tmp_path: Path) -> None:
    """The next transaction frees their space."""
    async with opened(tmp_path, replace(SMALL, history_changes=1)) as store:
        await put(store, B, BIG)
        for value in (BIG, 1, 2):
            await put(store, A, value)
        with pytest.raises(ServiceUnavailable):
            await put(store, key_of("c"), BIG * 3)
        await put(store, A, 3)
        assert value_of(await put(store, key_of("c"), BIG)) == BIG


async def test_full_storage_refuses_writes_loses_nothing_and_recovers(tmp_path: Path) -> None:
    """Writes decided on top of a refused write are refused too; reads continue, and later writes succeed."""
    async with opened(tmp_path, SMALL) as store:
        await put(store, A, BIG)
        kept = await put(store, B, BIG)
        writes = [put(store, key_of("c"), BIG), put(store, key_of("d")), put(store, key_of("c"), 1), remove(store, A)]
        results = await asyncio.gather(*writes, return_exceptions=True)
        assert {type(result) for result in results} == {ServiceUnavailable}
        assert str(results[0]).startswith("storage is full: nothing was changed")
        assert store.health_error() == "storage is full"
        assert store.revision == kept.revision
        assert [store.newest(key_of(name)) == store.get(key_of(name)) for name in "abcd"] == [True] * 4
        assert value_of(store.get(B)) == BIG
        # Replacing needs space for history, too; once that is dropped there is enough.
        await remove(store, A)
        assert store.health_error() == ""
        await asyncio.sleep(600)
        made = await put(store, key_of("c"), BIG)
        assert made.revision > kept.revision + 1
    async with opened(tmp_path, SMALL) as store:
        assert [entry.key.name for entry in store.list("configmaps").entries] == ["b", "c"]


@contextmanager
def held_up(store: DurableStore) -> Iterator[threading.Event]:
    """Blocks the writing thread until the event is set."""
    event = threading.Event()
    store._commits._thread.submit(event.wait)
    try:
        yield event
    finally:
        event.set()


async def turns() -> None:
    """Let all tasks run until they wait for the disk."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_write_queued_behind_a_failing_one_is_refused_with_it(tmp_path: Path) -> None:
    """It was decided on a state that was never stored, though the disk had space for it."""
    async with opened(tmp_path, SMALL) as store:
        await put(store, A, BIG)
        await put(store, B, BIG)
        with held_up(store):
            first = asyncio.ensure_future(put(store, key_of("c"), BIG))
            await turns()
            second = asyncio.ensure_future(put(store, key_of("d"), 1))
            await turns()
        results = await asyncio.gather(first, second, return_exceptions=True)
        assert [type(result) for result in results] == [ServiceUnavailable, ServiceUnavailable]
        assert store.newest_in("default") == (A, B)
        assert value_of(await put(store, key_of("d"), 1)) == 1


async def test_decision_sees_a_queued_write_when_an_earlier_one_of_its_key_is_stored(store: DurableStore) -> None:
    """A commit does not replace a newer state that is still queued."""
    await put(store, B)
    with held_up(store) as first_may_go:
        first = asyncio.ensure_future(put(store, A, 1))
        await turns()
        second = asyncio.ensure_future(put(store, A, 2))
        await turns()
        with held_up(store):
            first_may_go.set()
            await first
            assert (value_of(store.get(A)), value_of(store.newest(A))) == (1, 2)
    await second
    assert value_of(store.get(A)) == 2


async def test_answers_that_rest_on_a_refused_write_are_refused_with_it(tmp_path: Path) -> None:
    """They are a write without a change and a conflict, both with an object that was never stored."""

    def conflict(entry: StoreEntry | None) -> None:
        assert entry is not None
        raise ApiError

    async with opened(tmp_path, SMALL) as store:
        await put(store, A, BIG)
        await put(store, B, BIG)
        document = document_of(key_of("c"), BIG)
        writes = [store.write(key_of("c"), decide) for decide in (lambda _: document, lambda _: document, conflict)]
        results = await asyncio.gather(*writes, return_exceptions=True)
        assert [type(result) for result in results] == [ServiceUnavailable] * 3


async def test_health_recovers_without_a_write(tmp_path: Path) -> None:
    """The store itself notices that the disk takes writes again."""
    async with opened(tmp_path, SMALL) as store:
        await put(store, A, BIG)
        await put(store, B, BIG)
        with pytest.raises(ServiceUnavailable):
            await put(store, key_of("c"), BIG)
        assert store.health_error()
        await asyncio.sleep(15)
        assert store.health_error() == ""


async def test_cancelled_caller_does_not_disturb_other_writes(store: DurableStore) -> None:
    """Its write was decided, so it is stored, and the others of its transaction succeed."""
    writes = [asyncio.ensure_future(put(store, key_of(str(index)), index)) for index in range(5)]
    await asyncio.sleep(0)
    writes[2].cancel()
    results = await asyncio.gather(*writes, return_exceptions=True)
    assert [type(result) for result in results] == [
        StoreEntry,
        StoreEntry,
        asyncio.CancelledError,
        StoreEntry,
        StoreEntry,
    ]
    await put(store, A)
    assert value_of(store.get(key_of("2"))) == 2


async def test_closing_finishes_writes_and_ends_watches(tmp_path: Path) -> None:
    """Accepted writes are stored, and later writes are refused."""
    async with opened(tmp_path) as store:
        watch = await store.watch("configmaps", 1).__aenter__()
        write = asyncio.ensure_future(put(store, A, 1))
        await asyncio.sleep(0)
    assert value_of(await write) == 1
    assert [told(batch.changes) async for batch in watch] == [[(2, "a", 1)]]
    with pytest.raises(ServiceUnavailable, match="the store is closed"):
        await put(store, B)
    async with opened(tmp_path) as store:
        assert value_of(store.get(A)) == 1


async def test_cancelled_close_leaves_no_write_waiting(tmp_path: Path) -> None:
    """Each waiting write is stored or refused."""
    context = opened(tmp_path)
    store = await context.__aenter__()
    writes = [asyncio.ensure_future(put(store, A, 1))]
    closing = asyncio.ensure_future(context.__aexit__(None, None, None))
    await asyncio.sleep(0)
    closing.cancel()
    results = await asyncio.gather(closing, *writes, return_exceptions=True)
    assert isinstance(results[0], asyncio.CancelledError)
    assert isinstance(results[1], StoreEntry | ServiceUnavailable)


async def test_events_end_an_hour_after_their_last_write(tmp_path: Path) -> None:
    """Watches see the removal; a restart in between changes nothing."""
    old, young = key_of("old", collection="events"), key_of("young", collection="events")
    async with opened(tmp_path) as store:
        await put(store, old, 1)
        await put(store, young, 1)
        await put(store, A, 1)
        await asyncio.sleep(1800)
        await put(store, young, 2)
        epoch = VirtualClock().now()
    clock = VirtualClock(epoch)
    async with open_store(tmp_path / "state.db", clock=clock) as store:
        # This clock runs from the same loop: 1800 s on, as if the machine had been off for that long.
        assert [entry.key for entry in store.list("events").entries] == [old, young]
        async with store.watch("events", store.revision) as watch:
            assert told((await anext(watch)).changes) == [(6, "old", None)]
            await asyncio.sleep(1900)
            assert store.list("events").entries == ()
            assert told(watch.take().changes) == [(7, "young", None)]
        assert value_of(store.get(A)) == 1


async def test_many_events_end_in_portions(store: DurableStore) -> None:
    """More events than one batch removes are still removed soon."""
    await asyncio.gather(*[put(store, key_of(f"e{index}", collection="events")) for index in range(1200)])
    await asyncio.sleep(3612)
    assert store.list("events").entries == ()


async def test_event_written_again_just_when_it_ends_stays(store: DurableStore) -> None:
    """A write in progress renews the event."""
    event = key_of("e", collection="events")
    await put(store, event, 1)
    await asyncio.sleep(3600)
    write = asyncio.ensure_future(put(store, event, 2))
    await asyncio.sleep(0)
    store.keep_house()
    await write
    await asyncio.sleep(60)
    assert value_of(store.get(event)) == 2


async def test_second_encoding_is_kept_with_the_newest_entry_only(store: DurableStore) -> None:
    """The history holds replaced entries for minutes, and hardly any of them is read again."""
    first = await put(store, A, 1)
    kept = first.encoded(bytes.upper)
    assert kept == first.text.upper()
    assert first.encoded(bytes.upper) is kept
    second = await put(store, A, 2)
    assert not first.is_encoded
    second.encoded(bytes.upper)
    await remove(store, A)
    assert not second.is_encoded


async def test_slow_reader_reads_on_in_history(store: DurableStore) -> None:
    """Its buffer is small, and it misses nothing while history reaches back far enough."""
    count = max(HELD_CHANGES, READ_AT_ONCE) * 2 + 5
    seen: list[tuple[int, str, object]] = []

    async def follow(watch: ChangeWatch) -> None:
        while len(seen) < count:
            seen.extend(told((await anext(watch)).changes))

    async with store.watch("configmaps", 1) as slow, store.watch("configmaps", 1) as quick:
        assert slow.take() == ((), 1)
        reader = asyncio.ensure_future(follow(quick))
        for start in range(0, count, 50):
            await asyncio.gather(*[put(store, key_of(str(index))) for index in range(start, min(count, start + 50))])
        await reader
        first = await anext(slow)
        assert len(first.changes) == READ_AT_ONCE
        assert first.revision == first.changes[-1].revision
        assert [*told(first.changes), *told(await drained(slow, store.revision))] == seen
        assert [revision for revision, _, _ in seen] == list(range(2, count + 2))
        await put(store, A, 7)
        assert slow.take().changes is quick.take().changes


async def test_reader_that_history_has_moved_past_is_expired(tmp_path: Path) -> None:
    """It gets an error instead of a gap; a watch that kept up continues."""
    async with (
        opened(tmp_path, StoreSettings(history_changes=HELD_CHANGES)) as store,
        store.watch("configmaps", 1) as slow,
        store.watch("configmaps", 1) as patient,
    ):
        assert slow.take() == patient.take() == ((), 1)
        await asyncio.gather(*[put(store, key_of(str(index))) for index in range(HELD_CHANGES)])
        assert len(patient.take().changes) == HELD_CHANGES
        await put(store, A)
        with pytest.raises(Expired, match=r"too old resource version: 1 \(2\)"):
            await anext(slow)
        assert len((await anext(patient)).changes) == 1


async def test_commit_wakes_each_watch_of_its_collection_once(store: DurableStore) -> None:
    """It wakes once for any number of changes; watches of other collections keep waiting."""
    batches: list[int] = []

    async def follow(collection: str) -> None:
        async with store.watch(collection, store.revision) as watch:
            while True:
                batches.append(len((await anext(watch)).changes))

    async with asyncio.TaskGroup() as group:
        readers = [group.create_task(follow(name)) for name in ("configmaps", "configmaps", "pods")]
        await asyncio.sleep(1)
        await asyncio.gather(*[put(store, key_of(str(index))) for index in range(30)])
        await asyncio.sleep(1)
        for reader in readers:
            reader.cancel()
    assert batches == [30, 30]


async def test_backup_opens_as_a_store(store: DurableStore, tmp_path: Path) -> None:
    """It has everything that was written before it."""
    await put(store, A, 1)
    await store.backup(tmp_path / "copy.db")
    await put(store, A, 2)
    async with open_store(tmp_path / "copy.db", clock=VirtualClock()) as copy:
        assert value_of(copy.get(A)) == 1


async def test_joined_write_is_stored_with_the_decided_one_or_not_at_all(store: DurableStore) -> None:
    """Readers see both at once. A decision that rejects or changes nothing leaves the other as it is."""

    def decide(value: int | None) -> Document | None:
        store.join(B, document_of(B, value))
        if value is None:
            raise Conflict("no")
        return document_of(A, value)

    writing = asyncio.ensure_future(store.write(A, lambda _: decide(1)))
    await asyncio.sleep(0)
    assert (value_of(store.newest(A)), value_of(store.newest(B))) == (1, 1)
    assert (store.get(A), store.get(B)) == (None, None)
    await writing
    assert (value_of(store.get(A)), value_of(store.get(B))) == (1, 1)
    with pytest.raises(Conflict):
        await store.write(A, lambda _: decide(None))
    await put(store, B, 2)
    await store.write(A, lambda _: decide(1))
    assert value_of(store.get(B)) == 2


async def test_joined_write_is_refused_with_the_decided_one(tmp_path: Path) -> None:
    """A transaction that the disk has no space for stores neither."""
    async with opened(tmp_path, SMALL) as store:
        await put(store, A, BIG)

        def decide(_: StoreEntry | None) -> Document:
            store.join(A, document_of(A, 1))
            return document_of(B, BIG * 3)

        with pytest.raises(ServiceUnavailable):
            await store.write(B, decide)
        assert (value_of(store.newest(A)), store.newest(B)) == (BIG, None)
