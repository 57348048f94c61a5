"""kuberuntime around the simulated runtime, on virtual time."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Self

from pykubelet.api.generated.core import ObjectReference, Pod
from pykubelet.api.pods import AnyContainer, PodUid
from pykubelet.kubelet.images.image_manager import ImageManager
from pykubelet.kubelet.kuberuntime.container import ContainerSettings, ContainerStarter
from pykubelet.kubelet.kuberuntime.container_gc import ContainerRemoval, ContainerRemover, dead_beyond
from pykubelet.kubelet.kuberuntime.manager import CrashBackoff, PodActionsExecutor, SandboxCreator
from pykubelet.kubelet.kuberuntime.pod_actions import ProbeResults, SyncResult, compute_pod_actions, container_hash
from pykubelet.kubelet.kuberuntime.termination import ContainerKiller
from pykubelet.kubelet.lifecycle.handlers import HandlerRunner
from pykubelet.kubelet.logs.log_directory import LogDirectory
from pykubelet.kubelet.objectcache.pod_objects import RuntimeClasses
from pykubelet.runtimes.limits import ALL_ENFORCED, UnenforcedLimits
from pykubelet.runtimes.protocol import (
    CommandResult,
    ContainerRequest,
    RuntimeFailure,
    RuntimePod,
    SandboxRequest,
)
from pykubelet.runtimes.sim.runtime import SimHttpClient, SimImages, SimRuntime
from pykubelet.testing.virtual_time import VirtualClock


class SeenEvents:
    """Keeps the type, reason, message and field path of events."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str]] = []
        self.fields: list[str] = []

    def event(self, involved: ObjectReference, event_type: str, reason: str, message: str) -> None:
        self.seen.append((event_type, reason, message))
        self.fields.append(involved.field_path)

    def reasons(self) -> list[str]:
        return [reason for _, reason, _ in self.seen]


class SeenCommands:
    """Records commands without running them; each takes `seconds` and ends with `outcome` or `failure`."""

    def __init__(self) -> None:
        self.runs: list[tuple[str, ...]] = []
        self.outcome = CommandResult(0, b"")
        self.seconds = 0.0
        self.failure: RuntimeFailure | None = None

    async def run(
        self, container_id: str, command: Sequence[str], *, timeout_seconds: float | None, limit_bytes: int
    ) -> CommandResult:
        self.runs.append(tuple(command))
        async with asyncio.timeout(timeout_seconds):
            await asyncio.sleep(self.seconds)
        if self.failure is not None:
            raise self.failure
        return self.outcome


class PlainSettings:
    """Container settings that are taken unchanged from the spec."""

    def __init__(self) -> None:
        self.failure: RuntimeFailure | None = None
        self.warnings: list[str] = []

    def hostname(self, pod: Pod) -> str:
        return pod.metadata.name

    async def dns_warnings(self, _: Pod) -> list[str]:
        return self.warnings

    async def container(
        self, pod: Pod, container: AnyContainer, ips: Sequence[str], *, attempt: int
    ) -> ContainerSettings:
        if self.failure is not None:
            raise self.failure
        return ContainerSettings(
            command=container.command,
            args=container.args,
            environment=(("POD_IP", ",".join(ips)), ("ATTEMPT", str(attempt))),
        )


class Rig:
    """kuberuntime and its collaborators, connected."""

    def __init__(
        self,
        logs: Path,
        *,
        sim: SimRuntime | None = None,
        images: SimImages | None = None,
        unenforced: UnenforcedLimits = ALL_ENFORCED,
    ) -> None:
        self.clock, self.events = VirtualClock(), SeenEvents()
        self.sim = sim or SimRuntime(clock=self.clock)
        self.commands, self.settings, self.backoff = SeenCommands(), PlainSettings(), CrashBackoff()
        self.images = images or SimImages()
        self.puller = ImageManager(images=self.images, events=self.events, clock=self.clock)
        self.logs = LogDirectory(logs / "pods", links=logs / "containers")
        hooks = HandlerRunner(
            commands=self.commands, http=SimHttpClient(self.sim), runtime=self.sim, events=self.events
        )
        self.killer = ContainerKiller(runtime=self.sim, hooks=hooks, events=self.events, clock=self.clock)
        self.remover = ContainerRemover(runtime=self.sim, logs=self.logs, killer=self.killer)
        starter = ContainerStarter(
            runtime=self.sim,
            images=self.puller,
            helper=self.settings,
            logs=self.logs,
            hooks=hooks,
            killer=self.killer,
            events=self.events,
        )
        self.executor = PodActionsExecutor(
            sandboxes=SandboxCreator(
                runtime=self.sim,
                helper=self.settings,
                runtime_classes=RuntimeClasses(client=None),
                logs=self.logs,
                events=self.events,
                unenforced=unenforced,
            ),
            starter=starter,
            killer=self.killer,
            remover=self.remover,
            backoff=self.backoff,
            events=self.events,
            clock=self.clock,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        """Serves image pulls while the context lasts."""
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self.puller.run(asyncio.Event()))
            yield self
            task.cancel()

    async def observed(self, pod: Pod) -> RuntimePod:
        uid = PodUid(pod.metadata.uid)
        found = await self.sim.inspect(uid)
        return found or RuntimePod(uid=uid, namespace=pod.metadata.namespace, name=pod.metadata.name)

    async def sync(self, pod: Pod, probes: ProbeResults | None = None) -> tuple[SyncResult, ...]:
        """Sync a pod once, as its worker does."""
        observed = await self.observed(pod)
        return await self.executor.execute(pod, observed, compute_pod_actions(pod, observed, probes or ProbeResults()))

    async def created(self, pod: Pod) -> str:
        """Create the sandbox and the first container of a pod without starting it; the container's id."""
        sandbox = SandboxRequest(pod=pod, attempt=0, hostname=pod.metadata.name, log_directory="")
        request = ContainerRequest(
            pod=pod,
            sandbox_id=await self.sim.create_sandbox(sandbox),
            container=pod.spec.containers[0],
            attempt=0,
            hash=container_hash(pod.spec.containers[0]),
            image_id="",
            command=(),
            args=(),
            environment=(),
            mounts=(),
            log_path="",
        )
        return await self.sim.create_container(request)

    async def prune(self, observed: RuntimePod) -> None:
        """Remove dead containers, except the newest of each name."""
        removed = [dead_beyond(observed, 1, container_id=one.id) for one in observed.containers]
        gone = dict.fromkeys(container_id for ids in removed for container_id in ids)
        await self.remover.remove(observed, [ContainerRemoval(container_id, stop_first=False) for container_id in gone])

    async def states(self, pod: Pod) -> dict[str, str]:
        """The state of the newest container of each name."""
        observed = await self.observed(pod)
        return {one.name: str(one.state) for one in reversed(observed.containers)}
