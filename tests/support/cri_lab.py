"""CRI runtimes connected to the test's containerd; removes their containers afterwards."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import oci_images
from containerd_lab import ContainerdLab
from process_cluster import NodeRuntime
from pykubelet.api.generated.core import Container, Pod
from pykubelet.api.pods import PodUid
from pykubelet.kubelet.logs.log_lines import LogLine, parse_line
from pykubelet.runtimes.cri.connect import CriSettings, OpenCri, open_cri
from pykubelet.runtimes.protocol import (
    ContainerRequest,
    ContainerState,
    Mount,
    Runtime,
    RuntimeContainer,
    RuntimeFailure,
    RuntimePod,
    SandboxRequest,
)
from pykubelet.testing import build

Fields = dict[str, Any]
_REMOVAL_RETRIES = 5


@asynccontextmanager
async def opened(lab: ContainerdLab) -> AsyncIterator[OpenCri]:
    """A CRI runtime on the lab's containerd."""
    async with open_cri(CriSettings(socket=str(lab.socket), cgroup_root=lab.cgroup_parent)) as found:
        yield found


async def remove_everything(runtime: Runtime) -> None:
    """Stop and remove all pods of a runtime. Tries again as a pod worker does.

    containerd rejects the stop of a container that exits at that moment (`ttrpc: closed`).
    """
    for _ in range(_REMOVAL_RETRIES):
        try:
            return await _remove_all(runtime)
        except RuntimeFailure:
            await asyncio.sleep(0.2)
    return await _remove_all(runtime)


async def _remove_all(runtime: Runtime) -> None:
    for pod in await runtime.pods():
        for sandbox in pod.sandboxes:
            await runtime.stop(sandbox.id, 0)
        for id in [one.id for one in pod.containers] + [one.id for one in pod.sandboxes]:
            await runtime.remove(id)


def node_runtime(lab: ContainerdLab) -> NodeRuntime:
    """The runtime options of a node that uses the lab's containerd."""

    async def end() -> None:
        async with opened(lab) as found:
            await remove_everything(found.runtime)

    options = ("--runtime", "cri", "--cri-socket", str(lab.socket), "--cgroup-root", lab.cgroup_parent)
    return NodeRuntime(options, lambda _: asyncio.run(end()))


class CriLab:
    """A runtime and a folder for logs, with short methods for pods with one container."""

    def __init__(self, cri: OpenCri, folder: Path) -> None:
        self.cri, self.folder = cri, folder
        self.log_path = folder / "main" / "0.log"
        self.log_path.parent.mkdir(exist_ok=True)
        self._count = itertools.count()

    def pod(self, *command: str, image: str = oci_images.BUSYBOX, pod: Fields | None = None, **container: Any) -> Pod:
        """A pod; `pod` has fields of its spec, `container` those of its container."""
        main = Container(name="main", image=image, command=command, **container)
        return build.pod(f"pod-{next(self._count)}", containers=(main,), **(pod or {}))

    async def sandbox(self, pod: Pod) -> str:
        request = SandboxRequest(pod=pod, attempt=0, hostname=pod.metadata.name, log_directory=str(self.folder))
        return await self.cri.runtime.create_sandbox(request)

    async def request(self, pod: Pod, sandbox_id: str, **fields: Any) -> ContainerRequest:
        main = pod.spec.containers[0]
        image = await self.cri.images.find(main.image)
        assert image is not None
        given: Fields = {
            "pod": pod,
            "sandbox_id": sandbox_id,
            "container": main,
            "attempt": 0,
            "hash": "abc",
            "image_id": image.id,
            "command": main.command,
            "args": main.args,
            "environment": (),
            "mounts": (),
            "log_path": str(self.log_path),
        }
        return ContainerRequest(**{**given, **fields})

    async def add(self, pod: Pod, sandbox_id: str, **fields: Any) -> str:
        """Start a container in a sandbox and return its id."""
        container_id = await self.cri.runtime.create_container(await self.request(pod, sandbox_id, **fields))
        await self.cri.runtime.start(container_id)
        return container_id

    async def run(self, pod: Pod) -> str:
        """Start a pod's container in a new sandbox and return its id."""
        return await self.add(pod, await self.sandbox(pod))

    async def start(self, *command: str, mounts: tuple[Mount, ...] = (), **fields: Any) -> tuple[str, str]:
        """Start a container in a new sandbox and return the ids of sandbox and container."""
        pod = self.pod(*command, **fields)
        sandbox_id = await self.sandbox(pod)
        return sandbox_id, await self.add(pod, sandbox_id, mounts=mounts)

    async def run_shell(self, script: str, **fields: Any) -> str:
        """Start a container that runs a script and return its id."""
        _, container_id = await self.start("sh", "-c", script, **fields)
        return container_id

    async def tell(self, container_id: str, script: str) -> list[str]:
        """Run a script in a container and return the lines that it prints."""
        outcome = await self.cri.runtime.run(
            container_id, ("sh", "-c", script), timeout_seconds=10, limit_bytes=100_000
        )
        return outcome.output.decode().splitlines()

    async def inspect(self, pod: Pod) -> RuntimePod:
        found = await self.cri.runtime.inspect(PodUid(pod.metadata.uid))
        assert found is not None
        return found

    async def first_line(self) -> LogLine:
        """Wait for the first line of the log and return it."""
        while not (self.log_path.exists() and b"\n" in self.log_path.read_bytes()):
            await asyncio.sleep(0.02)
        line = parse_line(self.log_path.read_bytes().partition(b"\n")[0] + b"\n")
        assert line is not None
        return line

    async def until_exited(self, pod: Pod) -> RuntimeContainer:
        """Wait until the newest container of a pod has ended, and return it."""
        while (found := (await self.inspect(pod)).containers[0]).state != ContainerState.EXITED:
            await asyncio.sleep(0.02)
        return found
