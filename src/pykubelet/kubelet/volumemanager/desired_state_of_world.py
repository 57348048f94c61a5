"""Which volumes a pod needs on this node, and how each is made.

A pod in, a plan out: what to make, what to refuse and why. Volumes that no container mounts are left out.

Upstream: pkg/kubelet/volumemanager/populator, GetPodVolumeNames in pkg/volume/util/util.go, nested_volumes.go there,
calculateEmptyDirMemorySize in pkg/volume/emptydir
"""

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from msgspec import structs

from pykubelet.api.generated.core import Container, EmptyDirVolumeSource, Pod, Volume
from pykubelet.api.pods import AnyContainer, is_restartable_init_container
from pykubelet.api.quantity import Quantity, add, parse_quantity


class Plugin(StrEnum):
    """The kinds of volumes that this node can make; the values are the names of their folders."""

    EMPTY_DIR = "kubernetes.io/empty-dir"
    HOST_PATH = "kubernetes.io/host-path"
    CONFIG_MAP = "kubernetes.io/configmap"
    SECRET = "kubernetes.io/secret"  # noqa: S105  a kind, not a password
    DOWNWARD_API = "kubernetes.io/downward-api"
    PROJECTED = "kubernetes.io/projected"


_PLUGINS = {
    "empty_dir": Plugin.EMPTY_DIR,
    "host_path": Plugin.HOST_PATH,
    "config_map": Plugin.CONFIG_MAP,
    "secret": Plugin.SECRET,
    "downward_api": Plugin.DOWNWARD_API,
    "projected": Plugin.PROJECTED,
}
PAYLOAD_PLUGINS = frozenset({Plugin.CONFIG_MAP, Plugin.SECRET, Plugin.DOWNWARD_API, Plugin.PROJECTED})
"""Their files come from the API: read only for containers, and rewritten when the source changes."""
_IN_MEMORY = frozenset({Plugin.SECRET, Plugin.DOWNWARD_API, Plugin.PROJECTED})
_MEMORY = "Memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedVolume:
    """A volume to make."""

    volume: Volume
    plugin: Plugin
    in_memory: bool = False
    size_bytes: int = 0
    """Of a volume in memory, at most; 0 is the system's own bound."""
    mount_points: tuple[str, ...] = ()
    """Folders needed in it, because containers mount something else there."""

    @property
    def name(self) -> str:
        return self.volume.name


@dataclass(frozen=True, slots=True)
class VolumePlan:
    """What a pod needs: volumes to make, and names of those that cannot be made here, each with the reason."""

    volumes: tuple[PlannedVolume, ...]
    refusals: Mapping[str, str]


def plan_volumes(pod: Pod, allocatable: Mapping[str, str]) -> VolumePlan:
    """The volumes that a pod's containers mount; `allocatable` is what the node has for pods."""
    used = {mount.name for container in every_container(pod) for mount in container.volume_mounts}
    devices = {device.name for container in every_container(pod) for device in container.volume_devices}
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


def every_container(pod: Pod) -> tuple[AnyContainer, ...]:
    """All containers of a pod, of whatever kind."""
    return (*pod.spec.init_containers, *pod.spec.containers, *pod.spec.ephemeral_containers)


def nested_mount_points(pod: Pod, name: str) -> tuple[str, ...]:
    """The paths inside a volume where some container mounts another one, relative; not those inside of these."""
    found: dict[str, None] = {}
    for container in every_container(pod):
        paths = sorted(posixpath.normpath(mount.mount_path) for mount in container.volume_mounts)
        for mount in container.volume_mounts:
            if mount.name == name:
                base = posixpath.normpath(mount.mount_path).rstrip("/") + "/"
                found |= dict.fromkeys(_outermost(path[len(base) :] for path in paths if path.startswith(base)))
    return tuple(path for path in found if path)


def memory_size_bytes(pod: Pod, source: EmptyDirVolumeSource, allocatable: Mapping[str, str]) -> int:
    """How large an emptyDir in memory may grow: what it asks for, within what the pod and the node have; 0 if unknown."""
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
    """What a volume is made of, in the words of its manifest."""
    fields = {field.name: field.encode_name for field in structs.fields(Volume)}
    return next((word for name, word in fields.items() if name != "name" and getattr(volume, name)), "unknown")


def _outermost(paths: Iterator[str]) -> Iterator[str]:
    """Of sorted paths those that are not below another one."""
    seen: list[str] = []
    for path in paths:
        if not any(path.startswith(f"{other}/") for other in seen):
            seen.append(path)
            yield path


def _pod_memory_limit(pod: Pod) -> Quantity:
    """What a pod may use in all; zero if some container has no limit."""
    whole = _quantity(pod.spec.resources.limits.get("memory")) if pod.spec.resources else Quantity()
    if whole.sign() > 0:
        return whole
    limits = [_limit(container) for container in pod.spec.containers]
    sidecars = Quantity()
    largest_init = Quantity()
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
