"""Caches the runtime's state of each pod, and waits for a newer state.

One task writes per pod; any task reads. A Moment is a number that only grows, not a time: an inspection that began after a
sync has a higher one, however coarse the clock is. Pods without containers take no space.

Upstream: pkg/kubelet/container/cache.go
"""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NewType

from pykubelet.api.pods import PodUid
from pykubelet.runtimes.protocol import RuntimeFailure, RuntimePod

Moment = NewType("Moment", int)
"""A position in the order of inspections."""

BEGINNING = Moment(0)
"""Before every inspection."""


@dataclass(frozen=True, slots=True)
class CachedStatus:
    """The result of one inspection of a pod: its state (None if there is nothing), or the failure."""

    began: Moment
    result: RuntimePod | RuntimeFailure | None


class PodCache:
    """The result of the last inspection of each pod."""

    def __init__(self) -> None:
        self._last = BEGINNING
        self._entries: dict[PodUid, CachedStatus] = {}
        self._waiting: dict[PodUid, set[asyncio.Future[CachedStatus]]] = {}

    def moment(self) -> Moment:
        """Now: inspections that begin later are newer."""
        return self._last

    def begin(self) -> Moment:
        """Record the start of an inspection; the moment to pass to `put`."""
        self._last = Moment(self._last + 1)
        return self._last

    def put(self, uid: PodUid, status: CachedStatus) -> None:
        """Store the result of an inspection, unless a newer one is stored, and wake the waiting readers."""
        known = self._entries.get(uid)
        if known is not None and known.began > status.began:
            return
        if status.result is None:
            self._entries.pop(uid, None)
        else:
            self._entries[uid] = status
        for waiting in self._waiting.get(uid, ()):
            if not waiting.done():
                waiting.set_result(status)

    def get(self, uid: PodUid) -> RuntimePod:
        """The state of a pod, empty if the runtime has nothing; RuntimeFailure if the last inspection failed."""
        status = self._entries.get(uid)
        return _unwrap(uid, status.result if status is not None else None)

    def is_newer(self, uid: PodUid, moment: Moment) -> bool:
        """Whether the last inspection of a pod began after a moment."""
        status = self._entries.get(uid)
        return status is not None and status.began > moment

    async def newer_than(self, uid: PodUid, moment: Moment) -> RuntimePod:
        """Like `get`, but waits for an inspection that began after a moment. Does not start one."""
        status = self._entries.get(uid)
        while status is None or status.began <= moment:
            status = await self._next_status(uid)
        return _unwrap(uid, status.result)

    async def until(self, uid: PodUid, is_reached: Callable[[RuntimePod], bool]) -> None:
        """Wait until the state of a pod satisfies a condition; ignores failed inspections."""
        status = self._entries.get(uid)
        while True:
            result = status.result if status is not None else None
            if not isinstance(result, RuntimeFailure) and is_reached(_unwrap(uid, result)):
                return
            status = await self._next_status(uid)

    def __iter__(self) -> Iterator[PodUid]:
        return iter(tuple(self._entries))

    def __len__(self) -> int:
        return len(self._entries)

    async def _next_status(self, uid: PodUid) -> CachedStatus:
        waiting: asyncio.Future[CachedStatus] = asyncio.get_running_loop().create_future()
        others = self._waiting.setdefault(uid, set())
        others.add(waiting)
        try:
            return await waiting
        finally:
            others.discard(waiting)
            if not others:
                self._waiting.pop(uid, None)


def _unwrap(uid: PodUid, result: RuntimePod | RuntimeFailure | None) -> RuntimePod:
    if isinstance(result, RuntimeFailure):
        raise RuntimeFailure(result.message, reason=result.reason, retry_at=result.retry_at) from result
    return result if result is not None else RuntimePod(uid=uid, namespace="", name="")
