"""The cgroup that a pod's containers are in, by its quality of service.

Pure. Upstream: GetPodContainerName in pkg/kubelet/cm/pod_container_manager_linux.go, cgroup_manager_linux.go
"""

from pykubelet.api.generated.core import Pod
from pykubelet.api.quality_of_service import BEST_EFFORT, BURSTABLE, GUARANTEED, qos_class
from pykubelet.api.wire import to_document

SYSTEMD = "systemd"
CGROUPFS = "cgroupfs"
"""Who makes cgroups: the runtime and the node must agree on it."""


def pod_cgroup(pod: Pod, *, driver: str, root: str = "/") -> str:
    """The path below the cgroup hierarchies, as the runtime's driver spells it."""
    return _place(pod.metadata.uid, quality_of(pod), driver, root)


def possible_cgroups(uid: str, *, driver: str, root: str = "/") -> list[str]:
    """Where the cgroup of a pod may be of which nothing else is known."""
    return [_place(uid, quality, driver, root) for quality in (GUARANTEED, BURSTABLE, BEST_EFFORT)]


def quality_of(pod: Pod) -> str:
    """The pod's class; a static pod has none in its status."""
    return pod.status.qos_class or qos_class(to_document(pod.spec))


def _place(uid: str, quality: str, driver: str, root: str) -> str:
    above = () if quality == GUARANTEED else (quality.lower(),)
    names = [part for part in (*root.split("/"), "kubepods", *above, f"pod{uid}") if part]
    return _slices(names) if driver == SYSTEMD else "/" + "/".join(names)


def _slices(names: list[str]) -> str:
    """Each slice bears the names of all above it; within a name a dash would stand for another level."""
    escaped = [name.replace("-", "_") for name in names]
    return "".join(f"/{'-'.join(escaped[: depth + 1])}.slice" for depth in range(len(escaped)))
