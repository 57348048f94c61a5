"""The kubelet's view of its own Node object."""

import asyncio

import pytest

from pykubelet.api.errors import NotFound
from pykubelet.api.generated.core import Node, NodeAddress, NodeStatus
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.scheme import NODES
from pykubelet.kubelet.nodestatus.node_status import OwnNode
from pykubelet.testing.memory_api import MemoryApi
from pykubelet.testing.virtual_time import VirtualClock


def node(ip: str, cpu: str = "2") -> Node:
    addresses = (NodeAddress(type="InternalIP", address=ip), NodeAddress(type="Hostname", address="node-1"))
    return Node(metadata=ObjectMeta(name="node-1"), status=NodeStatus(allocatable={"cpu": cpu}, addresses=addresses))


async def test_own_node_is_the_initial_one_until_the_server_shows_it() -> None:
    """Admission can use the initial node at once; callers that need the server's node get NotFound."""
    clock = VirtualClock()
    api = MemoryApi(clock)
    own, ready = OwnNode(initial=node("10.0.0.1"), client=api, clock=clock), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(own.run(ready))
        await ready.wait()
        with pytest.raises(NotFound):
            own.node("node-1")
        assert (own.host_ips(), own.shown(), own.is_known.is_set()) == (("10.0.0.1",), None, False)
        assert own.current_or_initial().status.allocatable == {"cpu": "2"}
        await api.create(NODES, node("10.0.0.2", cpu="4"))
        await own.is_known.wait()
        assert own.node("node-1").metadata.uid != ""
        assert (own.host_ips(), own.allocatable()) == (("10.0.0.2",), {"cpu": "4"})
        await api.patch(NODES, "node-1", {"status": {"allocatable": {"cpu": "8"}}}, subresource="status")
        await asyncio.sleep(0.01)
        assert own.allocatable() == {"cpu": "8"}
        with pytest.raises(NotFound):
            own.node("node-2")
        await api.delete(NODES, "node-1")
        await asyncio.sleep(0.01)
        assert own.shown() is None
        task.cancel()


async def test_node_on_its_own_is_known_at_once() -> None:
    """Without an API server the initial node is the final one."""
    own, ready = OwnNode(initial=node("10.0.0.1"), client=None, clock=VirtualClock()), asyncio.Event()
    await own.run(ready)
    assert own.is_known.is_set()
    assert own.node("node-1") is own.shown()
