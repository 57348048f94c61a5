"""Whether each container of a pod has started and is ready, from what its probes say.

In: the pod, its status as the runtime gives it, the results of probes. Out: the status with `started` and `ready`, and
the containers whose readiness probe should run at once, because only it keeps them from being ready. Pure.

Upstream: pkg/kubelet/prober/prober_manager.go (UpdatePodStatus)
"""

from typing import Protocol

from msgspec.structs import replace

from pykubelet.agent.flow import ProbeKind, ProbeVerdict
from pykubelet.api.generated.core import ContainerStatus, Pod, PodStatus
from pykubelet.api.pods import is_restartable_init_container


class Verdicts(Protocol):
    """What the probes of one pod say."""

    def result(self, kind: ProbeKind, container_id: str) -> ProbeVerdict | None:
        """The result for a container, if there is one yet."""

    def is_probed(self, kind: ProbeKind, container_name: str) -> bool:
        """Whether somebody probes the container."""


def with_probe_results(pod: Pod, status: PodStatus, verdicts: Verdicts) -> tuple[PodStatus, tuple[str, ...]]:
    """The status with what the probes say, and the names of containers to probe for readiness at once."""
    sidecars = {container.name for container in pod.spec.init_containers if is_restartable_init_container(container)}
    regular = tuple(_probed(one, verdicts) for one in status.container_statuses)
    init = tuple(
        _probed(one, verdicts) if one.name in sidecars else _plain_init(one, verdicts)
        for one in status.init_container_statuses
    )
    ended = {container.name for container in pod.spec.init_containers} - sidecars
    urgent = tuple(
        one.name
        for one in (*regular, *init)
        if one.name not in ended
        and one.started
        and not one.ready
        and one.state.running is not None
        and verdicts.is_probed(ProbeKind.READINESS, one.name)
    )
    return replace(status, container_statuses=regular, init_container_statuses=init), urgent


def _probed(status: ContainerStatus, verdicts: Verdicts) -> ContainerStatus:
    if not _has_started(status, verdicts):
        return replace(status, started=False)
    has_passed = verdicts.result(ProbeKind.READINESS, status.container_id) == ProbeVerdict.SUCCESS
    return replace(status, started=True, ready=has_passed or not verdicts.is_probed(ProbeKind.READINESS, status.name))


def _plain_init(status: ContainerStatus, verdicts: Verdicts) -> ContainerStatus:
    terminated = status.state.terminated
    is_done = terminated is not None and terminated.exit_code == 0
    return replace(status, started=_has_started(status, verdicts), ready=status.ready or is_done)


def _has_started(status: ContainerStatus, verdicts: Verdicts) -> bool:
    if status.state.running is None:
        return False
    result = verdicts.result(ProbeKind.STARTUP, status.container_id)
    if result is not None:
        return result == ProbeVerdict.SUCCESS
    return not verdicts.is_probed(ProbeKind.STARTUP, status.name)
