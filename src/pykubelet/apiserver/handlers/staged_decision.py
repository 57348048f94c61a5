"""Decides about writes in steps; for a large object, the slow ones run in a thread before.

Merging, defaulting and validating 50,000 ports takes a second, and as long all other clients would
wait if they were part of the store's decision. So they run before it, and the decision only makes sure that nothing has
changed since: neither the stored object nor what admission makes of the new one. If it has, they run again, in the end
within the decision.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from pykubelet.api.errors import ApiError
from pykubelet.api.serializer import Document
from pykubelet.apiserver.serializer.decoder import LARGE_BYTES, in_thread
from pykubelet.apiserver.storage.interfaces import Store, StoreEntry, StoreKey

T = TypeVar("T")
_ATTEMPTS = 3


class NewVersion(NamedTuple):
    """The object that a request asks for, with its defaults and field owners, and the live one if there is one."""

    new: Document
    live: Document | None


class ObjectChangedError(Exception):
    """What the steps ran ahead with is no longer so."""


class _Ahead(NamedTuple):
    """What the steps gave for a stored object. The error, if there is one, ended them."""

    existing: StoreEntry | None
    version: NewVersion | None = None
    admitted: Document | None = None
    result: Document | ApiError | None = None


@dataclass(slots=True)
class StagedDecision:
    """The steps of a write, in order.

    `make` and `complete` depend on their arguments only and may run in a thread. `admit` and `finish` read the store, and
    run within its decision. `admit` leaves an object alone that it has admitted, as upstream expects of its plugins.
    """

    make: Callable[[StoreEntry | None], NewVersion]
    admit: Callable[[NewVersion], Document]
    complete: Callable[[Document, Document | None], Document]
    finish: Callable[[Document, StoreEntry | None, Document | None], Document | None]
    runs_ahead: bool = True
    """False where webhooks admit, because an object that they changed must not be shown to them as a new one."""
    _ahead: _Ahead | None = None

    async def write(self, store: Store, key: StoreKey, *, is_large: bool) -> StoreEntry | None:
        """Decides and commits; returns the stored entry, or the removed one."""
        return await self._run(store, key, lambda: store.write(key, self._decide), is_large=is_large)

    async def dry_run(self, store: Store, key: StoreKey, *, is_large: bool) -> Document | None:
        """Returns the document that `write` would store."""

        async def decide() -> Document | None:
            return self._decide(store.newest(key))

        return await self._run(store, key, decide, is_large=is_large)

    async def _run(self, store: Store, key: StoreKey, decide: Callable[[], Awaitable[T]], *, is_large: bool) -> T:
        for _ in range(_ATTEMPTS):
            newest = store.newest(key)
            is_small = not is_large and (newest is None or len(newest.text) <= LARGE_BYTES)
            if is_small or not self.runs_ahead:
                break
            self._ahead = await self._run_ahead(newest)
            try:
                return await decide()
            except ObjectChangedError:
                self._ahead = None
        return await decide()

    async def _run_ahead(self, existing: StoreEntry | None) -> _Ahead:
        ahead = _Ahead(existing)
        try:
            version = await in_thread(self.make, existing)
            admitted = self.admit(version)
            ahead = ahead._replace(version=version, admitted=admitted)
            return ahead._replace(result=await in_thread(self.complete, admitted, version.live))
        except ApiError as error:
            return ahead._replace(result=error)

    def _decide(self, existing: StoreEntry | None) -> Document | None:
        ahead = self._ahead
        if ahead is None:
            version = self.make(existing)
            return self.finish(self.complete(self.admit(version), version.live), existing, version.live)
        if ahead.existing is not existing:
            raise ObjectChangedError
        live = None
        if ahead.version is not None and ahead.admitted is not None:
            live = ahead.version.live
            if self.admit(NewVersion(ahead.admitted, live)) != ahead.admitted:
                raise ObjectChangedError
        if isinstance(ahead.result, ApiError):
            raise ahead.result
        assert ahead.result is not None
        return self.finish(ahead.result, existing, live)
