"""Which pods use more of the disk than they may: by an emptyDir, all together, or by one container.

Pure. Upstream: localStorageEviction in pkg/kubelet/eviction/eviction_manager.go
"""

from collections.abc import Iterable

from pykubelet.agent.pressure.eviction_plan import Eviction
from pykubelet.agent.pressure.pod_use import DiskUse, PodUse, PodUses, ephemeral_storage
from pykubelet.api.defaults.pod_resources import container_sums
from pykubelet.api.generated.core import Container, Pod, Volume
from pykubelet.api.keys import PodUid
from pykubelet.api.pod_requests import EPHEMERAL_STORAGE
from pykubelet.api.pods import is_critical_pod
from pykubelet.api.quantity import Quantity, add, parse_quantity
from pykubelet.api.wire import to_document

_NOTHING = DiskUse()


def is_limited(pod: Pod) -> bool:
    """Whether a pod has any limit that can be exceeded; others need not be measured. One that is critical stays anyway."""
    limits = (*map(_size_limit, pod.spec.volumes), *map(_container_limit, _containers(pod)))
    return not is_critical_pod(pod) and any(limit is not None for limit in limits)


def over_limits(pods: Iterable[Pod], uses: PodUses, *, has_image_fs: bool) -> tuple[Eviction, ...]:
    """Everybody who has to go for that; it is their own fault, so it is no disruption."""
    found = []
    for pod in pods:
        use = uses.get(PodUid(pod.metadata.uid))
        if use is None or is_critical_pod(pod):
            continue
        signal, message = _exceeded(pod, use, has_image_fs=has_image_fs)
        if message:
            found.append(Eviction(pod=pod, message=message, signal=signal, is_disruption=False))
    return tuple(found)


def _exceeded(pod: Pod, use: PodUse, *, has_image_fs: bool) -> tuple[str, str]:
    """The first limit that is exceeded, and what is said about it."""
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


def _containers(pod: Pod) -> tuple[Container, ...]:
    return (*pod.spec.containers, *pod.spec.init_containers)
