"""Clients that fail: `Outage` switches the API server off and on, `CrashingClient` blocks for ever at one call.

For single failed calls use `pykubelet.testing.faults.FaultyClient`.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from pykubelet.api.errors import NotReached
from pykubelet.api.scheme import TypedKind
from pykubelet.client.interface import Client, Listing, WatchEvent

T = TypeVar("T")


class Outage:
    """A Client whose requests fail while the server is down, and whose watches break when it goes down."""

    def __init__(self, inner: Client, *, is_down: bool = False) -> None:
        self._inner = inner
        self._is_up, self._is_down = asyncio.Event(), asyncio.Event()
        (self.end if not is_down else self.begin)()

    def begin(self) -> None:
        """The server goes down."""
        self._is_up.clear()
        self._is_down.set()

    def end(self) -> None:
        """The server is back."""
        self._is_down.clear()
        self._is_up.set()

    async def get(self, kind: TypedKind[T], name: str, **where: Any) -> T:
        self._check()
        return await self._inner.get(kind, name, **where)

    async def list(self, kind: TypedKind[T], **where: Any) -> Listing[T]:
        self._check()
        return await self._inner.list(kind, **where)

    async def create(self, kind: TypedKind[T], body: T, **where: Any) -> T:
        self._check()
        return await self._inner.create(kind, body, **where)

    async def patch(self, kind: TypedKind[T], name: str, body: Any, **where: Any) -> T:
        self._check()
        return await self._inner.patch(kind, name, body, **where)

    async def delete(self, kind: TypedKind[T], name: str, **where: Any) -> None:
        self._check()
        await self._inner.delete(kind, name, **where)

    @asynccontextmanager
    async def watch(self, kind: TypedKind[T], **where: Any) -> AsyncIterator[AsyncIterator[WatchEvent[T]]]:
        self._check()
        async with self._inner.watch(kind, **where) as events:
            yield self._until_down(events)

    def _check(self) -> None:
        if self._is_down.is_set():
            raise NotReached("connection refused")

    async def _until_down(self, events: AsyncIterator[WatchEvent[T]]) -> AsyncIterator[WatchEvent[T]]:
        down = asyncio.ensure_future(self._is_down.wait())
        try:
            while (event := await self._next(events, down)) is not None:
                yield event
        finally:
            down.cancel()

    async def _next(self, events: AsyncIterator[WatchEvent[T]], down: asyncio.Future[Any]) -> WatchEvent[T] | None:
        step: asyncio.Future[Any] = asyncio.ensure_future(_anext(events))
        try:
            await asyncio.wait({step, down}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not step.done():
                step.cancel()
                await asyncio.wait({step})
        if down.done():
            raise NotReached("connection reset by peer")
        event: WatchEvent[T] | None = step.result()
        return event


class CrashingClient:
    """A Client that blocks for ever at one of its calls, before or after the server has carried it out.

    Lists and watches do not count and always work.
    """

    def __init__(self, inner: Client, *, at: int, is_carried_out: bool) -> None:
        self._inner, self._left, self._is_carried_out = inner, at, is_carried_out
        self.list, self.watch = inner.list, inner.watch
        self.crashed = asyncio.Event()
        self.calls = 0

    async def get(self, kind: TypedKind[T], name: str, **where: Any) -> T:
        return await self._call(lambda: self._inner.get(kind, name, **where))

    async def create(self, kind: TypedKind[T], body: T, **where: Any) -> T:
        return await self._call(lambda: self._inner.create(kind, body, **where))

    async def patch(self, kind: TypedKind[T], name: str, body: Any, **where: Any) -> T:
        return await self._call(lambda: self._inner.patch(kind, name, body, **where))

    async def delete(self, kind: TypedKind[T], name: str, **where: Any) -> None:
        await self._call(lambda: self._inner.delete(kind, name, **where))

    async def _call(self, call: Callable[[], Awaitable[T]]) -> T:
        self.calls += 1
        self._left -= 1
        if self._left < -1 or (self._left == -1 and not self._is_carried_out):
            await self._crash()
        result = await call()
        if self._left == -1:
            await self._crash()
        return result

    async def _crash(self) -> None:
        self.crashed.set()
        await asyncio.Event().wait()


async def _anext(events: AsyncIterator[WatchEvent[T]]) -> WatchEvent[T] | None:
    return await anext(events, None)
