"""Manifest files are applied to a real server over HTTP, far faster than the 20 s of the periodic scan."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from manifest_rig import DEFINITIONS, WIDGET_DEFINITION, WIDGETS, Cluster, config_map, namespace, widget
from pykubelet.aio.clock import SystemClock
from pykubelet.api.schema import CONFIG_MAPS, NAMESPACES
from pykubelet.client.clientcmd import load_kubeconfig
from pykubelet.client.rest import RestClient
from pykubelet_process import ServerProcess

SOON_SECONDS = 15.0
"""Generous for a busy machine, and less than the period."""


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    server = ServerProcess(tmp_path)
    await asyncio.to_thread(server.start)
    access = load_kubeconfig((str(server.kubeconfig),), environment=os.environ, clock=SystemClock())
    assert access is not None
    async with RestClient(access, clock=SystemClock()) as client:
        yield Cluster(client)
    await asyncio.to_thread(server.stop)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "manifests"
    path.mkdir()
    return path


async def soon(done: Awaitable[None]) -> None:
    async with asyncio.timeout(SOON_SECONDS):
        await done


def vim(path: Path, text: str) -> None:
    """Moves the old file away and writes a new one."""
    backup = path.with_name(f"{path.name}~")
    path.rename(backup)
    path.write_text(text)
    backup.unlink()


def sed(path: Path, text: str) -> None:
    """Renames a temporary file into place."""
    temporary = path.with_name("sedXYZ123")
    temporary.write_text(text)
    temporary.rename(path)


@pytest.mark.parametrize("edit", [Path.write_text, vim, sed], ids=["nano", "vim", "sed"])
async def test_edit_is_applied_soon_and_nothing_is_deleted_in_between(
    edit: Callable[[Path, str], None], cluster: Cluster, folder: Path
) -> None:
    """For every editor a broken edit is reported and changes nothing, and removing the file deletes the object."""
    path = folder / "a.yaml"
    async with cluster.following(folder):
        path.write_text(config_map("a"))
        await soon(cluster.expect(a="1"))
        first = await cluster.get(CONFIG_MAPS, "a")
        edit(path, config_map("a", "2"))
        await soon(cluster.expect(a="2"))
        edit(path, config_map("a", "3") + "  bad: [\n")
        await soon(cluster.until_told("a.yaml", "line "))
        assert await cluster.values() == {"a": "2"}
        edit(path, config_map("a", "4"))
        await soon(cluster.expect(a="4"))
        await soon(cluster.until_healed())
        last = await cluster.get(CONFIG_MAPS, "a")
        assert first is not None
        assert last is not None
        assert last["metadata"]["uid"] == first["metadata"]["uid"]
        path.unlink()
        await soon(cluster.expect())


async def test_definition_and_its_objects_in_one_file(cluster: Cluster, folder: Path) -> None:
    """Objects are created once their kind is served, and deleted with a file that was removed during downtime."""
    path = folder / "all.yaml"
    path.write_text(
        "---\n".join([widget("w"), config_map("a", namespace="shop"), WIDGET_DEFINITION, namespace("shop")])
    )

    async def is_there() -> bool:
        return await cluster.get(WIDGETS, "w") is not None

    async def is_gone() -> bool:
        return not await cluster.get(NAMESPACES, "shop") and not await cluster.get(DEFINITIONS, "widgets.example.com")

    async with cluster.following(folder):
        await soon(cluster.until(is_there))
        await soon(cluster.expect(namespace="shop", a="1"))
        assert cluster.told.open == {}
    path.unlink()
    async with cluster.following(folder):
        await soon(cluster.until(is_gone))
        assert cluster.told.open == {}


async def test_discovery_lists_the_kinds_that_can_be_stored(cluster: Cluster) -> None:
    """It lists namespaced and cluster-wide kinds once each, but no reviews, which are not stored."""
    served = await cluster.client.served()
    assert {CONFIG_MAPS, NAMESPACES, DEFINITIONS} <= set(served)
    assert not [resource for resource in served if resource.kind.endswith("Review")]
    assert len(set(served)) == len(served)
