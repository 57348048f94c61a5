"""How many replicas to create or delete, which ones, and what the status says.

Pure. In: the pods a ReplicaSet has and the number it wants. Out: the change of this sync, and the new status.
Upstream: pkg/controller/replicaset/{replica_set,replica_set_utils}.go.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime

from msgspec.structs import replace

from pykubelet.api.generated.apps import ReplicaSet, ReplicaSetCondition, ReplicaSetStatus
from pykubelet.api.generated.core import Pod
from pykubelet.api.selector import selector_from_labels
from pykubelet.api.times import format_time
from pykubelet.controllers.pod_order import is_active, is_available, ranked_deletion_order, ready_condition

# After so many creations or deletions a ReplicaSet waits until it has seen them.
BURST_REPLICAS = 500
REPLICA_FAILURE = "ReplicaFailure"


def wanted_replicas(replica_set: ReplicaSet) -> int:
    """How many replicas the set is to have; 1 is the API's default."""
    return 1 if replica_set.spec.replicas is None else replica_set.spec.replicas


def replicas_to_add(active: int, wanted: int, burst: int = BURST_REPLICAS) -> int:
    """How many pods to create, or below zero how many to delete; never more than `burst`."""
    return max(-burst, min(burst, wanted - active))


def pods_to_delete(pods: Sequence[Pod], related: Iterable[Pod], count: int, now: datetime) -> tuple[Pod, ...]:
    """The `count` pods to delete first.

    Among equally ready pods one on a node with many `related` pods goes first, so that what is left is spread out.
    """
    if count >= len(pods):
        return tuple(pods)
    on_node = Counter(pod.spec.node_name for pod in related if is_active(pod))
    return tuple(ranked_deletion_order(pods, [on_node[pod.spec.node_name] for pod in pods], now)[:count])


def compute_status(
    replica_set: ReplicaSet,
    active: Sequence[Pod],
    *,
    terminating: int | None,
    failure: str | None,
    now: datetime,
) -> ReplicaSetStatus:
    """What the status is to say; `failure` is why pods could not be created or deleted, if so.

    The generation it was observed at is that of `replica_set`. `terminating` None: not counted.
    """
    template = selector_from_labels(replica_set.spec.template.metadata.labels)
    ready, seconds = [pod for pod in active if ready_condition(pod)], replica_set.spec.min_ready_seconds
    return replace(
        replica_set.status,
        replicas=len(active),
        fully_labeled_replicas=sum(template.matches(pod.metadata.labels) for pod in active),
        ready_replicas=len(ready),
        available_replicas=sum(is_available(pod, seconds, now) for pod in ready) if seconds else len(ready),
        terminating_replicas=terminating,
        observed_generation=replica_set.metadata.generation,
        conditions=_conditions(replica_set, len(active), failure, now),
    )


def _conditions(
    replica_set: ReplicaSet, active: int, failure: str | None, now: datetime
) -> tuple[ReplicaSetCondition, ...]:
    """The failure is told once: a later one does not replace it, success takes it away."""
    conditions = replica_set.status.conditions
    others = tuple(condition for condition in conditions if condition.type != REPLICA_FAILURE)
    if failure is None:
        return others
    if others != conditions:
        return conditions
    surplus = active - wanted_replicas(replica_set)
    condition = ReplicaSetCondition(
        type=REPLICA_FAILURE,
        status="True",
        reason="FailedCreate" if surplus < 0 else "FailedDelete" if surplus > 0 else "",
        message=failure,
        last_transition_time=format_time(now),
    )
    return (*others, condition)
