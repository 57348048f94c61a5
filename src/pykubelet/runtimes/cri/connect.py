"""Opens a container runtime by its socket, with all it offers.

What the runtime says of itself, looked at every five seconds: whether it is ready, and its network.

Upstream: updateRuntimeUp in pkg/kubelet/kubelet.go, pkg/kubelet/runtime.go

What a node that was killed has left half made.

Making and starting a container are one step for a node. One that is found between them when a node opens the runtime
was left there by a node that was killed. So was one whose start the runtime gave up when nobody waited for it any more.
They go, and are tried again as if they had not been, instead of counting as failed or restarted.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from cri_api.v1 import api_pb2 as cri

from pykubelet.aio.log import get_logger
from pykubelet.aio.tasks import background_task, supervise
from pykubelet.api.serializer import DecodeError, decode_document
from pykubelet.runtimes.cri.channel import NOT_FOUND, CriChannel, CriFailure
from pykubelet.runtimes.cri.dns import ClusterDns
from pykubelet.runtimes.cri.events import CriEventFeed, OperationsInProgress
from pykubelet.runtimes.cri.host import CGROUPFS, SYSTEMD, app_armor_error, read_cri_host
from pykubelet.runtimes.cri.pods import CriPodInspector
from pykubelet.runtimes.cri.runtime import CriImages, CriRuntime, CriUsages
from pykubelet.runtimes.cri.statuses import owner_of, runtime_condition_errors
from pykubelet.runtimes.cri.streaming import CriStreams
from pykubelet.runtimes.protocol import ChangeHints, RuntimeFailure

log = get_logger(__name__)

# How containerd tells of a start that it gave up, depending on how far it had come.
_START_ERROR, _GIVEN_UP = "StartError", ("context canceled", "signal: killed")
# To undo a start takes it two seconds; until then nothing can be done with the container.
_TRIES, _PAUSE_SECONDS = 50, 0.1
_NOT_RUNNING = {cri.CONTAINER_CREATED, cri.CONTAINER_EXITED}


async def remove_unstarted(channel: CriChannel) -> None:
    """Remove the containers of pods that were made and never started."""
    answer = await channel.ask(cri.ListContainersRequest(), cri.ListContainersResponse)
    suspects = [one.id for one in answer.containers if owner_of(one) is not None and one.state in _NOT_RUNNING]
    for _ in range(_TRIES):
        suspects = [id for id in suspects if not await _is_settled(channel, id)]
        if not suspects:
            return
        await asyncio.sleep(_PAUSE_SECONDS)
    log.warning("containers that were never started cannot be removed", container_ids=" ".join(suspects))


async def _is_settled(channel: CriChannel, id: str) -> bool:
    """Whether a container is gone, now at the latest, or has been started."""
    try:
        status = (await channel.ask(cri.ContainerStatusRequest(container_id=id), cri.ContainerStatusResponse)).status
        if not is_unstarted(status):
            return True
        await channel.ask(cri.RemoveContainerRequest(container_id=id), cri.RemoveContainerResponse)
        if status.log_path:
            await asyncio.to_thread(_take_back_log, Path(status.log_path))
    except CriFailure as failure:
        return failure.code == NOT_FOUND
    log.info("container that was never started is removed", container_id=id)
    return True


def _take_back_log(log_file: Path) -> None:
    """Remove the log of an attempt that was none; the one before it stays known by its log, though it may be empty."""
    with suppress(OSError):
        log_file.unlink(missing_ok=True)
        if log_file.stem.isdecimal() and int(log_file.stem) > 0:
            log_file.with_stem(str(int(log_file.stem) - 1)).touch()


def is_unstarted(status: cri.ContainerStatus) -> bool:
    """Whether a container was only made, or did not start because whoever started it was gone."""
    is_given_up = status.reason == _START_ERROR and any(words in status.message for words in _GIVEN_UP)
    return status.state == cri.CONTAINER_CREATED or is_given_up


_PERIOD_SECONDS = 5.0
# One that is started anew has so long to come back before the node says that it is down.
_PATIENCE_SECONDS = 30.0


class CriRuntimeStatus:
    """The runtime's own word on its state; RuntimeState of the agent."""

    def __init__(self, channel: CriChannel) -> None:
        self._channel = channel
        self._runtime_error, self._network_error = "", ""
        self._last_answer: float | None = None

    def runtime_error(self) -> str:
        return self._runtime_error

    def network_error(self) -> str:
        return self._network_error

    async def run(self) -> None:
        """Look again and again."""
        while True:
            await self.look()
            await asyncio.sleep(_PERIOD_SECONDS)

    async def look(self) -> None:
        """Look once. Who does not answer for a while is down."""
        loop = asyncio.get_running_loop()
        try:
            answer = await self._channel.ask(cri.StatusRequest(), cri.StatusResponse)
        except RuntimeFailure:
            if self._last_answer is None or loop.time() - self._last_answer > _PATIENCE_SECONDS:
                self._runtime_error = "container runtime is down"
            return
        self._last_answer = loop.time()
        self._runtime_error, self._network_error = runtime_condition_errors(answer.status)


_CONTAINERD = "containerd"
# A runtime without events says so at once.
_DEAF_SECONDS = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class CriSettings:
    """What the node was told that matters to containers."""

    socket: str
    cluster_dns: ClusterDns = field(default_factory=ClusterDns)
    cgroup_root: str = "/"
    seccomp_root: str = "/var/lib/kubelet/seccomp"
    seccomp_default: bool = True
    max_pids: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenCri:
    """A runtime and all it offers; `name` and `version` are what it calls itself."""

    name: str
    version: str
    runtime: CriRuntime
    has_changes: bool
    """Whether `runtime` hints at changes; else one must look again and again."""
    images: CriImages
    streams: CriStreams
    usages: CriUsages
    state: CriRuntimeStatus
    limits_pids: bool
    """Whether pods have only so many processes; with systemd their cgroups are not ours."""
    app_armor_error: str
    """Why AppArmor profiles cannot be enforced here; empty if they can."""


@asynccontextmanager
async def open_cri(settings: CriSettings) -> AsyncIterator[OpenCri]:
    """The runtime, for as long as the context lasts; RuntimeFailure if nobody answers. Containers outlive it."""
    async with CriChannel(f"unix://{settings.socket}") as channel:
        version = await channel.ask(cri.VersionRequest(), cri.VersionResponse, timeout_seconds=10)
        machine = await asyncio.to_thread(
            read_cri_host,
            cgroup_driver=await cgroup_driver(channel),
            cgroup_root=settings.cgroup_root,
            seccomp_root=settings.seccomp_root,
            seccomp_default=settings.seccomp_default,
            max_pids=settings.max_pids,
            cluster_dns=settings.cluster_dns,
        )
        looks, hints, images, state = (
            CriPodInspector(channel),
            ChangeHints(),
            CriImages(channel),
            CriRuntimeStatus(channel),
        )
        deeds = OperationsInProgress(looks=looks, hints=hints)
        feed = CriEventFeed(channel=channel, looks=looks, hints=hints, deeds=deeds)
        await state.look()
        await remove_unstarted(channel)
        async with (
            background_task(supervise("cri: events", feed.run), "cri: events"),
            background_task(supervise("cri: state", state.run), "cri: state"),
        ):
            yield OpenCri(
                name=version.runtime_name,
                version=version.runtime_version,
                runtime=CriRuntime(
                    channel=channel, looks=looks, images=images, hints=hints, deeds=deeds, machine=machine
                ),
                has_changes=version.runtime_name == _CONTAINERD or not await _is_deaf(feed),
                images=images,
                streams=CriStreams(channel=channel, looks=looks),
                usages=CriUsages(channel),
                state=state,
                limits_pids=machine.cgroup_driver == CGROUPFS,
                app_armor_error=await asyncio.to_thread(app_armor_error),
            )


async def _is_deaf(feed: CriEventFeed) -> bool:
    try:
        async with asyncio.timeout(_DEAF_SECONDS):
            await feed.is_deaf.wait()
    except TimeoutError:
        return False
    return True


async def cgroup_driver(channel: CriChannel) -> str:
    """How the runtime makes cgroups. Those too old to be asked are containerd, which shows its configuration."""
    try:
        answer = await channel.ask(cri.RuntimeConfigRequest(), cri.RuntimeConfigResponse)
        return SYSTEMD if answer.linux.cgroup_driver == cri.SYSTEMD else CGROUPFS
    except CriFailure:
        status = await channel.ask(cri.StatusRequest(verbose=True), cri.StatusResponse)
        return configured_driver(status.info.get("config", ""))


def configured_driver(config: str) -> str:
    """The cgroup driver that containerd's configuration names for the runtime that containers have by default."""
    try:
        containerd = decode_document(config)["containerd"]
        options = containerd["runtimes"][containerd["defaultRuntimeName"]]["options"]
    except (DecodeError, KeyError, TypeError):
        return CGROUPFS
    return SYSTEMD if isinstance(options, dict) and options.get("SystemdCgroup") is True else CGROUPFS
