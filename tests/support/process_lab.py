"""Runs containers on the process runtime and inspects their processes."""

import asyncio
import itertools
import os
import subprocess
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from pykubelet.aio.clock import SystemClock
from pykubelet.aio.ids import RandomIds
from pykubelet.api.generated.core import Container, Pod
from pykubelet.api.pods import PodUid
from pykubelet.kubelet.logs.log_lines import LogFilter, LogQuery, split_lines
from pykubelet.podnetwork.pod_networks import PodNetworks
from pykubelet.runtimes.process.runtime import ProcessRuntime
from pykubelet.runtimes.protocol import (
    ContainerRequest,
    ContainerState,
    Mount,
    RuntimeContainer,
    RuntimePod,
    SandboxRequest,
)
from pykubelet.testing import build

IPS = ("192.0.2.1",)


def make_runtime(root: Path, way: str | None = None, *, max_pids: int = 4096, pod_cidr: str = "") -> ProcessRuntime:
    clock, ids, networks = SystemClock(), RandomIds(), PodNetworks(root / "networks", pod_cidr)
    return ProcessRuntime(root=root, ips=IPS, clock=clock, ids=ids, way=way, max_pids=max_pids, networks=networks)


async def stop_everything(runtime: ProcessRuntime) -> None:
    for pod in await runtime.pods():
        for sandbox in pod.sandboxes:
            await runtime.stop(sandbox.id, 0)


def end_containers(root: Path) -> None:
    """End all containers that an ended runtime has left in its folder."""

    async def end() -> None:
        async with make_runtime(root) as runtime:
            await stop_everything(runtime)

    asyncio.run(end())
    unmount_below(root.parent)


def unmount_below(folder: Path) -> None:
    """Unmount what is mounted below a folder, such as the tokens of pods that were not deleted."""
    places = [Path(line.split()[1]) for line in Path("/proc/self/mounts").read_text().splitlines()]
    for place in places:
        if place.is_relative_to(folder):
            subprocess.run(["umount", "--lazy", place], check=True)


class Lab:
    """A runtime and a folder for logs."""

    def __init__(self, runtime: ProcessRuntime, folder: Path) -> None:
        self.runtime, self.folder = runtime, folder
        self._count = itertools.count()

    def request(
        self,
        *command: str,
        mounts: Iterable[Mount] = (),
        environment: Iterable[tuple[str, str]] = (),
        pod: dict[str, Any] | None = None,
        log_path: str = "",
        **container: Any,
    ) -> ContainerRequest:
        """A request for a container in its own pod; `container` has fields of it, `pod` fields of the pod's spec."""
        number = next(self._count)
        made = Container(name="main", image="example/image:1", command=command, **container)
        return ContainerRequest(
            pod=build.pod(f"pod-{number}", containers=(made,), **(pod or {})),
            sandbox_id="",
            container=made,
            attempt=0,
            hash="abc",
            image_id="sha256:1",
            command=command,
            args=(),
            environment=tuple(environment),
            mounts=tuple(mounts),
            log_path=log_path or str(self.folder / f"{number}.log"),
        )

    async def create(self, *command: str, **fields: Any) -> "Ward":
        request = self.request(*command, **fields)
        sandbox_id = await self.runtime.create_sandbox(
            SandboxRequest(
                pod=request.pod, attempt=0, hostname=request.pod.metadata.name, log_directory=str(self.folder)
            )
        )
        request = replace(request, sandbox_id=sandbox_id)
        container_id = await self.runtime.create_container(request)
        return Ward(self.runtime, request, sandbox_id, container_id)

    async def start(self, *command: str, **fields: Any) -> "Ward":
        ward = await self.create(*command, **fields)
        await self.runtime.start(ward.id)
        return ward

    async def output_of(self, *command: str, **fields: Any) -> str:
        """Run a container until it ends, and return what it wrote; its exit code must be 0."""
        ward = await self.start(*command, **fields)
        ended = await ward.until_ended()
        assert ended.exit_code == 0, ward.log
        return ward.log


class Ward:
    """One container under test."""

    def __init__(self, runtime: ProcessRuntime, request: ContainerRequest, sandbox_id: str, id: str) -> None:
        self.runtime, self.request, self.sandbox_id, self.id = runtime, request, sandbox_id, id

    @property
    def pod(self) -> Pod:
        return self.request.pod

    async def inspect(self) -> RuntimePod:
        found = await self.runtime.inspect(PodUid(self.pod.metadata.uid))
        assert found is not None
        return found

    async def told(self) -> RuntimeContainer:
        return next(one for one in (await self.inspect()).containers if one.id == self.id)

    async def until_ended(self, seconds: float = 10) -> RuntimeContainer:
        async with asyncio.timeout(seconds):
            changes = self.runtime.changes()
            while (found := await self.told()).state != ContainerState.EXITED:
                await anext(changes)
        return found

    async def run(self, *command: str, seconds: float | None = 5) -> tuple[int, str]:
        outcome = await self.runtime.run(self.id, command, timeout_seconds=seconds, limit_bytes=10_000)
        return outcome.exit_code, outcome.output.decode()

    @property
    def log_bytes(self) -> bytes:
        """The bytes of the log file."""
        return Path(self.request.log_path).read_bytes()

    @property
    def log(self) -> str:
        """What the container wrote, of both streams."""
        return LogFilter(LogQuery()).take(split_lines(self.log_bytes)).decode()


async def until(is_so: Callable[[], Any], seconds: float = 10) -> Any:
    """Poll a function until it returns a true value, and return that."""
    async with asyncio.timeout(seconds):
        while not (found := is_so()):
            await asyncio.sleep(0.01)
    return found


def all_processes() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def exists(path: Path | str) -> bool:
    return Path(path).exists()


def processes_with(text: str) -> list[int]:
    """The processes that have this text in their command line, except this one."""
    found = []
    for name in all_processes():
        with suppress(OSError):
            if name != os.getpid() and text.encode() in Path(f"/proc/{name}/cmdline").read_bytes():
                found.append(name)
    return found


def children_of(pid: int) -> dict[int, str]:
    """The children of a process and their states; Z is a zombie."""
    found = {}
    for name in all_processes():
        with suppress(OSError, ValueError):
            fields = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
            if int(fields[1]) == pid:
                found[name] = fields[0]
    return found
