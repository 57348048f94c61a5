"""What pods use of the machine, as values, and which part of it counts for which signal.

Pure. What nobody measured is None. Upstream: podDiskUsage and buildSignalToRankFunc in pkg/kubelet/eviction/helpers.go,
calcEphemeralStorage in pkg/kubelet/stats/helper.go, IsLocalEphemeralVolume in pkg/volume/util/util.go

Measures what pods use: memory, layers and processes as the runtime tells, logs and volumes on disk.

In: the runtime, and where the things of pods are. Out: values for decisions. The disk is looked at only if asked for: to
count the files of every pod takes its time.

Upstream: the summary provider of pkg/kubelet/server/stats, as pkg/kubelet/eviction uses it

How much of the disk pods take: logs, volumes, their own files. Blocks; called in a thread.

Upstream: DiskUsage in pkg/volume/util/fs/fs.go, pkg/kubelet/stats/host_stats_provider.go
"""

import asyncio
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from pykubelet.api.generated.core import Pod, Volume
from pykubelet.api.pods import PodUid
from pykubelet.kubelet.eviction.thresholds import IMAGE_FS_AVAILABLE, IMAGE_FS_INODES
from pykubelet.kubelet.logs.log_directory import LogDirectory, pod_names
from pykubelet.kubelet.volumemanager.volume_manager import VolumeManager
from pykubelet.runtimes.protocol import ContainerResourceUsage, ContainerState, Runtime, RuntimePod, Usages


@dataclass(frozen=True, slots=True)
class DiskUsage:
    """So much on a disk."""

    bytes: int = 0
    inodes: int = 0

    def __add__(self, other: "DiskUsage") -> "DiskUsage":
        return DiskUsage(self.bytes + other.bytes, self.inodes + other.inodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerUsage:
    """What one container uses."""

    memory_bytes: int | None = None
    """Its working set."""
    layer: DiskUsage | None = None
    """What it wrote over its image."""
    logs: DiskUsage | None = None
    processes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodUsage:
    """What a pod uses: containers by name, volumes of the disks of the node by name, and the few files every pod has."""

    containers: Mapping[str, ContainerUsage] = field(default_factory=dict)
    volumes: Mapping[str, DiskUsage] = field(default_factory=dict)
    own_files: DiskUsage = field(default_factory=DiskUsage)

    @property
    def memory_bytes(self) -> int:
        """All of it, as far as it is known."""
        return sum(one.memory_bytes or 0 for one in self.containers.values())

    @property
    def processes(self) -> int:
        """All of them, as far as they are known."""
        return sum(one.processes or 0 for one in self.containers.values())


PodUsages = Mapping[PodUid, PodUsage]
"""The use of each pod that could be measured."""


def is_local_ephemeral(volume: Volume) -> bool:
    """Whether a volume is on the disk of the node and goes with its pod; others are not the node's to count."""
    in_memory = volume.empty_dir is not None and volume.empty_dir.medium != ""
    return (volume.empty_dir is not None and not in_memory) or (volume.config_map or volume.git_repo) is not None


def disk_use(pod: Pod, use: PodUsage, signal: str, *, has_image_fs: bool) -> DiskUsage:
    """What of a pod's use is on the file system of a signal. Where images have their own, so have layers."""
    layers = _total(one.layer for one in use.containers.values())
    others = _total(one.logs for one in use.containers.values()) + _volumes(pod, use)
    if not has_image_fs:
        return layers + others
    return layers if signal in {IMAGE_FS_AVAILABLE, IMAGE_FS_INODES} else others


def ephemeral_storage(pod: Pod, use: PodUsage) -> DiskUsage:
    """All that counts against the limits of a pod."""
    containers = [*(one.layer for one in use.containers.values()), *(one.logs for one in use.containers.values())]
    return _total(containers) + _volumes(pod, use) + use.own_files


def _volumes(pod: Pod, use: PodUsage) -> DiskUsage:
    return _total(use.volumes.get(volume.name) for volume in pod.spec.volumes if is_local_ephemeral(volume))


def _total(uses: Iterable[DiskUsage | None]) -> DiskUsage:
    return sum((use for use in uses if use is not None), start=DiskUsage())


_BLOCK_BYTES = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPaths:
    """Where the things of a pod are: logs by container, volumes by name, single files."""

    logs: Mapping[str, str] = field(default_factory=dict)
    volumes: Mapping[str, str] = field(default_factory=dict)
    own_files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSizes:
    """How large they are; what is not there takes nothing."""

    logs: Mapping[str, DiskUsage] = field(default_factory=dict)
    volumes: Mapping[str, DiskUsage] = field(default_factory=dict)
    own_files: DiskUsage = field(default_factory=DiskUsage)


def pod_sizes(paths: PodPaths) -> PodSizes:
    """The sizes of everything of one pod."""
    return PodSizes(
        logs={name: size_of(path) for name, path in paths.logs.items()},
        volumes={name: size_of(path) for name, path in paths.volumes.items()},
        own_files=sum(map(size_of, paths.own_files), start=DiskUsage()),
    )


def size_of(path: str) -> DiskUsage:
    """What a file or folder takes, all in it included; other devices below it are not, and hard links count once."""
    try:
        top = os.lstat(path)
    except OSError:
        return DiskUsage()
    blocks, inodes, seen = top.st_blocks, 1, set[int]()
    folders = [path] if stat.S_ISDIR(top.st_mode) else []
    while folders:
        for entry in _entries(folders.pop()):
            # It may have gone since.
            with suppress(OSError):
                found = entry.stat(follow_symlinks=False)
                if found.st_dev != top.st_dev or found.st_ino in seen:
                    continue
                if found.st_nlink > 1:
                    seen.add(found.st_ino)
                blocks, inodes = blocks + found.st_blocks, inodes + 1
                if stat.S_ISDIR(found.st_mode):
                    folders.append(entry.path)
    return DiskUsage(blocks * _BLOCK_BYTES, inodes)


def _entries(folder: str) -> "list[os.DirEntry[str]]":
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


class PodDiskPaths:
    """Finds the log files, volumes and own files of pods on the node's disk."""

    def __init__(self, *, logs: LogDirectory, volumes: VolumeManager) -> None:
        self._logs, self._volumes = logs, volumes

    def paths(self, pod: Pod) -> PodPaths:
        """The paths of one pod; of its volumes only emptyDirs and config maps that are mounted."""
        spec, uid = pod.spec, PodUid(pod.metadata.uid)
        logs, mounted = self._logs.of_pod(pod_names(pod)), self._volumes.volumes(uid)
        directory = self._volumes.directory(uid)
        names = [one.name for one in (*spec.containers, *spec.init_containers)]
        names += [one.name for one in spec.ephemeral_containers]
        counted = [one.name for one in spec.volumes if one.name in mounted and (one.empty_dir or one.config_map)]
        return PodPaths(
            logs={name: f"{logs}/{name}" for name in names},
            volumes={name: mounted[name].path for name in counted},
            own_files=(directory.hosts_file, directory.termination_files),
        )


class PodUsageReader:
    """Measures the pods of one node. Without `usages`, the runtime being unable, only the disk is measured."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        usages: Usages | None,
        paths: Callable[[Pod], PodPaths] = lambda _: PodPaths(),
    ) -> None:
        self._runtime, self._usages, self._paths = runtime, usages, paths

    async def measure(self, pods: Iterable[Pod], *, with_disk: bool) -> PodUsages:
        """What each of these pods uses; those of which nothing runs are missing. RuntimeFailure if nobody can tell."""
        wanted = {PodUid(pod.metadata.uid): pod for pod in pods}
        usages = await self._usages.usages() if self._usages is not None else {}
        running = [(pod, _running(pod, usages)) for pod in await self._runtime.pods() if pod.uid in wanted]
        measured = {pod.uid: found for pod, found in running if found}
        if not with_disk:
            return {uid: _use(found, PodSizes()) for uid, found in measured.items()}
        paths = {uid: self._paths(wanted[uid]) for uid in measured}
        sizes = await asyncio.to_thread(lambda: {uid: pod_sizes(one) for uid, one in paths.items()})
        return {uid: _use(found, sizes[uid]) for uid, found in measured.items()}


def _running(pod: RuntimePod, usages: Mapping[str, ContainerResourceUsage]) -> dict[str, ContainerResourceUsage | None]:
    """The readings of the containers of a pod that run, by name."""
    running = (one for one in pod.containers if one.state is ContainerState.RUNNING)
    return {one.name: usages.get(one.id) for one in running}


def _use(usages: Mapping[str, ContainerResourceUsage | None], sizes: PodSizes) -> PodUsage:
    containers = {name: _container_use(usage, sizes.logs.get(name)) for name, usage in usages.items()}
    return PodUsage(containers=containers, volumes=sizes.volumes, own_files=sizes.own_files)


def _container_use(usage: ContainerResourceUsage | None, logs: DiskUsage | None) -> ContainerUsage:
    if usage is None:
        return ContainerUsage(logs=logs)
    layer = DiskUsage(usage.layer_bytes, usage.layer_inodes or 0) if usage.layer_bytes is not None else None
    return ContainerUsage(memory_bytes=usage.working_set_bytes, layer=layer, logs=logs, processes=usage.processes)
