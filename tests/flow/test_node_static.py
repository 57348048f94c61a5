"""Static pods of a manifest folder on a whole node: mirror pods, edits, removals, and a node without an API server."""

import asyncio
import json
from pathlib import Path
from typing import Any, TypeVar

import pytest

from client_faults import Outage
from pykubelet.api.errors import InternalError
from pykubelet.api.generated.core import Pod
from pykubelet.api.pods import CONFIG_HASH, CONFIG_MIRROR, PodUid
from pykubelet.api.scheme import TypedKind
from pykubelet.app.settings import CannotStart
from pykubelet.runtimes.protocol import ContainerState, RuntimePod
from pykubelet.runtimes.sim.runtime import Behaviour, ContainerRun, SimImages, SimRuntime
from pykubelet.testing.virtual_time import VirtualClock
from whole_node import World, container, is_ready, status_of, world

T = TypeVar("T")
MIRROR = "web-node-1"


def manifest(image: str = "example/image:1", **spec: Any) -> str:
    """A manifest of a pod as a user would write it."""
    body = {"containers": [container(image=image)], "terminationGracePeriodSeconds": 2, **spec}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": body})


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    """The folder of manifests."""
    folder = tmp_path / "manifests"
    folder.mkdir()
    return folder


def running(pods: list[RuntimePod]) -> list[str]:
    """The images of the running containers."""
    return [one.image for pod in pods for one in pod.containers if one.state is ContainerState.RUNNING]


async def test_static_pod_is_shown_edited_and_removed(tmp_path: Path, manifests: Path) -> None:
    """Each step reaches the mirror pod within a second. An edit creates a new mirror pod."""
    path = manifests / "web.json"
    async with world(tmp_path) as outside, outside.running_node(manifests=(manifests,)):
        path.write_text(manifest())
        first = await outside.until(MIRROR, is_ready, within_seconds=1)
        assert first.metadata.annotations[CONFIG_MIRROR] == first.metadata.annotations[CONFIG_HASH]
        path.write_text(manifest(image="example/image:2"))
        second = await outside.until(
            MIRROR, lambda one: one.spec.containers[0].image == "example/image:2" and is_ready(one), within_seconds=1
        )
        assert second.metadata.uid != first.metadata.uid
        assert running(list(await outside.sim.pods())) == ["example/image:2"]
        path.unlink()
        await outside.until_gone(MIRROR, within_seconds=1)
        assert running(list(await outside.sim.pods())) == []


async def test_edited_static_pod_starts_only_when_the_former_has_ended(tmp_path: Path, manifests: Path) -> None:
    """Static pods of the same name never run at the same time, however slowly the first one terminates."""
    path = manifests / "web.json"
    async with (
        world(tmp_path, scripts={"main": Behaviour(stop_seconds=5)}) as outside,
        outside.running_node(manifests=(manifests,)),
    ):
        path.write_text(manifest(terminationGracePeriodSeconds=30))
        await outside.until(MIRROR, is_ready, within_seconds=1)
        for number in (2, 3):
            path.write_text(manifest(image=f"example/image:{number}", terminationGracePeriodSeconds=30))
            await asyncio.sleep(1)
            assert running(list(await outside.sim.pods())) == ["example/image:1"]
        await outside.until(MIRROR, lambda one: _image(one) == "example/image:3" and is_ready(one))
        assert running(list(await outside.sim.pods())) == ["example/image:3"]


@pytest.mark.parametrize("has_server", [True, False])
async def test_edit_while_no_agent_was_there_ends_the_former_first(
    tmp_path: Path, manifests: Path, has_server: bool
) -> None:
    """Also while the API server is down, as the kubelet may be what runs it."""
    path = manifests / "web.json"
    async with world(tmp_path, scripts={"main": Behaviour(stop_seconds=5)}) as outside:
        path.write_text(manifest())
        async with outside.running_node(manifests=(manifests,)):
            await outside.until(MIRROR, is_ready, within_seconds=1)
        path.write_text(manifest(image="example/image:2"))
        client = Outage(outside.api, is_down=not has_server)
        async with outside.starting_node(client=client, manifests=(manifests,)):
            seen = set[tuple[str, ...]]()
            for _ in range(2000):
                seen.add(tuple(running(list(await outside.sim.pods()))))
                await asyncio.sleep(0.05)
        assert seen == {("example/image:1",), (), ("example/image:2",)}


async def test_mirror_of_an_earlier_version_does_not_show_the_next(tmp_path: Path, manifests: Path) -> None:
    """While the old mirror cannot be deleted, it keeps the status of the pod that it was made for."""
    path = manifests / "web.json"
    async with world(tmp_path) as outside:
        client = UndeletableMirrors(outside.api)
        async with outside.starting_node(client=client, manifests=(manifests,)):
            path.write_text(manifest())
            first = await outside.until(MIRROR, is_ready, within_seconds=20)
            client.is_failing = True
            path.write_text(manifest(image="example/image:2"))
            await asyncio.sleep(5)
            assert running(list(await outside.sim.pods())) == ["example/image:2"]
            shown = [status for one in outside.versions(MIRROR) for status in one.status.container_statuses]
            ids = {status.container_id for status in shown} - {""}
            assert ids == {status_of(first).container_id}
            client.is_failing = False
            await outside.until(
                MIRROR, lambda one: _image(one) == "example/image:2" and is_ready(one), within_seconds=120
            )


class UndeletableMirrors(Outage):
    """A client whose deletions fail when the test says so."""

    is_failing = False

    async def delete(self, kind: TypedKind[T], name: str, **where: Any) -> None:
        if self.is_failing:
            raise InternalError
        await super().delete(kind, name, **where)


def _image(pod: Pod) -> str:
    return pod.spec.containers[0].image


async def test_manifest_that_comes_back_while_its_pod_ends_starts_anew(tmp_path: Path, manifests: Path) -> None:
    """The same manifest has the same UID: removed and restored, the pod first terminates and then runs again."""
    path = manifests / "web.json"
    async with (
        world(tmp_path, scripts={"main": Behaviour(stop_seconds=3)}) as outside,
        outside.running_node(manifests=(manifests,)),
    ):
        path.write_text(manifest(terminationGracePeriodSeconds=30))
        first = await outside.until(MIRROR, is_ready, within_seconds=1)
        uid = PodUid(first.metadata.annotations[CONFIG_HASH])
        path.unlink()
        await asyncio.sleep(1)
        path.write_text(manifest(terminationGracePeriodSeconds=30))
        await asyncio.sleep(10)
        again = await outside.pod(MIRROR)
        observed = await outside.sim.inspect(uid)
        assert observed is not None
        assert next(one.state for one in observed.containers) is ContainerState.RUNNING
        assert len([one for one in observed.containers if one.state is ContainerState.RUNNING]) == 1
        assert is_ready(again)


async def test_edited_static_pod_does_not_inherit_the_end_of_the_former(tmp_path: Path, manifests: Path) -> None:
    """A succeeded static pod runs again after an edit, although its old mirror pod shows it as finished."""
    path = manifests / "web.json"
    once = [container("once")]
    async with (
        world(tmp_path, scripts={"once": Behaviour(runs=(ContainerRun(seconds=1),))}) as outside,
        outside.running_node(manifests=(manifests,)),
    ):
        path.write_text(manifest(restartPolicy="Never", containers=once))
        first = await outside.until(MIRROR, lambda one: one.status.phase == "Succeeded", within_seconds=3)
        path.write_text(manifest(restartPolicy="Never"))
        second = await outside.until(MIRROR, is_ready, within_seconds=3)
        assert (second.status.phase, second.metadata.uid != first.metadata.uid) == ("Running", True)


@pytest.mark.parametrize(("exit_code", "phase"), [(3, "Failed"), (0, "Succeeded")])
async def test_mirror_shows_the_end_together_with_the_exit(
    tmp_path: Path, manifests: Path, exit_code: int, phase: str
) -> None:
    """As with a kubelet: once the only container has exited, the mirror never shows the phase Running."""
    once = ContainerRun(seconds=1, exit_code=exit_code)
    async with (
        world(tmp_path, scripts={"once": Behaviour(runs=(once,))}) as outside,
        outside.running_node(manifests=(manifests,)),
    ):
        (manifests / "web.json").write_text(manifest(restartPolicy="Never", containers=[container("once")]))
        await outside.until(MIRROR, lambda one: one.status.phase == phase, within_seconds=3)
        await asyncio.sleep(30)
        exited = [one for one in outside.versions(MIRROR) if _has_exited(one)]
        assert {one.status.phase for one in exited} == {phase}


class SlowPatches(Outage):
    """A Client whose patches take 300 ms."""

    async def patch(self, *what: Any, **where: Any) -> Any:
        await asyncio.sleep(0.3)
        return await super().patch(*what, **where)


async def test_mirror_goes_only_after_it_has_shown_the_end(tmp_path: Path, manifests: Path) -> None:
    """Even if the last status takes a while; a kubelet needs up to two seconds to delete the mirror."""
    async with world(tmp_path) as outside:
        async with outside.running_node(manifests=(manifests,), client=SlowPatches(outside.api)):
            (manifests / "web.json").write_text(manifest(terminationGracePeriodSeconds=1))
            await outside.until(MIRROR, is_ready, within_seconds=3)
            (manifests / "web.json").unlink()
            await outside.until_gone(MIRROR)
        last = outside.versions(MIRROR)[-1]
        assert _has_exited(last)
        assert not is_ready(last)


def _has_exited(pod: Pod) -> bool:
    return any(one.state.terminated is not None for one in pod.status.container_statuses)


async def test_broken_edit_keeps_the_pod_and_is_reported(tmp_path: Path, manifests: Path) -> None:
    """The pod keeps running; an event and a condition of the node name the file."""
    path = manifests / "web.json"
    async with world(tmp_path) as outside, outside.running_node(manifests=(manifests,)) as node:
        path.write_text(manifest())
        before = await outside.until(MIRROR, is_ready, within_seconds=1)
        path.write_text("{")
        await asyncio.sleep(30)
        assert (await outside.pod(MIRROR)).metadata.uid == before.metadata.uid
        assert str(path) in node.health.problems().warning
        assert str(path) in await outside.node_message()
        assert "PodSourceProblem" in [reason for reason, _ in await outside.events("node-1")]


async def test_mirror_deleted_by_a_user_comes_back(tmp_path: Path, manifests: Path) -> None:
    """The pod keeps running, and a new mirror pod is created within a second."""
    (manifests / "web.json").write_text(manifest())
    async with world(tmp_path) as outside, outside.running_node(manifests=(manifests,)):
        first = await outside.until(MIRROR, is_ready, within_seconds=1)
        await outside.delete(MIRROR)
        second = await outside.until(
            MIRROR, lambda one: one.metadata.uid != first.metadata.uid and is_ready(one), within_seconds=1
        )
        assert second.status.start_time == first.status.start_time
        observed = await outside.sim.inspect(PodUid(first.metadata.annotations[CONFIG_HASH]))
        assert observed is not None
        assert len(observed.containers) == 1


async def test_node_on_its_own_runs_static_pods(tmp_path: Path, manifests: Path) -> None:
    """Without an API server static pods start and stop, and the status manager has their statuses."""
    path = manifests / "web.json"
    path.write_text(manifest())
    outside = World(None, tmp_path, SimRuntime(clock=VirtualClock()), SimImages())
    async with outside.running_node(manifests=(manifests,)) as node:
        await asyncio.sleep(1)
        (pod,) = node.pods.pods.pods()
        status = node.pods.statuses.pod_status(pod.metadata.uid)
        assert status is not None
        assert status.phase == "Running"
        path.unlink()
        await asyncio.sleep(3)
        assert running(list(await outside.sim.pods())) == []
        assert node.pods.pods.pods() == ()


async def test_node_with_nothing_to_run_does_not_start(tmp_path: Path) -> None:
    """A node without any pod source would stop all running pods, so it refuses to start."""
    outside = World(None, tmp_path, SimRuntime(clock=VirtualClock()), SimImages())
    with pytest.raises(CannotStart, match="there is nothing to run"):
        async with outside.running_node():
            pass
