"""Pods that behave alike on every runtime: by command on a real one, by annotation on the simulated one."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pykubelet.api.generated.core import Container, Pod
from pykubelet.api.pods import PodUid
from pykubelet.runtimes.protocol import (
    ContainerRequest,
    ContainerState,
    Runtime,
    RuntimeContainer,
    RuntimePod,
    SandboxRequest,
)
from pykubelet.runtimes.sim.runtime import ANNOTATION
from pykubelet.testing import build

# The first process of a PID namespace receives only signals that it handles, hence the trap.
FOREVER = ("sh", "-c", "trap 'exit 143' TERM; sleep 1000 & wait")
EXITS_WITH_3 = ("sh", "-c", "exit 3")
IGNORES_TERM = ("sh", "-c", "trap '' TERM; while :; do sleep 1; done")
SAYS_HELLO = ("sh", "-c", "echo hello; exec sleep 1000")

SCRIPTS: dict[tuple[str, ...], dict[str, Any]] = {
    FOREVER: {},
    EXITS_WITH_3: {"runs": [{"seconds": 0.1, "exitCode": 3}]},
    IGNORES_TERM: {"stopSeconds": 3600},
    SAYS_HELLO: {"output": ["hello"]},
}


class World:
    """A runtime, and short methods to call it."""

    def __init__(self, runtime: Runtime, image: str, logs: Path) -> None:
        self.runtime, self.image, self.logs = runtime, image, logs

    def pod(self, name: str = "web", command: tuple[str, ...] = FOREVER, **fields: Any) -> Pod:
        main = Container(name="main", image=self.image, command=command)
        return build.pod(
            name, containers=(main,), annotations={f"{ANNOTATION}main": json.dumps(SCRIPTS[command])}, **fields
        )

    async def sandbox(self, pod: Pod, attempt: int = 0) -> str:
        request = SandboxRequest(pod=pod, attempt=attempt, hostname=pod.metadata.name, log_directory=str(self.logs))
        return await self.runtime.create_sandbox(request)

    def request(self, pod: Pod, sandbox_id: str, attempt: int = 0) -> ContainerRequest:
        container = pod.spec.containers[0]
        return ContainerRequest(
            pod=pod,
            sandbox_id=sandbox_id,
            container=container,
            attempt=attempt,
            hash="abc",
            image_id=self.image,
            command=container.command,
            args=(),
            environment=(("GREETING", "hello"),),
            mounts=(),
            log_path=str(self.logs / f"{attempt}.log"),
        )

    async def started(self, pod: Pod) -> tuple[str, str]:
        """Start a container in a new sandbox and return the ids of sandbox and container."""
        sandbox_id = await self.sandbox(pod)
        container_id = await self.runtime.create_container(self.request(pod, sandbox_id))
        await self.runtime.start(container_id)
        return sandbox_id, container_id

    async def inspect(self, pod: Pod) -> RuntimePod:
        found = await self.runtime.inspect(PodUid(pod.metadata.uid))
        assert found is not None
        return found

    async def container(self, pod: Pod) -> RuntimeContainer:
        return (await self.inspect(pod)).containers[0]

    async def until(self, pod: Pod, is_so: Callable[[RuntimeContainer], bool]) -> RuntimeContainer:
        """Wait until `is_so` is true of the newest container, and return it."""
        while not is_so(found := await self.container(pod)):
            await asyncio.sleep(0.02)
        return found

    async def until_exited(self, pod: Pod) -> RuntimeContainer:
        return await self.until(pod, lambda container: container.state == ContainerState.EXITED)
