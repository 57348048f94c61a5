"""A cluster in one process: an unscheduled pod becomes ready, and a stopped node is detected."""

import asyncio
from pathlib import Path

from node_fleet import controllers
from pykubelet.api.scheme import NODES
from whole_node import NODE, container, is_ready, world


async def test_pod_without_a_node_becomes_ready(tmp_path: Path) -> None:
    """The node registers with a taint and loses it when ready; then pods are scheduled to it and run."""
    async with world(tmp_path) as made, controllers(made.api, made.clock):
        early = await made.create("early", nodeName="")
        assert early.spec.node_name == ""
        async with made.running_node():
            await made.until("early", is_ready, within_seconds=60)
            asked = {"requests": {"cpu": "100m", "memory": "10Mi"}}
            await made.create("later", nodeName="", containers=[container(resources=asked)])
            pod = await made.until("later", is_ready, within_seconds=10)
            assert pod.spec.node_name == NODE
            assert (await made.api.get(NODES, NODE)).spec.taints == ()
            reasons = [reason for reason, _ in await made.events("later")]
            assert reasons[0] == "Scheduled"
            await made.create("huge", nodeName="", containers=[container(resources={"requests": {"cpu": "900"}})])
            await asyncio.sleep(5)
            message = (
                "0/1 nodes are available: 1 Insufficient cpu. "
                "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
            )
            assert ("FailedScheduling", message) in await made.events("huge")


async def test_node_that_stops_is_unknown_and_ready_again_when_it_returns(tmp_path: Path) -> None:
    """It is the only node, so its pods are not evicted, only not ready meanwhile."""
    async with world(tmp_path) as made, controllers(made.api, made.clock):
        await made.create("web", nodeName="")
        async with made.running_node():
            await made.until("web", is_ready, within_seconds=60)
        await made.until("web", lambda pod: not is_ready(pod), within_seconds=120)
        assert "Kubelet stopped posting node status." in await made.node_message()
        keys = {taint.key for taint in (await made.api.get(NODES, NODE)).spec.taints}
        assert keys == {"node.kubernetes.io/unreachable"}
        async with made.running_node():
            await made.until("web", is_ready, within_seconds=60)
            await asyncio.sleep(6)
            assert (await made.api.get(NODES, NODE)).spec.taints == ()
