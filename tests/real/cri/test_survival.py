"""The node, or containerd itself, is started anew while containers run; and what is seen of changes meanwhile."""

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
    """It adds a container to a sandbox that it did not make, with the host's name as before."""
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
    """So the next one of its name is its first attempt still; what has started stays."""
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


async def test_start_is_finished_even_if_nobody_waits_for_it(cri: OpenCri, lab: CriLab) -> None:
    """A node that is told to stop, or a pod that is deleted, does not make a container fail that was about to run."""
    pod = lab.pod("sleep", "1000")
    container_id = await cri.runtime.create_container(await lab.request(pod, await lab.sandbox(pod)))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.002):
            await cri.runtime.start(container_id)
    assert (await lab.inspect(pod)).containers[0].state == ContainerState.RUNNING


async def test_container_whose_start_was_given_up_with_its_node_is_tried_again(
    containerd: ContainerdLab, tmp_path: Path
) -> None:
    """containerd shows it as one that cannot be started; a node that comes takes it away."""
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


async def test_containers_outlive_containerd_and_changes_are_heard_again() -> None:
    """While it is away calls fail; afterwards every pod is hinted at, and ends are heard as before."""
    with running_containerd() as containerd:
        async with opened(containerd) as cri:
            lab = CriLab(cri, containerd.folder)
            pod = lab.pod("sh", "-c", "while ! [ -e /tmp/end ]; do sleep 0.02; done; exit 4")
            container_id = await lab.run(pod)
            await asyncio.sleep(0.5)  # the pod was hinted at when the runtime was opened, too
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
    """Here all is well."""
    assert (cri.name, cri.has_changes) == ("containerd", True)
    assert cri.version
    assert (cri.state.runtime_error(), cri.state.network_error()) == ("", "")


async def test_runtime_without_a_network_says_so(tmp_path: Path) -> None:
    """In the words that the Go kubelet has for it."""
    with running_containerd() as containerd:
        (containerd.folder / "cni/lab.conflist").unlink()
        containerd.kill()
        containerd.start()
        async with opened(containerd) as cri:
            assert cri.state.network_error().startswith(
                "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:"
            )
            assert cri.state.runtime_error() == ""


async def test_socket_that_nobody_serves_is_a_failure(tmp_path: Path) -> None:
    """At once, when it is opened."""
    with pytest.raises(RuntimeFailure, match="Unavailable"):
        async with open_cri(CriSettings(socket=str(tmp_path / "none.sock"))):
            pass


async def test_failure_of_a_runtime_that_is_away_says_when_to_try_again(tmp_path: Path) -> None:
    """Soon; other failures do not know."""
    clock = SystemClock()
    begin = clock.now()
    async with CriChannel(f"unix://{tmp_path}/none.sock", clock) as channel:
        with pytest.raises(CriFailure, match="Unavailable") as failure:
            await channel.call(api.VersionRequest(), api.VersionResponse)
    assert failure.value.retry_at is not None
    assert begin < failure.value.retry_at <= clock.now() + timedelta(seconds=2)
    assert failure.value.plain().retry_at == failure.value.retry_at
    assert CriFailure("Unknown", "no").plain().retry_at is None


async def test_end_of_a_container_is_heard_soon(cri: OpenCri, lab: CriLab) -> None:
    """With its exit code, and without anybody looking at everything."""
    pod = lab.pod("sh", "-c", "exit 3")
    changes = cri.runtime.changes()
    await lab.run(pod)
    async with asyncio.timeout(3):
        while (container := (await lab.inspect(pod)).containers[0]).state != ContainerState.EXITED:
            assert await anext(changes) == PodUid(pod.metadata.uid)
    assert (container.exit_code, container.reason) == (3, "Error")
