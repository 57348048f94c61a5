"""Evicts pods one at a time under node pressure, and pods that exceed their disk limits.

Under disk pressure it first removes dead containers and unused images. An evicted pod gets phase Failed, reason Evicted
and an event. After an eviction it measures again as soon as the pod is cleaned up, which may have been enough. Under disk
pressure it also waits until the API server has the pod's status, which a full disk may delay, and spares pods that hold
next to nothing on the disk: their eviction would not help.

Upstream: pkg/kubelet/eviction/eviction_manager.go, pkg/kubelet/eviction/helpers.go
"""

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

from pykubelet.aio.log import get_logger
from pykubelet.api.generated.core import Container, ObjectReference, Pod, Volume
from pykubelet.api.pod_resources import container_sums
from pykubelet.api.pods import EPHEMERAL_STORAGE, PodUid, is_critical_pod, pod_label
from pykubelet.api.quantity import Quantity, add, parse_quantity
from pykubelet.api.serializer import to_document
from pykubelet.client.recorder import WARNING, AnnotatingRecorder, reference_to
from pykubelet.kubelet.eviction.pod_usage import DiskUsage, PodUsage, PodUsageReader, PodUsages, ephemeral_storage
from pykubelet.kubelet.eviction.pressure_monitor import PressureMonitor
from pykubelet.kubelet.eviction.ranking import (
    REASON,
    Eviction,
    StarvedResource,
    evicted,
    plan_eviction,
    relieving,
)
from pykubelet.kubelet.images.image_gc_manager import ImageGcManager
from pykubelet.kubelet.kuberuntime.container_gc import ContainerGc
from pykubelet.kubelet.types import KillPodOptions
from pykubelet.runtimes.protocol import RuntimeFailure

log = get_logger(__name__)

_NOTHING = DiskUsage()
LIMITS_PERIOD_SECONDS = 60.0
"""How often disk limits are checked: as often as upstream measures volumes."""
CLEANUP_SECONDS = 30.0
_POLL_SECONDS = 1.0


def is_limited(pod: Pod) -> bool:
    """Whether a pod has a disk limit that can be exceeded and is not critical; others need not be measured."""
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    limits = (*map(_size_limit, pod.spec.volumes), *map(_container_limit, containers))
    return not is_critical_pod(pod) and any(limit is not None for limit in limits)


def over_limits(pods: Iterable[Pod], usages: PodUsages, *, has_image_fs: bool) -> tuple[Eviction, ...]:
    """The evictions of pods that exceed a limit; not disruptions, since the pods caused them."""
    found = []
    for pod in pods:
        use = usages.get(PodUid(pod.metadata.uid))
        if use is None or is_critical_pod(pod):
            continue
        signal, message = _exceeded(pod, use, has_image_fs=has_image_fs)
        if message:
            found.append(Eviction(pod=pod, message=message, signal=signal, is_disruption=False))
    return tuple(found)


def _exceeded(pod: Pod, use: PodUsage, *, has_image_fs: bool) -> tuple[str, str]:
    """The first exceeded limit, and the message about it."""
    for volume in pod.spec.volumes:
        limit = _size_limit(volume)
        if limit is not None and use.volumes.get(volume.name, _NOTHING).bytes > limit.value():
            return "emptydirfs.limit", f'Usage of EmptyDir volume "{volume.name}" exceeds the limit "{limit}". '
    whole = _pod_limit(pod)
    if whole is not None and ephemeral_storage(pod, use).bytes > whole.value():
        message = f"Pod ephemeral local storage usage exceeds the total limit of containers {whole}. "
        return "ephemeralpodfs.limit", message
    for container in pod.spec.containers:
        limit, one = _container_limit(container), use.containers.get(container.name)
        if limit is None or one is None or not limit.value():
            continue
        layer = one.layer if one.layer is not None and not has_image_fs else _NOTHING
        if ((one.logs or _NOTHING) + layer).bytes > limit.value():
            message = f'Container {container.name} exceeded its local ephemeral storage limit "{limit}". '
            return "ephemeralcontainerfs.limit", message
    return "", ""


def _size_limit(volume: Volume) -> Quantity | None:
    text = volume.empty_dir.size_limit if volume.empty_dir is not None else None
    limit = parse_quantity(text) if text else None
    return limit if limit is not None and limit.sign() > 0 else None


def _pod_limit(pod: Pod) -> Quantity | None:
    limit = container_sums(to_document(pod.spec), "limits").get(EPHEMERAL_STORAGE)
    overhead = pod.spec.overhead.get(EPHEMERAL_STORAGE)
    return add(limit, parse_quantity(overhead)) if limit is not None and overhead else limit


def _container_limit(container: Container) -> Quantity | None:
    text = container.resources.limits.get(EPHEMERAL_STORAGE)
    return parse_quantity(text) if text is not None else None


class EvictionPodWorkers(Protocol):
    """The pods of this node and how they end. PodWorkers implements it, in a layer above."""

    def active_pods(self) -> tuple[Pod, ...]:
        """The pods that are not terminated."""

    def should_be_finished(self, uid: PodUid) -> bool:
        """Whether nothing of a pod is left to be cleaned up."""

    async def kill_now(self, pod: Pod, kill: KillPodOptions) -> None:
        """Kill a pod and wait for it; raises if that takes too long."""


class EvictionManager:
    """Relieves node pressure. Without a reclaimer, because the runtime has no images, it only evicts pods."""

    def __init__(
        self,
        *,
        monitor: PressureMonitor,
        usage_reader: PodUsageReader,
        workers: EvictionPodWorkers,
        reclaimer: "DiskReclaimer | None",
        recorder: AnnotatingRecorder,
        node: ObjectReference,
        is_unsent: Callable[[PodUid], bool] = lambda _: False,
        max_grace_seconds: int = 0,
    ) -> None:
        """`is_unsent` tells whether the API server lacks a pod's newest status."""
        self._monitor, self._usage_reader, self._workers = monitor, usage_reader, workers
        self._reclaimer, self._recorder, self._node = reclaimer, recorder, node
        self._is_unsent, self._max_grace_seconds = is_unsent, max_grace_seconds
        self._limits_due_at = -math.inf
        self._stuck: set[PodUid] = set()
        self._is_helpless = False
        self.counts: Counter[str] = Counter()
        """The number of evicted pods by signal."""

    async def run(self, ready: asyncio.Event) -> None:
        """Measure and act until cancelled; `ready` is set after the first measurement."""
        while True:
            await self._monitor.measure()
            ready.set()
            gone = await self.act()
            if gone:
                await self._until_finished(gone)
            else:
                await self._monitor.pause()

    async def act(self) -> tuple[Pod, ...]:
        """Act on the last measurement; return the evicted pods."""
        try:
            return await self._enforce_limits() or await self._relieve()
        except RuntimeFailure as failure:
            log.warning("pod usage not measured, no eviction", cause=failure.message)
            return ()

    async def _enforce_limits(self) -> tuple[Pod, ...]:
        now = self._monitor.state.at
        if now < self._limits_due_at:
            return ()
        self._limits_due_at = now + LIMITS_PERIOD_SECONDS
        pods = [pod for pod in self._candidates() if is_limited(pod)]
        if not pods:
            return ()
        usages = await self._usage_reader.measure(pods, with_disk=True)
        evictions = over_limits(pods, usages, has_image_fs=self._monitor.has_image_fs)
        for eviction in evictions:
            await self._evict(eviction)
        return tuple(eviction.pod for eviction in evictions)

    async def _relieve(self) -> tuple[Pod, ...]:
        shortage = self._monitor.shortage
        if shortage is None:
            return ()
        resource = shortage.first.resource
        log.warning("node is under pressure", resource=resource)
        self._recorder.event(self._node, WARNING, "EvictionThresholdMet", f"Attempting to reclaim {resource}")
        if await self._has_reclaimed(shortage):
            log.info("pressure relieved without evicting a pod", resource=resource)
            return ()
        pods = self._candidates()
        usages = await self._usage_reader.measure(pods, with_disk=shortage.needs_disk)
        worth = relieving(shortage, pods, usages)
        eviction = plan_eviction(shortage, worth, usages, max_grace_seconds=self._max_grace_seconds)
        if eviction is None:
            write_log = log.debug if self._is_helpless else log.error
            write_log("no eviction would help", resource=resource, pods=len(pods), noticeable=len(worth))
            self._is_helpless = True
            return ()
        self._is_helpless = False
        await self._evict(eviction)
        return (eviction.pod,)

    def _candidates(self) -> tuple[Pod, ...]:
        """The pods that may be evicted. Upstream may choose a pod that does not stop again and again, and no other."""
        active = {PodUid(pod.metadata.uid): pod for pod in self._workers.active_pods()}
        self._stuck &= active.keys()
        return tuple(pod for uid, pod in active.items() if uid not in self._stuck)

    async def _has_reclaimed(self, shortage: StarvedResource) -> bool:
        if self._reclaimer is None or not shortage.is_for_reclaim:
            return False
        await self._reclaimer.reclaim()
        return await self._monitor.is_relieved()

    async def _evict(self, eviction: Eviction) -> None:
        pod = eviction.pod
        log.warning("pod evicted", pod=pod_label(pod), signal=eviction.signal, why=eviction.message)
        self._recorder.event(reference_to(pod), WARNING, REASON, eviction.message, eviction.annotations)
        self.counts[eviction.signal] += 1
        self._monitor.note_eviction()
        kill = KillPodOptions(
            evict=True, grace_seconds=eviction.grace_seconds, change_status=partial(evicted, eviction)
        )
        try:
            await self._workers.kill_now(pod, kill)
        except Exception as error:  # noqa: BLE001  its worker goes on trying; others may have to go meanwhile
            log.warning("evicted pod not stopped in time", pod=pod_label(pod), cause=str(error))
            self._stuck.add(PodUid(pod.metadata.uid))

    async def _until_finished(self, pods: tuple[Pod, ...]) -> None:
        """Wait a while for volumes and logs to be removed, which may relieve the pressure."""
        uids = [PodUid(pod.metadata.uid) for pod in pods]
        for _ in range(int(CLEANUP_SECONDS / _POLL_SECONDS)):
            await asyncio.sleep(_POLL_SECONDS)
            if all(self._workers.should_be_finished(uid) and not self._is_unsent(uid) for uid in uids):
                return
        log.warning("evicted pods not cleaned up or reported in time", pods=[pod_label(pod) for pod in pods])
        # Lack of memory cannot wait for the API server; a full disk harms no running pod.
        while any(map(self._is_unsent, uids)) and (shortage := self._monitor.shortage) and shortage.needs_disk:
            await self._monitor.pause()


class DiskReclaimer:
    """Runs both garbage collectors immediately; without images, only that of containers."""

    def __init__(self, *, containers: ContainerGc, images: ImageGcManager | None) -> None:
        self._containers, self._images = containers, images

    async def reclaim(self) -> None:
        """Remove dead containers and unused images; failures are only logged."""
        try:
            await self._containers.collect(is_urgent=True)
        except (RuntimeFailure, OSError) as error:
            log.warning("dead containers not removed from a full disk", cause=str(error))
        try:
            if self._images is not None:
                await self._images.remove_unused()
        except RuntimeFailure as failure:
            log.warning("unused images not removed from a full disk", cause=failure.message)
