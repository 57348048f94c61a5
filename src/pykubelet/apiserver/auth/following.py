"""Which objects changed since they were last looked at: how an index never answers from the past.

An index of access is asked often and changes rarely, so it is brought up to date when it is asked. The store tells of
each change before anybody can know of it (`Commits.listen`), and here only the key is noted; the next question takes the
noted keys and reads the objects as they are now. So a role is in force for every request that follows its write, an
object that changes a thousand times between two questions is read once, and nothing is read if nobody asks.
"""

from collections.abc import Iterable, Iterator
from typing import Protocol

from pykubelet.apiserver.store import Commits, Entry, Key, Snapshot, StoreChange


class Objects(Commits, Protocol):
    """What an index needs of the store."""

    def get(self, key: Key) -> Entry | None:
        """The committed entry."""

    def list(self, collection: str, namespace: str = "", *, at: int | None = None) -> Snapshot:
        """All committed entries of a collection."""


class Following:
    """The changed objects of a few collections. What the store holds at the start counts as changed."""

    def __init__(self, objects: Objects, collections: Iterable[str]) -> None:
        self._objects = objects
        self._changed: dict[Key, None] = {}
        for collection in collections:
            objects.listen(collection, self._hear)
            self._changed.update((entry.key, None) for entry in objects.list(collection).entries)

    def __bool__(self) -> bool:
        """Whether there is anything to take."""
        return bool(self._changed)

    def take(self) -> Iterator[tuple[Key, Entry | None]]:
        """Each changed object as it is now (None if it is gone), once."""
        while self._changed:
            key, _ = self._changed.popitem()
            yield key, self._objects.get(key)

    def _hear(self, change: StoreChange) -> None:
        self._changed[change.key] = None
