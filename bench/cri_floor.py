"""What pods on a container runtime cost at least: CRI's own calls and nothing else, all pods at once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter

import grpc.aio
from cri_api.v1 import api_pb2 as cri
from measured_node import FOREVER, GRACE_SECONDS, IMAGE

from containerd_lab import ContainerdLab, services

Made = tuple[str, str]
"""The ids of a sandbox and of the container in it."""


class Floor:
    """Makes pods of one container and takes them away again, by the shortest way there is."""

    def __init__(self, channel: grpc.aio.Channel, lab: ContainerdLab) -> None:
        self._runtime, self._lab = services.RuntimeServiceStub(channel), lab

    async def start(self, count: int) -> tuple[list[float], list[Made]]:
        """How soon each of so many pods runs, and what they are."""
        began = perf_counter()

        async def one(number: int) -> tuple[float, Made]:
            made = await self._run(f"floor{number}")
            return perf_counter() - began, made

        done = await asyncio.gather(*map(one, range(count)))
        return [seconds for seconds, _ in done], [made for _, made in done]

    async def end(self, pods: list[Made]) -> tuple[list[float], list[float]]:
        """How soon each of these pods has stopped, and how soon it is removed."""
        began = perf_counter()

        async def one(sandbox: str, container: str) -> tuple[float, float]:
            await self._stop(sandbox, container)
            stopped = perf_counter() - began
            await self._remove(sandbox, container)
            return stopped, perf_counter() - began

        done = await asyncio.gather(*(one(*pod) for pod in pods))
        return [stopped for stopped, _ in done], [removed for _, removed in done]

    async def _run(self, name: str) -> Made:
        logs = self._lab.folder / "floor" / name
        logs.mkdir(parents=True, exist_ok=True)
        pod = cri.PodSandboxConfig(
            metadata=cri.PodSandboxMetadata(name=name, uid=name, namespace="default"),
            hostname=name,
            log_directory=str(logs),
            linux=cri.LinuxPodSandboxConfig(cgroup_parent=f"{self._lab.cgroup_parent}/{name}"),
        )
        made = await self._runtime.RunPodSandbox(cri.RunPodSandboxRequest(config=pod))
        container = cri.ContainerConfig(
            metadata=cri.ContainerMetadata(name="main"),
            image=cri.ImageSpec(image=IMAGE),
            command=["/bin/sh", "-c", FOREVER],
            log_path="main.log",
        )
        request = cri.CreateContainerRequest(pod_sandbox_id=made.pod_sandbox_id, config=container, sandbox_config=pod)
        created = await self._runtime.CreateContainer(request)
        await self._runtime.StartContainer(cri.StartContainerRequest(container_id=created.container_id))
        return str(made.pod_sandbox_id), str(created.container_id)

    async def _stop(self, sandbox: str, container: str) -> None:
        await self._runtime.StopContainer(cri.StopContainerRequest(container_id=container, timeout=GRACE_SECONDS))
        await self._runtime.StopPodSandbox(cri.StopPodSandboxRequest(pod_sandbox_id=sandbox))

    async def _remove(self, sandbox: str, container: str) -> None:
        await self._runtime.RemoveContainer(cri.RemoveContainerRequest(container_id=container))
        await self._runtime.RemovePodSandbox(cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox))


@asynccontextmanager
async def open_floor(lab: ContainerdLab) -> AsyncIterator[Floor]:
    async with grpc.aio.insecure_channel(lab.endpoint) as channel:
        yield Floor(channel, lab)
