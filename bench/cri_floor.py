"""The minimal cost of pods on a container runtime: only the CRI calls that a pod cannot do without.

The pods are the same as the node's, with the same requests, since their content costs the runtime more than the calls.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from time import perf_counter
from typing import TypeVar

import grpc.aio
from cri_api.v1 import api_pb2 as cri
from measured_node import FOREVER, GRACE_SECONDS, SHARED, opened_for_writing, pod

from containerd_lab import ContainerdLab, services
from pykubelet.api.generated.core import Pod
from pykubelet.api.serializer import from_document
from pykubelet.runtimes.cri.configs import container_config, sandbox_config
from pykubelet.runtimes.cri.host import CriHost, with_host_facts
from pykubelet.runtimes.dns import read_resolver
from pykubelet.runtimes.protocol import ContainerRequest, Mount, SandboxRequest

A = TypeVar("A")
B = TypeVar("B")
T = TypeVar("T")
Made = tuple[str, str]
"""The ids of a sandbox and of the container in it."""
_LOOK_SECONDS = 0.005


class Floor:
    """Creates and removes pods of one container with as few CRI calls as possible."""

    def __init__(self, channel: grpc.aio.Channel, lab: ContainerdLab) -> None:
        self._runtime, self._lab = services.RuntimeServiceStub(channel), lab
        self._folder = lab.folder / "floor"
        self._machine = with_host_facts(
            CriHost(cgroup_root=lab.cgroup_parent, seccomp_root=str(self._folder), seccomp_default=True)
        )

    async def start(self, count: int) -> tuple[list[float], list[Made]]:
        """Start this many pods at once; returns the time until each ran, and their IDs."""
        requests = [self._requests(f"floor{number}", FOREVER) for number in range(count)]
        return await _all_at_once(self._run, requests)

    async def stop(self, pods: list[Made]) -> list[float]:
        """Stop these pods at once; returns how long each took."""
        return (await _all_at_once(self._stop, pods))[0]

    async def remove(self, pods: list[Made]) -> list[float]:
        """Remove these stopped pods at once; returns how long each took."""
        return (await _all_at_once(self._remove, pods))[0]

    async def exit(self) -> tuple[float, float]:
        """The time from a container's exit until CRI reports it, and until its sandbox is stopped."""
        pipe = self._folder / "pipe"
        self._folder.mkdir(exist_ok=True)
        os.mkfifo(pipe)
        mount = Mount(host_path=str(self._folder), container_path=SHARED)
        made = await self._run(*self._requests("exits", f"read line < {SHARED}/pipe", mount))
        writer = await opened_for_writing(pipe)
        began = perf_counter()
        os.close(writer)
        request = cri.ContainerStatusRequest(container_id=made[1])
        while True:
            if (await self._runtime.ContainerStatus(request)).status.state == cri.CONTAINER_EXITED:
                break
            await asyncio.sleep(_LOOK_SECONDS)
        ended = perf_counter() - began
        await self._runtime.StopPodSandbox(cri.StopPodSandboxRequest(pod_sandbox_id=made[0]))
        stopped = perf_counter() - began
        pipe.unlink()
        await self.remove([made])
        return ended, stopped

    async def is_empty(self) -> bool:
        """Whether the runtime has no pods."""
        return not (await self._runtime.ListPodSandbox(cri.ListPodSandboxRequest())).items

    def _requests(self, name: str, command: str, *mounts: Mount) -> tuple[cri.PodSandboxConfig, cri.ContainerConfig]:
        document = pod(name, command)
        document["metadata"]["uid"] = name
        made = from_document(document, Pod)
        folder = self._folder / name
        (folder / "main").mkdir(parents=True, exist_ok=True)
        files = {"hosts": "/etc/hosts", "end": "/dev/termination-log"}
        for part in files:
            (folder / part).touch()
        sandbox = SandboxRequest(pod=made, attempt=0, hostname=name, log_directory=str(folder))
        container = ContainerRequest(
            pod=made,
            sandbox_id="",
            container=made.spec.containers[0],
            attempt=0,
            hash="",
            image_id=made.spec.containers[0].image,
            command=made.spec.containers[0].command,
            args=(),
            environment=(),
            mounts=(
                *(Mount(host_path=str(folder / part), container_path=path) for part, path in files.items()),
                *mounts,
            ),
            log_path=str(folder / "main" / "0.log"),
        )
        requests = (
            sandbox_config(sandbox, self._machine, read_resolver()),
            container_config(container, self._machine, log_directory=str(folder), image_user="0"),
        )
        for request in requests:
            # With labels the node would take the pod for an orphan and kill it.
            request.ClearField("labels")
        return requests

    async def _run(self, sandbox: cri.PodSandboxConfig, container: cri.ContainerConfig) -> Made:
        made = await self._runtime.RunPodSandbox(cri.RunPodSandboxRequest(config=sandbox))
        id = str(made.pod_sandbox_id)
        request = cri.CreateContainerRequest(pod_sandbox_id=id, config=container, sandbox_config=sandbox)
        created = await self._runtime.CreateContainer(request)
        await self._runtime.StartContainer(cri.StartContainerRequest(container_id=created.container_id))
        return id, str(created.container_id)

    async def _stop(self, sandbox: str, container: str) -> None:
        await self._runtime.StopContainer(cri.StopContainerRequest(container_id=container, timeout=GRACE_SECONDS))
        await self._runtime.StopPodSandbox(cri.StopPodSandboxRequest(pod_sandbox_id=sandbox))

    async def _remove(self, sandbox: str, container: str) -> None:
        await self._runtime.RemoveContainer(cri.RemoveContainerRequest(container_id=container))
        await self._runtime.RemovePodSandbox(cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox))


async def _all_at_once(
    what: Callable[[A, B], Awaitable[T]], arguments: Sequence[tuple[A, B]]
) -> tuple[list[float], list[T]]:
    """Run it concurrently for all arguments; returns the time of each call, and the results."""
    began = perf_counter()

    async def one(first: A, second: B) -> tuple[float, T]:
        result = await what(first, second)
        return perf_counter() - began, result

    done = await asyncio.gather(*(one(*pair) for pair in arguments))
    return [seconds for seconds, _ in done], [result for _, result in done]


@asynccontextmanager
async def open_floor(lab: ContainerdLab) -> AsyncIterator[Floor]:
    async with grpc.aio.insecure_channel(lab.endpoint) as channel:
        yield Floor(channel, lab)
