"""What pods use of the machine, as values, and which part of it counts for which signal.

Pure. What nobody measured is None. Upstream: podDiskUsage and buildSignalToRankFunc in pkg/kubelet/eviction/helpers.go,
calcEphemeralStorage in pkg/kubelet/stats/helper.go, IsLocalEphemeralVolume in pkg/volume/util/util.go
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pykubelet.agent.pressure.thresholds import IMAGE_FS_AVAILABLE, IMAGE_FS_INODES
from pykubelet.api.generated.core import Pod, Volume
from pykubelet.api.keys import PodUid


@dataclass(frozen=True, slots=True)
class DiskUse:
    """So much on a disk."""

    bytes: int = 0
    inodes: int = 0

    def __add__(self, other: "DiskUse") -> "DiskUse":
        return DiskUse(self.bytes + other.bytes, self.inodes + other.inodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerUse:
    """What one container uses."""

    memory_bytes: int | None = None
    """Its working set."""
    layer: DiskUse | None = None
    """What it wrote over its image."""
    logs: DiskUse | None = None
    processes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodUse:
    """What a pod uses: containers by name, volumes of the disks of the node by name, and the few files every pod has."""

    containers: Mapping[str, ContainerUse] = field(default_factory=dict)
    volumes: Mapping[str, DiskUse] = field(default_factory=dict)
    own_files: DiskUse = field(default_factory=DiskUse)

    @property
    def memory_bytes(self) -> int:
        """All of it, as far as it is known."""
        return sum(one.memory_bytes or 0 for one in self.containers.values())

    @property
    def processes(self) -> int:
        """All of them, as far as they are known."""
        return sum(one.processes or 0 for one in self.containers.values())


PodUses = Mapping[PodUid, PodUse]
"""The use of each pod that could be measured."""


def is_local_ephemeral(volume: Volume) -> bool:
    """Whether a volume is on the disk of the node and goes with its pod; others are not the node's to count."""
    in_memory = volume.empty_dir is not None and volume.empty_dir.medium != ""
    return (volume.empty_dir is not None and not in_memory) or (volume.config_map or volume.git_repo) is not None


def disk_use(pod: Pod, use: PodUse, signal: str, *, has_image_fs: bool) -> DiskUse:
    """What of a pod's use is on the file system of a signal. Where images have their own, so have layers."""
    layers = _total(one.layer for one in use.containers.values())
    others = _total(one.logs for one in use.containers.values()) + _volumes(pod, use)
    if not has_image_fs:
        return layers + others
    return layers if signal in {IMAGE_FS_AVAILABLE, IMAGE_FS_INODES} else others


def ephemeral_storage(pod: Pod, use: PodUse) -> DiskUse:
    """All that counts against the limits of a pod."""
    containers = [*(one.layer for one in use.containers.values()), *(one.logs for one in use.containers.values())]
    return _total(containers) + _volumes(pod, use) + use.own_files


def _volumes(pod: Pod, use: PodUse) -> DiskUse:
    return _total(use.volumes.get(volume.name) for volume in pod.spec.volumes if is_local_ephemeral(volume))


def _total(uses: Iterable[DiskUse | None]) -> DiskUse:
    return sum((use for use in uses if use is not None), start=DiskUse())
