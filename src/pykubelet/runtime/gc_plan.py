"""Which dead containers and sandboxes may go, and in which order.

The runtime's view and a policy in, ids out; pure. Dead containers are kept for their logs and exit codes, a few of each
name; those of pods that are gone are not. Time is passed in. Upstream: pkg/kubelet/kuberuntime/kuberuntime_gc.go,
pkg/kubelet/pod_container_deletor.go.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pykubelet.api.keys import PodUid
from pykubelet.runtime.protocol import ContainerState, RuntimeContainer, RuntimePod

IsGone = Callable[[PodUid], bool]
"""Whether nothing of a pod is to be kept."""

_Groups = dict[tuple[PodUid, str], list[RuntimeContainer]]


@dataclass(frozen=True, slots=True, kw_only=True)
class GcPolicy:
    """How many dead containers to keep of each name of a pod, and in all; below zero there is no limit."""

    min_age_seconds: float = 0.0
    max_per_container: int = 1
    max_containers: int = -1


@dataclass(frozen=True, slots=True)
class Removal:
    """A container to remove; one that may still run is to be stopped before."""

    container_id: str
    stop_first: bool


def containers_to_remove(
    pods: Iterable[RuntimePod], policy: GcPolicy, now: datetime, *, is_gone: IsGone
) -> tuple[Removal, ...]:
    """The containers beyond the policy, the oldest of each group first. Until all sources are ready no pod is gone."""
    groups = _dead(pods, now - timedelta(seconds=policy.min_age_seconds))
    removed: list[RuntimeContainer] = []
    for key in [key for key in groups if is_gone(key[0])]:
        removed += reversed(groups.pop(key))
    if policy.max_per_container >= 0:
        removed += _cut(groups, policy.max_per_container)
    if policy.max_containers >= 0 and _total(groups) > policy.max_containers:
        # An equal share for each, so that one that crashes often does not push out the only trace of another.
        removed += _cut(groups, max(policy.max_containers // len(groups), 1))
        rest = sorted((one for group in groups.values() for one in group), key=_age)
        removed += rest[: max(len(rest) - policy.max_containers, 0)]
    return tuple(Removal(one.id, one.state == ContainerState.UNKNOWN) for one in removed)


def sandboxes_to_remove(pods: Iterable[RuntimePod], *, is_gone: IsGone) -> tuple[str, ...]:
    """The sandboxes that are dead and empty, the oldest of each pod first; a pod that lives keeps its newest."""
    removed = []
    for pod in pods:
        used = {container.sandbox_id for container in pod.containers}
        oldest_first = sorted(pod.sandboxes, key=lambda sandbox: sandbox.created_at)
        candidates = oldest_first if is_gone(pod.uid) else oldest_first[:-1]
        removed += [one.id for one in candidates if not one.is_ready and one.id not in used]
    return tuple(removed)


def dead_beyond(pod: RuntimePod, keep: int, *, container_id: str = "") -> tuple[str, ...]:
    """The exited containers beyond the newest few: of the name that the given container has, else of the whole pod."""
    name = next((one.name for one in pod.containers if one.id == container_id), None)
    if container_id and name is None:
        return ()
    dead = [one for one in pod.containers if one.state == ContainerState.EXITED and name in {None, one.name}]
    return tuple(one.id for one in sorted(dead, key=_age, reverse=True)[keep:])


def _dead(pods: Iterable[RuntimePod], newest: datetime) -> _Groups:
    """The containers that do not run and are old enough, by pod and name, newest first."""
    groups: _Groups = {}
    for pod in pods:
        for one in sorted(pod.containers, key=_age, reverse=True):
            if one.state != ContainerState.RUNNING and one.created_at <= newest:
                groups.setdefault((pod.uid, one.name), []).append(one)
    return groups


def _cut(groups: _Groups, keep: int) -> Sequence[RuntimeContainer]:
    """Take what is beyond the newest few out of each group."""
    removed: list[RuntimeContainer] = []
    for key, group in groups.items():
        removed += reversed(group[keep:])
        groups[key] = group[:keep]
    return removed


def _total(groups: Mapping[tuple[PodUid, str], Sequence[RuntimeContainer]]) -> int:
    return sum(map(len, groups.values()))


def _age(container: RuntimeContainer) -> datetime:
    return container.created_at
