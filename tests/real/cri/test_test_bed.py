"""The containerd test bed itself, tested with bare CRI calls."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc.aio
import psutil
import pytest
from cri_api.v1 import api_pb2 as cri

import oci_images
from containerd_lab import ContainerdLab, running_containerd, services
from pykubelet.aio.clock import SystemClock
from pykubelet.aio.ids import RandomIds


class Cri:
    """The CRI stubs, with short helpers for a pod and a container."""

    def __init__(self, channel: Any, lab: ContainerdLab, logs: Path) -> None:
        self.runtime, self.images = services.RuntimeServiceStub(channel), services.ImageServiceStub(channel)
        self.lab, self.logs = lab, logs

    def pod(self) -> cri.PodSandboxConfig:
        uid = RandomIds().uid()
        return cri.PodSandboxConfig(
            metadata=cri.PodSandboxMetadata(name="pod", uid=uid, namespace="default"),
            log_directory=str(self.logs),
            linux=cri.LinuxPodSandboxConfig(cgroup_parent=f"{self.lab.cgroup_parent}/pod{uid}"),
        )

    async def sandbox(self, pod: cri.PodSandboxConfig) -> str:
        answer = await self.runtime.RunPodSandbox(cri.RunPodSandboxRequest(config=pod))
        return str(answer.pod_sandbox_id)

    async def ip_of(self, sandbox: str) -> str:
        answer = await self.runtime.PodSandboxStatus(cri.PodSandboxStatusRequest(pod_sandbox_id=sandbox))
        return str(answer.status.network.ip)

    async def container(self, pod: cri.PodSandboxConfig, sandbox: str, image: str, *command: str) -> str:
        config = cri.ContainerConfig(
            metadata=cri.ContainerMetadata(name="main"),
            image=cri.ImageSpec(image=image),
            command=command,
            log_path="main.log",
        )
        request = cri.CreateContainerRequest(pod_sandbox_id=sandbox, config=config, sandbox_config=pod)
        return str((await self.runtime.CreateContainer(request)).container_id)

    async def start(self, container: str) -> None:
        await self.runtime.StartContainer(cri.StartContainerRequest(container_id=container))

    async def run(self, image: str, *command: str) -> tuple[str, str]:
        """Run a pod with one container and return the IDs of its sandbox and its container."""
        pod = self.pod()
        sandbox = await self.sandbox(pod)
        container = await self.container(pod, sandbox, image, *command)
        await self.start(container)
        return sandbox, container

    async def status(self, container: str) -> Any:
        request = cri.ContainerStatusRequest(container_id=container)
        return (await self.runtime.ContainerStatus(request)).status

    async def until_ended(self, container: str) -> Any:
        while (status := await self.status(container)).state != cri.CONTAINER_EXITED:
            await asyncio.sleep(0.01)
        return status

    async def remove(self, sandbox: str) -> None:
        await self.runtime.StopPodSandbox(cri.StopPodSandboxRequest(pod_sandbox_id=sandbox))
        await self.runtime.RemovePodSandbox(cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox))


@asynccontextmanager
async def talking_to(lab: ContainerdLab, logs: Path) -> AsyncIterator[Cri]:
    async with grpc.aio.insecure_channel(lab.endpoint) as channel:
        yield Cri(channel, lab, logs)


@pytest.fixture
async def bare(containerd: ContainerdLab, tmp_path: Path) -> AsyncIterator[Cri]:
    async with talking_to(containerd, tmp_path) as found:
        yield found


async def test_containerd_says_that_it_and_its_network_are_ready(bare: Cri) -> None:
    """It speaks CRI v1 and has read the configuration of the network."""
    version = await bare.runtime.Version(cri.VersionRequest())
    assert (version.runtime_name, version.runtime_api_version) == ("containerd", "v1")
    status = (await bare.runtime.Status(cri.StatusRequest())).status
    assert {found.type: found.status for found in status.conditions} == {"RuntimeReady": True, "NetworkReady": True}


async def test_pod_answers_at_its_own_address(bare: Cri) -> None:
    """This machine and another pod can reach it."""
    sandbox, _ = await bare.run(oci_images.WEB)
    ip = await bare.ip_of(sandbox)
    reader, writer = await asyncio.open_connection(ip, 8080)
    writer.write(b"GET / HTTP/1.0\r\n\r\n")
    assert (await reader.read()).endswith(b"hello from the pod\n")
    writer.close()
    other, asking = await bare.run(oci_images.BUSYBOX, "wget", "-qO-", f"http://{ip}:8080/")
    assert (await bare.until_ended(asking)).exit_code == 0
    assert (bare.logs / "main.log").read_text().endswith(" stdout F hello from the pod\n")
    await bare.remove(sandbox)
    await bare.remove(other)


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        (oci_images.ENTRYPOINT, "entry usual"),
        (oci_images.NUMBERED_USER, "uid=1000(worker) gid=1000(worker) groups=1000(worker)"),
        (oci_images.NAMED_USER, "uid=1000(worker) gid=1000(worker) groups=1000(worker)"),
    ],
)
async def test_image_sets_entry_point_and_user(bare: Cri, image: str, expected: str) -> None:
    """containerd accepts the configuration of the images that the test bed builds."""
    sandbox, container = await bare.run(image)
    assert (await bare.until_ended(container)).exit_code == 0
    assert (bare.logs / "main.log").read_text().partition(" stdout F ")[2] == f"{expected}\n"
    await bare.remove(sandbox)


@pytest.mark.parametrize(
    ("image", "command", "exit_code"),
    [
        (oci_images.BUSYBOX, ("sh", "-c", "trap 'exit 5' TERM; echo ready; while :; do sleep 1 & wait $!; done"), 5),
        (oci_images.STUBBORN, (), 137),
        (oci_images.STOP_SIGNAL, (), 3),
    ],
)
async def test_container_ends_as_its_image_has_it(
    bare: Cri, image: str, command: tuple[str, ...], exit_code: int
) -> None:
    """One ends at TERM, one has to be killed, and one ends at its image's STOPSIGNAL."""
    sandbox, container = await bare.run(image, *command)
    while "ready" not in (bare.logs / "main.log").read_text():
        await asyncio.sleep(0.01)
    await bare.runtime.StopContainer(cri.StopContainerRequest(container_id=container, timeout=1))
    assert (await bare.status(container)).exit_code == exit_code
    await bare.remove(sandbox)


async def test_command_in_a_container_gives_output_and_exit_code(bare: Cri) -> None:
    """ExecSync returns stdout and stderr separately."""
    sandbox, container = await bare.run(oci_images.BUSYBOX, "sleep", "1000")
    command = ["sh", "-c", "echo out; echo err >&2; exit 7"]
    answer = await bare.runtime.ExecSync(cri.ExecSyncRequest(container_id=container, cmd=command, timeout=5))
    assert (answer.stdout, answer.stderr, answer.exit_code) == (b"out\n", b"err\n", 7)
    await bare.remove(sandbox)


async def test_image_made_during_a_test_is_there_at_once(bare: Cri) -> None:
    """Tests can add images of their own and remove them again."""
    image = cri.ImageSpec(image="example.test/own:1")
    bare.lab.add_images([oci_images.Image(image.image, {"User": "1234"}, {"srv/large": os.urandom(1_000_000)})])
    found = (await bare.images.ImageStatus(cri.ImageStatusRequest(image=image))).image
    assert (found.uid.value, found.size > 1_000_000) == (1234, True)
    await bare.images.RemoveImage(cri.RemoveImageRequest(image=image))
    assert not (await bare.images.ImageStatus(cri.ImageStatusRequest(image=image))).HasField("image")


async def test_container_outlives_a_crash_of_containerd(bare: Cri) -> None:
    """After the restart containerd shows the same container as running."""
    sandbox, container = await bare.run(oci_images.BUSYBOX, "sleep", "1000")
    bare.lab.kill()
    bare.lab.start()
    async with talking_to(bare.lab, bare.logs) as again:
        assert (await again.status(container)).state == cri.CONTAINER_RUNNING
        await again.remove(sandbox)


async def test_nothing_is_left_of_a_lab_that_ended_with_running_pods(tmp_path: Path) -> None:
    """No process, mount, network link, cgroup or folder remains."""
    with running_containerd() as lab:
        async with talking_to(lab, tmp_path) as bare:
            await bare.run(oci_images.STUBBORN)
            await bare.run(oci_images.BUSYBOX, "sleep", "1000")
        assert all(traces_of(lab).values())
    assert not any(traces_of(lab).values())


def traces_of(lab: ContainerdLab) -> dict[str, list[Any]]:
    commands = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]
    return {
        "processes": [command for command in commands if any(str(lab.folder) in word for word in command)],
        "mounts": [line for line in Path("/proc/mounts").read_text().splitlines() if str(lab.folder) in line],
        "links": list(Path("/sys/class/net").glob(lab.bridge)),
        "cgroups": list(Path("/sys/fs/cgroup").glob(f"**{lab.cgroup_parent}")),
        "folders": list(lab.folder.parent.glob(lab.folder.name)),
    }


async def test_bare_calls_show_the_least_time_of_the_runtime(bare: Cri, capsys: pytest.CaptureFixture[str]) -> None:
    """No kubelet can be faster than these CRI calls; each takes less than 5 s here."""
    clock, least = SystemClock(), dict[str, float]()

    async def timed(name: str, call: Awaitable[Any]) -> Any:
        begun = clock.monotonic()
        answer = await call
        least[name] = min(least.get(name, 60.0), clock.monotonic() - begun)
        return answer

    for _ in range(5):
        pod = bare.pod()
        await timed("Version", bare.runtime.Version(cri.VersionRequest()))
        sandbox = await timed("RunPodSandbox", bare.sandbox(pod))
        container = await timed("CreateContainer", bare.container(pod, sandbox, oci_images.WEB))
        await timed("StartContainer", bare.start(container))
        await timed("ContainerStatus", bare.status(container))
        await timed("ListContainers", bare.runtime.ListContainers(cri.ListContainersRequest()))
        stop = cri.StopContainerRequest(container_id=container, timeout=5)
        await timed("StopContainer", bare.runtime.StopContainer(stop))
        await timed("StopPodSandbox and RemovePodSandbox", bare.remove(sandbox))
    with capsys.disabled():
        figures = ", ".join(f"{name} {seconds * 1000:.1f}" for name, seconds in least.items())
        os.write(1, f"\nmilliseconds of bare CRI: {figures}\n".encode())
    assert max(least.values()) < 5
