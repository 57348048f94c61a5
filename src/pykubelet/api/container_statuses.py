"""The order of container statuses in a pod's status.

Statuses in, statuses out; pure. Regular and ephemeral containers are sorted by name, init containers follow the spec.
Upstream: pkg/kubelet/types/types.go.
"""

from collections.abc import Iterable, Mapping

from pykubelet.api.generated.core import ContainerStatus, Pod


def sort_by_name(statuses: Iterable[ContainerStatus]) -> tuple[ContainerStatus, ...]:
    """The statuses in ascending order of their names, bytewise as Go compares; equal names keep their order."""
    return tuple(sorted(statuses, key=lambda status: status.name.encode()))


def sort_init_statuses(pod: Pod, statuses: Iterable[ContainerStatus]) -> tuple[ContainerStatus, ...]:
    """The statuses in the order of the pod's init containers, by selection and swap.

    A status whose name the spec does not have ends up behind the others, where the swaps leave it.
    """
    ordered = list(statuses)
    place = 0
    for container in pod.spec.init_containers:
        for candidate in range(place, len(ordered)):
            if ordered[candidate].name == container.name:
                ordered[place], ordered[candidate] = ordered[candidate], ordered[place]
                place += 1
                break
    return tuple(ordered)


def init_statuses_in_order(pod: Pod, by_name: Mapping[str, ContainerStatus]) -> tuple[ContainerStatus, ...]:
    """A status for each init container that has one, in the order of the spec; others are dropped."""
    names = (container.name for container in pod.spec.init_containers)
    return tuple(by_name[name] for name in names if name in by_name)
