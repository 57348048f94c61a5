"""The newest committed entries in memory, each collection in key order.

A collection is listed in the order of etcd's keys: bytewise by `namespace/name`, so objects of `team-a` come before
those of `team`. Costs: get O(1); a list O(its entries); a change O(log n) and a short move in the list of paths.
"""

from bisect import bisect_left, insort
from collections.abc import Mapping

from pykubelet.apiserver.store import Entry, Key

_AFTER_SLASH = "0"


def path_of(key: Key) -> str:
    """What orders the keys of a collection: compared as text it gives the order of a list."""
    return f"{key.namespace}/{key.name}"


class _Collection:
    """Entries by path; the paths are sorted when first asked for, and kept so from then on."""

    __slots__ = ("_paths", "entries")

    def __init__(self, entries: dict[str, Entry] | None = None) -> None:
        self.entries: dict[str, Entry] = {} if entries is None else entries
        self._paths: list[str] | None = None

    def put(self, path: str, entry: Entry) -> None:
        if self._paths is not None and path not in self.entries:
            insort(self._paths, path)
        self.entries[path] = entry

    def remove(self, path: str) -> None:
        if self.entries.pop(path, None) is not None and self._paths is not None:
            del self._paths[bisect_left(self._paths, path)]

    def listed(self, namespace: str) -> tuple[Entry, ...]:
        if self._paths is None:
            self._paths = sorted(self.entries)
        paths = self._paths
        if namespace:
            paths = paths[bisect_left(paths, f"{namespace}/") : bisect_left(paths, f"{namespace}{_AFTER_SLASH}")]
        return tuple(map(self.entries.__getitem__, paths))


class State:
    """Every collection's entries."""

    def __init__(self) -> None:
        self._collections: dict[str, _Collection] = {}

    def get(self, key: Key) -> Entry | None:
        """The entry at a key."""
        collection = self._collections.get(key.collection)
        return None if collection is None else collection.entries.get(path_of(key))

    def put(self, entry: Entry) -> None:
        """Set the entry at its key."""
        collection = self._collections.get(entry.key.collection)
        if collection is None:
            collection = self._collections[entry.key.collection] = _Collection()
        collection.put(path_of(entry.key), entry)

    def remove(self, key: Key) -> None:
        """Drop the entry at a key, if there is one."""
        if collection := self._collections.get(key.collection):
            collection.remove(path_of(key))

    def listed(self, collection: str, namespace: str = "") -> tuple[Entry, ...]:
        """The entries of a collection, or of one namespace of it, in key order."""
        found = self._collections.get(collection)
        return () if found is None else found.listed(namespace)

    def listed_as_it_was(
        self, collection: str, namespace: str, earlier: Mapping[Key, Entry | None]
    ) -> tuple[Entry, ...]:
        """The same with some entries as they were before (None: not there then)."""
        found = self._collections.get(collection)
        entries = {} if found is None else dict(found.entries)
        for key, entry in earlier.items():
            if entry is None:
                entries.pop(path_of(key), None)
            else:
                entries[path_of(key)] = entry
        return _Collection(entries).listed(namespace)

    def keys_in(self, namespace: str) -> list[Key]:
        """The keys of everything in a namespace, in no useful order of collections."""
        return [entry.key for each in self._collections.values() for entry in each.listed(namespace)]
