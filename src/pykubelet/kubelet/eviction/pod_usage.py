"""Measures what pods use, and which part of it counts for which eviction signal.

The runtime reports memory, layers and processes; logs and volumes are measured on disk, only on demand because that is
slow. Unknown values are None.

Upstream: pkg/kubelet/eviction/helpers.go, pkg/kubelet/stats/helper.go, pkg/volume/util/util.go, pkg/volume/util/fs/fs.go,
pkg/kubelet/stats/host_stats_provider.go
"""

import asyncio
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from pykubelet.api.generated.core import Pod, Volume
from pykubelet.api.pods import PodUid, all_containers
from pykubelet.kubelet.eviction.thresholds import IMAGE_FS_AVAILABLE, IMAGE_FS_INODES
from pykubelet.kubelet.logs.log_directory import LogDirectory, pod_names
from pykubelet.kubelet.volumemanager.volume_manager import VolumeManager
from pykubelet.runtimes.protocol import ContainerResourceUsage, ContainerState, Runtime, RuntimePod, Usages

_BLOCK_BYTES = 512


@dataclass(frozen=True, slots=True)
class DiskUsage:
    bytes: int = 0
    inodes: int = 0

    def __add__(self, other: "DiskUsage") -> "DiskUsage":
        return DiskUsage(self.bytes + other.bytes, self.inodes + other.inodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerUsage:
    memory_bytes: int | None = None
    """The working set."""
    layer: DiskUsage | None = None
    """The writable layer."""
    logs: DiskUsage | None = None
    processes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodUsage:
    """The usage of a pod: containers and local volumes by name, and the files that every pod has."""

    containers: Mapping[str, ContainerUsage] = field(default_factory=dict)
    volumes: Mapping[str, DiskUsage] = field(default_factory=dict)
    own_files: DiskUsage = field(default_factory=DiskUsage)

    @property
    def memory_bytes(self) -> int:
        """The known memory usage of all containers."""
        return sum(one.memory_bytes or 0 for one in self.containers.values())

    @property
    def processes(self) -> int:
        """The known number of processes of all containers."""
        return sum(one.processes or 0 for one in self.containers.values())


PodUsages = Mapping[PodUid, PodUsage]
"""The usage of each pod that could be measured."""


def is_local_ephemeral(volume: Volume) -> bool:
    """Whether a volume is on the node's disk and deleted with its pod."""
    if volume.empty_dir is not None:
        return volume.empty_dir.medium == ""
    return (volume.config_map or volume.git_repo) is not None


def disk_use(pod: Pod, use: PodUsage, signal: str, *, has_image_fs: bool) -> DiskUsage:
    """The usage of a pod on the file system of a signal; layers are on the image file system if there is one."""
    layers = _total(one.layer for one in use.containers.values())
    others = _total(one.logs for one in use.containers.values()) + _volumes(pod, use)
    if not has_image_fs:
        return layers + others
    return layers if signal in {IMAGE_FS_AVAILABLE, IMAGE_FS_INODES} else others


def ephemeral_storage(pod: Pod, use: PodUsage) -> DiskUsage:
    """Everything that counts against the ephemeral-storage limits of a pod."""
    containers = [*(one.layer for one in use.containers.values()), *(one.logs for one in use.containers.values())]
    return _total(containers) + _volumes(pod, use) + use.own_files


def _volumes(pod: Pod, use: PodUsage) -> DiskUsage:
    return _total(use.volumes.get(volume.name) for volume in pod.spec.volumes if is_local_ephemeral(volume))


def _total(usages: Iterable[DiskUsage | None]) -> DiskUsage:
    return sum((use for use in usages if use is not None), start=DiskUsage())


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPaths:
    """The paths of a pod: logs by container, volumes by name, single files."""

    logs: Mapping[str, str] = field(default_factory=dict)
    volumes: Mapping[str, str] = field(default_factory=dict)
    own_files: tuple[str, ...] = ()


def size_of(path: str) -> DiskUsage:
    """The size of a file or directory with its content; other devices are excluded, hard links count once."""
    try:
        top = os.lstat(path)
    except OSError:
        return DiskUsage()
    blocks, inodes, seen = top.st_blocks, 1, set[int]()
    folders = [path] if stat.S_ISDIR(top.st_mode) else []
    while folders:
        for entry in _entries(folders.pop()):
            # It may have been removed meanwhile.
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
        uid = PodUid(pod.metadata.uid)
        logs, mounted = self._logs.of_pod(pod_names(pod)), self._volumes.volumes(uid)
        directory = self._volumes.directory(uid)
        counted = [one.name for one in pod.spec.volumes if one.name in mounted and (one.empty_dir or one.config_map)]
        return PodPaths(
            logs={one.name: f"{logs}/{one.name}" for one in all_containers(pod)},
            volumes={name: mounted[name].path for name in counted},
            own_files=(directory.hosts_file, directory.termination_files),
        )


class PodUsageReader:
    """Measures pods. Without `usages`, because the runtime has none, only the disk is measured."""

    def __init__(
        self, *, runtime: Runtime, usages: Usages | None, paths: Callable[[Pod], PodPaths] = lambda _: PodPaths()
    ) -> None:
        self._runtime, self._usages, self._paths = runtime, usages, paths

    async def measure(self, pods: Iterable[Pod], *, with_disk: bool) -> PodUsages:
        """The usage of each pod with running containers; raises RuntimeFailure if the runtime fails."""
        wanted = {PodUid(pod.metadata.uid): pod for pod in pods}
        usages = await self._usages.usages() if self._usages is not None else {}
        running = [(pod, _running(pod, usages)) for pod in await self._runtime.pods() if pod.uid in wanted]
        measured = {pod.uid: found for pod, found in running if found}
        if not with_disk:
            return {uid: _usage(found, PodPaths()) for uid, found in measured.items()}
        paths = {uid: self._paths(wanted[uid]) for uid in measured}
        return await asyncio.to_thread(lambda: {uid: _usage(found, paths[uid]) for uid, found in measured.items()})


def _running(pod: RuntimePod, usages: Mapping[str, ContainerResourceUsage]) -> dict[str, ContainerResourceUsage | None]:
    """The usage of the running containers of a pod by name."""
    running = (one for one in pod.containers if one.state is ContainerState.RUNNING)
    return {one.name: usages.get(one.id) for one in running}


def _usage(usages: Mapping[str, ContainerResourceUsage | None], paths: PodPaths) -> PodUsage:
    """The usage of one pod, including the files at these paths; blocks while it measures them."""
    logs = {name: size_of(path) for name, path in paths.logs.items()}
    return PodUsage(
        containers={name: _container_usage(usage, logs.get(name)) for name, usage in usages.items()},
        volumes={name: size_of(path) for name, path in paths.volumes.items()},
        own_files=_total(map(size_of, paths.own_files)),
    )


def _container_usage(usage: ContainerResourceUsage | None, logs: DiskUsage | None) -> ContainerUsage:
    if usage is None:
        return ContainerUsage(logs=logs)
    layer = DiskUsage(usage.layer_bytes, usage.layer_inodes or 0) if usage.layer_bytes is not None else None
    return ContainerUsage(memory_bytes=usage.working_set_bytes, layer=layer, logs=logs, processes=usage.processes)
