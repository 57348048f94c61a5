"""A runtime whose operations are counted: asks another one, and says so to `OperationCounts`.

Each stands where calls pass anyway, so that runtimes and those who ask them need not know of metrics.
Upstream: pkg/kubelet/kuberuntime/instrumented_services.go
"""

from collections.abc import Sequence

from pykubelet.aio.clock import Clock
from pykubelet.api.keys import PodUid
from pykubelet.runtime.operation_counts import OperationCounts
from pykubelet.runtime.protocol import (
    Commands,
    ContainerRequest,
    Credentials,
    Image,
    Images,
    Outcome,
    Runtime,
    RuntimePod,
    SandboxRequest,
)


class CountedRuntime:
    """A Runtime."""

    def __init__(self, runtime: Runtime, counts: OperationCounts) -> None:
        self._runtime, self._counting = runtime, counts.counting
        # Stopping and removing say only an id; one that was not seen as a sandbox is taken for a container.
        self._sandboxes: set[str] = set()

    async def pods(self) -> Sequence[RuntimePod]:
        with self._counting("list_podsandbox"):
            return await self._runtime.pods()

    async def inspect(self, uid: PodUid) -> RuntimePod | None:
        with self._counting("podsandbox_status"):
            found = await self._runtime.inspect(uid)
        if found is not None:
            self._sandboxes.update(sandbox.id for sandbox in found.sandboxes)
        return found

    async def create_sandbox(self, request: SandboxRequest) -> str:
        with self._counting("run_podsandbox"):
            made = await self._runtime.create_sandbox(request)
        self._sandboxes.add(made)
        return made

    async def create_container(self, request: ContainerRequest) -> str:
        with self._counting("create_container"):
            return await self._runtime.create_container(request)

    async def start(self, container_id: str) -> None:
        with self._counting("start_container"):
            await self._runtime.start(container_id)

    async def stop(self, id: str, grace_seconds: float) -> None:
        with self._counting("stop_podsandbox" if id in self._sandboxes else "stop_container"):
            await self._runtime.stop(id, grace_seconds)

    async def remove(self, id: str) -> None:
        with self._counting("remove_podsandbox" if id in self._sandboxes else "remove_container"):
            await self._runtime.remove(id)
        self._sandboxes.discard(id)


class CountedImages:
    """Images."""

    def __init__(self, images: Images, counts: OperationCounts, *, clock: Clock) -> None:
        self._images, self._counts, self._clock = images, counts, clock

    async def find(self, name: str) -> Image | None:
        with self._counts.counting("image_status"):
            return await self._images.find(name)

    async def pull(self, name: str, credentials: Sequence[Credentials]) -> Image:
        began = self._clock.monotonic()
        with self._counts.counting("pull_image"):
            image = await self._images.pull(name, credentials)
        self._counts.pulled(image.size_bytes, self._clock.monotonic() - began)
        return image

    async def images(self) -> Sequence[Image]:
        with self._counts.counting("list_images"):
            return await self._images.images()

    async def remove_image(self, id: str) -> None:
        with self._counts.counting("remove_image"):
            await self._images.remove_image(id)


class CountedCommands:
    """Commands."""

    def __init__(self, commands: Commands, counts: OperationCounts) -> None:
        self._commands, self._counts = commands, counts

    async def run(
        self, container_id: str, command: Sequence[str], *, timeout_seconds: float | None, limit_bytes: int
    ) -> Outcome:
        with self._counts.counting("exec_sync"):
            return await self._commands.run(
                container_id, command, timeout_seconds=timeout_seconds, limit_bytes=limit_bytes
            )
