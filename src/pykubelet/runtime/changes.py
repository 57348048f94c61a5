"""Hints about changed pods, for any number of readers: for runtimes that tell of changes."""

import asyncio
from collections.abc import AsyncIterator
from weakref import WeakSet

from pykubelet.api.keys import PodUid


class Changes(AsyncIterator[PodUid]):
    """Hints for one reader; a pod that changes again before it was read is told once."""

    def __init__(self) -> None:
        self._waiting: dict[PodUid, None] = {}
        self._wake = asyncio.Event()

    def offer(self, uid: PodUid) -> None:
        """Something of this pod changed."""
        self._waiting[uid] = None
        self._wake.set()

    async def __anext__(self) -> PodUid:
        while not self._waiting:
            self._wake.clear()
            await self._wake.wait()
        uid = next(iter(self._waiting))
        del self._waiting[uid]
        return uid


class ChangeHints:
    """Tells all readers; one that is gone costs nothing."""

    def __init__(self) -> None:
        self._readers: WeakSet[Changes] = WeakSet()

    def subscribe(self) -> Changes:
        """A reader of what changes from now on."""
        reader = Changes()
        self._readers.add(reader)
        return reader

    def offer(self, uid: PodUid) -> None:
        """Something of this pod changed."""
        for reader in self._readers:
            reader.offer(uid)
