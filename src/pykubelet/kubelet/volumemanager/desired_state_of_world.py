"""Determines which volumes a pod needs on this node and how each is made.

Volumes that no container mounts are left out; volumes that cannot be made here are listed with the reason.

Upstream: pkg/kubelet/volumemanager/populator/desired_state_of_world_populator.go, pkg/volume/util/util.go,
pkg/volume/util/nested_volumes.go, pkg/volume/emptydir/empty_dir.go
"""

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from msgspec import structs

from pykubelet.api.generated.core import Container, EmptyDirVolumeSource, Pod, Volume
from pykubelet.api.pods import all_containers, is_restartable_init_container
from pykubelet.api.quantity import Quantity, add, parse_quantity

_MEMORY = "Memory"


class Plugin(StrEnum):
    """The volume plugins of this node; the values are their directory names."""

    EMPTY_DIR = "kubernetes.io/empty-dir"
    HOST_PATH = "kubernetes.io/host-path"
    CONFIG_MAP = "kubernetes.io/configmap"
    SECRET = "kubernetes.io/secret"  # noqa: S105  a kind, not a password
    DOWNWARD_API = "kubernetes.io/downward-api"
    PROJECTED = "kubernetes.io/projected"
    PERSISTENT = "kubernetes.io/local-volume"
    """A persistent volume behind a claim."""


_PLUGINS = {
    "empty_dir": Plugin.EMPTY_DIR,
    "host_path": Plugin.HOST_PATH,
    "config_map": Plugin.CONFIG_MAP,
    "secret": Plugin.SECRET,
    "downward_api": Plugin.DOWNWARD_API,
    "projected": Plugin.PROJECTED,
    "persistent_volume_claim": Plugin.PERSISTENT,
    "ephemeral": Plugin.PERSISTENT,
}
PAYLOAD_PLUGINS = frozenset({Plugin.CONFIG_MAP, Plugin.SECRET, Plugin.DOWNWARD_API, Plugin.PROJECTED})
"""Plugins whose files come from the API: read-only for containers, rewritten when the source changes."""
_IN_MEMORY = frozenset({Plugin.SECRET, Plugin.DOWNWARD_API, Plugin.PROJECTED})


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedVolume:
    """One volume to make."""

    volume: Volume
    plugin: Plugin
    in_memory: bool = False
    size_bytes: int = 0
    """The maximum size of a volume in memory; 0 means the kernel's default."""
    mount_points: tuple[str, ...] = ()
    """Directories needed in the volume because containers mount other volumes there."""

    @property
    def name(self) -> str:
        return self.volume.name


@dataclass(frozen=True, slots=True)
class VolumePlan:
    """The volumes to make, and the reason for each volume that cannot be made here."""

    volumes: tuple[PlannedVolume, ...]
    refusals: Mapping[str, str]


def plan_volumes(pod: Pod, allocatable: Mapping[str, str]) -> VolumePlan:
    """The volumes that a pod's containers mount; `allocatable` is the node's."""
    used = {mount.name for container in all_containers(pod) for mount in container.volume_mounts}
    devices = {device.name for container in all_containers(pod) for device in container.volume_devices}
    planned: list[PlannedVolume] = []
    refusals: dict[str, str] = {}
    for volume in pod.spec.volumes:
        if volume.name not in used | devices:
            continue
        plugin = next((plugin for field, plugin in _PLUGINS.items() if getattr(volume, field)), None)
        if plugin is None:
            refusals[volume.name] = f"{_kind(volume)} volumes are not supported by this node"
        elif refusal := _medium_problem(volume.empty_dir):
            refusals[volume.name] = refusal
        elif volume.name in devices:
            refusals[volume.name] = "block volumes are not supported by this node"
        else:
            planned.append(_planned(volume, plugin, pod, allocatable))
    return VolumePlan(tuple(planned), refusals)


def nested_mount_points(pod: Pod, name: str) -> tuple[str, ...]:
    """The relative paths inside a volume where a container mounts another volume; the outermost ones only."""
    found: dict[str, None] = {}
    for container in all_containers(pod):
        paths = sorted(posixpath.normpath(mount.mount_path) for mount in container.volume_mounts)
        for mount in container.volume_mounts:
            if mount.name == name:
                base = posixpath.normpath(mount.mount_path).rstrip("/") + "/"
                found |= dict.fromkeys(_outermost(path[len(base) :] for path in paths if path.startswith(base)))
    return tuple(path for path in found if path)


def memory_size_bytes(pod: Pod, source: EmptyDirVolumeSource, allocatable: Mapping[str, str]) -> int:
    """The maximum size of an emptyDir in memory: its size limit, bounded by the pod's and the node's memory; 0 if unknown."""
    bounds = (_quantity(allocatable.get("memory")), _pod_memory_limit(pod), _quantity(source.size_limit))
    return min((bound.value() for bound in bounds if bound.sign() > 0), default=0)


def _planned(volume: Volume, plugin: Plugin, pod: Pod, allocatable: Mapping[str, str]) -> PlannedVolume:
    source = volume.empty_dir
    if source is not None and source.medium == _MEMORY:
        size = memory_size_bytes(pod, source, allocatable)
        return PlannedVolume(volume=volume, plugin=plugin, in_memory=True, size_bytes=size)
    nested = nested_mount_points(pod, volume.name) if plugin in PAYLOAD_PLUGINS else ()
    return PlannedVolume(volume=volume, plugin=plugin, in_memory=plugin in _IN_MEMORY, mount_points=nested)


def _medium_problem(source: EmptyDirVolumeSource | None) -> str:
    if source is None or source.medium in {"", _MEMORY}:
        return ""
    if source.medium.startswith("HugePages"):
        return f"emptyDir volumes of medium {source.medium} are not supported by this node"
    return f'unknown storage medium "{source.medium}"'


def _kind(volume: Volume) -> str:
    """The volume source as it is named in a manifest."""
    fields = {field.name: field.encode_name for field in structs.fields(Volume)}
    return next((word for name, word in fields.items() if name != "name" and getattr(volume, name)), "unknown")


def _outermost(paths: Iterator[str]) -> Iterator[str]:
    """Those of the sorted paths that are not below another one."""
    seen: list[str] = []
    for path in paths:
        if not any(path.startswith(f"{other}/") for other in seen):
            seen.append(path)
            yield path


def _pod_memory_limit(pod: Pod) -> Quantity:
    """The memory limit of a pod; zero if a container has none."""
    whole = _quantity(pod.spec.resources.limits.get("memory")) if pod.spec.resources else Quantity()
    if whole.sign() > 0:
        return whole
    limits = [_limit(container) for container in pod.spec.containers]
    sidecars = largest_init = Quantity()
    for container in pod.spec.init_containers:
        limits.append(_limit(container))
        if is_restartable_init_container(container):
            sidecars = add(sidecars, limits[-1])
            largest_init = max(largest_init, sidecars)
        else:
            largest_init = max(largest_init, add(limits[-1], sidecars))
    if any(limit.sign() <= 0 for limit in limits):
        return Quantity()
    total = sidecars
    for container in pod.spec.containers:
        total = add(total, _limit(container))
    return max(total, largest_init)


def _limit(container: Container) -> Quantity:
    return _quantity(container.resources.limits.get("memory"))


def _quantity(text: str | None) -> Quantity:
    return parse_quantity(text) if text else Quantity()
