"""Whether a container starts again, how often it did before, and how long it may take to end.

Values in, values out; pure. Upstream: ShouldContainerBeRestarted in pkg/kubelet/container/helpers.go,
calcRestartCountByLogDir and setTerminationGracePeriod in pkg/kubelet/kuberuntime/kuberuntime_container.go.
"""

import re
from collections.abc import Iterable

from pykubelet.api.generated.core import Container, EphemeralContainer, Pod, Probe
from pykubelet.runtime.actions import KillReason
from pykubelet.runtime.protocol import ContainerState, RuntimePod

MINIMUM_GRACE_SECONDS = 2
"""What every container gets to end in, so that no mistake of a number kills it outright."""

# Nothing has to follow: rotated logs keep the number and add to the name.
_LOG_NAME = re.compile(r"0*([0-9]{1,19})\.log")
_MAX_COUNT = 2**63 - 1


def should_restart(name: str, pod: Pod, observed: RuntimePod) -> bool:
    """Whether the container of this name is to be started, now that it does not run."""
    if pod.metadata.deletion_timestamp is not None:
        return False
    newest = observed.newest(name)
    if newest is None:
        return True
    if newest.state != ContainerState.EXITED:
        return newest.state != ContainerState.RUNNING
    policy = pod.spec.restart_policy
    return policy != "Never" and (policy != "OnFailure" or newest.exit_code != 0)


def next_attempt(name: str, observed: RuntimePod, log_names: Iterable[str]) -> int:
    """The attempt of the next container of this name; `log_names` is what its log directory holds.

    The logs outlive the containers: they tell the number when nothing else does.
    """
    newest = observed.newest(name)
    return newest.attempt + 1 if newest is not None else restarts_in_logs(log_names)


def restarts_in_logs(log_names: Iterable[str]) -> int:
    """The number after the highest that a log bears; what is not named as a log counts for nothing."""
    numbers = (int(match[1]) for match in map(_LOG_NAME.match, log_names) if match)
    return max((number + 1 for number in numbers if number <= _MAX_COUNT), default=0)


def kill_grace_seconds(pod: Pod, container: Container | EphemeralContainer, reason: KillReason) -> int:
    """How long the container gets to end: what the deletion says, else what the failed probe says, else the pod."""
    if pod.metadata.deletion_grace_period_seconds is not None:
        return pod.metadata.deletion_grace_period_seconds
    of_pod = pod.spec.termination_grace_period_seconds
    if of_pod is None:
        return MINIMUM_GRACE_SECONDS
    of_probe = _grace_of(_failed_probe(container, reason))
    return of_probe if of_probe is not None else of_pod


def _failed_probe(container: Container | EphemeralContainer, reason: KillReason) -> Probe | None:
    if reason == KillReason.LIVENESS_PROBE:
        return container.liveness_probe
    return container.startup_probe if reason == KillReason.STARTUP_PROBE else None


def _grace_of(probe: Probe | None) -> int | None:
    return probe.termination_grace_period_seconds if probe is not None else None
