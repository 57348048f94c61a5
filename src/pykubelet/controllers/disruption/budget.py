"""The status of a PodDisruptionBudget: expected, desired and healthy pods, and allowed disruptions.

`ScaleFinder` finds how many pods an owner wants: from the informers for known kinds, else from its scale subresource.

Upstream: pkg/controller/disruption/disruption.go,
staging/src/k8s.io/component-helpers/apps/poddisruptionbudget/helpers.go
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from dataclasses import replace as dataclasses_replace
from datetime import datetime, timedelta

from msgspec.structs import replace

from pykubelet.api.errors import NotFound
from pykubelet.api.generated.apps import Deployment, ReplicaSet, StatefulSet
from pykubelet.api.generated.autoscaling import Scale
from pykubelet.api.generated.core import Pod
from pykubelet.api.generated.meta import Condition, LabelSelector, OwnerReference
from pykubelet.api.generated.policy import PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus
from pykubelet.api.quantity import scaled_int_or_percent
from pykubelet.api.schema import Resource
from pykubelet.api.scheme import TypedKind
from pykubelet.api.serializer import Document
from pykubelet.api.times import format_time, parse_time
from pykubelet.client.indexer import ObjectIndex, controller_of
from pykubelet.client.interface import ControllerClient
from pykubelet.controllers.framework.active_pods import ready_condition
from pykubelet.controllers.framework.ownership import explicit

DELETION_TIMEOUT = timedelta(minutes=2)
"""How long an evicted pod counts as gone although its deletion has not been seen."""
CONDITION = "DisruptionAllowed"
_SET_GROUPS = ("apps", "extensions")


@dataclass(frozen=True, slots=True)
class DisruptedPods:
    """Evicted pods whose deletion has not been seen."""

    waiting: Mapping[str, str]
    overdue: tuple[Pod, ...] = ()
    """Pods that were not deleted in time; they count as healthy again."""
    recheck_at: datetime | None = None


class NoScaleError(Exception):
    """The scale of an owner cannot be determined; the message says why."""


class ScaleFinder:
    """Finds the controlling object of an owner and its desired replicas."""

    def __init__(
        self,
        *,
        client: ControllerClient,
        deployments: ObjectIndex[Deployment],
        replica_sets: ObjectIndex[ReplicaSet],
        stateful_sets: ObjectIndex[StatefulSet],
    ) -> None:
        self._client = client
        self._deployments, self._replica_sets, self._stateful_sets = deployments, replica_sets, stateful_sets
        self._kinds: dict[tuple[str, str], Resource] = {}

    async def of(self, namespace: str, owner: OwnerReference) -> tuple[str, int] | None:
        """UID and replicas of the owner's controlling object; None if it is gone, NoScaleError if it has no scale."""
        group = owner.api_version.rpartition("/")[0]
        if owner.kind == "ReplicaSet" and group in _SET_GROUPS:
            found = self._of_replica_set(namespace, owner)
        elif owner.kind == "StatefulSet" and group == "apps":
            stateful = self._stateful_sets.resolve(namespace, owner)
            found = _replicas(stateful.metadata.uid, stateful.spec.replicas) if stateful is not None else None
        else:
            found = None
        return found or await self._by_scale(namespace, owner)

    def _of_replica_set(self, namespace: str, owner: OwnerReference) -> tuple[str, int] | None:
        """The replicas of a ReplicaSet, or of the Deployment that controls it."""
        replica_set = self._replica_sets.resolve(namespace, owner)
        if replica_set is None:
            return None
        manager = controller_of(replica_set)
        if manager is None or manager.kind != "Deployment":
            return _replicas(replica_set.metadata.uid, replica_set.spec.replicas)
        deployment = self._deployments.resolve(namespace, manager)
        return _replicas(deployment.metadata.uid, deployment.spec.replicas) if deployment is not None else None

    async def _by_scale(self, namespace: str, owner: OwnerReference) -> tuple[str, int] | None:
        resource = await self._resource(owner)
        try:
            kind = TypedKind(dataclasses_replace(resource, subresource="scale"), Scale)
            scale = await self._client.get(kind, owner.name, namespace=namespace)
        except NotFound as error:
            if error.details.get("name") == owner.name:
                return None
            raise NoScaleError(f"{resource.group_resource} does not implement the scale subresource") from error
        return (scale.metadata.uid, scale.spec.replicas) if scale.metadata.uid == owner.uid else None

    async def _resource(self, owner: OwnerReference) -> Resource:
        key = (owner.api_version, owner.kind)
        if key not in self._kinds:
            self._kinds = {(one.api_version, one.kind): one for one in reversed(await self._client.served())}
        if key not in self._kinds:
            raise NoScaleError(f'no matches for kind "{owner.kind}" in version "{owner.api_version}"')
        return self._kinds[key]


def needs_scale(spec: PodDisruptionBudgetSpec) -> bool:
    """Whether the budget depends on the desired number of pods, not only on the existing ones."""
    return spec.max_unavailable is not None or isinstance(spec.min_available, str)


def expectation(spec: PodDisruptionBudgetSpec, pods: int, scale: int) -> tuple[int, int]:
    """The expected and the desired healthy pods; ValueError if the budget's number is invalid."""
    if spec.max_unavailable is not None:
        return scale, max(0, scale - scaled_int_or_percent(spec.max_unavailable, scale, round_up=True))
    if isinstance(spec.min_available, str):
        return scale, scaled_int_or_percent(spec.min_available, scale, round_up=True)
    return (0, 0) if spec.min_available is None else (pods, spec.min_available)


def disrupted_pods(budget: PodDisruptionBudget, pods: Iterable[Pod], now: datetime) -> DisruptedPods:
    """The evicted pods still awaited; pods gone or being deleted are dropped."""
    waiting: dict[str, str] = {}
    overdue: list[Pod] = []
    deadlines: list[datetime] = []
    for pod in pods:
        since = budget.status.disrupted_pods.get(pod.metadata.name)
        if since is None or pod.metadata.deletion_timestamp is not None:
            continue
        deadline = parse_time(since) + DELETION_TIMEOUT
        if deadline < now:
            overdue.append(pod)
        else:
            waiting[pod.metadata.name] = since
            deadlines.append(deadline)
    return DisruptedPods(waiting, tuple(overdue), min(deadlines, default=None))


def healthy_count(pods: Iterable[Pod], disrupted: DisruptedPods, now: datetime) -> int:
    """The number of pods that are ready and not being disrupted."""
    return sum(
        pod.metadata.deletion_timestamp is None
        and not _is_being_disrupted(disrupted.waiting.get(pod.metadata.name), now)
        and ready_condition(pod) is not None
        for pod in pods
    )


def new_status(
    budget: PodDisruptionBudget,
    *,
    healthy: int,
    desired: int,
    expected: int,
    disrupted: Mapping[str, str],
    now: datetime,
) -> PodDisruptionBudgetStatus:
    """The new status. A budget that expects no pods permits nothing, since its first pods may just be starting."""
    allowed = max(0, healthy - desired) if expected > 0 else 0
    generation = budget.metadata.generation
    condition = Condition(
        type=CONDITION,
        status="True" if allowed else "False",
        reason="SufficientPods" if allowed else "InsufficientPods",
        observed_generation=generation,
    )
    return PodDisruptionBudgetStatus(
        current_healthy=healthy,
        desired_healthy=desired,
        expected_pods=expected,
        disruptions_allowed=allowed,
        disrupted_pods=disrupted,
        observed_generation=generation,
        conditions=_with_condition(budget.status.conditions, condition, now),
    )


def failed_status(budget: PodDisruptionBudget, message: str, now: datetime) -> PodDisruptionBudgetStatus:
    """The status of a failed sync: no disruption is allowed."""
    old = budget.status
    condition = Condition(
        type=CONDITION,
        status="False",
        reason="SyncFailed",
        message=message,
        observed_generation=old.observed_generation,
    )
    return replace(old, disruptions_allowed=0, conditions=_with_condition(old.conditions, condition, now))


def status_document(old: PodDisruptionBudgetStatus, new: PodDisruptionBudgetStatus) -> Document:
    """The merge patch from the old to the new status, with null for pods no longer awaited."""
    return {**explicit(new), "disruptedPods": {**dict.fromkeys(old.disrupted_pods), **new.disrupted_pods}}


def selector_text(selector: LabelSelector | None) -> str:
    """The selector as Go prints it in event messages."""
    if selector is None:
        return "nil"
    labels = "".join(f"{name}: {value}," for name, value in sorted(selector.match_labels.items()))
    rows = "".join(
        f"LabelSelectorRequirement{{Key:{row.key},Operator:{row.operator},Values:[{' '.join(row.values)}],}},"
        for row in selector.match_expressions
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{rows}}},}}"
    )


def _is_being_disrupted(since: str | None, now: datetime) -> bool:
    return since is not None and parse_time(since) + DELETION_TIMEOUT > now


def _with_condition(conditions: tuple[Condition, ...], new: Condition, now: datetime) -> tuple[Condition, ...]:
    """Sets a condition; its transition time changes only with its status."""
    old = next((one for one in conditions if one.type == new.type), None)
    if old is None:
        return (*conditions, replace(new, last_transition_time=format_time(now)))
    since = old.last_transition_time if old.status == new.status else format_time(now)
    new = replace(new, last_transition_time=since)
    return tuple(new if one is old else one for one in conditions)


def _replicas(uid: str, replicas: int | None) -> tuple[str, int]:
    return uid, 1 if replicas is None else replicas
