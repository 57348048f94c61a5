"""Measures what pods use: memory, layers and processes as the runtime tells, logs and volumes on disk.

In: the runtime, and where the things of pods are. Out: values for decisions. The disk is looked at only if asked for: to
count the files of every pod takes its time.

Upstream: the summary provider of pkg/kubelet/server/stats, as pkg/kubelet/eviction uses it
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from pykubelet.agent.pressure.disk_sizes import PodPaths, PodSizes, pod_sizes
from pykubelet.agent.pressure.pod_use import ContainerUse, DiskUse, PodUse, PodUses
from pykubelet.api.generated.core import Pod
from pykubelet.api.keys import PodUid
from pykubelet.runtime.protocol import ContainerState, RuntimePod
from pykubelet.runtime.usage import Usage, Usages


class RunningPods(Protocol):
    """Knows what runs; a Runtime does."""

    async def pods(self) -> Sequence[RuntimePod]:
        """Everything there is."""


class PodMeter:
    """Measures the pods of one node. Without `usages`, the runtime being unable, only the disk is measured."""

    def __init__(
        self, *, runtime: RunningPods, usages: Usages | None, paths: Callable[[Pod], PodPaths] = lambda _: PodPaths()
    ) -> None:
        self._runtime, self._usages, self._paths = runtime, usages, paths

    async def measure(self, pods: Iterable[Pod], *, with_disk: bool) -> PodUses:
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


def _running(pod: RuntimePod, usages: Mapping[str, Usage]) -> dict[str, Usage | None]:
    """The readings of the containers of a pod that run, by name."""
    running = (one for one in pod.containers if one.state is ContainerState.RUNNING)
    return {one.name: usages.get(one.id) for one in running}


def _use(usages: Mapping[str, Usage | None], sizes: PodSizes) -> PodUse:
    containers = {name: _container_use(usage, sizes.logs.get(name)) for name, usage in usages.items()}
    return PodUse(containers=containers, volumes=sizes.volumes, own_files=sizes.own_files)


def _container_use(usage: Usage | None, logs: DiskUse | None) -> ContainerUse:
    if usage is None:
        return ContainerUse(logs=logs)
    layer = DiskUse(usage.layer_bytes, usage.layer_inodes or 0) if usage.layer_bytes is not None else None
    return ContainerUse(memory_bytes=usage.working_set_bytes, layer=layer, logs=logs, processes=usage.processes)
