"""Small objects for tests of the store."""

from collections.abc import Sequence
from typing import Any

from pykubelet.api.serializer import Document
from pykubelet.apiserver.storage.interfaces import ChangeBatch, ChangeWatch, Store, StoreChange, StoreEntry, StoreKey


def key_of(name: str, namespace: str = "default", collection: str = "configmaps") -> StoreKey:
    return StoreKey(collection, namespace, name)


def document_of(key: StoreKey, value: Any = 0) -> Document:
    return {"kind": "Any", "metadata": {"name": key.name, "namespace": key.namespace}, "data": {"value": value}}


async def put(store: Store, key: StoreKey, value: Any = 0) -> StoreEntry:
    """Create or replace an object."""
    entry = await store.write(key, lambda _: document_of(key, value))
    assert entry is not None
    return entry


async def remove(store: Store, key: StoreKey) -> StoreEntry | None:
    return await store.write(key, lambda _: None)


def value_of(entry: StoreEntry | None) -> Any:
    return None if entry is None else entry.document["data"]["value"]


def names_of(entries: Sequence[StoreEntry]) -> list[str]:
    return [f"{entry.key.namespace}/{entry.key.name}" for entry in entries]


def told(changes: Sequence[StoreChange]) -> list[tuple[int, str, Any]]:
    """Revision, name and new value (None: removed) of each change."""
    return [(change.revision, change.key.name, value_of(change.after)) for change in changes]


async def drained(watch: ChangeWatch, revision: int) -> list[StoreChange]:
    """All changes up to a revision, taken without waiting for new ones."""
    changes: list[StoreChange] = []
    batch = ChangeBatch((), 0)
    while batch.revision < revision:
        batch = watch.take()
        changes += batch.changes
    return changes
