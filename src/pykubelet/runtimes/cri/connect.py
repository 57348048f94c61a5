"""Connects to a CRI runtime, follows its status and events, and removes unstarted containers.

Upstream: pkg/kubelet/kubelet.go, pkg/kubelet/runtime.go
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
from pykubelet.runtimes.cri.cni import CniNetwork, ensure_network
from pykubelet.runtimes.cri.events import CriEventFeed, OperationsInProgress
from pykubelet.runtimes.cri.host import CGROUPFS, SYSTEMD, CriHost, app_armor_error, with_host_facts
from pykubelet.runtimes.cri.pods import CriPodInspector
from pykubelet.runtimes.cri.runtime import CriImages, CriRuntime, CriUsages
from pykubelet.runtimes.cri.statuses import owner_of, runtime_condition_errors
from pykubelet.runtimes.cri.streaming import CriStreams
from pykubelet.runtimes.dns import ClusterDns
from pykubelet.runtimes.protocol import ChangeHints, RuntimeFailure

log = get_logger(__name__)

# containerd's messages for a cancelled start; they depend on how far the start had come.
_CANCELLED_START = ("context canceled", "signal: killed")
# containerd needs up to two seconds to undo a start; until then it refuses to remove the container.
_TRIES, _PAUSE_SECONDS = 50, 0.1
_NOT_RUNNING = {cri.CONTAINER_CREATED, cri.CONTAINER_EXITED}
_PERIOD_SECONDS = 5.0
# A runtime that restarts has this long before it is reported as down.
_PATIENCE_SECONDS = 30.0
# A runtime without events answers Unimplemented at once.
_NO_EVENTS_SECONDS = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class CriSettings:
    """Settings of the node for a CRI runtime."""

    socket: str
    cluster_dns: ClusterDns = field(default_factory=ClusterDns)
    cgroup_root: str = "/"
    seccomp_root: str = "/var/lib/kubelet/seccomp"
    seccomp_default: bool = True
    max_pids: int = 0
    network: CniNetwork | None = None
    """The network to give to pods if the machine has no configuration of one; None: leave that to others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenCri:
    """A connected CRI runtime and everything it offers; `name` and `version` are its own."""

    name: str
    version: str
    runtime: CriRuntime
    has_changes: bool
    """Whether `runtime` reports changes; else it has to be polled."""
    images: CriImages
    streams: CriStreams
    usages: CriUsages
    state: "CriRuntimeStatus"
    limits_pids: bool
    """Whether the process limit of pods is enforced; with systemd the pod cgroups are not ours."""
    app_armor_error: str
    """Why AppArmor profiles cannot be enforced; empty if they can."""


@asynccontextmanager
async def open_cri(settings: CriSettings) -> AsyncIterator[OpenCri]:
    """Connects for the duration of a context; RuntimeFailure if the runtime does not answer. Containers outlive it."""
    async with CriChannel(f"unix://{settings.socket}") as channel:
        version = await channel.call(cri.VersionRequest(), cri.VersionResponse, timeout_seconds=10)
        host_settings = CriHost(
            cgroup_driver=await cgroup_driver(channel),
            cgroup_root=settings.cgroup_root,
            seccomp_root=settings.seccomp_root,
            seccomp_default=settings.seccomp_default,
            max_pids=settings.max_pids,
            cluster_dns=settings.cluster_dns,
        )
        host = await asyncio.to_thread(with_host_facts, host_settings)
        inspector, images, state = CriPodInspector(channel), CriImages(channel), CriRuntimeStatus(channel)
        hints = ChangeHints()
        operations = OperationsInProgress(inspector=inspector, hints=hints)
        feed = CriEventFeed(channel=channel, inspector=inspector, hints=hints, operations=operations)
        await state.update()
        if settings.network is not None:
            await _make_network(channel, settings.network, state)
        await remove_unstarted(channel)
        async with (
            background_task(supervise("cri: events", feed.run), "cri: events"),
            background_task(supervise("cri: state", state.run), "cri: state"),
        ):
            yield OpenCri(
                name=version.runtime_name,
                version=version.runtime_version,
                runtime=CriRuntime(
                    channel=channel, inspector=inspector, images=images, hints=hints, operations=operations, host=host
                ),
                has_changes=version.runtime_name == "containerd" or not await _has_no_events(feed),
                images=images,
                streams=CriStreams(channel=channel, inspector=inspector),
                usages=CriUsages(channel),
                state=state,
                limits_pids=host.cgroup_driver == CGROUPFS,
                app_armor_error=await asyncio.to_thread(app_armor_error),
            )


async def _make_network(channel: CriChannel, network: CniNetwork, state: "CriRuntimeStatus") -> None:
    """Write the configuration and wait a moment until the runtime has read it."""
    status = await channel.call(cri.StatusRequest(verbose=True), cri.StatusResponse)
    if not await ensure_network(network, status.info.get("config", "")):
        return
    for _ in range(_TRIES):
        await state.update()
        if not state.network_error():
            return
        await asyncio.sleep(_PAUSE_SECONDS)


async def _has_no_events(feed: CriEventFeed) -> bool:
    try:
        async with asyncio.timeout(_NO_EVENTS_SECONDS):
            await feed.has_no_events.wait()
    except TimeoutError:
        return False
    return True


async def cgroup_driver(channel: CriChannel) -> str:
    """The cgroup driver of the runtime; old containerd versions reveal it only in their configuration."""
    try:
        answer = await channel.call(cri.RuntimeConfigRequest(), cri.RuntimeConfigResponse)
        return SYSTEMD if answer.linux.cgroup_driver == cri.SYSTEMD else CGROUPFS
    except CriFailure:
        status = await channel.call(cri.StatusRequest(verbose=True), cri.StatusResponse)
        return configured_driver(status.info.get("config", ""))


def configured_driver(config: str) -> str:
    """The cgroup driver of the default runtime in containerd's configuration."""
    try:
        containerd = decode_document(config)["containerd"]
        options = containerd["runtimes"][containerd["defaultRuntimeName"]]["options"]
    except (DecodeError, KeyError, TypeError):
        return CGROUPFS
    return SYSTEMD if isinstance(options, dict) and options.get("SystemdCgroup") is True else CGROUPFS


class CriRuntimeStatus:
    """Reads the runtime's status every five seconds: whether it and its network are ready."""

    def __init__(self, channel: CriChannel) -> None:
        self._channel = channel
        self._runtime_error, self._network_error = "", ""
        self._last_answer: float | None = None

    def runtime_error(self) -> str:
        return self._runtime_error

    def network_error(self) -> str:
        return self._network_error

    async def run(self) -> None:
        """Update the status until cancelled."""
        while True:
            await self.update()
            await asyncio.sleep(_PERIOD_SECONDS)

    async def update(self) -> None:
        """Read the status once; a runtime that does not answer for 30 seconds is down."""
        loop = asyncio.get_running_loop()
        try:
            answer = await self._channel.call(cri.StatusRequest(), cri.StatusResponse)
        except RuntimeFailure:
            if self._last_answer is None or loop.time() - self._last_answer > _PATIENCE_SECONDS:
                self._runtime_error = "container runtime is down"
            return
        self._last_answer = loop.time()
        self._runtime_error, self._network_error = runtime_condition_errors(answer.status)


async def remove_unstarted(channel: CriChannel) -> None:
    """Removes containers of pods that were created and never started.

    Creating and starting a container are one step for the kubelet. A container found between them was left by a kubelet
    that was killed, as was one whose start the runtime cancelled for lack of a client. They are removed and created anew
    instead of counting as failed or restarted.
    """
    answer = await channel.call(cri.ListContainersRequest(), cri.ListContainersResponse)
    suspects = [one.id for one in answer.containers if owner_of(one) is not None and one.state in _NOT_RUNNING]
    for _ in range(_TRIES):
        suspects = [id for id in suspects if not await _remove_if_unstarted(channel, id)]
        if not suspects:
            return
        await asyncio.sleep(_PAUSE_SECONDS)
    log.warning("unstarted containers not removed", container_ids=" ".join(suspects))


async def _remove_if_unstarted(channel: CriChannel, id: str) -> bool:
    """Removes a container if it was never started; False if the runtime refuses to remove it now."""
    try:
        status = (await channel.call(cri.ContainerStatusRequest(container_id=id), cri.ContainerStatusResponse)).status
        if not is_unstarted(status):
            return True
        await channel.call(cri.RemoveContainerRequest(container_id=id), cri.RemoveContainerResponse)
        if status.log_path:
            await asyncio.to_thread(_remove_log, Path(status.log_path))
    except CriFailure as failure:
        return failure.code == NOT_FOUND
    log.info("unstarted container removed", container_id=id)
    return True


def _remove_log(log_file: Path) -> None:
    """Removes the log of an attempt that did not happen; keeps that of the previous one, which holds the restart count."""
    with suppress(OSError):
        log_file.unlink(missing_ok=True)
        if log_file.stem.isdecimal() and int(log_file.stem) > 0:
            log_file.with_stem(str(int(log_file.stem) - 1)).touch()


def is_unstarted(status: cri.ContainerStatus) -> bool:
    """Whether a container was only created, or its start was cancelled."""
    was_cancelled = status.reason == "StartError" and any(text in status.message for text in _CANCELLED_START)
    return status.state == cri.CONTAINER_CREATED or was_cancelled
