"""Sizes of a Deployment's ReplicaSets: rolling update, recreate and proportional scaling.

Sets shrink and grow in small steps within max surge and max unavailable; the next step follows when the sets report the
result of this one.

Upstream: pkg/controller/deployment/rolling.go, pkg/controller/deployment/recreate.go, pkg/controller/deployment/sync.go
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pykubelet.api.generated.apps import Deployment, ReplicaSet
from pykubelet.client.indexer import age_key
from pykubelet.controllers.deployment.replica_sets import (
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    ROLLING_UPDATE,
    active_or_latest,
    active_replica_sets,
    desired_replicas,
    max_replicas,
    min_available,
    size_annotation,
)
from pykubelet.controllers.replicaset.replica_set import wanted_replicas


class ReplicaSetScale(NamedTuple):
    """The size to give a set; a set that has it already only gets the Deployment's size annotations."""

    name: str
    replicas: int


def is_scaling_event(deployment: Deployment, sets: Iterable[ReplicaSet]) -> bool:
    """Whether the Deployment's size has changed since its sets were scaled."""
    known = (size_annotation(one, DESIRED_REPLICAS) for one in active_replica_sets(sets))
    return any(desired not in {None, desired_replicas(deployment)} for desired in known)


def grown_size(deployment: Deployment, present: int, old: Iterable[ReplicaSet]) -> int:
    """The size of the new set, now `present`: as large as the limit on all pods allows (NewRSNewReplicas)."""
    desired = desired_replicas(deployment)
    if deployment.spec.strategy.type != ROLLING_UPDATE:
        return desired
    old = tuple(old)
    if not all(_has_reported(one) for one in old):
        return present
    # Upstream counts `spec.replicas` only, and exceeds the limit while pods of a set that has just shrunk still exist.
    others = sum(max(wanted_replicas(one), one.status.replicas) for one in old)
    room = max_replicas(deployment) - others - present
    return present + max(min(room, desired - present), 0)


def rolling_plan(deployment: Deployment, new: ReplicaSet, old: Sequence[ReplicaSet]) -> tuple[ReplicaSetScale, ...]:
    """The next step of a rolling update: grow the new set if possible, otherwise shrink the old ones."""
    desired, present = desired_replicas(deployment), wanted_replicas(new)
    size = desired if present > desired else grown_size(deployment, present, old)
    if size != present:
        return (ReplicaSetScale(new.metadata.name, size),)
    return _shrink(deployment, new, sorted(active_replica_sets(old), key=age_key))


def recreate_plan(old: Iterable[ReplicaSet]) -> tuple[ReplicaSetScale, ...]:
    """Scales all old sets to zero, before there is a new one."""
    return tuple(ReplicaSetScale(one.metadata.name, 0) for one in active_replica_sets(old))


def scale_plan(
    deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet]
) -> tuple[ReplicaSetScale, ...]:
    """The sizes after `spec.replicas` has changed, possibly in the middle of a rollout or while paused."""
    only = active_or_latest(new, old)
    if only is not None:
        return (ReplicaSetScale(only.metadata.name, desired_replicas(deployment)),)
    if new is not None and _is_saturated(deployment, new):
        return recreate_plan(old)
    if deployment.spec.strategy.type != ROLLING_UPDATE:
        return ()
    return _proportional(deployment, active_replica_sets([*old, *([new] if new is not None else [])]))


def share_of_change(deployment: Deployment, replica_set: ReplicaSet) -> int:
    """By how much one set grows, or below zero shrinks, after the Deployment's size changed (GetReplicaSetProportion)."""
    present = wanted_replicas(replica_set)
    if desired_replicas(deployment) == 0:
        return -present
    # Falls back to the current pods if the annotation was removed.
    before = size_annotation(replica_set, MAX_REPLICAS) or deployment.status.replicas
    if before == 0:
        return 0
    # Rounds half up, as Go does.
    return (2 * present * max_replicas(deployment) + before) // (2 * before) - present


def _is_saturated(deployment: Deployment, new: ReplicaSet) -> bool:
    """Whether the new set has all desired pods, all available, and was scaled for this size."""
    sizes = (wanted_replicas(new), size_annotation(new, DESIRED_REPLICAS), new.status.available_replicas)
    return all(size == desired_replicas(deployment) for size in sizes)


def _has_reported(replica_set: ReplicaSet) -> bool:
    """Whether the status reflects the current spec of the set."""
    return replica_set.status.observed_generation >= replica_set.metadata.generation


def _available(replica_set: ReplicaSet) -> int:
    """The available pods that remain after a pending scale-down."""
    return min(replica_set.status.available_replicas, wanted_replicas(replica_set))


def _shrink(deployment: Deployment, new: ReplicaSet, old: Sequence[ReplicaSet]) -> tuple[ReplicaSetScale, ...]:
    """Scales down old sets, oldest first (reconcileOldReplicaSets): unavailable pods, then as many as availability permits."""
    if not all(_has_reported(one) for one in [new, *old]):
        return ()
    sizes = {one.metadata.name: wanted_replicas(one) for one in old}
    # New pods that are not available yet do not count.
    budget = sum(sizes.values()) + _available(new) - min_available(deployment)
    if budget <= 0:
        return ()
    steps: list[ReplicaSetScale] = []

    def take(replica_set: ReplicaSet, count: int) -> int:
        name = replica_set.metadata.name
        if count > 0:
            sizes[name] -= count
            steps.append(ReplicaSetScale(name, sizes[name]))
        return max(count, 0)

    for one in old:
        budget -= take(one, min(budget, sizes[one.metadata.name] - _available(one)))
    spare = sum(_available(one) for one in [*old, new]) - min_available(deployment)
    for one in old:
        spare -= take(one, min(spare, sizes[one.metadata.name]))
    return tuple(steps)


def _proportional(deployment: Deployment, sets: Sequence[ReplicaSet]) -> tuple[ReplicaSetScale, ...]:
    """Distributes the change in proportion to the sizes; the largest set gets the rounding remainder."""
    allowed = max_replicas(deployment) if desired_replicas(deployment) > 0 else 0
    to_add = allowed - sum(wanted_replicas(one) for one in sets)
    # Of sets of the same size, the newer grows first and the older shrinks first.
    in_order = sorted(sets, key=age_key, reverse=to_add > 0)
    in_order.sort(key=wanted_replicas, reverse=True)
    sizes, left = [wanted_replicas(one) for one in in_order], to_add
    for number, one in enumerate(in_order):
        share = share_of_change(deployment, one)
        change = min(share, left) if to_add > 0 else max(share, left)
        sizes[number] += change if left else 0
        left -= change if left else 0
    if sizes:
        sizes[0] = max(sizes[0] + left, 0)
    return tuple(ReplicaSetScale(one.metadata.name, size) for one, size in zip(in_order, sizes, strict=True))
