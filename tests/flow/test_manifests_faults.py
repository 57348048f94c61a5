"""Objects follow their manifest files despite one fault at each call in turn."""

import itertools
from pathlib import Path
from typing import Any, TypeVar

import pytest

from manifest_rig import Cluster, config_map, namespace
from pykubelet.api.errors import NotReached
from pykubelet.api.schema import CONFIG_MAPS, NAMESPACES, Resource
from pykubelet.api.scheme import TypedKind
from pykubelet.api.serializer import Document
from pykubelet.client.discovery import Discovery
from pykubelet.client.interface import ControllerClient, Listing
from pykubelet.testing.faults import CALL_FAULTS, Fault, FaultyClient
from pykubelet.testing.local_api import local_api

T = TypeVar("T")


class Faulty(FaultyClient):
    """A ControllerClient with faults, also in apply.

    Lists are many and alike, so they fail only while the server is away.
    """

    def __init__(self, inner: ControllerClient, fault: Fault = Fault.REFUSED, *, at: int = 2**62) -> None:
        super().__init__(inner, fault, at=at)
        self._all = inner
        self.is_away = False

    async def list(self, kind: TypedKind[T], **options: Any) -> Listing[T]:
        if self.is_away:
            raise NotReached("connection refused")
        return await self._all.list(kind, **options)

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
        due = await self._before()
        made = await self._all.apply(resource, body, namespace=namespace, field_manager=field_manager)
        return self._after(made, due=due)


async def is_injected_in_a_life(client: ControllerClient, fault: Fault, at: int, folder: Path) -> bool:
    """Creates, changes and deletes objects, one of which existed before; returns whether the fault was injected."""
    faulty, plain, space, old = Faulty(client, fault, at=at), Cluster(client), f"shop-{at}", f"old-{at}"
    await plain.put(old, "0")
    path = folder / f"{at}.yaml"
    first = [config_map("a", namespace=space), config_map("c", namespace=space), config_map(old), namespace(space)]
    second = [config_map("a", "2", namespace=space), config_map(old, "2"), namespace(space)]
    path.write_text("---\n".join(first))
    async with Cluster(faulty).following(folder):
        await plain.expect(namespace=space, a="1", c="1")
        path.write_text("---\n".join(second))
        await plain.expect(namespace=space, a="2")
        path.unlink()

        async def is_over() -> bool:
            kept = await plain.get(CONFIG_MAPS, old)
            is_let_go = kept is not None and kept["data"] == {"v": "2"} and not kept["metadata"].get("labels")
            return is_let_go and await plain.get(NAMESPACES, space) is None

        await plain.until(is_over)
    return faulty.injected


@pytest.mark.parametrize("fault", CALL_FAULTS, ids=lambda fault: str(fault.name))
async def test_one_fault_anywhere_changes_nothing_in_the_end(fault: Fault, tmp_path: Path) -> None:
    """Created objects are changed and deleted, and an object that existed before stays, whichever call fails."""
    folder = tmp_path / "manifests"
    folder.mkdir()
    async with local_api(tmp_path) as api:
        for at in itertools.count():
            if not await is_injected_in_a_life(api.client, fault, at, folder):
                break
    assert at >= 10


async def test_unreachable_server_is_reported_and_waited_for(tmp_path: Path) -> None:
    """Earlier problems stay reported meanwhile."""
    path = tmp_path / "a.yaml"
    path.write_text(f"{config_map('a')}---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{generateName: x}}\n")
    async with local_api(tmp_path) as api:
        client = Faulty(api.client)
        cluster = Cluster(client)
        async with cluster.following(path):
            assert list(cluster.told.open) == ["a.yaml"]
            client.is_away = True
            path.write_text(config_map("a", "2"))
            await cluster.until_told("API server", "connection refused")
            assert set(cluster.told.open) == {"a.yaml", "API server"}
            client.is_away = False
            await cluster.until_healed()
            assert await cluster.values() == {"a": "2"}
