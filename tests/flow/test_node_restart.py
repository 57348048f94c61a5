"""A restarted agent finds its pods: no container restarts, no condition changes, and no exit or deletion is lost."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from client_faults import Outage
from pykubelet.api.generated.core import Pod, PodCondition
from pykubelet.api.pods import PodUid
from pykubelet.runtimes.protocol import ContainerState
from pykubelet.runtimes.sim.runtime import Behaviour, ContainerRun
from whole_node import World, container, is_ready, status_of, world

PROBE = {"exec": {"command": ["check"]}, "periodSeconds": 10, "initialDelaySeconds": 5}
PODS: dict[str, dict[str, Any]] = {
    "plain": {"containers": [container()]},
    "probed": {"containers": [container(readinessProbe=PROBE, livenessProbe=PROBE, startupProbe=PROBE)]},
    "sidecar": {"containers": [container()], "initContainers": [container("side", restartPolicy="Always")]},
    "completed": {"containers": [container("short")], "restartPolicy": "Never"},
}
SCRIPTS = {"short": Behaviour(runs=(ContainerRun(seconds=1, exit_code=4),))}


def manifest() -> str:
    """A static pod with a readiness probe."""
    spec = {"containers": [container(readinessProbe=PROBE)]}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "static"}, "spec": spec})


async def containers_of(outside: World) -> dict[str, tuple[str, ...]]:
    """The ids of all containers, by pod name."""
    return {pod.name: tuple(one.id for one in pod.containers) for pod in await outside.sim.pods()}


def statuses_since(outside: World, name: str, count: int) -> list[tuple[PodCondition, ...]]:
    """The conditions of each version of a pod from number `count` on."""
    return [pod.status.conditions for pod in outside.versions(name)[count - 1 :]]


async def test_restart_of_the_agent_moves_nothing(tmp_path: Path) -> None:
    """API and static pods, with and without probes, keep their containers and conditions."""
    manifests = tmp_path / "manifests"
    manifests.mkdir()
    (manifests / "static.json").write_text(manifest())
    names = [*PODS, "static-node-1"]
    async with world(tmp_path, scripts=SCRIPTS) as outside:
        async with outside.running_node(manifests=(manifests,)):
            for name, spec in PODS.items():
                await outside.create(name, **spec)
            for name in names:
                await outside.until(name, lambda one: is_ready(one) or one.status.phase == "Failed")
            await asyncio.sleep(20)
        before = await containers_of(outside)
        counts = {name: len(outside.versions(name)) for name in names}
        await asyncio.sleep(30)
        async with outside.running_node(manifests=(manifests,)):
            await asyncio.sleep(120)
            assert await containers_of(outside) == before
            for name in names:
                assert len(set(statuses_since(outside, name, counts[name]))) == 1, name


async def test_restart_without_the_server_moves_nothing(tmp_path: Path) -> None:
    """A static pod starts over without its mirror pod; once the server is back, its conditions keep their times."""
    (manifests := tmp_path / "manifests").mkdir()
    (manifests / "static.json").write_text(manifest())
    async with world(tmp_path, scripts=SCRIPTS) as outside:
        async with outside.running_node(manifests=(manifests,)):
            before = await outside.until("static-node-1", is_ready)
        count = len(outside.versions("static-node-1"))
        client = Outage(outside.api, is_down=True)
        async with outside.starting_node(client=client, manifests=(manifests,)):
            await asyncio.sleep(30)
            client.end()
            await asyncio.sleep(120)
            assert (await outside.pod("static-node-1")).status == before.status
            assert set(statuses_since(outside, "static-node-1", count)) == {before.status.conditions}


async def test_exit_while_no_agent_was_there_is_reported(tmp_path: Path) -> None:
    """The next agent reports the exit code, and restarts the container if its policy says so."""
    async with world(tmp_path, scripts={"once": Behaviour(runs=(ContainerRun(seconds=10, exit_code=9),))}) as outside:
        async with outside.running_node():
            await outside.create("once", restartPolicy="Never", containers=[container("once")])
            plain = await outside.create("plain")
            for name in ("once", "plain"):
                await outside.until(name, is_ready)
        outside.sim.crash(PodUid(plain.metadata.uid), "main", exit_code=5)
        await asyncio.sleep(20)
        async with outside.running_node():
            failed = await outside.until("once", lambda one: one.status.phase == "Failed", within_seconds=2)
            terminated = status_of(failed, "once").state.terminated
            assert terminated is not None
            assert terminated.exit_code == 9
            again = await outside.until("plain", lambda one: _restarts(one) == 1 and is_ready(one), within_seconds=2)
            last = status_of(again).last_state.terminated
            assert last is not None
            assert last.exit_code == 5


def _restarts(pod: Pod) -> int:
    return status_of(pod).restart_count


async def test_deletion_while_no_agent_was_there_is_carried_out(tmp_path: Path) -> None:
    """The next agent stops a deleted pod and removes it from the API. A force-deleted pod is stopped as an orphan."""
    async with world(tmp_path) as outside:
        async with outside.running_node():
            for name in ("polite", "forced"):
                await outside.create(name)
                await outside.until(name, is_ready)
        await outside.delete("polite")
        await outside.force_delete("forced")
        async with outside.running_node():
            await outside.until_gone("polite", within_seconds=5)
            await asyncio.sleep(5)
            states = [one.state for pod in await outside.sim.pods() for one in pod.containers]
            assert ContainerState.RUNNING not in states


@pytest.mark.parametrize("moment", [0.0, 0.05, 0.31, 0.5, 1.0, 1.5, 2.2, 3.1, 4.0, 5.5])
async def test_restart_at_any_moment_starts_nothing_twice(tmp_path: Path, moment: float) -> None:
    """The next agent continues an interrupted start, so each container runs once."""
    scripts = {
        "init": Behaviour(start_seconds=0.2, runs=(ContainerRun(seconds=1),)),
        "main": Behaviour(start_seconds=0.5, runs=(ContainerRun(seconds=2),)),
    }
    async with world(tmp_path, scripts=scripts, sandbox_seconds=0.3) as outside:
        async with outside.running_node():
            await outside.create("web", restartPolicy="Never", initContainers=[container("init")])
            await asyncio.sleep(moment)
        async with outside.running_node():
            done = await outside.until("web", lambda one: one.status.phase == "Succeeded", within_seconds=30)
            observed = await outside.observed(done)
            started = [one.name for one in observed.containers if one.started_at is not None]
            assert sorted(started) == ["init", "main"]
