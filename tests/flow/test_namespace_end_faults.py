"""A namespace is deleted exactly when it is empty, with one fault at each call in turn."""

import asyncio
import itertools
from pathlib import Path
from typing import Any, TypeVar

import pytest

from namespace_rig import Spaces, spaces
from pykubelet.api.schema import CONFIG_MAPS, NAMESPACES, PODS, Resource
from pykubelet.api.scheme import TypedKind
from pykubelet.api.serializer import Document
from pykubelet.client.discovery import Discovery
from pykubelet.client.interface import ControllerClient, Listing
from pykubelet.testing.faults import WATCH_FAULTS, Fault, FaultyClient

T = TypeVar("T")
FULL = {"configmaps/free", "configmaps/held", "pods/waiting", "pods/running", "deployments.apps/web"}


class Faulty(FaultyClient):
    """A ControllerClient with faults. Lists are many and alike, so they only fail for kinds that have objects here."""

    def __init__(self, inner: ControllerClient, fault: Fault, *, at: int) -> None:
        super().__init__(inner, fault, at=at)
        self._all = inner

    async def published_schemas(self, api_version: str) -> dict[str, Document]:
        return await self._all.published_schemas(api_version)

    async def served(self) -> tuple[Resource, ...]:
        return await self._all.served()

    async def apply(self, resource: Resource, body: Document, *, namespace: str = "", field_manager: str) -> Document:
        return await self._all.apply(resource, body, namespace=namespace, field_manager=field_manager)

    async def discover(self, verbs: frozenset[str]) -> Discovery:
        due = await self._before()
        return self._after(await self._all.discover(verbs), due=due)

    async def replace(
        self, resource: Resource, name: str, body: Document, *, namespace: str = "", subresource: str = ""
    ) -> Document:
        due = await self._before()
        replaced = await self._all.replace(resource, name, body, namespace=namespace, subresource=subresource)
        return self._after(replaced, due=due)

    async def list(self, kind: TypedKind[T], **options: Any) -> Listing[T]:
        ask = super().list if kind.resource in (CONFIG_MAPS, NAMESPACES, PODS) else self._all.list
        return await ask(kind, **options)


async def is_injected_in_an_end(world: Spaces, name: str, fault: Fault, at: int) -> bool:
    """Deletes a full namespace until it is gone; returns whether the fault was injected."""
    client = Faulty(world.api.client, fault, at=at)
    await world.fill(name)
    async with world.ending(client):
        await asyncio.sleep(10)
        await world.delete(name)
        await asyncio.sleep(40)
        assert world.content(name) == FULL - {"pods/waiting"}
        await world.stop_pod(name)
        await asyncio.sleep(40)
        assert world.content(name) == {"configmaps/held"}
        assert len(await world.complaints(name)) == 2
        await world.release(name)
        await asyncio.sleep(40)
    assert world.gone[name] == set()
    return client.injected


@pytest.mark.parametrize("fault", Fault, ids=lambda fault: str(fault.name))
async def test_one_fault_anywhere_changes_nothing_in_the_end(fault: Fault, tmp_path: Path) -> None:
    """The namespace is emptied in order and deleted, and another namespace stays as it is, whichever call fails."""
    async with spaces(tmp_path) as world:
        await world.fill("other")
        for at in itertools.count():
            if not await is_injected_in_an_end(world, f"x{at}", fault, at):
                break
        assert world.content("other") == FULL
    assert at >= (4 if fault in WATCH_FAULTS else 20)
