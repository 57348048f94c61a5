"""Lives of API pods on a whole node, from creation to deletion, with their timing."""

import itertools
from datetime import datetime
from functools import partial
from pathlib import Path

import pytest

from pykubelet.api.generated.core import Pod
from pykubelet.api.pods import PodUid
from pykubelet.api.times import parse_time
from pykubelet.runtimes.sim.runtime import Behaviour, ContainerRun, ImageBehaviour
from whole_node import condition, container, is_ready, status_of, world


async def test_pod_runs_becomes_ready_and_is_deleted(tmp_path: Path) -> None:
    """The pod is ready within a second.

    Deleted, it ends within its grace period, shows its exit code and leaves the API.
    """
    async with (
        world(tmp_path, scripts={"main": Behaviour(stop_seconds=2, stop_exit_code=3)}) as outside,
        outside.running_node(),
    ):
        await outside.create("web", terminationGracePeriodSeconds=10)
        pod = await outside.until("web", is_ready, within_seconds=1)
        assert (pod.status.phase, pod.status.pod_ip != "") == ("Running", True)
        began = outside.clock.monotonic()
        await outside.delete("web")
        ended = await outside.until("web", lambda one: one.status.phase == "Failed", within_seconds=5)
        terminated = status_of(ended).state.terminated
        assert terminated is not None
        assert terminated.exit_code == 3
        await outside.until_gone("web")
        assert outside.clock.monotonic() - began == pytest.approx(2, abs=0.2)
        assert ("Killing", "Stopping container main") in await outside.events("web")


async def test_pod_under_never_keeps_its_exit_code(tmp_path: Path) -> None:
    """The exit code decides the phase of a run-once pod, and the pod stays in the API."""
    runs = {
        "good": Behaviour(runs=(ContainerRun(seconds=1),)),
        "bad": Behaviour(runs=(ContainerRun(seconds=1, exit_code=7),)),
    }
    async with world(tmp_path, scripts=runs) as outside, outside.running_node():
        for name in runs:
            await outside.create(name, restartPolicy="Never", containers=[container(name)])
        good = await outside.until("good", lambda one: one.status.phase == "Succeeded", within_seconds=3)
        bad = await outside.until("bad", lambda one: one.status.phase == "Failed", within_seconds=3)
        for pod, code in ((good, 0), (bad, 7)):
            terminated = status_of(pod, pod.metadata.name).state.terminated
            assert terminated is not None
            assert terminated.exit_code == code
        assert not (await outside.observed(good)).sandboxes[0].is_ready


async def test_crashing_container_waits_ever_longer(tmp_path: Path) -> None:
    """The first restart is immediate; later ones wait 10, 20 and 40 seconds. The status shows the backoff."""
    crash = Behaviour(runs=(ContainerRun(seconds=1, exit_code=1),))
    async with world(tmp_path, scripts={"main": crash}) as outside, outside.running_node():
        await outside.create("web")
        starts: list[datetime] = []
        for attempt in range(5):
            pod = await outside.until("web", partial(_is_attempt, attempt), within_seconds=60)
            started = (await outside.observed(pod)).containers[0].started_at
            assert started is not None
            starts.append(started)
        waits = [(after - before).total_seconds() for before, after in itertools.pairwise(starts)]
        assert waits == pytest.approx([1, 11, 21, 41], abs=0.1)
        held = await outside.until("web", lambda one: status_of(one).state.waiting is not None)
        waiting = status_of(held).state.waiting
        assert waiting is not None
        assert waiting.reason == "CrashLoopBackOff"
        assert "back-off 1m20s restarting failed container=main" in waiting.message


def _is_attempt(number: int, pod: Pod) -> bool:
    return any(one.container_id and one.restart_count == number for one in pod.status.container_statuses)


async def test_init_containers_run_in_turn_and_a_sidecar_stays(tmp_path: Path) -> None:
    """The first init container runs to completion. The sidecar runs beside the main container and stops after it."""
    scripts = {
        "first": Behaviour(runs=(ContainerRun(seconds=2),)),
        "main": Behaviour(runs=(ContainerRun(seconds=3),)),
    }
    async with world(tmp_path, scripts=scripts) as outside, outside.running_node():
        began = outside.clock.now()
        await outside.create(
            "web",
            restartPolicy="Never",
            initContainers=[container("first"), container("side", restartPolicy="Always")],
        )
        running = await outside.until("web", is_ready, within_seconds=5)
        assert status_of(running, "side").state.running is not None
        done = await outside.until("web", lambda one: one.status.phase == "Succeeded", within_seconds=10)
        ends = {name: _ended_at(done, name, began) for name in ("first", "main", "side")}
        assert ends == pytest.approx({"first": 2, "main": 5, "side": 5}, abs=1)
        assert condition(done, "Initialized") == "True"


def _ended_at(pod: Pod, name: str, began: datetime) -> float:
    terminated = status_of(pod, name).state.terminated
    assert terminated is not None
    assert terminated.finished_at is not None
    return (parse_time(terminated.finished_at) - began).total_seconds()


async def test_pod_past_its_deadline_is_failed_on_time(tmp_path: Path) -> None:
    """A pod is stopped when its active deadline expires, not at the next sync."""
    async with world(tmp_path) as outside, outside.running_node():
        began = outside.clock.monotonic()
        await outside.create("web", activeDeadlineSeconds=30)
        failed = await outside.until("web", lambda one: one.status.phase == "Failed", within_seconds=60)
        assert failed.status.reason == "DeadlineExceeded"
        assert outside.clock.monotonic() - began == pytest.approx(30, abs=1)
        assert ("DeadlineExceeded", failed.status.message) in await outside.events("web")


async def test_pod_that_does_not_fit_is_refused_and_can_be_deleted(tmp_path: Path) -> None:
    """A pod that requests more CPU than the node has fails with the reason and runs no container."""
    big = container(resources={"requests": {"cpu": "64"}})
    async with world(tmp_path) as outside, outside.running_node():
        pod = await outside.create("web", containers=[big])
        refused = await outside.until("web", lambda one: one.status.phase == "Failed", within_seconds=1)
        assert refused.status.reason == "OutOfcpu"
        assert refused.status.message.startswith("Pod was rejected: Node didn't have enough resource: cpu")
        assert await outside.sim.inspect(PodUid(pod.metadata.uid)) is None
        assert "refused" in [entry.what for entry in outside.trail(pod)]
        await outside.delete("web")
        await outside.until_gone("web", within_seconds=10)


async def test_image_that_cannot_be_pulled_is_tried_ever_later(tmp_path: Path) -> None:
    """A failed pull is reported with its cause and retried with a backoff; then the pod starts."""
    broken = ImageBehaviour(pull_error="no such host")
    async with world(tmp_path, images={"example/image:1": broken}) as outside, outside.running_node():
        await outside.create("web")
        waiting = await outside.until("web", lambda one: _reason(one) == "ImagePullBackOff", within_seconds=1)
        state = status_of(waiting).state.waiting
        assert state is not None
        assert "ErrImagePull" in state.message
        assert "no such host" in state.message
        outside.images.script("example/image:1", ImageBehaviour())
        ready = await outside.until("web", is_ready, within_seconds=12)
        assert ready.status.phase == "Running"


def _reason(pod: Pod) -> str:
    waiting = status_of(pod).state.waiting if pod.status.container_statuses else None
    return waiting.reason if waiting is not None else ""


async def test_trail_records_the_life_of_a_pod(tmp_path: Path) -> None:
    """The trail lists the decisions about the pod in order."""
    async with world(tmp_path) as outside, outside.running_node():
        pod = await outside.create("web")
        await outside.until("web", is_ready, within_seconds=1)
        await outside.delete("web")
        await outside.until_gone("web")
        told = [entry.what for entry in outside.trail(pod)]
        assert [
            one for one in told if one in {"added", "admitted", "sync", "terminating", "terminated", "finished"}
        ] == [
            "added",
            "admitted",
            "sync",
            "terminating",
            "terminated",
            "finished",
        ]
