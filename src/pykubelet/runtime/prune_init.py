"""Which init containers of the past are removed before a pod goes on.

Upstream: pruneInitContainersBeforeStart, purgeInitContainers in pkg/kubelet/kuberuntime/kuberuntime_container.go
"""

from pykubelet.api.generated.core import Pod
from pykubelet.runtime.protocol import ContainerState, RuntimePod

_OVER = frozenset({ContainerState.EXITED, ContainerState.UNKNOWN})


def surplus_init_containers(pod: Pod, observed: RuntimePod) -> tuple[str, ...]:
    """All that are over but the newest of each name: a pod that keeps failing to initialize must not pile them up."""
    surplus: list[str] = []
    for spec in pod.spec.init_containers:
        over = [one.id for one in observed.containers if one.name == spec.name and one.state in _OVER]
        surplus += over[1:]
    return tuple(surplus)


def all_init_containers(pod: Pod, observed: RuntimePod) -> tuple[str, ...]:
    """All there are: in a new sandbox, what they did in the old one counts no more."""
    names = {spec.name for spec in pod.spec.init_containers}
    return tuple(one.id for one in observed.containers if one.name in names)
