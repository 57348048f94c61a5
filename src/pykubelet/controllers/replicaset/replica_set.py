"""The ReplicaSet controller: keeps the number of pods that a ReplicaSet asks for.

Event handlers record what was seen and enqueue keys; `ReplicasController.sync` acts: it claims pods, creates or
deletes the difference through PodControl, and writes the status. ReplicationControllers have the same controller: upstream
converts them to ReplicaSets, here it is generic over both, which differ in their selector and the types of their status.

Upstream: pkg/controller/replicaset/replica_set.go, pkg/controller/replicaset/replica_set_utils.go
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Generic, TypeVar

from msgspec.structs import replace

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.api.errors import NotFound
from pykubelet.api.generated.apps import ReplicaSet, ReplicaSetCondition, ReplicaSetStatus
from pykubelet.api.generated.core import (
    Pod,
    PodTemplateSpec,
    ReplicationController,
    ReplicationControllerCondition,
    ReplicationControllerStatus,
)
from pykubelet.api.generated.meta import LabelSelector
from pykubelet.api.labels import Selector, SelectorError, selector_from_labels, selector_from_object
from pykubelet.api.pods import pod_label
from pykubelet.api.scheme import PODS, REPLICA_SETS, TypedKind
from pykubelet.api.times import format_time
from pykubelet.client.indexer import ObjectIndex, PodIndex, controller_of, key_of
from pykubelet.client.informers import Informers
from pykubelet.client.interface import Client
from pykubelet.controllers.framework.active_pods import (
    earliest_availability_seconds,
    is_claimed,
    is_pod_active,
    is_pod_available,
    is_pod_terminating,
    ranked_deletion_order,
    ready_condition,
)
from pykubelet.controllers.framework.expectations import UidTrackingExpectations
from pykubelet.controllers.framework.ownership import (
    PodControllerRefManager,
    explicit,
    may_adopt,
    new_controller_ref,
    store_status,
)
from pykubelet.controllers.framework.pod_control import (
    PodControlInterface,
    attempt_all,
    slow_start_batch,
    terminating_namespace_ignored,
)
from pykubelet.controllers.framework.work_queue import KeyedController, WorkQueue

log = get_logger(__name__)
# The most pods one sync creates or deletes before it waits to see them.
BURST_REPLICAS = 500
REPLICA_FAILURE = "ReplicaFailure"
T = TypeVar("T", ReplicaSet, ReplicationController)


class ReplicasController(KeyedController, Generic[T]):
    """Syncs the sets of one kind by key. Event handlers only record and enqueue; `sync` acts."""

    kind: TypedKind[T]

    def __init__(
        self,
        *,
        client: Client,
        pod_control: PodControlInterface,
        pods: PodIndex,
        sets: ObjectIndex[T],
        expectations: UidTrackingExpectations,
        clock: Clock,
        burst: int = BURST_REPLICAS,
        count_terminating: bool = False,
    ) -> None:
        """`count_terminating` is the feature gate DeploymentReplicaSetTerminatingReplicas, off in 1.34."""
        self._client, self._pod_control, self._clock = client, pod_control, clock
        self._pods, self._expectations = pods, expectations
        self._sets: ObjectIndex[T] = sets
        self._burst, self._count_terminating = burst, count_terminating
        self.queue = WorkQueue()

    def listen(self, informers: Informers) -> None:
        informers.add_event_handler(self.kind, added=self.set_added, updated=self.set_updated, deleted=self.set_deleted)
        informers.add_event_handler(PODS, added=self.pod_added, updated=self.pod_updated, deleted=self.pod_deleted)

    def set_added(self, replica_set: T) -> None:
        self.queue.add(key_of(replica_set))

    def set_updated(self, old: T, new: T) -> None:
        """Enqueues the set; a different UID means that another set has taken its name."""
        if old.metadata.uid != new.metadata.uid:
            self.set_deleted(old)
        if old.metadata.generation != new.metadata.generation:
            self.queue.add(key_of(new))
        else:
            # Most likely its status, written by this controller.
            self._enqueue(new)

    def set_deleted(self, replica_set: T) -> None:
        """Drops the expectations, so that a new set of the same name starts clean."""
        self._expectations.forget(key_of(replica_set))
        self.queue.add(key_of(replica_set))

    def pod_added(self, pod: Pod) -> None:
        """Counts the creation and enqueues the pod's set. A pod already being deleted is not the creation awaited."""
        if pod.metadata.deletion_timestamp is not None:
            self.pod_deleted(pod)
        elif controller_of(pod) is None:
            self._enqueue_selecting(pod)
        elif replica_set := self._sets.resolve(pod.metadata.namespace, controller_of(pod)):
            self._expectations.creation_observed(key_of(replica_set))
            self._enqueue(replica_set)

    def pod_updated(self, old: Pod, new: Pod) -> None:
        """Enqueues the sets concerned: the pod's, its former one, or for an orphan those that select it."""
        if old.metadata.resource_version == new.metadata.resource_version:
            return
        labels_changed = old.metadata.labels != new.metadata.labels
        if new.metadata.deletion_timestamp is not None:
            # The replacement is created while the pod still terminates.
            self.pod_deleted(new)
            if labels_changed:
                self.pod_deleted(old)
            return
        manager_changed = controller_of(old) != controller_of(new)
        if manager_changed and (former := self._sets.resolve(old.metadata.namespace, controller_of(old))):
            self.queue.add(key_of(former))
        if controller_of(new) is None:
            if labels_changed or manager_changed:
                self._enqueue_selecting(new)
        elif replica_set := self._sets.resolve(new.metadata.namespace, controller_of(new)):
            self._enqueue(replica_set)
            became_ready = ready_condition(old) is None and ready_condition(new) is not None
            if became_ready and replica_set.spec.min_ready_seconds > 0:
                self.queue.add_after(key_of(replica_set), replica_set.spec.min_ready_seconds)

    def pod_deleted(self, pod: Pod) -> None:
        """Counts the deletion, also when the pod is only being deleted. The deletion of an orphan is not awaited."""
        if replica_set := self._sets.resolve(pod.metadata.namespace, controller_of(pod)):
            self._expectations.deletion_observed(key_of(replica_set), pod_label(pod))
            self._enqueue(replica_set)

    async def sync(self, key: str) -> None:
        """Reconciles one ReplicaSet: claims pods, creates or deletes the difference, writes the status."""
        replica_set = self._sets.get(key)
        if replica_set is None:
            self._expectations.forget(key)
            return
        # Checked before the pods are listed: a pod that arrives in between is then listed, not created twice.
        may_act = self._expectations.satisfied(key, now_seconds=self._clock.monotonic())
        try:
            selector = selector_from_object(_selector_of(replica_set))
        except SelectorError as error:
            log.warning("replica set has an invalid selector", set=key, cause=str(error))
            return
        pods = self._pods.of_owner(replica_set, with_orphans=True)
        active = await self._claim(replica_set, selector, [pod for pod in pods if is_pod_active(pod)])
        failure = None
        if may_act and replica_set.metadata.deletion_timestamp is None:
            failure = await self._manage(replica_set, active)
        terminating = None
        if self._count_terminating:
            uid = replica_set.metadata.uid
            terminating = sum(is_pod_terminating(pod) and is_claimed(pod, uid, selector) for pod in pods)
        await self._update_status(replica_set, active, terminating, failure)
        if failure is not None:
            raise failure
        self._expectations.enqueue_on_expiry(key, self.queue, now_seconds=self._clock.monotonic())

    async def _claim(self, replica_set: T, selector: Selector, pods: Sequence[Pod]) -> tuple[Pod, ...]:
        manager = PodControllerRefManager(
            pod_control=self._pod_control,
            owner=replica_set,
            selector=selector,
            can_adopt=may_adopt(self._client, self.kind, replica_set),
        )
        return await manager.claim_or_raise(pods)

    async def _manage(self, replica_set: T, active: Sequence[Pod]) -> Exception | None:
        """Creates missing pods or deletes surplus ones; returns one of the errors, if any."""
        count = replicas_to_add(len(active), wanted_replicas(replica_set), self._burst)
        if count > 0:
            return await self._create(replica_set, count)
        if count < 0:
            related = self._related_pods(replica_set)
            return await self._delete(replica_set, pods_to_delete(active, related, -count, self._clock.now()))
        return None

    async def _create(self, replica_set: T, count: int) -> Exception | None:
        key, namespace = key_of(replica_set), replica_set.metadata.namespace
        reference, template = new_controller_ref(replica_set), _template_of(replica_set)
        self._expectations.expect_creations(key, count, now_seconds=self._clock.monotonic())

        async def create() -> None:
            with terminating_namespace_ignored():
                await self._pod_control.create_pods(namespace, template, replica_set, reference)

        created, error = await slow_start_batch(count, create)
        self._expectations.lower(key, add=count - created)
        return error

    async def _delete(self, replica_set: T, pods: Sequence[Pod]) -> Exception | None:
        key = key_of(replica_set)
        names = [pod_label(pod) for pod in pods]
        self._expectations.expect_deletions(key, names, now_seconds=self._clock.monotonic())
        control, namespace = self._pod_control, replica_set.metadata.namespace
        outcomes = await attempt_all(control.delete_pod(namespace, pod.metadata.name, replica_set) for pod in pods)
        first = None
        for name, error in zip(names, outcomes, strict=True):
            if error is None:
                continue
            self._expectations.deletion_observed(key, name)
            if not isinstance(error, NotFound):
                first = first or error
        return first

    async def _update_status(
        self, replica_set: T, active: Sequence[Pod], terminating: int | None, failure: Exception | None
    ) -> None:
        """Writes the status if it has changed, and enqueues the set for when the next pod becomes available."""
        now = self._clock.now()
        text = None if failure is None else str(failure)
        status = compute_status(replica_set, active, terminating=terminating, failure=text, now=now)
        if status != replica_set.status:
            replica_set = await store_status(self._client, self.kind, replica_set, explicit(status))
        seconds = replica_set.spec.min_ready_seconds
        stored = replica_set.status
        if failure is None and seconds > 0 and stored.ready_replicas != stored.available_replicas:
            left = earliest_availability_seconds(active, seconds, now, self._clock.now())
            self.queue.add_after(key_of(replica_set), seconds if left is None else left)

    def _related_pods(self, replica_set: T) -> tuple[Pod, ...]:
        """The pods of all sets with the same owner, such as the revisions of one Deployment."""
        manager = controller_of(replica_set)
        found: dict[str, Pod] = {}
        for related in self._sets.managed_by(manager.uid) if manager is not None else ():
            try:
                selector = selector_from_object(_selector_of(related))
            except SelectorError:
                continue
            for pod in self._pods.of_owner(related, with_orphans=True):
                if selector.matches(pod.metadata.labels):
                    found.setdefault(pod.metadata.uid, pod)
        return tuple(found.values())

    def _enqueue(self, replica_set: T) -> None:
        self.queue.add_batched(key_of(replica_set), self._pods.count_of_owner(replica_set))

    def _enqueue_selecting(self, pod: Pod) -> None:
        for replica_set in self._sets.selecting(pod, _selector_of):
            self.queue.add(key_of(replica_set))


class ReplicaSetController(ReplicasController[ReplicaSet]):
    """Keeps the number of pods of each ReplicaSet."""

    kind = REPLICA_SETS


def _selector_of(replica_set: ReplicaSet | ReplicationController) -> LabelSelector | None:
    """The selector; that of a ReplicationController is plain labels."""
    selector = replica_set.spec.selector
    return LabelSelector(match_labels=selector) if isinstance(selector, Mapping) else selector


def _template_of(replica_set: ReplicaSet | ReplicationController) -> PodTemplateSpec:
    """The pod template, which validation requires of both kinds."""
    return replica_set.spec.template or PodTemplateSpec()


def wanted_replicas(replica_set: ReplicaSet | ReplicationController) -> int:
    """The `spec.replicas`; 1 is the API's default."""
    return 1 if replica_set.spec.replicas is None else replica_set.spec.replicas


def replicas_to_add(active: int, wanted: int, burst: int = BURST_REPLICAS) -> int:
    """The number of pods to create, or below zero to delete; at most `burst`."""
    return max(-burst, min(burst, wanted - active))


def pods_to_delete(pods: Sequence[Pod], related: Iterable[Pod], count: int, now: datetime) -> tuple[Pod, ...]:
    """The `count` pods to delete first.

    Among equally ready pods, one on a node with many `related` pods goes first, so that the rest stays spread out.
    """
    if count >= len(pods):
        return tuple(pods)
    on_node = Counter(pod.spec.node_name for pod in related if is_pod_active(pod))
    return tuple(ranked_deletion_order(pods, [on_node[pod.spec.node_name] for pod in pods], now)[:count])


def compute_status(
    replica_set: ReplicaSet | ReplicationController,
    active: Sequence[Pod],
    *,
    terminating: int | None,
    failure: str | None,
    now: datetime,
) -> ReplicaSetStatus | ReplicationControllerStatus:
    """The new status; `failure` is the error of creating or deleting pods, if any.

    `observedGeneration` is that of `replica_set`. `terminating` is None if it is not counted.
    """
    template = selector_from_labels(_template_of(replica_set).metadata.labels)
    is_controller = isinstance(replica_set, ReplicationController)
    ready, seconds = [pod for pod in active if ready_condition(pod)], replica_set.spec.min_ready_seconds
    return replace(
        replica_set.status,
        replicas=len(active),
        fully_labeled_replicas=sum(template.matches(pod.metadata.labels) for pod in active),
        ready_replicas=len(ready),
        available_replicas=sum(is_pod_available(pod, seconds, now) for pod in ready) if seconds else len(ready),
        **({} if is_controller else {"terminating_replicas": terminating}),
        observed_generation=replica_set.metadata.generation,
        conditions=_conditions(replica_set, len(active), failure, now),
    )


def _conditions(
    replica_set: ReplicaSet | ReplicationController, active: int, failure: str | None, now: datetime
) -> tuple[ReplicaSetCondition | ReplicationControllerCondition, ...]:
    """Adds the ReplicaFailure condition once; a later failure does not replace it, success removes it."""
    conditions = replica_set.status.conditions
    others = tuple(condition for condition in conditions if condition.type != REPLICA_FAILURE)
    if failure is None:
        return others
    if others != conditions:
        return conditions
    surplus = active - wanted_replicas(replica_set)
    made = ReplicationControllerCondition if isinstance(replica_set, ReplicationController) else ReplicaSetCondition
    condition = made(
        type=REPLICA_FAILURE,
        status="True",
        reason="FailedCreate" if surplus < 0 else "FailedDelete" if surplus > 0 else "",
        message=failure,
        last_transition_time=format_time(now),
    )
    return (*others, condition)
