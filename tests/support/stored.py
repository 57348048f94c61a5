"""Small objects for tests of the store."""

from collections.abc import Sequence
from typing import Any

from pykubelet.api.wire import Document
from pykubelet.apiserver.store import Batch, Entry, Key, Store, StoreChange, Watch


def key_of(name: str, namespace: str = "default", collection: str = "configmaps") -> Key:
    return Key(collection, namespace, name)


def document_of(key: Key, value: Any = 0) -> Document:
    return {"kind": "Any", "metadata": {"name": key.name, "namespace": key.namespace}, "data": {"value": value}}


async def put(store: Store, key: Key, value: Any = 0) -> Entry:
    """Create or replace."""
    entry = await store.write(key, lambda _: document_of(key, value))
    assert entry is not None
    return entry


async def remove(store: Store, key: Key) -> Entry | None:
    return await store.write(key, lambda _: None)


def value_of(entry: Entry | None) -> Any:
    return None if entry is None else entry.document["data"]["value"]


def names_of(entries: Sequence[Entry]) -> list[str]:
    return [f"{entry.key.namespace}/{entry.key.name}" for entry in entries]


def told(changes: Sequence[StoreChange]) -> list[tuple[int, str, Any]]:
    """Revision, name and new value (None: removed) of each change."""
    return [(change.revision, change.key.name, value_of(change.after)) for change in changes]


async def drained(watch: Watch, revision: int) -> list[StoreChange]:
    """All changes up to a revision, by taking what there is."""
    changes: list[StoreChange] = []
    batch = Batch((), 0)
    while batch.revision < revision:
        batch = watch.take()
        changes += batch.changes
    return changes
