"""Runs containers through CRI: Runtime, ChangeFeed, Commands, LogWriter.

Upstream: pkg/kubelet/kuberuntime, the calls of k8s.io/cri-client/pkg/remote_runtime.go and how long each may take

What containers use, as the runtime measures it.

Upstream: pkg/kubelet/stats/cri_stats_provider.go

A runtime's figures of one container as the node's.

Pure. Upstream: makeContainerStats in pkg/kubelet/stats/cri_stats_provider.go

The images of a container runtime: Images, ImageFs.

Upstream: pkg/kubelet/kuberuntime/kuberuntime_image.go, PullImage in k8s.io/cri-client/pkg/remote_image.go
"""

import asyncio
import math
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from cri_api.v1 import api_pb2 as cri

from pykubelet.api.generated.core import Pod
from pykubelet.api.pods import PodUid
from pykubelet.runtimes.cri.channel import DEADLINE_EXCEEDED, NOT_FOUND, UNKNOWN, USUAL_SECONDS, CriChannel, CriFailure
from pykubelet.runtimes.cri.configs import HOSTNAME, container_config, sandbox_config
from pykubelet.runtimes.cri.dns import Resolver
from pykubelet.runtimes.cri.events import OperationsInProgress
from pykubelet.runtimes.cri.host import CriHost, read_resolver
from pykubelet.runtimes.cri.pods import CriPodInspector
from pykubelet.runtimes.cri.resources import PodCgroups
from pykubelet.runtimes.cri.security_context import effective_user
from pykubelet.runtimes.protocol import (
    ChangeHints,
    ChangeSubscription,
    CommandResult,
    ContainerRequest,
    ContainerResourceUsage,
    ContainerState,
    FileSystem,
    Image,
    RegistryCredentials,
    RuntimeFailure,
    RuntimePod,
    SandboxRequest,
    read_file_system,
)

_ROOT = "0"


class CriImages:
    """Finds, pulls and removes images, and tells what room there is for them."""

    def __init__(self, channel: CriChannel) -> None:
        self._channel = channel
        self._users: dict[str, str] = {}
        """Whom images run as, by their ids: what has the same id is the same."""

    async def find(self, name: str) -> Image | None:
        request = cri.ImageStatusRequest(image=cri.ImageSpec(image=name))
        answer = await self._channel.ask(request, cri.ImageStatusResponse)
        if not answer.HasField("image") or not answer.image.id:
            return None
        found = _image(answer.image)
        self._users[found.id] = found.user or _ROOT
        return found

    async def pull(self, name: str, credentials: Sequence[RegistryCredentials]) -> Image:
        failures: list[str] = []
        for one in credentials or (None,):
            try:
                return await self._pull(name, one)
            except CriFailure as failure:
                # A code that says nothing only makes the message longer.
                failures.append(failure.details if failure.code == UNKNOWN else failure.message)
        told = tuple(dict.fromkeys(failures))
        raise RuntimeFailure(told[0] if len(told) == 1 else f"[{', '.join(told)}]")

    async def images(self) -> Sequence[Image]:
        answer = await self._channel.ask(cri.ListImagesRequest(), cri.ListImagesResponse)
        found = [_image(image) for image in answer.images]
        # Not filled from here: some runtimes tell users only when asked for one image.
        self._users = {image.id: self._users[image.id] for image in found if image.id in self._users}
        return found

    async def remove_image(self, id: str) -> None:
        request = cri.RemoveImageRequest(image=cri.ImageSpec(image=id))
        await self._channel.ask(request, cri.RemoveImageResponse)

    async def image_file_system(self) -> FileSystem:
        answer = await self._channel.ask(cri.ImageFsInfoRequest(), cri.ImageFsInfoResponse)
        for usage in answer.image_filesystems:
            try:
                return await asyncio.to_thread(read_file_system, usage.fs_id.mountpoint)
            except OSError as error:
                told = f"the file system of images at {usage.fs_id.mountpoint} cannot be read: {error.strerror}"
                raise RuntimeFailure(told) from error
        raise RuntimeFailure("the runtime does not tell where its images are")

    async def user_of(self, id: str) -> str:
        """Whom an image runs as: a number or a name."""
        if id not in self._users:
            await self.find(id)
        return self._users.get(id, _ROOT)

    async def _pull(self, name: str, credentials: RegistryCredentials | None) -> Image:
        auth = None
        if credentials is not None:
            auth = cri.AuthConfig(username=credentials.username, password=credentials.password)
        request = cri.PullImageRequest(image=cri.ImageSpec(image=name, user_specified_image=name), auth=auth)
        # As long as it takes: the runtime gives up by itself when nothing comes any more.
        answer = await self._channel.ask(request, cri.PullImageResponse, timeout_seconds=None)
        found = await self.find(answer.image_ref)
        if found is None:
            raise CriFailure(NOT_FOUND, f'image "{answer.image_ref}" was pulled, but is not there')
        return found


def _image(image: cri.Image) -> Image:
    """An image that names no user runs as root, and must not where that is forbidden."""
    user = str(image.uid.value) if image.HasField("uid") else image.username or _ROOT
    names = (*image.repo_tags, *image.repo_digests)
    return Image(id=image.id, names=names, size_bytes=image.size, user=user, is_pinned=image.pinned)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def usage_of(stats: cri.ContainerStats) -> ContainerResourceUsage | None:
    """What a container uses; None if nobody measured it, such as one that has ended."""
    cpu, memory, swap, layer = stats.cpu, stats.memory, stats.swap, stats.writable_layer
    at = max(cpu.timestamp, memory.timestamp)
    if at <= 0:
        return None
    return ContainerResourceUsage(
        at=_EPOCH + timedelta(microseconds=at // 1000),
        cpu_nanoseconds=cpu.usage_core_nano_seconds.value if cpu.HasField("usage_core_nano_seconds") else None,
        memory_bytes=memory.usage_bytes.value if memory.HasField("usage_bytes") else None,
        working_set_bytes=memory.working_set_bytes.value if memory.HasField("working_set_bytes") else None,
        rss_bytes=memory.rss_bytes.value if memory.HasField("rss_bytes") else None,
        swap_bytes=swap.swap_usage_bytes.value if swap.HasField("swap_usage_bytes") else None,
        layer_bytes=layer.used_bytes.value if layer.HasField("used_bytes") else None,
        layer_inodes=layer.inodes_used.value if layer.HasField("inodes_used") else None,
    )


_START_SECONDS = 5.0


class CriRuntime:
    """A container runtime that serves CRI."""

    def __init__(
        self,
        *,
        channel: CriChannel,
        looks: CriPodInspector,
        images: CriImages,
        hints: ChangeHints,
        deeds: OperationsInProgress,
        machine: CriHost,
    ) -> None:
        self._channel, self._looks, self._images, self._hints, self._deeds = channel, looks, images, hints, deeds
        self._machine, self._cgroups = machine, PodCgroups(machine)
        self._configs: dict[str, cri.PodSandboxConfig] = {}
        """By the id of the sandbox, as far as this process made it."""

    async def pods(self) -> Sequence[RuntimePod]:
        return await self._looks.everything()

    async def inspect(self, uid: PodUid) -> RuntimePod | None:
        return await self._looks.of_pod(uid)

    def changes(self) -> ChangeSubscription:
        return self._hints.subscribe()

    async def create_sandbox(self, request: SandboxRequest) -> str:
        config = sandbox_config(request, self._machine, await asyncio.to_thread(self._make_ready_for, request.pod))
        # A sandbox may have to wait for its image and its network.
        asked = cri.RunPodSandboxRequest(config=config, runtime_handler=request.handler)
        answer = await self._channel.ask(asked, cri.RunPodSandboxResponse, timeout_seconds=2 * USUAL_SECONDS)
        id = answer.pod_sandbox_id
        self._looks.note_made(id, PodUid(request.pod.metadata.uid), is_sandbox=True)
        self._configs[id] = config
        return id

    def _make_ready_for(self, pod: Pod) -> Resolver:
        self._cgroups.make(pod)
        return read_resolver()

    async def create_container(self, request: ContainerRequest) -> str:
        try:
            sandbox = self._configs.get(request.sandbox_id) or await self._sandbox_again(request)
            has_user = effective_user(request.pod, request.container) is not None
            image_user = "" if has_user else await self._images.user_of(request.image_id)
            config = container_config(
                request, self._machine, log_directory=sandbox.log_directory, image_user=image_user or "0"
            )
            answer = await self._channel.ask(
                cri.CreateContainerRequest(pod_sandbox_id=request.sandbox_id, config=config, sandbox_config=sandbox),
                cri.CreateContainerResponse,
            )
        except CriFailure as failure:
            raise failure.plain() from failure
        self._looks.note_made(answer.container_id, PodUid(request.pod.metadata.uid), is_sandbox=False)
        return answer.container_id

    async def _sandbox_again(self, request: ContainerRequest) -> cri.PodSandboxConfig:
        """How a sandbox was asked for by a node before this one; CRI wants to hear it again with each container."""
        status = await self._looks.sandbox_status(request.sandbox_id)
        if status is None:
            raise RuntimeFailure(f'sandbox "{request.sandbox_id}" not found')
        again = SandboxRequest(
            pod=request.pod,
            attempt=status.metadata.attempt,
            hostname=status.annotations.get(HOSTNAME) or request.pod.spec.hostname or request.pod.metadata.name,
            # Logs are at <log directory>/<container>/<attempt>.log.
            log_directory=posixpath.dirname(posixpath.dirname(request.log_path)),
        )
        config = sandbox_config(again, self._machine, await asyncio.to_thread(read_resolver))
        self._configs[request.sandbox_id] = config
        return config

    async def start(self, container_id: str) -> None:
        request = cri.StartContainerRequest(container_id=container_id)
        try:
            with self._deeds.on(container_id):
                # Given up in the middle, the container would be killed and shown as one that could not be started.
                await self._channel.ask(request, cri.StartContainerResponse, finish_seconds=_START_SECONDS)
        except CriFailure as failure:
            raise failure.plain() from failure

    async def stop(self, id: str, grace_seconds: float) -> None:
        grace_seconds = max(grace_seconds, 0)
        if not await self._looks.is_sandbox(id):
            await self._stop_container(id, grace_seconds)
            return
        if grace_seconds > 0:
            # What does not end by itself now ends with the sandbox.
            stopping = [self._stop_container(one, grace_seconds) for one in await self._running_in(id)]
            await asyncio.gather(*stopping, return_exceptions=True)
        with _gone_is_fine(), self._deeds.on(id):
            await self._channel.ask(cri.StopPodSandboxRequest(pod_sandbox_id=id), cri.StopPodSandboxResponse)
        if (uid := self._looks.owner(id)) is not None:
            await asyncio.to_thread(self._cgroups.remove, uid)

    async def _running_in(self, sandbox_id: str) -> list[str]:
        uid = await self._looks.find_owner(sandbox_id)
        pod = await self._looks.of_pod(uid) if uid is not None else None
        containers = pod.containers if pod is not None else ()
        return [one.id for one in containers if one.sandbox_id == sandbox_id and one.state == ContainerState.RUNNING]

    async def _stop_container(self, id: str, grace_seconds: float) -> None:
        whole_seconds = math.ceil(grace_seconds)
        try:
            # CRI has whole seconds only. A stop that is given up leaves the container as it is, signalled once.
            async with asyncio.timeout(None if whole_seconds == grace_seconds else grace_seconds):
                await self._ask_to_stop(id, whole_seconds)
        except TimeoutError:
            await self._ask_to_stop(id, 0)

    async def _ask_to_stop(self, id: str, seconds: int) -> None:
        request = cri.StopContainerRequest(container_id=id, timeout=seconds)
        with _gone_is_fine(), self._deeds.on(id):
            await self._channel.ask(request, cri.StopContainerResponse, timeout_seconds=seconds + USUAL_SECONDS)

    async def remove(self, id: str) -> None:
        with _gone_is_fine(), self._deeds.on(id):
            if await self._looks.is_sandbox(id):
                await self._channel.ask(cri.RemovePodSandboxRequest(pod_sandbox_id=id), cri.RemovePodSandboxResponse)
            else:
                await self._channel.ask(cri.RemoveContainerRequest(container_id=id), cri.RemoveContainerResponse)
        self._looks.forget(id)
        self._configs.pop(id, None)

    async def run(
        self, container_id: str, command: Sequence[str], *, timeout_seconds: float | None, limit_bytes: int
    ) -> CommandResult:
        # Whole seconds again: ours end first, and the runtime hears of it.
        whole_seconds = math.ceil(timeout_seconds) if timeout_seconds is not None else 0
        request = cri.ExecSyncRequest(container_id=container_id, cmd=command, timeout=whole_seconds)
        deadline = None if timeout_seconds is None else timeout_seconds + USUAL_SECONDS
        try:
            async with asyncio.timeout(timeout_seconds):
                answer = await self._channel.ask(request, cri.ExecSyncResponse, timeout_seconds=deadline)
        except CriFailure as failure:
            if failure.code == DEADLINE_EXCEEDED:
                raise TimeoutError(failure.details) from failure
            raise
        return CommandResult(
            answer.exit_code, (answer.stdout + answer.stderr)[:limit_bytes], answer.stderr[:limit_bytes]
        )

    async def reopen_log(self, container_id: str) -> None:
        request = cri.ReopenContainerLogRequest(container_id=container_id)
        await self._channel.ask(request, cri.ReopenContainerLogResponse)


@contextmanager
def _gone_is_fine() -> Iterator[None]:
    """Whoever wants something gone that is not there has got what it wanted."""
    try:
        yield
    except CriFailure as failure:
        if failure.code != NOT_FOUND:
            raise


class CriUsages:
    """Measures all containers with one call."""

    def __init__(self, channel: CriChannel) -> None:
        self._channel = channel

    async def usages(self) -> Mapping[str, ContainerResourceUsage]:
        # As long as it takes: the runtime may have to sum up the files of every container.
        answer = await self._channel.ask(
            cri.ListContainerStatsRequest(), cri.ListContainerStatsResponse, timeout_seconds=None
        )
        readings = ((one.attributes.id, usage_of(one)) for one in answer.stats)
        return {id: usage for id, usage in readings if usage is not None}
