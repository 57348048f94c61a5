"""A node that reports to the real API server in one process, on virtual time."""

import asyncio
from pathlib import Path

from node_status_rig import NodeWorld
from pykubelet.api.generated.core import NodeAddress
from pykubelet.api.scheme import LEASES, NODES
from pykubelet.kubelet.nodestatus.conditions import NodeProblems
from pykubelet.testing.local_api import local_api


async def test_node_registers_turns_ready_and_keeps_its_lease(tmp_path: Path) -> None:
    """The server stores what the node reports, and another client's label survives."""
    async with local_api(tmp_path) as api:
        world = NodeWorld(client=api.client)
        world.wrong = NodeProblems(runtime=("container runtime status check may not have completed yet",))
        async with world.running() as ready:
            await ready.wait()
            node = await api.client.get(NODES, "node-1")
            assert [one.status for one in node.status.conditions] == ["False"] * 4
            assert node.status.capacity["memory"] == "10Gi"
            await api.client.patch(NODES, "node-1", {"metadata": {"labels": {"other": "label"}}})
            world.wrong = NodeProblems()
            await asyncio.sleep(0.2)
            node = await api.client.get(NODES, "node-1")
            assert node.status.conditions[-1].reason == "KubeletReady"
            assert node.metadata.labels["other"] == "label"
            assert await world.lease.renew()
            await asyncio.sleep(1)
            assert await world.lease.renew()
            lease = await api.client.get(LEASES, "node-1", namespace="kube-node-lease")
            assert lease.spec.holder_identity == "node-1"
            assert [owner.uid for owner in lease.metadata.owner_references] == [node.metadata.uid]


async def test_moved_node_shows_its_new_address_only(tmp_path: Path) -> None:
    """Addresses are replaced, not merged."""
    async with local_api(tmp_path) as api:
        world = NodeWorld(client=api.client)
        await world.reporter.register()
        world.facts = type(world.facts)(ip="10.0.0.2", boot_id="boot", cores=1)
        assert await world.reporter.report()
        node = await api.client.get(NODES, "node-1")
        assert node.status.addresses == (
            NodeAddress(type="InternalIP", address="10.0.0.2"),
            NodeAddress(type="Hostname", address="host-1"),
        )


async def test_registered_node_is_taken_over_by_the_next_agent(tmp_path: Path) -> None:
    """A restarted agent keeps the existing node object and its UID."""
    async with local_api(tmp_path) as api:
        first = NodeWorld(client=api.client)
        await first.reporter.register()
        uid = (await api.client.get(NODES, "node-1")).metadata.uid
        second = NodeWorld(client=api.client)
        await second.reporter.register()
        assert await second.reporter.report()
        assert (await api.client.get(NODES, "node-1")).metadata.uid == uid
