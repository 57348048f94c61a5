"""The garbage collector on a real server, over HTTP, with metadata-only requests and a custom resource."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from garbage_rig import Owners, survivors
from manifest_rig import DEFINITIONS, WIDGET_DEFINITION, WIDGETS
from pykubelet.aio.clock import SystemClock
from pykubelet.api.schema import CONFIG_MAPS
from pykubelet.api.scheme import as_documents
from pykubelet.api.yaml.read import read_yaml
from pykubelet.client.clientcmd import load_kubeconfig
from pykubelet.client.rest import RestClient
from pykubelet_process import ServerProcess

SOON_SECONDS = 30.0


@pytest.fixture
async def owners(tmp_path: Path) -> AsyncIterator[Owners]:
    server = ServerProcess(tmp_path)
    await asyncio.to_thread(server.start)
    access = load_kubeconfig((str(server.kubeconfig),), environment=os.environ, clock=SystemClock())
    assert access is not None
    async with RestClient(access, clock=SystemClock()) as client:
        yield Owners(client, clock=SystemClock())
    await asyncio.to_thread(server.stop)


async def test_collector_deletes_dependents_by_policy_and_keeps_the_rest(owners: Owners) -> None:
    """There are a chain with Foreground, a diamond with Background, an orphan, and a custom resource as owner."""
    graphs: dict[tuple[str, str], dict[str, list[str]]] = {
        ("a", "Foreground"): {"a": [], "b": ["a"], "c": ["b"]},
        ("d", "Background"): {"d": [], "e": ["d"], "f": ["d"], "g": ["e", "f"], "k": [], "h": ["k", "d"]},
        ("o", "Orphan"): {"o": [], "p": ["o"]},
    }
    await owners.client.create(as_documents(DEFINITIONS), read_yaml(WIDGET_DEFINITION.encode()))
    expected: dict[str, set[str]] = {}
    for (name, policy), graph in graphs.items():
        await owners.make_all(graph)
        expected |= survivors(graph, name, policy)
    async with owners.collecting():
        widget = await owners.make("w", resource=WIDGETS)
        await owners.make("of-widget", widget)
        for name, policy in graphs:
            await owners.delete(name, policy)
        await owners.delete("w", resource=WIDGETS)
        async with asyncio.timeout(SOON_SECONDS):
            while True:
                left = await owners.left(CONFIG_MAPS)
                if left == expected:
                    break
                await asyncio.sleep(0.1)
    assert await owners.left(WIDGETS) == {}
