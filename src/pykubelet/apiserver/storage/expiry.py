"""When objects that live for a limited time are due to be removed.

Every write of an object starts its life anew, as upstream attaches a new etcd lease at each write. All objects of a
collection live equally long, so the order of their writes is the order of their ends, and nothing is ever searched.
"""

from collections.abc import Mapping
from itertools import islice, takewhile

from pykubelet.apiserver.store import Key


class Expiry:
    """The ends of the collections that have a lifetime; times are the clock's monotonic seconds."""

    def __init__(self, lifetimes: Mapping[str, float]) -> None:
        self._lifetimes = dict(lifetimes)
        self._ends: dict[str, dict[Key, float]] = {collection: {} for collection in lifetimes}

    def written(self, key: Key, at: float) -> None:
        """An object was written: its life starts now."""
        if (ends := self._ends.get(key.collection)) is not None:
            ends.pop(key, None)
            ends[key] = at + self._lifetimes[key.collection]

    def removed(self, key: Key) -> None:
        """An object is gone."""
        if (ends := self._ends.get(key.collection)) is not None:
            ends.pop(key, None)

    def due(self, now: float, limit: int) -> list[Key]:
        """Up to `limit` objects of each collection whose time is over; they stay due until they are removed."""
        return [
            key
            for ends in self._ends.values()
            for key, _ in islice(takewhile(lambda item: item[1] <= now, ends.items()), limit)
        ]
