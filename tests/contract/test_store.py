"""The contract of every store, on which the verb handlers rely."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pykubelet.api.errors import Conflict, Expired, Timeout
from pykubelet.api.serializer import Document
from pykubelet.apiserver.storage.durable_store import DurableStore, open_store
from pykubelet.apiserver.storage.interfaces import Store, StoreChange, StoreEntry
from pykubelet.testing.virtual_time import VirtualClock
from stored_objects import document_of, key_of, names_of, put, remove, told, value_of

A, B = key_of("a"), key_of("b")


@pytest.fixture
async def durable(tmp_path: Path) -> AsyncIterator[DurableStore]:
    async with open_store(tmp_path / "state.db", clock=VirtualClock()) as store:
        yield store


@pytest.fixture
def store(durable: DurableStore) -> Store:
    return durable


async def test_written_object_is_read_back_with_its_revision(store: Store) -> None:
    """The store stamps the revision, whatever the document has, and does not change the writer's document."""
    document = document_of(A, 1) | {"metadata": {"name": "a", "resourceVersion": "99"}}
    before = store.revision
    entry = await store.write(A, lambda _: document)
    assert entry is not None
    assert entry == store.get(A) == store.newest(A)
    assert entry.revision == store.revision == before + 1
    assert entry.document["metadata"]["resourceVersion"] == str(entry.revision)
    assert document["metadata"]["resourceVersion"] == "99"


async def test_writer_decides_on_the_newest_state_when_many_write_at_once(store: Store) -> None:
    """No write is lost: each sees the previous one, whether or not that is on disk yet."""

    def count(entry: StoreEntry | None) -> Document:
        return document_of(A, 0 if entry is None else entry.document["data"]["value"] + 1)

    entries = await asyncio.gather(*[store.write(A, count) for _ in range(20)])
    revisions = [entry.revision for entry in entries if entry is not None]
    assert revisions == sorted(set(revisions))
    assert value_of(store.get(A)) == 19


async def test_readers_see_nothing_before_it_is_stored(store: Store) -> None:
    """A pending write is visible to the decisions of writers only, not to get and list."""
    write = asyncio.ensure_future(put(store, A))
    await asyncio.sleep(0)
    assert store.newest(A) is not None
    assert store.newest_in("default") == (A,)
    assert store.get(A) is None
    assert store.list("configmaps").entries == ()
    entry = await write
    assert store.get(A) == entry
    removal = asyncio.ensure_future(remove(store, A))
    await asyncio.sleep(0)
    assert store.newest(A) is None
    assert store.newest_in("default") == ()
    assert store.get(A) == entry
    assert await removal == entry
    assert store.get(A) is None


async def test_unchanged_document_takes_no_revision(store: Store) -> None:
    """The order of keys and the document's revision are ignored; removing a missing object takes no revision either."""
    entry = await put(store, A, 1)
    again = dict(reversed(entry.document.items()))
    again["metadata"] = {**dict(reversed(again["metadata"].items())), "resourceVersion": "7"}
    assert await store.write(A, lambda _: again) is entry
    assert await remove(store, B) is None
    assert store.revision == entry.revision
    assert (await put(store, A, 2)).revision == entry.revision + 1


async def test_unchanged_write_waits_for_the_pending_write_that_it_matches(store: Store) -> None:
    """When it returns, the state that it found is stored."""
    first = asyncio.ensure_future(put(store, A, 1))
    await asyncio.sleep(0)
    assert await put(store, A, 1) == store.get(A)
    assert first.done()


async def test_rejected_write_changes_nothing_and_waits_for_pending_writes(store: Store) -> None:
    """A conflict with a pending write is raised once readers can see that write."""

    def refuse(_: StoreEntry | None) -> Document:
        raise Conflict("no")

    with pytest.raises(Conflict):
        await store.write(A, refuse)
    assert store.revision == 1
    write = asyncio.ensure_future(put(store, A, 1))
    await asyncio.sleep(0)
    with pytest.raises(Conflict):
        await store.write(A, refuse)
    assert value_of(store.get(A)) == 1
    assert (await write).revision == store.revision


async def test_list_is_in_the_order_of_etcd(store: Store) -> None:
    """Bytewise by namespace/name: "-" and "." come before "/"; one namespace is listed alone."""
    for namespace, name in [("a", "x"), ("a-b", "x"), ("a", "b.c"), ("a", "b-c"), ("a", "b"), ("b", "a"), ("a.b", "z")]:
        await put(store, key_of(name, namespace))
    await put(store, key_of("n", "", "nodes"))
    snapshot = store.list("configmaps")
    assert names_of(snapshot.entries) == ["a-b/x", "a.b/z", "a/b", "a/b-c", "a/b.c", "a/x", "b/a"]
    assert snapshot.revision == store.revision
    assert names_of(store.list("configmaps", "a").entries) == ["a/b", "a/b-c", "a/b.c", "a/x"]
    assert names_of(store.list("nodes").entries) == ["/n"]
    assert store.list("pods").entries == ()


async def test_list_of_the_past_is_as_it_was(store: Store) -> None:
    """Objects created since are absent; changed and removed ones are listed as they were."""
    first = await put(store, A, 1)
    at = (await put(store, B, 1)).revision
    await put(store, B, 2)
    await remove(store, A)
    await put(store, key_of("c"))
    snapshot = store.list("configmaps", at=at)
    assert snapshot.revision == at
    assert snapshot.entries[0] == first
    assert [value_of(entry) for entry in snapshot.entries] == [1, 1]
    assert names_of(store.list("configmaps", "other", at=at).entries) == []


async def test_list_of_the_future_is_refused(store: Store) -> None:
    """The error has the cause that clients check, ResourceVersionTooLarge."""
    with pytest.raises(Timeout, match="Too large resource version: 9, current: 1") as refused:
        store.list("configmaps", at=9)
    assert refused.value.has_cause("ResourceVersionTooLarge")


async def test_watch_gives_history_then_what_happens(store: Store) -> None:
    """It gives the changes of its collection in order, without a gap or a repetition."""
    start = store.revision
    await put(store, A, 1)
    await put(store, key_of("p", collection="pods"))
    await put(store, A, 2)
    async with store.watch("configmaps", start) as watch:
        first = await anext(watch)
        assert told(first.changes) == [(2, "a", 1), (4, "a", 2)]
        assert first.revision == 4
        await asyncio.gather(put(store, B, 3), put(store, key_of("q", collection="pods")), remove(store, A))
        second = await anext(watch)
        assert told(second.changes) == [(5, "b", 3), (7, "a", None)]
        assert second.revision == store.revision == 7
        assert watch.take() == ((), 7)
    async with store.watch("configmaps", 5) as watch:
        assert told((await anext(watch)).changes) == [(7, "a", None)]


async def test_change_carries_both_sides(store: Store) -> None:
    """A removal shows the object as it last was, at the removal's revision."""
    await put(store, A, 1)
    await put(store, A, 2)
    await remove(store, A)
    async with store.watch("configmaps", 1) as watch:
        added, modified, removed = (await anext(watch)).changes
    assert added.before is None
    assert modified.before == added.after
    assert removed.before == modified.after
    assert removed.after is None
    assert removed.document["data"] == {"value": 2}
    assert removed.document["metadata"]["resourceVersion"] == str(removed.revision)


async def test_bookmark_names_a_revision_at_which_nothing_is_missing(store: Store) -> None:
    """Changes of other collections advance it; changes not yet taken come with it."""
    async with store.watch("configmaps", store.revision) as watch:
        await put(store, key_of("p", collection="pods"))
        assert watch.take() == ((), 2)
        await put(store, A, 1)
        batch = watch.take()
        assert told(batch.changes) == [(3, "a", 1)]
        assert batch.revision == 3


async def test_waiting_for_a_change_may_be_given_up(store: Store) -> None:
    """A timeout while waiting loses no change."""
    async with store.watch("configmaps", store.revision) as watch:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(60):
                await anext(watch)
        await put(store, A, 1)
        assert told((await anext(watch)).changes) == [(2, "a", 1)]


async def test_watch_of_the_future_waits_for_it(store: Store) -> None:
    """Changes up to the requested revision are not sent."""
    async with store.watch("configmaps", 3) as watch:
        for value in range(4):
            await put(store, A, value)
        assert told((await anext(watch)).changes) == [(4, "a", 2), (5, "a", 3)]


async def test_watch_from_a_forgotten_revision_is_expired(store: Store) -> None:
    """Expired (410) makes the client list again; lists at such a revision are expired, too."""
    await put(store, A, 1)
    await put(store, A, 2)
    await asyncio.sleep(600)
    with pytest.raises(Expired, match=r"too old resource version: 1 \(3\)"):
        async with store.watch("configmaps", 1):
            pass
    with pytest.raises(Expired, match=r"The resourceVersion for the provided list is too old\."):
        store.list("configmaps", at=2)
    assert [value_of(entry) for entry in store.list("configmaps", at=3).entries] == [2]


async def test_listener_receives_a_change_before_the_write_returns(durable: DurableStore) -> None:
    """It receives only its collection; another listener that raises affects neither it nor the write."""
    heard: list[tuple[StoreChange, bool]] = []

    def fail(_: StoreChange) -> None:
        raise ValueError

    write = asyncio.ensure_future(put(durable, A, 1))
    durable.listen("configmaps", fail)
    durable.listen("configmaps", lambda change: heard.append((change, write.done())))
    entry = await write
    await put(durable, key_of("p", collection="pods"))
    assert [(change.after, was_answered) for change, was_answered in heard] == [(entry, False)]
