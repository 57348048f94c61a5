"""The garbage collector deletes exactly the same objects with one fault at each call in turn."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from garbage_rig import Owners, survivors
from manifest_rig import DEFINITIONS, WIDGET_DEFINITION, WIDGETS
from pykubelet.api.schema import CONFIG_MAPS, Resource
from pykubelet.api.scheme import TypedKind, as_documents
from pykubelet.api.serializer import Document
from pykubelet.api.yaml.read import read_yaml
from pykubelet.client.discovery import Discovery
from pykubelet.client.interface import ControllerClient, Listing, WatchEvent
from pykubelet.testing.faults import Fault, FaultyClient
from pykubelet.testing.local_api import local_api

T = TypeVar("T")
# Independent graphs, each by the object to delete and the deletion policy.
SCENES: dict[tuple[str, str], dict[str, list[str]]] = {
    ("a", "Background"): {"a": [], "b": ["a"], "c": ["b"], "k": [], "d": ["a", "k"]},
    ("e", "Foreground"): {"e": [], "f": ["e"], "g": ["f"], "l": [], "h": ["e", "l"]},
    ("o", "Orphan"): {"o": [], "p": ["o"], "q": ["o"], "r": ["q"]},
    ("s", "Foreground"): {"s": ["t"], "t": ["s"]},
}


class Faulty(FaultyClient):
    """A ControllerClient with faults. Lists and watches are many and alike, so they only fail for config maps."""

    def __init__(self, inner: ControllerClient, fault: Fault, *, at: int) -> None:
        super().__init__(inner, fault, at=at)
        self._all = inner

    async def published_schemas(self, api_version: str) -> dict[str, Document]:
        return await self._all.published_schemas(api_version)

    async def served(self) -> tuple[Resource, ...]:
        return await self._all.served()

    async def discover(self, verbs: frozenset[str]) -> Discovery:
        return await self._all.discover(verbs)

    async def replace(
        self, resource: Resource, name: str, body: Document, *, namespace: str = "", subresource: str = ""
    ) -> Document:
        return await self._all.replace(resource, name, body, namespace=namespace, subresource=subresource)

    async def apply(self, resource: Resource, body: Document, *, namespace: str = "", field_manager: str) -> Document:
        return await self._all.apply(resource, body, namespace=namespace, field_manager=field_manager)

    async def list(self, kind: TypedKind[T], **options: Any) -> Listing[T]:
        ask = super().list if kind.resource == CONFIG_MAPS else self._all.list
        return await ask(kind, **options)

    @asynccontextmanager
    async def watch(self, kind: TypedKind[T], **options: Any) -> AsyncIterator[AsyncIterator[WatchEvent[T]]]:
        ask = super().watch if kind.resource == CONFIG_MAPS else self._all.watch
        async with ask(kind, **options) as events:
            yield events


class WithoutDeletedWidgets(Faulty):
    """A client whose watches of widgets are cut before each of them is reported as deleted."""

    @asynccontextmanager
    async def watch(self, kind: TypedKind[T], **options: Any) -> AsyncIterator[AsyncIterator[WatchEvent[T]]]:
        async with self._all.watch(kind, **options) as events:
            yield _until_deleted(events) if kind.resource == WIDGETS else events


async def _until_deleted(events: AsyncIterator[WatchEvent[T]]) -> AsyncIterator[WatchEvent[T]]:
    async for event in events:
        if event.type == "DELETED":
            return
        yield event


async def is_injected_in_a_life(client: ControllerClient, fault: Fault, at: int) -> bool:
    """Deletes owners with every policy; returns whether the fault was injected."""
    owners, faulty = Owners(client), Faulty(client, fault, at=at)
    for graph in SCENES.values():
        await owners.make_all(graph)
    async with owners.collecting(faulty):
        for name, policy in SCENES:
            await owners.delete(name, policy)
        await asyncio.sleep(60)
    expected: dict[str, set[str]] = {}
    for (name, policy), graph in SCENES.items():
        expected |= survivors(graph, name, policy)
    assert await owners.left() == expected
    for name in expected:
        await owners.delete(name, "Background")
    return faulty.injected


@pytest.mark.parametrize("fault", Fault, ids=lambda fault: str(fault.name))
async def test_one_fault_anywhere_changes_nothing_in_the_end(fault: Fault, tmp_path: Path) -> None:
    """The same objects are left with the same owners, whichever call fails."""
    async with local_api(tmp_path) as api:
        for at in itertools.count():
            if not await is_injected_in_a_life(api.client, fault, at):
                break
    assert at >= 10


async def test_owners_whose_end_was_not_seen_are_examined_when_their_kind_is_back(tmp_path: Path) -> None:
    """While a kind is not served, nothing shows that its objects are gone: their dependents stay."""
    async with local_api(tmp_path) as api:
        owners, definition = Owners(api.client), read_yaml(WIDGET_DEFINITION.encode())
        await api.client.create(as_documents(DEFINITIONS), definition)
        await asyncio.sleep(10)
        await owners.make("before", await owners.make("w", resource=WIDGETS))
        async with owners.collecting(WithoutDeletedWidgets(api.client, Fault.REFUSED, at=2**62)):
            await owners.make("after", await owners.make("v", resource=WIDGETS))
            await owners.delete("widgets.example.com", resource=DEFINITIONS)
            await asyncio.sleep(3600)
            assert set(await owners.left()) == {"before", "after"}
            await api.client.create(as_documents(DEFINITIONS), definition)
            await asyncio.sleep(3600)
            assert set(await owners.left()) == set()
