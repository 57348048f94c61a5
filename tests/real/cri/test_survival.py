"""The node or containerd restarts while containers run, and no change is lost."""

import asyncio
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
from cri_api.v1 import api_pb2 as api

from containerd_lab import ContainerdLab, running_containerd
from cri_lab import CriLab, opened, remove_everything
from pykubelet.aio.clock import SystemClock
from pykubelet.api.pods import PodUid
from pykubelet.runtimes.cri.channel import CriChannel, CriFailure
from pykubelet.runtimes.cri.connect import CriSettings, OpenCri, open_cri
from pykubelet.runtimes.protocol import ContainerState, RuntimeFailure


async def test_node_started_anew_finds_everything_and_goes_on(containerd: ContainerdLab, tmp_path: Path) -> None:
    """The new node adds a container to the old sandbox, with the same hostname."""
    async with opened(containerd) as cri:
        lab = CriLab(cri, tmp_path)
        pod = lab.pod("sleep", "1000")
        sandbox_id = await lab.sandbox(pod)
        first = await lab.add(pod, sandbox_id)
        before = await lab.inspect(pod)
    async with opened(containerd) as cri:
        lab = CriLab(cri, tmp_path)
        assert list(await cri.runtime.pods()) == [before]
        second = await lab.add(pod, sandbox_id, attempt=1)
        assert [one.id for one in (await lab.inspect(pod)).containers] == [second, first]
        assert await lab.tell(second, "echo $HOSTNAME") == [pod.metadata.name]
        await cri.runtime.stop(sandbox_id, 0)
        await remove_everything(cri.runtime)


async def test_container_that_a_crashed_node_did_not_start_is_gone(containerd: ContainerdLab, tmp_path: Path) -> None:
    """Its name and attempt are free for the next container; started containers stay."""
    async with opened(containerd) as cri:
        lab = CriLab(cri, tmp_path)
        pod = lab.pod("sleep", "1000")
        sandbox_id = await lab.sandbox(pod)
        started = await lab.add(pod, sandbox_id, attempt=1)
        await cri.runtime.create_container(await lab.request(pod, sandbox_id))
        assert len((await lab.inspect(pod)).containers) == 2
    async with opened(containerd) as cri:
        lab = CriLab(cri, tmp_path)
        assert [one.id for one in (await lab.inspect(pod)).containers] == [started]
        await cri.runtime.create_container(await lab.request(pod, sandbox_id))
        await remove_everything(cri.runtime)


async def test_start_completes_when_its_caller_is_cancelled(cri: OpenCri, lab: CriLab) -> None:
    """The stop of a node or the deletion of a pod must not make a starting container fail."""
    pod = lab.pod("sleep", "1000")
    container_id = await cri.runtime.create_container(await lab.request(pod, await lab.sandbox(pod)))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.002):
            await cri.runtime.start(container_id)
    assert (await lab.inspect(pod)).containers[0].state == ContainerState.RUNNING


async def test_container_whose_start_was_given_up_with_its_node_is_tried_again(
    containerd: ContainerdLab, tmp_path: Path
) -> None:
    """containerd cannot start such a container again, so the next node removes it."""
    async with opened(containerd) as cri:
        lab = CriLab(cri, tmp_path)
        for attempt in range(0, 20, 2):
            pod = lab.pod("sleep", "1000")
            container_id = await cri.runtime.create_container(await lab.request(pod, await lab.sandbox(pod)))
            async with CriChannel(containerd.endpoint) as channel:
                with suppress(TimeoutError):
                    async with asyncio.timeout(0.002 * attempt):
                        await channel.call(
                            api.StartContainerRequest(container_id=container_id), api.StartContainerResponse
                        )
    async with opened(containerd) as cri:
        found = [one for pod in await cri.runtime.pods() for one in pod.containers]
        assert {one.state for one in found} <= {ContainerState.RUNNING}
        await remove_everything(cri.runtime)


async def test_containers_survive_a_restart_of_containerd_and_events_resume() -> None:
    """While containerd is down calls fail; afterwards each pod is emitted as changed, and exits are seen again."""
    with running_containerd() as containerd:
        async with opened(containerd) as cri:
            lab = CriLab(cri, containerd.folder)
            pod = lab.pod("sh", "-c", "while ! [ -e /tmp/end ]; do sleep 0.02; done; exit 4")
            container_id = await lab.run(pod)
            await asyncio.sleep(0.5)  # opening the runtime has already emitted a change of the pod
            changes = cri.runtime.changes()
            containerd.kill()
            with pytest.raises(RuntimeFailure, match="rpc error: code = Unavailable"):
                await cri.runtime.pods()
            containerd.start()
            async with asyncio.timeout(10):
                assert await anext(changes) == pod.metadata.uid
            assert (await lab.inspect(pod)).containers[0].state == ContainerState.RUNNING
            await asyncio.sleep(0.5)
            await lab.tell(container_id, "touch /tmp/end")
            async with asyncio.timeout(5):
                while (await lab.inspect(pod)).containers[0].state == ContainerState.RUNNING:
                    assert await anext(changes) == pod.metadata.uid
            await remove_everything(cri.runtime)


async def test_runtime_tells_whether_it_is_ready(cri: OpenCri) -> None:
    """The runtime and its network report no error."""
    assert (cri.name, cri.has_changes) == ("containerd", True)
    assert cri.version
    assert (cri.state.runtime_error(), cri.state.network_error()) == ("", "")


async def test_runtime_without_a_network_says_so(tmp_path: Path) -> None:
    """The error text is that of the Go kubelet."""
    with running_containerd() as containerd:
        (containerd.folder / "cni/lab.conflist").unlink()
        containerd.kill()
        containerd.start()
        async with opened(containerd) as cri:
            assert cri.state.network_error().startswith(
                "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:"
            )
            assert cri.state.runtime_error() == ""


async def test_opening_an_unserved_socket_fails_at_once(tmp_path: Path) -> None:
    with pytest.raises(RuntimeFailure, match="Unavailable"):
        async with open_cri(CriSettings(socket=str(tmp_path / "none.sock"))):
            pass


async def test_failure_of_a_runtime_that_is_away_says_when_to_try_again(tmp_path: Path) -> None:
    """`retry_at` is at most 2 seconds away; other failures have none."""
    clock = SystemClock()
    begin = clock.now()
    async with CriChannel(f"unix://{tmp_path}/none.sock", clock) as channel:
        with pytest.raises(CriFailure, match="Unavailable") as failure:
            await channel.call(api.VersionRequest(), api.VersionResponse)
    assert failure.value.retry_at is not None
    assert begin < failure.value.retry_at <= clock.now() + timedelta(seconds=2)
    assert failure.value.plain().retry_at == failure.value.retry_at
    assert CriFailure("Unknown", "no").plain().retry_at is None


async def test_exit_of_a_container_is_seen_through_its_event(cri: OpenCri, lab: CriLab) -> None:
    """The exit code is known without a relist."""
    pod = lab.pod("sh", "-c", "exit 3")
    changes = cri.runtime.changes()
    await lab.run(pod)
    async with asyncio.timeout(3):
        while (container := (await lab.inspect(pod)).containers[0]).state != ContainerState.EXITED:
            assert await anext(changes) == PodUid(pod.metadata.uid)
    assert (container.exit_code, container.reason) == (3, "Error")
