"""In which order pods go when the node is short of something.

Pure. Short of memory or disk, those first that use more than they asked for, then the least important, then those that use
most beyond what they asked for; short of process ids, the least important and then those with most processes. A pod that
could not be measured goes before its equals. Upstream: the rank functions of pkg/kubelet/eviction/helpers.go
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeAlias

from pykubelet.agent.pressure.pod_use import PodUse, PodUses, disk_use
from pykubelet.agent.pressure.thresholds import INODES, MEMORY_AVAILABLE, PID_AVAILABLE, RESOURCES
from pykubelet.api.generated.core import Pod
from pykubelet.api.keys import PodUid
from pykubelet.api.pod_requests import EPHEMERAL_STORAGE, MEMORY, amounts, pod_requests

_Rank: TypeAlias = tuple[int, ...]
_RankOf: TypeAlias = Callable[[Pod, PodUse | None], _Rank]


def ranked(pods: Iterable[Pod], uses: PodUses, signal: str, *, has_image_fs: bool) -> tuple[Pod, ...]:
    """The pods, who goes first standing first; among equals nothing is changed."""
    rank: _RankOf
    if signal == MEMORY_AVAILABLE:
        rank = _by_memory
    elif signal == PID_AVAILABLE:
        rank = _by_processes
    else:
        rank = partial(_by_disk, signal, has_image_fs)
    return tuple(sorted(pods, key=lambda pod: rank(pod, uses.get(PodUid(pod.metadata.uid)))))


def requested(pod: Pod, resource: str) -> int:
    """How much a pod asked for; what it costs to run it counts only beside that."""
    overhead = amounts(pod.spec.overhead).get(resource, 0)
    whole = pod_requests(pod).get(resource, 0)
    return whole if whole > overhead else 0


def _by_memory(pod: Pod, use: PodUse | None) -> _Rank:
    if use is None:
        return 0, 0, _priority(pod), 0
    beyond = use.memory_bytes - requested(pod, MEMORY)
    return 1, int(beyond <= 0), _priority(pod), -beyond


def _by_processes(pod: Pod, use: PodUse | None) -> _Rank:
    return (_priority(pod), 0, 0) if use is None else (_priority(pod), 1, -use.processes)


def _by_disk(signal: str, has_image_fs: bool, pod: Pod, use: PodUse | None) -> _Rank:
    if use is None:
        return 0, 0, _priority(pod), 0
    used, asked = disk_use(pod, use, signal, has_image_fs=has_image_fs), requested(pod, EPHEMERAL_STORAGE)
    if RESOURCES[signal] == INODES:
        # Nobody can ask for inodes. As upstream, the last word is the number less the bytes that were asked for.
        return 1, int(used.inodes <= 0), _priority(pod), asked - used.inodes
    return 1, int(used.bytes <= asked), _priority(pod), asked - used.bytes


def _priority(pod: Pod) -> int:
    return pod.spec.priority or 0
