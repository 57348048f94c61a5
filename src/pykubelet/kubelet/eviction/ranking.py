"""Chooses the pod to evict under pressure: ranks pods, and words status, message and event.

Under memory and disk pressure, pods that exceed their requests come first, then the lowest priority, then the largest
excess; under PID pressure the lowest priority, then the most processes. A pod without measurement comes before its equals.

Upstream: pkg/kubelet/eviction/helpers.go, pkg/kubelet/eviction/eviction_manager.go
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from msgspec.structs import replace

from pykubelet.api.generated.core import Container, Pod, PodCondition, PodStatus
from pykubelet.api.pods import EPHEMERAL_STORAGE, MEMORY, PodUid, amounts, is_critical_pod, pod_requests
from pykubelet.api.quantity import Format, Quantity, parse_quantity
from pykubelet.kubelet.eviction.pod_usage import ContainerUsage, PodUsage, PodUsages, disk_use
from pykubelet.kubelet.eviction.thresholds import (
    DISK_PRESSURE,
    IMAGE_FS_AVAILABLE,
    IMAGE_FS_INODES,
    INODES,
    MEMORY_AVAILABLE,
    NODE_FS_AVAILABLE,
    NODE_FS_INODES,
    PID_AVAILABLE,
    PIDS,
    RESOURCES,
    Observation,
    Threshold,
)

_Rank: TypeAlias = tuple[int, ...]
_RankOf: TypeAlias = Callable[[Pod, PodUsage | None], _Rank]

REASON = "Evicted"
DISRUPTION_TARGET = "DisruptionTarget"
_NOTICEABLE_SHARE = 1000
"""Even 110 pods, the default maximum, with less each than this part of what is missing do not hold much of it together."""
_NOTICEABLE_BYTES, _NOTICEABLE_INODES = 64 * 1024, 64
"""An idle pod has some folders and small files, which are not worth an eviction."""
AT_ONCE_SECONDS = 1
"""The grace period of a pod if there is no time."""


def ranked(pods: Iterable[Pod], usages: PodUsages, signal: str, *, has_image_fs: bool) -> tuple[Pod, ...]:
    """The pods in the order of their eviction; a stable sort."""
    rank: _RankOf
    if signal == MEMORY_AVAILABLE:
        rank = _by_memory
    elif signal == PID_AVAILABLE:
        rank = _by_processes
    else:
        rank = partial(_by_disk, signal, has_image_fs)
    return tuple(sorted(pods, key=lambda pod: rank(pod, usages.get(PodUid(pod.metadata.uid)))))


def requested(pod: Pod, resource: str) -> int:
    """The request of a pod without its overhead."""
    whole = pod_requests(pod).get(resource, 0)
    return whole if whole > amounts(pod.spec.overhead).get(resource, 0) else 0


def _by_memory(pod: Pod, use: PodUsage | None) -> _Rank:
    if use is None:
        return 0, 0, _priority(pod), 0
    beyond = use.memory_bytes - requested(pod, MEMORY)
    return 1, int(beyond <= 0), _priority(pod), -beyond


def _by_processes(pod: Pod, use: PodUsage | None) -> _Rank:
    return (_priority(pod), 0, 0) if use is None else (_priority(pod), 1, -use.processes)


def _by_disk(signal: str, has_image_fs: bool, pod: Pod, use: PodUsage | None) -> _Rank:
    if use is None:
        return 0, 0, _priority(pod), 0
    used, asked = disk_use(pod, use, signal, has_image_fs=has_image_fs), requested(pod, EPHEMERAL_STORAGE)
    if RESOURCES[signal] == INODES:
        # There are no requests for inodes; as upstream does, this subtracts the requested bytes.
        return 1, int(used.inodes <= 0), _priority(pod), asked - used.inodes
    return 1, int(used.bytes <= asked), _priority(pod), asked - used.bytes


def _priority(pod: Pod) -> int:
    return pod.spec.priority or 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Eviction:
    """A pod to evict. `is_disruption` if the pod did not cause it."""

    pod: Pod
    message: str
    signal: str
    grace_seconds: int = AT_ONCE_SECONDS
    annotations: Mapping[str, str] = field(default_factory=dict)
    is_disruption: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class StarvedResource:
    """The thresholds that call for eviction, at least one, and the measurements."""

    starved: Sequence[Threshold]
    observed: Mapping[str, Observation]
    has_image_fs: bool = False
    """Whether images and layers are on another disk than volumes and logs."""

    @property
    def first(self) -> Threshold:
        """The threshold to act on: memory comes first."""
        return self._in_order()[0]

    @property
    def needs_disk(self) -> bool:
        """Whether the disk usage of pods matters."""
        return self.first.condition == DISK_PRESSURE

    @property
    def is_for_reclaim(self) -> bool:
        """Whether removing dead containers and unused images may help."""
        images = {IMAGE_FS_AVAILABLE, IMAGE_FS_INODES}
        disks = images if self.has_image_fs else images | {NODE_FS_AVAILABLE, NODE_FS_INODES}
        return self.first.signal in disks

    def message(self, resource: str) -> str:
        """Names the resource, the threshold and the available amount."""
        text = f"The node was low on resource: {resource}. "
        for one in self._in_order():
            if one.resource == resource and one.signal in self.observed:
                seen = self.observed[one.signal]
                left = _quantity(seen.available, resource)
                return f"{text}Threshold quantity: {one.needed(seen)}, available: {left}. "
        return text

    def _in_order(self) -> list[Threshold]:
        return sorted(self.starved, key=lambda one: one.signal != MEMORY_AVAILABLE)


def relieving(shortage: StarvedResource, pods: Iterable[Pod], usages: PodUsages) -> tuple[Pod, ...]:
    """The pods whose eviction would help; under disk pressure those that hold a noticeable part of what is missing.

    Upstream evicts pod after pod when another program fills the disk, even pods that have nothing on it.
    """
    first = shortage.first
    if not shortage.needs_disk or first.signal not in shortage.observed:
        return tuple(pods)
    missing = first.missing(shortage.observed[first.signal]) // _NOTICEABLE_SHARE
    return tuple(pod for pod in pods if _holds(pod, usages.get(PodUid(pod.metadata.uid)), shortage, missing))


def _holds(pod: Pod, use: PodUsage | None, shortage: StarvedResource, least: int) -> bool:
    if use is None:
        return True
    signal = shortage.first.signal
    held = disk_use(pod, use, signal, has_image_fs=shortage.has_image_fs)
    if RESOURCES[signal] == INODES:
        return held.inodes >= max(least, _NOTICEABLE_INODES)
    return held.bytes >= max(least, _NOTICEABLE_BYTES)


def plan_eviction(
    shortage: StarvedResource, pods: Iterable[Pod], usages: PodUsages, *, max_grace_seconds: int = 0
) -> Eviction | None:
    """The pod to evict; None if all pods are critical: static pods would not come back, and the node needs the others."""
    threshold = shortage.first
    order = ranked(pods, usages, threshold.signal, has_image_fs=shortage.has_image_fs)
    pod = next((pod for pod in order if not is_critical_pod(pod)), None)
    if pod is None:
        return None
    message, annotations = _explained(shortage, pod, usages.get(PodUid(pod.metadata.uid)))
    return Eviction(
        pod=pod,
        message=message,
        signal=threshold.signal,
        grace_seconds=AT_ONCE_SECONDS if threshold.is_hard else _soft_grace(pod, max_grace_seconds),
        annotations=annotations,
    )


def evicted(eviction: Eviction, status: PodStatus) -> PodStatus:
    """The status of an evicted pod."""
    conditions = status.conditions
    if eviction.is_disruption:
        condition = PodCondition(
            type=DISRUPTION_TARGET,
            status="True",
            reason="TerminationByKubelet",
            message=eviction.message,
            observed_generation=eviction.pod.metadata.generation,
        )
        conditions = (*(one for one in conditions if one.type != DISRUPTION_TARGET), condition)
    return replace(status, phase="Failed", reason=REASON, message=eviction.message, conditions=conditions)


def _soft_grace(pod: Pod, max_grace_seconds: int) -> int:
    wanted = pod.spec.termination_grace_period_seconds
    return max_grace_seconds if wanted is None else min(wanted, max_grace_seconds)


def _explained(shortage: StarvedResource, pod: Pod, use: PodUsage | None) -> tuple[str, dict[str, str]]:
    """The message for people, and the annotations for programs."""
    resource = shortage.first.resource
    message = shortage.message(resource)
    if use is None:
        return message, {}
    annotations: dict[str, str] = {}
    if resource == MEMORY and (asked := _pod_level_request(pod, resource)) is not None:
        whole = _quantity(use.memory_bytes, resource)
        message += _larger(f"Pod {pod.metadata.name}", whole, asked, resource)
        annotations |= {"offending_pod": pod.metadata.name, "offending_pod_usage": str(whole)}
    offenders: dict[str, str] = {}
    for container in (*pod.spec.containers, *pod.spec.init_containers):
        used, request = _used(use.containers.get(container.name), resource), _request(container, resource)
        if used is not None and used > request:
            message += _larger(f"Container {container.name}", used, request, resource)
            offenders[container.name] = str(used)
    annotations |= {
        "offending_containers": ",".join(offenders),
        "offending_containers_usage": ",".join(offenders.values()),
        "starved_resource": resource,
    }
    return message, annotations


def _larger(who: str, used: Quantity, request: Quantity, resource: str) -> str:
    return f"{who} was using {used}, request is {request}, has larger consumption of {resource}. "


def _pod_level_request(pod: Pod, resource: str) -> Quantity | None:
    asked = pod.spec.resources.requests.get(resource) if pod.spec.resources is not None else None
    return parse_quantity(asked) if asked is not None else None


def _request(container: Container, resource: str) -> Quantity:
    asked = container.resources.requests.get(resource)
    return parse_quantity(asked) if asked is not None else Quantity()


def _used(use: ContainerUsage | None, resource: str) -> Quantity | None:
    """The usage of memory or disk of one container; None for other resources."""
    if use is None:
        return None
    if resource == MEMORY and use.memory_bytes is not None:
        return _quantity(use.memory_bytes, resource)
    if resource == EPHEMERAL_STORAGE and use.layer is not None and use.logs is not None:
        return _quantity(use.layer.bytes + use.logs.bytes, resource)
    return None


def _quantity(number: int, resource: str) -> Quantity:
    return Quantity(number, 0, Format.DECIMAL_SI if resource in {INODES, PIDS} else Format.BINARY_SI)
