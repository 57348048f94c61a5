"""The resources a container has, as its status shows them.

A running container has what it was started with: where the spec was changed since, the status keeps saying what was
reported of this container before. Pure. Upstream: convertContainerStatusResources in pkg/kubelet/kubelet_pods.go.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from pykubelet.api.generated.core import ContainerStatus, ResourceRequirements
from pykubelet.runtime.protocol import ContainerState


def reported_resources(
    wanted: ResourceRequirements, state: ContainerState, container_id: str, old: ContainerStatus | None
) -> ResourceRequirements:
    """The resources of a container in this state; `old` is what was reported under its name before."""
    is_same = old is not None and old.state.running is not None and old.container_id == container_id
    if state != ContainerState.RUNNING or not is_same or old is None or old.resources is None:
        return wanted
    return replace(
        wanted,
        limits=_kept(wanted.limits, old.resources.limits, "cpu", "memory"),
        # What memory is requested is no property of the container, so it can only be the spec's.
        requests=_kept(wanted.requests, old.resources.requests, "cpu"),
    )


def _kept(wanted: Mapping[str, str], old: Mapping[str, str], *names: str) -> Mapping[str, str]:
    return {**wanted, **{name: old[name] for name in names if name in old}} if wanted else wanted
