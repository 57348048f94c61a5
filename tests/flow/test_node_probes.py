"""Readiness, liveness and startup probes on a whole node, through every handler that the simulation has."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pykubelet.api.pods import PodUid
from pykubelet.runtimes.sim.runtime import Behaviour
from whole_node import condition, container, is_ready, status_of, world

HTTP = {"httpGet": {"path": "/healthz", "port": 8080}}
DOORS = {"http": HTTP, "exec": {"exec": {"command": ["check"]}}, "grpc": {"grpc": {"port": 9000}}}


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
async def test_readiness_follows_the_container(tmp_path: Path, door: dict[str, Any]) -> None:
    """An unhealthy container becomes unready within its thresholds, and ready again without a restart."""
    probe = {**door, "periodSeconds": 1, "failureThreshold": 2}
    async with world(tmp_path) as outside, outside.running_node():
        pod = await outside.create("web", containers=[container(readinessProbe=probe)])
        uid = PodUid(pod.metadata.uid)
        await outside.until("web", is_ready, within_seconds=2)
        outside.sim.behave(uid, "main", Behaviour(is_healthy=False))
        unready = await outside.until("web", lambda one: not is_ready(one), within_seconds=4)
        assert condition(unready, "ContainersReady") == "False"
        outside.sim.behave(uid, "main", Behaviour())
        again = await outside.until("web", is_ready, within_seconds=4)
        assert status_of(again).restart_count == 0
        assert "Unhealthy" in [reason for reason, _ in await outside.events("web")]


async def test_liveness_restarts_the_container_with_its_own_grace(tmp_path: Path) -> None:
    """A container that fails its liveness probe is stopped within the probe's grace period and restarted."""
    probe = {**HTTP, "periodSeconds": 1, "failureThreshold": 2, "terminationGracePeriodSeconds": 4}
    async with world(tmp_path, scripts={"main": Behaviour(stop_seconds=60)}) as outside, outside.running_node():
        pod = await outside.create("web", containers=[container(livenessProbe=probe)])
        await outside.until("web", is_ready, within_seconds=2)
        began = outside.clock.monotonic()
        outside.sim.behave(PodUid(pod.metadata.uid), "main", Behaviour(is_healthy=False, stop_seconds=60))
        again = await outside.until("web", lambda one: status_of(one).restart_count == 1 and is_ready(one))
        assert outside.clock.monotonic() - began == pytest.approx(2 + 4, abs=1.5)
        last = status_of(again).last_state.terminated
        assert last is not None
        assert last.exit_code == 137


async def test_startup_probe_holds_back_the_others(tmp_path: Path) -> None:
    """Until the startup probe succeeds, readiness and liveness do not count; a slow start causes no restart."""
    probes: dict[str, Any] = {
        "startupProbe": {**HTTP, "periodSeconds": 1, "failureThreshold": 60},
        "livenessProbe": {**HTTP, "periodSeconds": 1, "failureThreshold": 1},
        "readinessProbe": {**HTTP, "periodSeconds": 1},
    }
    async with world(tmp_path, scripts={"main": Behaviour(is_healthy=False)}) as outside, outside.running_node():
        pod = await outside.create("web", containers=[container(**probes)])
        await asyncio.sleep(20)
        waiting = await outside.pod("web")
        assert (status_of(waiting).started, is_ready(waiting)) == (False, False)
        outside.sim.behave(PodUid(pod.metadata.uid), "main", Behaviour())
        ready = await outside.until("web", is_ready, within_seconds=3)
        assert status_of(ready).restart_count == 0


async def test_tcp_probe_connects_to_a_running_container(tmp_path: Path) -> None:
    probe = {"tcpSocket": {"port": 80}, "periodSeconds": 1}
    async with world(tmp_path) as outside, outside.running_node():
        await outside.create("web", containers=[container(readinessProbe=probe)])
        assert is_ready(await outside.until("web", is_ready, within_seconds=2))
