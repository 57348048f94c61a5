"""Graceful shutdown of a whole node, with its timing."""

import asyncio
import json
from pathlib import Path

import pytest

from pykubelet.api.generated.core import Pod
from pykubelet.app.node import Node
from pykubelet.kubelet.nodeshutdown.nodeshutdown_manager import NodeShutdownManager, shutdown_periods
from pykubelet.runtimes.sim.runtime import Behaviour, ContainerRun
from whole_node import condition, container, is_ready, status_of, world

STUBBORN = Behaviour(stop_seconds=1000)


def shutdown_of(node: Node, *, grace_seconds: int, critical_seconds: int) -> NodeShutdownManager:
    return NodeShutdownManager(
        periods=shutdown_periods(grace_seconds, critical_seconds),
        workers=node.work.workers,
        statuses=node.pods.statuses,
        health=node.health,
        recorder=node.dependencies.recorder,
        node=node.dependencies.reference,
    )


def is_failed(pod: Pod) -> bool:
    return pod.status.phase == "Failed"


async def test_ordinary_pods_end_before_critical_ones_each_within_its_part_of_the_grace(tmp_path: Path) -> None:
    """Regular pods get the grace period minus the critical pods' part.

    Each status gives the reason, and the final statuses are sent.
    """
    scripts = {"quick": Behaviour(stop_seconds=1), "stubborn": STUBBORN, "vital": Behaviour(stop_seconds=3)}
    async with world(tmp_path, scripts=scripts) as outside, outside.running_node() as node:
        for name in ("quick", "stubborn"):
            await outside.create(name, containers=[container(name)])
        await outside.create("vital", containers=[container("vital")], priorityClassName="system-node-critical")
        for name in scripts:
            await outside.until(name, is_ready)
        began = outside.clock.monotonic()
        await shutdown_of(node, grace_seconds=30, critical_seconds=10).shut_down()
        assert outside.clock.monotonic() - began == pytest.approx(23, abs=1)
        ended = {name: await outside.pod(name) for name in scripts}
    assert [(pod.status.phase, pod.status.reason) for pod in ended.values()] == [("Failed", "Terminated")] * 3
    for pod in ended.values():
        assert pod.status.message == "Pod was terminated in response to imminent node shutdown."
        target = next(one for one in pod.status.conditions if one.type == "DisruptionTarget")
        assert (target.status, target.reason, target.message) == ("True", "TerminationByKubelet", pod.status.message)
        assert condition(pod, "Ready") == "False"
    codes = {
        name: terminated.exit_code for name in ended if (terminated := status_of(ended[name], name).state.terminated)
    }
    assert codes == {"quick": 0, "stubborn": 137, "vital": 0}


async def test_node_that_goes_down_is_not_ready_and_takes_no_pods(tmp_path: Path) -> None:
    """The node reports the shutdown within 15 seconds, and rejects new pods with upstream's message."""
    async with world(tmp_path) as outside, outside.running_node() as node:
        await outside.create("old")
        await outside.until("old", is_ready)
        await shutdown_of(node, grace_seconds=30, critical_seconds=10).shut_down()
        await outside.create("new")
        refused = await outside.until("new", is_failed, within_seconds=5)
        assert (refused.status.reason, refused.status.message) == (
            "NodeShutdown",
            "Pod was rejected: Pod was rejected as the node is shutting down.",
        )
        await outside.until("old", is_failed)
        async with asyncio.timeout(15):
            while await outside.node_message() != "node is shutting down":
                await asyncio.sleep(0.5)


async def test_pod_that_succeeded_is_left_alone_and_a_static_pod_ends_for_good(tmp_path: Path) -> None:
    """A succeeded pod keeps its status. A static pod fails and is not restarted during the shutdown."""
    manifests = tmp_path / "manifests"
    manifests.mkdir()
    spec = {"containers": [container("static")]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec}
    (manifests / "web.json").write_text(json.dumps(pod))
    runs = {"once": Behaviour(runs=(ContainerRun(seconds=1),))}
    async with world(tmp_path, scripts=runs) as outside, outside.running_node(manifests=(manifests,)) as node:
        await outside.create("once", restartPolicy="Never", containers=[container("once")])
        await outside.until("once", lambda one: one.status.phase == "Succeeded")
        await outside.until("web-node-1", is_ready)
        await shutdown_of(node, grace_seconds=5, critical_seconds=2).shut_down()
        await asyncio.sleep(120)
        mirror, once = await outside.pod("web-node-1"), await outside.pod("once")
        assert (mirror.status.phase, mirror.status.reason) == ("Failed", "Terminated")
        assert (once.status.phase, once.status.reason) == ("Succeeded", "")


async def test_node_without_a_grace_period_leaves_its_pods_running(tmp_path: Path) -> None:
    """Graceful shutdown is off by default."""
    async with world(tmp_path) as outside, outside.running_node() as node:
        await outside.create("web")
        await outside.until("web", is_ready)
        await shutdown_of(node, grace_seconds=0, critical_seconds=0).shut_down()
        assert is_ready(await outside.pod("web"))
        assert node.health.shutdown_message() == ""
