"""What the runtime has of each pod, as of the last look; and waiting for a newer look.

One task writes per pod; anyone reads. Moments are numbers that only grow, not times: a look that began after a sync
has ended bears a higher one, however coarse the clock is. Pods of which there is nothing take no room.
Upstream: pkg/kubelet/container/cache.go.
"""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NewType

from pykubelet.api.pods import PodUid
from pykubelet.runtimes.protocol import RuntimeFailure, RuntimePod

Moment = NewType("Moment", int)
"""A point in the order of looks and deeds."""

BEGINNING = Moment(0)
"""Before every look."""


@dataclass(frozen=True, slots=True)
class CachedStatus:
    """What one look at a pod gave: what there is (None: nothing), or the failure to find out."""

    began: Moment
    result: RuntimePod | RuntimeFailure | None


class PodCache:
    """The last look at each pod."""

    def __init__(self) -> None:
        self._last = BEGINNING
        self._looks: dict[PodUid, CachedStatus] = {}
        self._waiting: dict[PodUid, set[asyncio.Future[CachedStatus]]] = {}

    def moment(self) -> Moment:
        """Now: looks that begin from here on are newer."""
        return self._last

    def begin(self) -> Moment:
        """Say that a look begins; its moment is for `put`."""
        self._last = Moment(self._last + 1)
        return self._last

    def put(self, uid: PodUid, look: CachedStatus) -> None:
        """Store what a look gave, unless a newer one is known, and tell who waits for one as new as this."""
        known = self._looks.get(uid)
        if known is not None and known.began > look.began:
            return
        if look.result is None:
            self._looks.pop(uid, None)
        else:
            self._looks[uid] = look
        for waiting in self._waiting.get(uid, ()):
            if not waiting.done():
                waiting.set_result(look)

    def get(self, uid: PodUid) -> RuntimePod:
        """What there is of a pod, an empty one if nothing; RuntimeFailure if the last look failed."""
        look = self._looks.get(uid)
        return _opened(uid, look.result if look is not None else None)

    def is_newer(self, uid: PodUid, moment: Moment) -> bool:
        """Whether the last look at a pod began after a moment."""
        look = self._looks.get(uid)
        return look is not None and look.began > moment

    async def newer_than(self, uid: PodUid, moment: Moment) -> RuntimePod:
        """The same as `get`, but of a look that began after a moment; waits for one. Someone has to look."""
        look = self._looks.get(uid)
        while look is None or look.began <= moment:
            look = await self._next_look(uid)
        return _opened(uid, look.result)

    async def until(self, uid: PodUid, is_so: Callable[[RuntimePod], bool]) -> None:
        """Wait for a look at a pod that shows what is waited for; the last one may. A look that failed shows nothing."""
        look = self._looks.get(uid)
        while True:
            result = look.result if look is not None else None
            if not isinstance(result, RuntimeFailure) and is_so(_opened(uid, result)):
                return
            look = await self._next_look(uid)

    def __iter__(self) -> Iterator[PodUid]:
        return iter(tuple(self._looks))

    def __len__(self) -> int:
        return len(self._looks)

    async def _next_look(self, uid: PodUid) -> CachedStatus:
        waiting: asyncio.Future[CachedStatus] = asyncio.get_running_loop().create_future()
        others = self._waiting.setdefault(uid, set())
        others.add(waiting)
        try:
            return await waiting
        finally:
            others.discard(waiting)
            if not others:
                self._waiting.pop(uid, None)


def _opened(uid: PodUid, result: RuntimePod | RuntimeFailure | None) -> RuntimePod:
    if isinstance(result, RuntimeFailure):
        raise RuntimeFailure(result.message, reason=result.reason, retry_at=result.retry_at) from result
    return result if result is not None else RuntimePod(uid=uid, namespace="", name="")
