"""A client that shows a reflector only the objects of interest, of a whole namespace.

What is not wanted is dropped as it arrives, so that nobody remembers it. Lists are filtered; an event about an
unwanted object becomes a bookmark, or a deletion if the reflector still knows the object.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeVar

from pykubelet.api.typed import Kind
from pykubelet.kube.client import EVERYTHING, Listing, Selection, WatchEvent
from pykubelet.kube.reflector import ListerWatcher

T = TypeVar("T")


class Interest(Protocol):
    """Says what is wanted, by name, and what the reflector knows."""

    def begin(self) -> None:
        """A list is about to be asked for."""

    def is_wanted(self, name: str) -> bool:
        """Whether someone wants this object."""

    def is_known(self, name: str) -> bool:
        """Whether the reflector has been shown this object and not its end."""

    def deleted(self, obj: Any, /) -> None:
        """A wanted object is gone of which the reflector does not know, so that it will not tell."""


class ReferencedOnly:
    """Wraps a client for one reflector."""

    def __init__(self, client: ListerWatcher, interest: Interest) -> None:
        self._client, self._interest = client, interest

    async def get(self, kind: Kind[T], name: str, *, namespace: str = "", resource_version: str = "") -> T:
        return await self._client.get(kind, name, namespace=namespace, resource_version=resource_version)

    async def list(
        self,
        kind: Kind[T],
        *,
        namespace: str = "",
        selection: Selection = EVERYTHING,
        resource_version: str = "",
        limit: int = 0,
        continue_token: str = "",
    ) -> Listing[T]:
        self._interest.begin()
        page = await self._client.list(
            kind,
            namespace=namespace,
            selection=selection,
            resource_version=resource_version,
            limit=limit,
            continue_token=continue_token,
        )
        wanted = tuple(item for item in page.items if self._interest.is_wanted(_name(item)))
        return Listing(wanted, page.resource_version, page.continue_token)

    @asynccontextmanager
    async def watch(
        self,
        kind: Kind[T],
        *,
        namespace: str = "",
        selection: Selection = EVERYTHING,
        resource_version: str = "",
        timeout_seconds: float | None = None,
    ) -> AsyncIterator[AsyncIterator[WatchEvent[T]]]:
        async with self._client.watch(
            kind,
            namespace=namespace,
            selection=selection,
            resource_version=resource_version,
            timeout_seconds=timeout_seconds,
        ) as events:
            yield self._shown(events)

    async def _shown(self, events: AsyncIterator[WatchEvent[T]]) -> AsyncIterator[WatchEvent[T]]:
        async for event in events:
            yield event if event.object is None else self._show(event, _name(event.object))

    def _show(self, event: WatchEvent[T], name: str) -> WatchEvent[T]:
        is_wanted, is_known = self._interest.is_wanted(name), self._interest.is_known(name)
        if is_wanted and (is_known or event.type != "DELETED"):
            return event
        if is_wanted:
            self._interest.deleted(event.object)
        if is_known:
            return WatchEvent("DELETED", event.object, event.resource_version)
        return WatchEvent("BOOKMARK", None, event.resource_version)


def _name(obj: Any) -> str:
    name: str = obj.metadata.name
    return name
