"""Runs containers, pulls images and reads statistics through CRI.

`CriRuntime` implements Runtime, ChangeFeed, Commands and LogWriter; `CriImages` Images and ImageFs; `CriUsages` Usages.

Upstream: staging/src/k8s.io/cri-client/pkg/remote_runtime.go, staging/src/k8s.io/cri-client/pkg/remote_image.go,
pkg/kubelet/kuberuntime/kuberuntime_image.go, pkg/kubelet/stats/cri_stats_provider.go
"""

import asyncio
import math
import posixpath
from collections.abc import Container, Mapping, Sequence

from cri_api.v1 import api_pb2 as cri

from pykubelet.aio.log import get_logger
from pykubelet.aio.threads import in_thread
from pykubelet.api.field_errors import aggregate_messages
from pykubelet.api.generated.core import Pod
from pykubelet.api.pods import PodUid
from pykubelet.api.times import from_nanoseconds
from pykubelet.runtimes.cri.channel import (
    DEADLINE_EXCEEDED,
    DEFAULT_TIMEOUT_SECONDS,
    NOT_FOUND,
    UNKNOWN,
    CriChannel,
    CriFailure,
    ignore_not_found,
)
from pykubelet.runtimes.cri.configs import HOSTNAME, container_config, sandbox_config
from pykubelet.runtimes.cri.events import OperationsInProgress
from pykubelet.runtimes.cri.host import CriHost
from pykubelet.runtimes.cri.pods import CriPodInspector
from pykubelet.runtimes.cri.resources import PodCgroups
from pykubelet.runtimes.cri.security_context import effective_user
from pykubelet.runtimes.dns import Resolver, read_resolver
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

log = get_logger(__name__)

_ROOT = "0"
_START_SECONDS = 5.0
# Cancelled half-way, containerd 1.6 leaves cgroups and shims behind. A sandbox takes a fraction of a second, on a very
# busy machine a few seconds; a network plugin that hangs delays the deletion of its pod no longer than this.
_SANDBOX_SECONDS = 10.0
# No command is cancelled earlier. Seen under load: after an ExecSync was cancelled while the command started,
# containerd 1.6 answered no later ExecSync of that container.
_EXEC_START_SECONDS = 3.0


class CriRuntime:
    """Runtime, ChangeFeed, Commands and LogWriter of a CRI runtime."""

    def __init__(
        self,
        *,
        channel: CriChannel,
        inspector: CriPodInspector,
        images: "CriImages",
        hints: ChangeHints,
        operations: OperationsInProgress,
        host: CriHost,
    ) -> None:
        self._channel, self._inspector, self._images = channel, inspector, images
        self._hints, self._operations = hints, operations
        self._host, self._cgroups = host, PodCgroups(host)
        self._sweeps: dict[PodUid, asyncio.Event] = {}
        """The orphaned pods whose cgroups are being removed, each with the event of its end."""
        self._unswept: set[PodUid] = set()
        self._configs: dict[str, cri.PodSandboxConfig] = {}
        """The configurations of sandboxes that this process created or restored, by sandbox id."""

    async def pods(self) -> Sequence[RuntimePod]:
        return await self._inspector.everything()

    async def inspect(self, uid: PodUid) -> RuntimePod | None:
        return await self._inspector.of_pod(uid)

    def changes(self) -> ChangeSubscription:
        return self._hints.subscribe()

    async def create_sandbox(self, request: SandboxRequest) -> str:
        uid = PodUid(request.pod.metadata.uid)
        if (sweep := self._sweeps.get(uid)) is not None:
            await sweep.wait()
        try:
            config = sandbox_config(request, self._host, await in_thread(self._prepare, request.pod))
            run_request = cri.RunPodSandboxRequest(config=config, runtime_handler=request.handler)
            answer = await self._channel.call(
                run_request,
                cri.RunPodSandboxResponse,
                # The sandbox may have to wait for its image and network.
                timeout_seconds=2 * DEFAULT_TIMEOUT_SECONDS,
                finish_seconds=_SANDBOX_SECONDS,
            )
        except BaseException:
            # Only if the runtime has no sandbox: a cgroup in use is not removed.
            await in_thread(self._cgroups.remove, uid)
            raise
        id = answer.pod_sandbox_id
        self._inspector.record_created(id, uid, is_sandbox=True)
        self._configs[id] = config
        return id

    def _prepare(self, pod: Pod) -> Resolver:
        self._cgroups.make(pod)
        return read_resolver()

    async def remove_orphans(self, keep: Container[PodUid]) -> None:
        """Remove the cgroups of pods that are neither in `keep` nor known to the runtime, and kill what runs there.

        A crash, another kubelet or a sandbox that was never completed has left them.
        """
        found = await asyncio.to_thread(self._cgroups.pods)
        for uid in found - self._inspector.owners():
            # Asked at the last moment: a static pod may come back with the same UID.
            if uid not in keep:
                await self._sweep(uid)
        self._unswept &= found

    async def _sweep(self, uid: PodUid) -> None:
        """Remove the cgroups of an orphaned pod; a new sandbox with the same UID waits meanwhile."""
        self._sweeps[uid] = done = asyncio.Event()
        try:
            killed = await in_thread(self._cgroups.destroy, uid)
        except OSError as error:
            # Retried at every sweep, but logged only once.
            if uid not in self._unswept:
                log.warning("orphaned pod cgroup not removed", pod_uid=uid, cause=str(error))
            self._unswept.add(uid)
        else:
            log.info("orphaned pod cgroup removed", pod_uid=uid, killed_processes=killed)
        finally:
            del self._sweeps[uid]
            done.set()

    async def create_container(self, request: ContainerRequest) -> str:
        try:
            sandbox = self._configs.get(request.sandbox_id) or await self._restored_sandbox_config(request)
            has_user = effective_user(request.pod, request.container) is not None
            image_user = "" if has_user else await self._images.user_of(request.image_id)
            config = container_config(
                request, self._host, log_directory=sandbox.log_directory, image_user=image_user or "0"
            )
            answer = await self._channel.call(
                cri.CreateContainerRequest(pod_sandbox_id=request.sandbox_id, config=config, sandbox_config=sandbox),
                cri.CreateContainerResponse,
            )
        except CriFailure as failure:
            raise failure.plain() from failure
        self._inspector.record_created(answer.container_id, PodUid(request.pod.metadata.uid), is_sandbox=False)
        return answer.container_id

    async def _restored_sandbox_config(self, request: ContainerRequest) -> cri.PodSandboxConfig:
        """The configuration of a sandbox from before a restart; CRI requires it for each new container."""
        status = await self._inspector.sandbox_status(request.sandbox_id)
        if status is None:
            raise RuntimeFailure(f'sandbox "{request.sandbox_id}" not found')
        restored = SandboxRequest(
            pod=request.pod,
            attempt=status.metadata.attempt,
            hostname=status.annotations.get(HOSTNAME) or request.pod.spec.hostname or request.pod.metadata.name,
            # Logs are at <log directory>/<container>/<attempt>.log.
            log_directory=posixpath.dirname(posixpath.dirname(request.log_path)),
        )
        config = sandbox_config(restored, self._host, await asyncio.to_thread(read_resolver))
        self._configs[request.sandbox_id] = config
        return config

    async def start(self, container_id: str) -> None:
        request = cri.StartContainerRequest(container_id=container_id)
        try:
            with self._operations.on(container_id):
                # A start cancelled half-way would kill the container and report it as failed to start.
                await self._channel.call(request, cri.StartContainerResponse, finish_seconds=_START_SECONDS)
        except CriFailure as failure:
            raise failure.plain() from failure

    async def stop(self, id: str, grace_seconds: float) -> None:
        grace_seconds = max(grace_seconds, 0)
        if not await self._inspector.is_sandbox(id):
            await self._stop_container(id, grace_seconds)
            return
        if grace_seconds > 0:
            # A container that cannot be stopped ends with the sandbox.
            stopping = [self._stop_container(one, grace_seconds) for one in await self._running_in(id)]
            await asyncio.gather(*stopping, return_exceptions=True)
        uid = await self._inspector.find_owner(id)
        with ignore_not_found(), self._operations.on(id):
            await self._channel.call(cri.StopPodSandboxRequest(pod_sandbox_id=id), cri.StopPodSandboxResponse)
        if uid is not None:
            await asyncio.to_thread(self._cgroups.remove, uid)

    async def _running_in(self, sandbox_id: str) -> list[str]:
        uid = await self._inspector.find_owner(sandbox_id)
        pod = await self._inspector.of_pod(uid) if uid is not None else None
        containers = pod.containers if pod is not None else ()
        return [one.id for one in containers if one.sandbox_id == sandbox_id and one.state == ContainerState.RUNNING]

    async def _stop_container(self, id: str, grace_seconds: float) -> None:
        whole_seconds = math.ceil(grace_seconds)
        try:
            # CRI takes whole seconds only. Cancelling a stop leaves the container running, signalled once.
            async with asyncio.timeout(None if whole_seconds == grace_seconds else grace_seconds):
                await self._request_stop(id, whole_seconds)
        except TimeoutError:
            await self._request_stop(id, 0)

    async def _request_stop(self, id: str, seconds: int) -> None:
        request = cri.StopContainerRequest(container_id=id, timeout=seconds)
        with ignore_not_found(), self._operations.on(id):
            await self._channel.call(
                request, cri.StopContainerResponse, timeout_seconds=seconds + DEFAULT_TIMEOUT_SECONDS
            )

    async def remove(self, id: str) -> None:
        with ignore_not_found(), self._operations.on(id):
            if await self._inspector.is_sandbox(id):
                await self._channel.call(cri.RemovePodSandboxRequest(pod_sandbox_id=id), cri.RemovePodSandboxResponse)
            else:
                await self._channel.call(cri.RemoveContainerRequest(container_id=id), cri.RemoveContainerResponse)
        self._inspector.forget(id)
        self._configs.pop(id, None)

    async def run(
        self, container_id: str, command: Sequence[str], *, timeout_seconds: float | None, limit_bytes: int
    ) -> CommandResult:
        whole_seconds = math.ceil(timeout_seconds) if timeout_seconds is not None else 0
        request = cri.ExecSyncRequest(container_id=container_id, cmd=command, timeout=whole_seconds)
        deadline = None if timeout_seconds is None else timeout_seconds + DEFAULT_TIMEOUT_SECONDS
        loop = asyncio.get_running_loop()
        cancel_at = loop.time() + _EXEC_START_SECONDS
        pending = self._channel.begin(request, cri.ExecSyncResponse, timeout_seconds=deadline)
        try:
            async with asyncio.timeout(timeout_seconds) as limit:
                answer = await pending.answer()
        except CriFailure as failure:
            if failure.code == DEADLINE_EXCEEDED:
                raise TimeoutError(failure.details) from failure
            raise
        except (TimeoutError, asyncio.CancelledError):
            if limit.expired():
                # The runtime, which counts whole seconds, ends the command itself a moment later.
                cancel_at += whole_seconds
            pending.cancel(after_seconds=cancel_at - loop.time())
            raise
        return CommandResult(
            answer.exit_code, (answer.stdout + answer.stderr)[:limit_bytes], answer.stderr[:limit_bytes]
        )

    async def reopen_log(self, container_id: str) -> None:
        request = cri.ReopenContainerLogRequest(container_id=container_id)
        await self._channel.call(request, cri.ReopenContainerLogResponse)


class CriImages:
    """Images and ImageFs of a CRI runtime."""

    def __init__(self, channel: CriChannel) -> None:
        self._channel = channel
        self._users: dict[str, str] = {}
        """The users of images by image id, which identifies the content."""

    async def find(self, name: str) -> Image | None:
        request = cri.ImageStatusRequest(image=cri.ImageSpec(image=name))
        answer = await self._channel.call(request, cri.ImageStatusResponse)
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
                # The code Unknown would only make the message longer.
                failures.append(failure.details if failure.code == UNKNOWN else failure.message)
        raise RuntimeFailure(aggregate_messages(failures))

    async def images(self) -> Sequence[Image]:
        answer = await self._channel.call(cri.ListImagesRequest(), cri.ListImagesResponse)
        found = [_image(image) for image in answer.images]
        # Not filled from the list: some runtimes report users only in ImageStatus.
        self._users = {image.id: self._users[image.id] for image in found if image.id in self._users}
        return found

    async def remove_image(self, id: str) -> None:
        request = cri.RemoveImageRequest(image=cri.ImageSpec(image=id))
        await self._channel.call(request, cri.RemoveImageResponse)

    async def image_file_system(self) -> FileSystem:
        answer = await self._channel.call(cri.ImageFsInfoRequest(), cri.ImageFsInfoResponse)
        for usage in answer.image_filesystems:
            try:
                return await asyncio.to_thread(read_file_system, usage.fs_id.mountpoint)
            except OSError as error:
                message = f"image file system at {usage.fs_id.mountpoint} cannot be read: {error.strerror}"
                raise RuntimeFailure(message) from error
        raise RuntimeFailure("the runtime reports no image file system")

    async def user_of(self, id: str) -> str:
        """The user of an image: a number or a name."""
        if id not in self._users:
            await self.find(id)
        return self._users.get(id, _ROOT)

    async def _pull(self, name: str, credentials: RegistryCredentials | None) -> Image:
        auth = None
        if credentials is not None:
            auth = cri.AuthConfig(username=credentials.username, password=credentials.password)
        request = cri.PullImageRequest(image=cri.ImageSpec(image=name, user_specified_image=name), auth=auth)
        # Without timeout: the runtime itself gives up when the download makes no progress.
        answer = await self._channel.call(request, cri.PullImageResponse, timeout_seconds=None)
        found = await self.find(answer.image_ref)
        if found is None:
            raise CriFailure(NOT_FOUND, f'image "{answer.image_ref}" was pulled, but the runtime does not list it')
        return found


def _image(image: cri.Image) -> Image:
    """Converts an image; one without a user runs as root."""
    user = str(image.uid.value) if image.HasField("uid") else image.username or _ROOT
    names = (*image.repo_tags, *image.repo_digests)
    return Image(id=image.id, names=names, size_bytes=image.size, user=user, is_pinned=image.pinned)


class CriUsages:
    """Usages of a CRI runtime: measures all containers with one call."""

    def __init__(self, channel: CriChannel) -> None:
        self._channel = channel

    async def usages(self) -> Mapping[str, ContainerResourceUsage]:
        # Without timeout: the runtime may have to sum up the files of every container.
        answer = await self._channel.call(
            cri.ListContainerStatsRequest(), cri.ListContainerStatsResponse, timeout_seconds=None
        )
        readings = ((one.attributes.id, container_usage(one)) for one in answer.stats)
        return {id: usage for id, usage in readings if usage is not None}


def container_usage(stats: cri.ContainerStats) -> ContainerResourceUsage | None:
    """Converts the stats of a container; None if there are none, for instance after its end."""
    cpu, memory, swap, layer = stats.cpu, stats.memory, stats.swap, stats.writable_layer
    at = max(cpu.timestamp, memory.timestamp)
    if at <= 0:
        return None
    return ContainerResourceUsage(
        at=from_nanoseconds(at),
        cpu_nanoseconds=cpu.usage_core_nano_seconds.value if cpu.HasField("usage_core_nano_seconds") else None,
        memory_bytes=memory.usage_bytes.value if memory.HasField("usage_bytes") else None,
        working_set_bytes=memory.working_set_bytes.value if memory.HasField("working_set_bytes") else None,
        rss_bytes=memory.rss_bytes.value if memory.HasField("rss_bytes") else None,
        swap_bytes=swap.swap_usage_bytes.value if swap.HasField("swap_usage_bytes") else None,
        layer_bytes=layer.used_bytes.value if layer.HasField("used_bytes") else None,
        layer_inodes=layer.inodes_used.value if layer.HasField("inodes_used") else None,
    )
