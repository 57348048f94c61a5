"""One referenced object: who refers to it and what the API server says of it.

Written by the watch store and its watches, all in one loop; every change of what a reader would get is reported.
"""

import asyncio
from collections.abc import Callable
from typing import Generic

from pykubelet.agent.refs.store import ObjectKey, ObjectSource, T, revision
from pykubelet.api.errors import NotFound


class Item(Generic[T]):
    """The object under one key. `is_synced` is set while `object` (or None) is the API server's word."""

    __slots__ = ("_changed", "_referrers", "_turn", "is_synced", "key", "last_read_at", "needs_fetch", "object")

    def __init__(self, key: ObjectKey, changed: Callable[[ObjectKey], None]) -> None:
        self.key = key
        self.object: T | None = None
        self.is_synced = asyncio.Event()
        self.needs_fetch = False
        """Whether the next reader must ask the server: no watch has told us of the object as it is now."""
        self.last_read_at = float("-inf")
        self._changed = changed
        self._referrers: dict[str, int] = {}
        self._turn = asyncio.Lock()

    @property
    def is_immutable(self) -> bool:
        """Whether the object as we know it can never change; only a successor of the same name could differ."""
        return self.object is not None and self.object.immutable is True

    def references(self, referrer: str) -> int:
        """How often a pod refers to it."""
        return self._referrers.get(referrer, 0)

    def add_reference(self, referrer: str) -> None:
        self._referrers[referrer] = self.references(referrer) + 1

    def delete_reference(self, referrer: str) -> bool:
        """Take one back; True if nobody refers to the object any more."""
        # Upstream stores -1 for a pod that never referred to it, and so keeps the object for ever.
        left = self._referrers.pop(referrer, 0) - 1
        if left > 0:
            self._referrers[referrer] = left
        return not self._referrers

    def offer(self, found: T) -> None:
        """Take a state of the object, unless a newer one is known."""
        self.needs_fetch = False
        if self.object is None or revision(found) >= revision(self.object):
            self._replace(found)

    def withdraw(self, last: T) -> None:
        """The object is gone, given as it last was; if we know of a later one, someone must look."""
        if self.object is not None and revision(last) < revision(self.object):
            self.doubt()
        else:
            self.clear()

    def clear(self) -> None:
        """There is no such object."""
        self.needs_fetch = False
        self._replace(None)

    def doubt(self) -> None:
        """What we have may be outdated: the next reader asks the server, and readers hear that they should ask."""
        self.needs_fetch = True
        self._changed(self.key)

    async def fetch(self, source: ObjectSource[T]) -> None:
        """Ask the server if that is necessary, once for all readers that wait; ApiError if it does not answer."""
        async with self._turn:
            if not self.needs_fetch:
                return
            try:
                self.offer(await source.fetch(self.key))
            except NotFound:
                # Unless a watch has told of it meanwhile.
                if self.needs_fetch:
                    self.clear()

    def _replace(self, found: T | None) -> None:
        was, self.object = self.object, found
        if _identity(was) != _identity(found):
            self._changed(self.key)


def _identity(found: T | None) -> tuple[str, str] | None:
    return None if found is None else (found.metadata.uid, found.metadata.resource_version)
