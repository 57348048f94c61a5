"""Opens a container runtime by its socket, with all it offers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from cri_api.v1 import api_pb2 as cri

from pykubelet.aio.beside import beside
from pykubelet.aio.supervise import supervise
from pykubelet.api.wire import DecodeError, decode_document
from pykubelet.runtime.changes import ChangeHints
from pykubelet.runtime.cri.cgroup_names import CGROUPFS, SYSTEMD
from pykubelet.runtime.cri.channel import Channel, CriFailure
from pykubelet.runtime.cri.deeds import Deeds
from pykubelet.runtime.cri.dns import ClusterDns
from pykubelet.runtime.cri.feed import Feed
from pykubelet.runtime.cri.images import CriImages
from pykubelet.runtime.cri.leftovers import remove_unstarted
from pykubelet.runtime.cri.looks import Looks
from pykubelet.runtime.cri.machine import app_armor_error, read_machine
from pykubelet.runtime.cri.runtime import CriRuntime
from pykubelet.runtime.cri.state import CriState
from pykubelet.runtime.cri.streams import CriStreams
from pykubelet.runtime.cri.usages import CriUsages

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
    state: CriState
    limits_pids: bool
    """Whether pods have only so many processes; with systemd their cgroups are not ours."""
    app_armor_error: str
    """Why AppArmor profiles cannot be enforced here; empty if they can."""


@asynccontextmanager
async def open_cri(settings: CriSettings) -> AsyncIterator[OpenCri]:
    """The runtime, for as long as the context lasts; RuntimeFailure if nobody answers. Containers outlive it."""
    async with Channel(f"unix://{settings.socket}") as channel:
        version = await channel.ask(cri.VersionRequest(), cri.VersionResponse, timeout_seconds=10)
        machine = await asyncio.to_thread(
            read_machine,
            cgroup_driver=await cgroup_driver(channel),
            cgroup_root=settings.cgroup_root,
            seccomp_root=settings.seccomp_root,
            seccomp_default=settings.seccomp_default,
            max_pids=settings.max_pids,
            cluster_dns=settings.cluster_dns,
        )
        looks, hints, images, state = Looks(channel), ChangeHints(), CriImages(channel), CriState(channel)
        deeds = Deeds(looks=looks, hints=hints)
        feed = Feed(channel=channel, looks=looks, hints=hints, deeds=deeds)
        await state.look()
        await remove_unstarted(channel)
        async with (
            beside(supervise("cri: events", feed.run), "cri: events"),
            beside(supervise("cri: state", state.run), "cri: state"),
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


async def _is_deaf(feed: Feed) -> bool:
    try:
        async with asyncio.timeout(_DEAF_SECONDS):
            await feed.is_deaf.wait()
    except TimeoutError:
        return False
    return True


async def cgroup_driver(channel: Channel) -> str:
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
