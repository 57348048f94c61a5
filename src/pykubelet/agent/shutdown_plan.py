"""In which order pods end when their node goes down, how long each gets, what its status says.

Pure. Pods of the lowest priorities go first, all of a group at once; with the usual settings there are two groups, and
the second has the critical pods. Upstream: pkg/kubelet/nodeshutdown/nodeshutdown_manager.go
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from pykubelet.agent.status.condition_list import replace_or_append
from pykubelet.api.generated.core import Pod, PodCondition, PodStatus
from pykubelet.api.pods import SYSTEM_CRITICAL_PRIORITY

REASON = "Terminated"
MESSAGE = "Pod was terminated in response to imminent node shutdown."


@dataclass(frozen=True, slots=True, kw_only=True)
class ShutdownPeriod:
    """How long pods get that have this priority or more, up to that of the next period."""

    priority: int
    seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShutdownGroup:
    """Pods that end together."""

    seconds: int
    pods: tuple[Pod, ...]


def shutdown_periods(grace_seconds: int, critical_seconds: int) -> tuple[ShutdownPeriod, ...]:
    """All of the grace, of which the last part is for critical pods; none if there is no grace. ValueError if it cannot be."""
    if min(grace_seconds, critical_seconds) < 0:
        raise ValueError("the grace periods of a shutdown must not be negative")
    if critical_seconds > grace_seconds:
        raise ValueError(
            f"the shutdown grace period of critical pods, {critical_seconds}s, "
            f"must not be longer than the whole, {grace_seconds}s"
        )
    if not grace_seconds:
        return ()
    return (
        ShutdownPeriod(priority=0, seconds=grace_seconds - critical_seconds),
        ShutdownPeriod(priority=SYSTEM_CRITICAL_PRIORITY, seconds=critical_seconds),
    )


def shutdown_groups(periods: Sequence[ShutdownPeriod], pods: Iterable[Pod]) -> tuple[ShutdownGroup, ...]:
    """The groups in their order, those without pods left out; `periods` are at least one."""
    ordered = sorted(periods, key=lambda period: period.priority)
    priorities = [period.priority for period in ordered]
    members: list[list[Pod]] = [[] for _ in ordered]
    for pod in pods:
        # Below the lowest counts as the lowest.
        members[max(bisect_right(priorities, pod.spec.priority or 0) - 1, 0)].append(pod)
    return tuple(
        ShutdownGroup(seconds=period.seconds, pods=tuple(found))
        for period, found in zip(ordered, members, strict=True)
        if found
    )


def grace_seconds(pod: Pod, group: ShutdownGroup) -> int:
    """How long a pod gets to end: what its group has, or less if it wants less."""
    wanted = pod.spec.termination_grace_period_seconds
    return group.seconds if wanted is None else min(wanted, group.seconds)


def shut_down(generation: int, status: PodStatus) -> PodStatus:
    """The status of a pod that ends because its node does; one that has succeeded already did so."""
    condition = PodCondition(
        type="DisruptionTarget",
        status="True",
        reason="TerminationByKubelet",
        message=MESSAGE,
        observed_generation=generation,
    )
    return replace(
        status,
        phase=status.phase if status.phase == "Succeeded" else "Failed",
        reason=REASON,
        message=MESSAGE,
        conditions=replace_or_append(status.conditions, condition),
    )
