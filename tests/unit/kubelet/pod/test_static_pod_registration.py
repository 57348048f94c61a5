"""Mirrors of static pods are created as soon as the node is registered."""

import asyncio

import pytest

from pykubelet.api.errors import NotFound
from pykubelet.api.generated.core import Node
from pykubelet.api.scheme import PODS
from pykubelet.kubelet.lifecycle.predicate import kernel_version
from pykubelet.kubelet.pod.mirror_client import MirrorClient, MirrorReconciler, StaticPodRegistration
from pykubelet.kubelet.pod.pod_manager import PodManager
from pykubelet.testing.build import node, pod, static_pod
from pykubelet.testing.memory_api import MemoryApi
from pykubelet.testing.virtual_time import VirtualClock


class Nodes:
    """A node that is unknown at first."""

    def __init__(self) -> None:
        self.known = asyncio.Event()

    def node(self, name: str) -> Node:
        if not self.known.is_set():
            raise NotFound(f'node "{name}" not found')
        return node(name)


async def test_mirrors_are_made_when_the_node_is_known() -> None:
    """Only static pods get a mirror."""
    api, nodes, pods = MemoryApi(VirtualClock()), Nodes(), PodManager()
    for one in (static_pod("one"), static_pod("two", content_hash="hash-2"), pod("plain")):
        pods.add_pod(one)
    client = MirrorClient(client=api, node_name="node-1", nodes=nodes)
    keeper = MirrorReconciler(mirrors=client, pods=pods, node_name="node-1", nodes=nodes)
    ready = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(StaticPodRegistration(pods=pods, mirrors=keeper, node_known=nodes.known).run(ready))
        await ready.wait()
        assert (await api.list(PODS)).items == ()
        nodes.known.set()
    assert sorted(one.metadata.name for one in (await api.list(PODS)).items) == ["one", "two"]


@pytest.mark.parametrize(
    ("release", "version"),
    [("6.1.0-13-amd64", (6, 1)), ("5.15", (5, 15)), ("6.18.44-fc", (6, 18)), ("", (0, 0)), ("strange", (0, 0))],
)
def test_kernel_version_is_its_first_two_numbers(release: str, version: tuple[int, int]) -> None:
    """An unknown format counts as the oldest kernel."""
    assert kernel_version(release) == version
