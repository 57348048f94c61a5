"""One at a time per pod, and blocking work in threads that outlast nobody's turn."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar, TypeVarTuple

from pykubelet.api.keys import PodUid

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Turns:
    """Whoever works on the disk of a pod has its turn alone; a lock exists only while somebody has or awaits it."""

    def __init__(self) -> None:
        self._locks: dict[PodUid, asyncio.Lock] = {}
        self._interested: dict[PodUid, int] = {}

    @asynccontextmanager
    async def of(self, uid: PodUid) -> AsyncIterator[None]:
        """The turn of a pod, in the order asked for."""
        self._interested[uid] = self._interested.get(uid, 0) + 1
        try:
            async with self._locks.setdefault(uid, asyncio.Lock()):
                yield
        finally:
            self._interested[uid] -= 1
            if not self._interested[uid]:
                del self._interested[uid], self._locks[uid]

    def __len__(self) -> int:
        """Of how many pods somebody has or awaits the turn."""
        return len(self._locks)


async def in_thread(function: Callable[[*Ts], T], *arguments: *Ts) -> T:
    """Call a blocking function in a thread; when cancelled, wait until it has ended, for nobody can stop it."""
    future = asyncio.get_running_loop().run_in_executor(None, function, *arguments)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        await asyncio.wait([future])
        # Whatever it was, the caller is not interested any more.
        future.exception()
        raise
