"""Fault injection at the client: what a network and a busy server do to requests.

`FaultyClient(api, Fault.CONFLICT, at=3)` injects the fault once, at the fourth opportunity (the fourth call, or for
watch faults the fourth event). A test runs its scenario with `at` = 0, 1, 2, ... until `injected` stays False: then
every place has been tried.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import Enum, auto
from typing import Any, TypeVar

from pykubelet.api.errors import ApiError, Conflict, Expired, InternalError, NotReached, TooManyRequests
from pykubelet.api.scheme import TypedKind
from pykubelet.client.interface import Client, Listing, WatchEvent

T = TypeVar("T")

DELAY_SECONDS = 7.0


class Fault(Enum):
    """The faults that can be injected."""

    DELAY = auto()
    """The response takes seven seconds."""
    REFUSED = auto()
    """The request never arrives at the server."""
    ANSWER_LOST = auto()
    """The server executes the request, but the connection breaks before the response."""
    CONFLICT = auto()
    """Status 409 Conflict."""
    EXPIRED = auto()
    """Status 410 Expired."""
    THROTTLED = auto()
    """Status 429 with Retry-After."""
    FAILED = auto()
    """Status 500 InternalError."""
    WATCH_CUT = auto()
    """The stream ends before an event."""
    EVENT_TWICE = auto()
    """An event is delivered twice."""


CALL_FAULTS = tuple(fault for fault in Fault if fault not in (Fault.WATCH_CUT, Fault.EVENT_TWICE))
WATCH_FAULTS = (Fault.WATCH_CUT, Fault.EVENT_TWICE)

_ANSWERS: dict[Fault, ApiError] = {
    Fault.REFUSED: NotReached("connection refused"),
    Fault.CONFLICT: Conflict("the object has been modified"),
    Fault.EXPIRED: Expired("too old resource version"),
    Fault.THROTTLED: TooManyRequests("slow down", retry_after_seconds=1),
    Fault.FAILED: InternalError("the database is on fire"),
}


class FaultyClient:
    """A client that injects one fault; implements `pykubelet.client.interface.Client`."""

    def __init__(self, inner: Client, fault: Fault, *, at: int = 0) -> None:
        self._inner, self._fault, self._left = inner, fault, at
        self.injected = False

    async def get(self, kind: TypedKind[T], name: str, **options: Any) -> T:
        due = await self._before()
        return self._after(await self._inner.get(kind, name, **options), due=due)

    async def list(self, kind: TypedKind[T], **options: Any) -> Listing[T]:
        due = await self._before()
        return self._after(await self._inner.list(kind, **options), due=due)

    async def create(self, kind: TypedKind[T], body: T, **options: Any) -> T:
        due = await self._before()
        return self._after(await self._inner.create(kind, body, **options), due=due)

    async def patch(self, kind: TypedKind[T], name: str, body: Any, **options: Any) -> T:
        due = await self._before()
        return self._after(await self._inner.patch(kind, name, body, **options), due=due)

    async def delete(self, kind: TypedKind[T], name: str, **options: Any) -> None:
        due = await self._before()
        await self._inner.delete(kind, name, **options)
        self._after(None, due=due)

    @asynccontextmanager
    async def watch(self, kind: TypedKind[T], **options: Any) -> AsyncIterator[AsyncIterator[WatchEvent[T]]]:
        due = await self._before()
        async with self._inner.watch(kind, **options) as events:
            self._after(None, due=due)
            yield self._events(events) if self._fault in WATCH_FAULTS else events

    async def _events(self, events: AsyncIterator[WatchEvent[T]]) -> AsyncIterator[WatchEvent[T]]:
        async for event in events:
            due = self._is_due()
            if due and self._fault is Fault.WATCH_CUT:
                return
            yield event
            if due:
                yield event

    async def _before(self) -> bool:
        """Inject the fault into the request if it is due; True if it must be injected into the response."""
        if self._fault in WATCH_FAULTS or not self._is_due():
            return False
        if self._fault is Fault.DELAY:
            await asyncio.sleep(DELAY_SECONDS)
        if answer := _ANSWERS.get(self._fault):
            raise answer
        return self._fault is Fault.ANSWER_LOST

    def _after(self, answer: T, *, due: bool) -> T:
        if due:
            raise NotReached("connection reset by peer")
        return answer

    def _is_due(self) -> bool:
        if self.injected:
            return False
        self._left -= 1
        self.injected = self._left < 0
        return self.injected
