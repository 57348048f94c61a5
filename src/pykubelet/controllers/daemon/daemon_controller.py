"""The DaemonSet controller: one pod of a set on every node that should run it.

`DaemonSetEventHandlers` enqueues keys; `DaemonSetController.sync` maintains the history, creates and deletes pods node
by node, continues a rolling update, and writes the status.

Upstream: pkg/controller/daemon/daemon_controller.go
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.api.generated.apps import ControllerRevision, DaemonSet, DaemonSetStatus
from pykubelet.api.generated.core import Node, Pod
from pykubelet.api.generated.meta import LabelSelector
from pykubelet.api.labels import SelectorError, selector_from_object
from pykubelet.api.scheme import CONTROLLER_REVISIONS, DAEMON_SETS, NODES, PODS, ApiObject
from pykubelet.client.indexer import ObjectIndex, PodIndex, controller_of, key_of
from pykubelet.client.informers import Informers
from pykubelet.client.interface import Client
from pykubelet.client.recorder import NORMAL, WARNING, EventRecorder, reference_to
from pykubelet.controllers.daemon.placement import (
    BURST_DAEMONS,
    ROLLING_UPDATE,
    DaemonPodRevision,
    SurgePolicy,
    count_status,
    max_surge,
    node_should_run_daemon_pod,
    plan_node,
    pods_by_node,
    revision_of,
    stranded_pods,
)
from pykubelet.controllers.daemon.pods import DaemonPods, FailedPodBackoff
from pykubelet.controllers.daemon.update import (
    DaemonPodChanges,
    DaemonSetHistory,
    DaemonSetRevisions,
    plan_rolling_update,
)
from pykubelet.controllers.framework.active_pods import earliest_availability_seconds, ready_condition
from pykubelet.controllers.framework.expectations import CountingExpectations
from pykubelet.controllers.framework.ownership import explicit, store_status
from pykubelet.controllers.framework.pod_control import PodControlInterface
from pykubelet.controllers.framework.work_queue import KeyedController, WorkQueue

log = get_logger(__name__)
# The status fields this controller writes; conditions belong to others.
_COUNTS = (
    "desiredNumberScheduled",
    "currentNumberScheduled",
    "numberMisscheduled",
    "numberReady",
    "updatedNumberScheduled",
    "numberAvailable",
    "numberUnavailable",
    "collisionCount",
)


@dataclass(frozen=True, slots=True)
class DaemonSetInformers:
    """The informers' indexes that the controller reads."""

    sets: ObjectIndex[DaemonSet]
    pods: PodIndex
    nodes: ObjectIndex[Node]
    revisions: ObjectIndex[ControllerRevision]


class DaemonSetController(KeyedController):
    """Syncs DaemonSets by key. Event handlers only record and enqueue; `sync` acts."""

    def __init__(
        self,
        *,
        client: Client,
        pod_control: PodControlInterface,
        recorder: EventRecorder,
        view: DaemonSetInformers,
        expectations: CountingExpectations,
        clock: Clock,
        burst: int = BURST_DAEMONS,
    ) -> None:
        self._client, self._recorder, self._clock = client, recorder, clock
        self._informers, self._expectations = view, expectations
        self._pods = DaemonPods(
            client=client, pod_control=pod_control, pods=view.pods, expectations=expectations, clock=clock, burst=burst
        )
        self._history = DaemonSetHistory(client=client, revisions=view.revisions, pods=self._pods)
        self.queue = WorkQueue()
        self.failed_pods = FailedPodBackoff()

    def listen(self, informers: Informers) -> None:
        DaemonSetEventHandlers(sets=self._informers.sets, expectations=self._expectations, queue=self.queue).listen(
            informers
        )

    async def sync(self, key: str) -> None:
        """Reconciles one DaemonSet: its history, its pods on every node, and its status."""
        daemon_set = self._informers.sets.get(key)
        if daemon_set is None:
            self._expectations.forget(key)
            return
        if daemon_set.spec.selector == LabelSelector():
            message = "This daemon set is selecting all pods. A non-empty selector is required."
            self._recorder.event(reference_to(daemon_set), WARNING, "SelectingAll", message)
            return
        # The history of a deleted set may already be deleted or orphaned.
        if daemon_set.metadata.deletion_timestamp is not None:
            return
        try:
            selector_from_object(daemon_set.spec.selector)
        except SelectorError as error:
            log.warning("daemon set has an invalid selector", set=key, cause=str(error))
            return
        revisions = await self._history.revisions(daemon_set)
        if not self._may_act(key):
            await self._update_status(daemon_set, revisions, is_observed=False)
            return
        try:
            await self._manage(daemon_set, revisions)
        except Exception:
            try:
                await self._update_status(daemon_set, revisions, is_observed=True)
            except Exception as error:  # noqa: BLE001  the first error is raised
                log.warning("daemon set status not updated", set=key, cause=str(error))
            raise
        await self._update_status(daemon_set, revisions, is_observed=True)

    def _may_act(self, key: str) -> bool:
        """Whether all requested creations and deletions have been seen."""
        return self._expectations.satisfied(key, now_seconds=self._clock.monotonic())

    async def _manage(self, daemon_set: DaemonSet, revisions: DaemonSetRevisions) -> None:
        """Reconciles every node, then continues the rolling update; raises if some of it failed."""
        revision = revision_of(daemon_set, revisions.hash)
        changes = self._plan(daemon_set, revision, pods_by_node(await self._pods.claimed(daemon_set)))
        await self._pods.change(daemon_set, revision, create=changes.create, delete=changes.delete)
        if daemon_set.spec.update_strategy.type == ROLLING_UPDATE and self._may_act(key_of(daemon_set)):
            by_node = pods_by_node(await self._pods.claimed(daemon_set))
            step = plan_rolling_update(daemon_set, self._informers.nodes.all(), by_node, revision, self._clock.now())
            await self._pods.change(daemon_set, revision, create=step.create, delete=step.delete)
        await self._history.truncate(daemon_set, revisions.old, await self._pods.claimed(daemon_set))

    def _plan(
        self, daemon_set: DaemonSet, revision: DaemonPodRevision, by_node: Mapping[str, Sequence[Pod]]
    ) -> DaemonPodChanges:
        """Decides what to do on all nodes; failed and succeeded pods are recorded as events."""
        create: list[str] = []
        delete: list[Pod] = []
        nodes = {node.metadata.name: node for node in self._informers.nodes.all()}
        reference, now = reference_to(daemon_set), self._clock.monotonic()
        surge = SurgePolicy(revision, daemon_set.spec.min_ready_seconds, self._clock.now())
        for name, node in nodes.items():
            # A new generation of the set may not fail, so it starts without a delay.
            backoff_key = f"{daemon_set.metadata.uid}/{daemon_set.status.observed_generation}/{name}"
            plan = plan_node(
                node_should_run_daemon_pod(daemon_set, node),
                by_node.get(name, ()),
                may_kill_failed=not self.failed_pods.is_waiting(backoff_key, now),
                surge=surge if max_surge(daemon_set, 1) else None,
            )
            if plan.create:
                create.append(name)
            if plan.failed is not None:
                self.failed_pods.start(backoff_key, now)
                message = f"Found failed daemon pod {key_of(plan.failed)} on node {name}, will try to kill it"
                self._recorder.event(reference, WARNING, "FailedDaemonPod", message)
                delete.append(plan.failed)
            if plan.is_waiting:
                self.queue.add_after(key_of(daemon_set), self.failed_pods.delay_seconds(backoff_key))
            for pod in plan.succeeded:
                message = f"Found succeeded daemon pod {key_of(pod)} on node {name}, will try to delete it"
                self._recorder.event(reference, NORMAL, "SucceededDaemonPod", message)
            delete += (*plan.succeeded, *plan.surplus)
        return DaemonPodChanges(tuple(create), (*delete, *stranded_pods(by_node, nodes)))

    async def _update_status(self, daemon_set: DaemonSet, revisions: DaemonSetRevisions, *, is_observed: bool) -> None:
        """Counts the pods and writes the status if it has changed; `is_observed`: this generation was acted on."""
        pods, now = await self._pods.claimed(daemon_set), self._clock.now()
        revision = revision_of(daemon_set, revisions.hash)
        status = count_status(daemon_set, self._informers.nodes.all(), pods_by_node(pods), revision, now)
        status = replace(status, collision_count=revisions.collision_count)
        if status != daemon_set.status or daemon_set.status.observed_generation < daemon_set.metadata.generation:
            await store_status(self._client, DAEMON_SETS, daemon_set, _patch(daemon_set, status, is_observed))
        seconds = daemon_set.spec.min_ready_seconds
        if seconds > 0 and status.number_ready != status.number_available:
            left = earliest_availability_seconds(pods, seconds, now, self._clock.now())
            self.queue.add_after(key_of(daemon_set), seconds if left is None else left)
        self._expectations.enqueue_on_expiry(key_of(daemon_set), self.queue, now_seconds=self._clock.monotonic())


class DaemonSetEventHandlers:
    """Event handlers that only update expectations and enqueue keys."""

    def __init__(self, *, sets: ObjectIndex[DaemonSet], expectations: CountingExpectations, queue: WorkQueue) -> None:
        self._sets, self._expectations, self._queue = sets, expectations, queue

    def listen(self, informers: Informers) -> None:
        informers.add_event_handler(
            DAEMON_SETS, added=self.set_added, updated=self.set_updated, deleted=self.set_deleted
        )
        informers.add_event_handler(PODS, added=self.pod_added, updated=self.pod_updated, deleted=self.pod_deleted)
        informers.add_event_handler(NODES, added=self.node_added, updated=self.node_updated, deleted=self.node_deleted)
        informers.add_event_handler(
            CONTROLLER_REVISIONS,
            added=self.revision_added,
            updated=self.revision_updated,
            deleted=self.revision_deleted,
        )

    def set_added(self, daemon_set: DaemonSet) -> None:
        self._queue.add(key_of(daemon_set))

    def set_updated(self, old: DaemonSet, new: DaemonSet) -> None:
        """Enqueues the set; a different UID means that another set has taken its name."""
        if old.metadata.uid != new.metadata.uid:
            self.set_deleted(old)
        self._queue.add(key_of(new))

    def set_deleted(self, daemon_set: DaemonSet) -> None:
        """Drops the expectations, so that a new set of the same name starts clean."""
        self._expectations.forget(key_of(daemon_set))
        self._queue.add(key_of(daemon_set))

    def pod_added(self, pod: Pod) -> None:
        """Counts the creation and enqueues the pod's set. A pod already being deleted is not the creation awaited."""
        if pod.metadata.deletion_timestamp is not None:
            self.pod_deleted(pod)
        elif controller_of(pod) is None:
            self._enqueue_selecting(pod)
        elif daemon_set := self._owner(pod):
            self._expectations.creation_observed(key_of(daemon_set))
            self._queue.add(key_of(daemon_set))

    def pod_updated(self, old: Pod, new: Pod) -> None:
        """Enqueues the sets concerned, and again when a ready pod becomes available."""
        if old.metadata.resource_version == new.metadata.resource_version:
            return
        if new.metadata.deletion_timestamp is not None:
            self.pod_deleted(new)
            return
        self._enqueue_changed(old, new)
        daemon_set = self._owner(new)
        if daemon_set is None or daemon_set.spec.min_ready_seconds <= 0:
            return
        if ready_condition(old) is None and ready_condition(new) is not None:
            self._queue.add_after(key_of(daemon_set), daemon_set.spec.min_ready_seconds)

    def pod_deleted(self, pod: Pod) -> None:
        """Counts the deletion, also when the pod is only being deleted. The deletion of an orphan is not awaited."""
        if daemon_set := self._owner(pod):
            self._expectations.deletion_observed(key_of(daemon_set))
            self._queue.add(key_of(daemon_set))

    def node_added(self, _node: Node) -> None:
        """Enqueues every set; a new node may even have pods that do not belong there."""
        for daemon_set in self._sets.all():
            self._queue.add(key_of(daemon_set))

    def node_updated(self, old: Node, new: Node) -> None:
        """Enqueues the sets whose placement changes; heartbeats change none."""
        if (old.metadata.labels, old.spec.taints) == (new.metadata.labels, new.spec.taints):
            return
        for daemon_set in self._sets.all():
            if node_should_run_daemon_pod(daemon_set, old) != node_should_run_daemon_pod(daemon_set, new):
                self._queue.add(key_of(daemon_set))

    def node_deleted(self, node: Node) -> None:
        """Enqueues the sets that ran there; a pod that was never scheduled must be deleted."""
        for daemon_set in self._sets.all():
            if node_should_run_daemon_pod(daemon_set, node).may_stay:
                self._queue.add(key_of(daemon_set))

    def revision_added(self, revision: ControllerRevision) -> None:
        """Enqueues the sets that may adopt an orphaned revision."""
        if controller_of(revision) is None:
            self._enqueue_selecting(revision)

    def revision_updated(self, old: ControllerRevision, new: ControllerRevision) -> None:
        if old.metadata.resource_version != new.metadata.resource_version:
            self._enqueue_changed(old, new)

    def revision_deleted(self, revision: ControllerRevision) -> None:
        """Enqueues the set, which recreates its current revision."""
        if daemon_set := self._owner(revision):
            self._queue.add(key_of(daemon_set))

    def _enqueue_changed(self, old: ApiObject, new: ApiObject) -> None:
        """Enqueues the object's set and its former one or, for an orphan, the sets that select it."""
        manager_changed = controller_of(old) != controller_of(new)
        if manager_changed and (former := self._owner(old)):
            self._queue.add(key_of(former))
        if controller_of(new) is None:
            if manager_changed or old.metadata.labels != new.metadata.labels:
                self._enqueue_selecting(new)
        elif daemon_set := self._owner(new):
            self._queue.add(key_of(daemon_set))

    def _owner(self, obj: ApiObject) -> DaemonSet | None:
        return self._sets.resolve(obj.metadata.namespace, controller_of(obj))

    def _enqueue_selecting(self, orphan: ApiObject) -> None:
        for daemon_set in self._sets.selecting(orphan, lambda one: one.spec.selector):
            self._queue.add(key_of(daemon_set))


def daemon_set_informers(informers: Informers) -> DaemonSetInformers:
    return DaemonSetInformers(
        sets=informers.objects(DAEMON_SETS),
        pods=informers.pods,
        nodes=informers.objects(NODES),
        revisions=informers.objects(CONTROLLER_REVISIONS),
    )


def _patch(daemon_set: DaemonSet, status: DaemonSetStatus, is_observed: bool) -> dict[str, object]:
    document = explicit(status)
    patch = {name: document[name] for name in _COUNTS}
    return patch | {"observedGeneration": daemon_set.metadata.generation} if is_observed else patch
