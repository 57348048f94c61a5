"""The StatefulSet controller: pods with numbers, made and replaced in their order.

In: changes of sets, pods and claims, told after the indexes have been brought up to date. Out: pods and claims, the
status of the set, its history, events about it.
Upstream: pkg/controller/statefulset/stateful_set.go, stateful_set_control.go.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.api.generated.apps import ControllerRevision, StatefulSet, StatefulSetStatus
from pykubelet.api.generated.core import PersistentVolumeClaim, Pod
from pykubelet.api.generated.meta import LabelSelector
from pykubelet.api.selector import Selector, SelectorError, selector_from_object
from pykubelet.api.typed import (
    CONTROLLER_REVISIONS,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    STATEFUL_SETS,
    ApiObject,
)
from pykubelet.api.wire import Document
from pykubelet.controllers.informers import Informers
from pykubelet.controllers.object_index import ObjectIndex, key_of, manager_of
from pykubelet.controllers.owner_access import explicit, may_adopt, store_status
from pykubelet.controllers.ownership import Ownership
from pykubelet.controllers.pod_index import PodIndex
from pykubelet.controllers.pod_order import earliest_availability_seconds, ready_condition
from pykubelet.controllers.revisions import RevisionClient
from pykubelet.controllers.slow_start import slow_start_batch
from pykubelet.controllers.statefulset.history import StatefulHistory, Versions
from pykubelet.controllers.statefulset.identity import is_member, ordinal_of, wanted_replicas
from pykubelet.controllers.statefulset.plan import Plan, Sight, Step, is_parallel, plan
from pykubelet.controllers.statefulset.pods import StatefulPods
from pykubelet.controllers.statefulset.status import compute_status
from pykubelet.controllers.work_queue import WorkQueue
from pykubelet.kube.recorder import EventRecorder

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class StatefulView:
    """What the controller has seen of the cluster; kept up to date by who feeds it."""

    sets: ObjectIndex[StatefulSet]
    pods: PodIndex
    claims: ObjectIndex[PersistentVolumeClaim]
    revisions: ObjectIndex[ControllerRevision]


def stateful_view(informers: Informers) -> StatefulView:
    """The view that informers keep up to date."""
    return StatefulView(
        sets=informers.objects(STATEFUL_SETS),
        pods=informers.pods,
        claims=informers.objects(PERSISTENT_VOLUME_CLAIMS),
        revisions=informers.objects(CONTROLLER_REVISIONS),
    )


class StatefulSetController:
    """Syncs StatefulSets by key. Events only put keys into `queue`; `sync` acts."""

    def __init__(self, *, client: RevisionClient, recorder: EventRecorder, view: StatefulView, clock: Clock) -> None:
        self._client, self._view, self._clock = client, view, clock
        self._pods = StatefulPods(client=client, recorder=recorder, claims=view.claims)
        self._history = StatefulHistory(client=client, revisions=view.revisions)
        self.queue = WorkQueue()

    def listen(self, informers: Informers) -> None:
        """Hear of every change of sets and pods, and of the end of claims."""
        informers.tell(STATEFUL_SETS, added=self.set_added, updated=self.set_updated, deleted=self.set_deleted)
        informers.tell(PODS, added=self.pod_added, updated=self.pod_updated, deleted=self.pod_deleted)
        informers.tell(
            PERSISTENT_VOLUME_CLAIMS,
            added=lambda _claim: None,
            updated=lambda _old, _new: None,
            deleted=self.claim_deleted,
        )
        # Nothing waits for them, but they are looked up.
        informers.objects(CONTROLLER_REVISIONS)

    def set_added(self, stateful_set: StatefulSet) -> None:
        """A set is new."""
        self.queue.add(key_of(stateful_set))

    def set_updated(self, _old: StatefulSet, new: StatefulSet) -> None:
        """A set has changed, or another one has taken its name."""
        self.queue.add(key_of(new))

    def set_deleted(self, stateful_set: StatefulSet) -> None:
        """A set is gone."""
        self.queue.add(key_of(stateful_set))

    def pod_added(self, pod: Pod) -> None:
        """A pod is new to us."""
        if manager_of(pod) is not None:
            self._wake_manager(pod)
        elif pod.metadata.deletion_timestamp is None:
            self._wake_selecting(pod)

    def pod_updated(self, old: Pod, new: Pod) -> None:
        """A pod has changed."""
        if old.metadata.resource_version == new.metadata.resource_version:
            return
        manager_changed = manager_of(old) != manager_of(new)
        if manager_changed:
            self._wake_manager(old)
        if manager_of(new) is not None:
            self._wake_manager(new)
        elif manager_changed or old.metadata.labels != new.metadata.labels:
            self._wake_selecting(new)
        stateful_set = self._manager(new)
        if stateful_set is None or stateful_set.spec.min_ready_seconds <= 0:
            return
        if ready_condition(old) is None and ready_condition(new) is not None:
            self.queue.add_after(key_of(stateful_set), stateful_set.spec.min_ready_seconds)

    def pod_deleted(self, pod: Pod) -> None:
        """A pod is gone; whoever it belonged to, its name is free again."""
        self._wake_manager(pod)
        name, _, number = pod.metadata.name.rpartition("-")
        if ordinal_of(f"-{number}") is not None and (found := self._view.sets.get(f"{pod.metadata.namespace}/{name}")):
            self.queue.add(key_of(found))

    def claim_deleted(self, claim: PersistentVolumeClaim) -> None:
        """A claim is gone; a pod may be waiting for a new one of its name."""
        self._wake_selecting(claim)

    async def process_next(self) -> None:
        """Sync the next key of the queue; a failure puts it back, later."""
        await self.queue.process_next(self.sync)

    async def sync(self, key: str) -> None:
        """Take the next steps with one set, and bring its status up to date.

        Raises what went wrong; the key is to be synced again then. Never twice at once for one key.
        """
        stateful_set = self._view.sets.get(key)
        if stateful_set is None:
            return
        try:
            selector = selector_from_object(stateful_set.spec.selector)
        except SelectorError as error:
            log.warning("set has no valid selector", set=key, cause=str(error))
            return
        if stateful_set.metadata.deletion_timestamp is not None:
            # Its pods and revisions are the garbage collector's; it still says how many there are.
            await self._report_end(stateful_set, selector)
            return
        revisions = await self._history.claim(stateful_set, selector)
        pods = await self._claim(stateful_set, selector)
        versions = await self._history.versions(stateful_set, revisions)
        planned = self._plan(stateful_set, pods, versions)
        failure = await self._carry_out(stateful_set, planned)
        try:
            await self._report(stateful_set, pods, versions, is_update=planned.is_update and failure is None)
        except Exception as error:
            if failure is None:
                raise
            log.warning("status not written", set=key, cause=str(error))
        await self._history.truncate(stateful_set, revisions, versions, pods)
        if failure is not None:
            raise failure

    async def _claim(self, stateful_set: StatefulSet, selector: Selector) -> tuple[Pod, ...]:
        """The set's pods, after adopting and releasing; only those that have a name of its own can be its pods."""

        async def patch(namespace: str, name: str, body: Document) -> None:
            await self._client.patch(PODS, name, body, namespace=namespace)

        can_adopt = may_adopt(self._client, STATEFUL_SETS, stateful_set)
        ownership = Ownership[Pod](patch=patch, owner=stateful_set, selector=selector, can_adopt=can_adopt)
        known = self._view.pods.of_owner(stateful_set, with_orphans=True)
        pods, error = await ownership.claim(known, lambda pod: is_member(stateful_set, pod))
        if error is not None:
            raise error
        return pods

    def _plan(self, stateful_set: StatefulSet, pods: Sequence[Pod], versions: Versions) -> Plan:
        sight = Sight(
            stateful_set=stateful_set,
            pods=pods,
            claim=self._view.claims.get,
            new_pod=lambda ordinal: versions.new_pod(stateful_set, ordinal),
            update_revision=versions.update.metadata.name,
            now=self._clock.now(),
        )
        return plan(sight)

    async def _carry_out(self, stateful_set: StatefulSet, planned: Plan) -> Exception | None:
        """Stage after stage, until something goes wrong; what that was."""
        for stage in planned.stages:
            if is_parallel(stateful_set):
                failure = await self._take_at_once(stateful_set, stage)
            else:
                failure = await self._take_in_turn(stateful_set, stage)
            if failure is not None:
                return failure
        return None

    async def _take_in_turn(self, stateful_set: StatefulSet, steps: Sequence[Step]) -> Exception | None:
        for step in steps:
            try:
                await self._pods.take(stateful_set, step)
            except Exception as error:  # noqa: BLE001  told in the status's turn, then raised
                return error
        return None

    async def _take_at_once(self, stateful_set: StatefulSet, steps: Sequence[Step]) -> Exception | None:
        left = iter(steps)
        _, failure = await slow_start_batch(len(steps), lambda: self._pods.take(stateful_set, next(left)))
        return failure

    async def _report_end(self, stateful_set: StatefulSet, selector: Selector) -> None:
        pods, status = await self._claim(stateful_set, selector), stateful_set.status
        now = self._clock.now()
        counted = compute_status(stateful_set, pods, status.current_revision, status.update_revision, now)
        await self._store(stateful_set, counted)

    async def _report(
        self, stateful_set: StatefulSet, pods: Sequence[Pod], versions: Versions, *, is_update: bool
    ) -> None:
        """Write the status if it says something new, and look again when the next pod becomes available."""
        now = self._clock.now()
        names = versions.current.metadata.name, versions.update.metadata.name
        status = compute_status(stateful_set, pods, *names, now, is_update=is_update)
        await self._store(stateful_set, replace(status, collision_count=versions.collision_count))
        seconds = stateful_set.spec.min_ready_seconds
        if seconds > 0 and status.available_replicas != wanted_replicas(stateful_set):
            left = earliest_availability_seconds(pods, seconds, now, self._clock.now())
            self.queue.add_after(key_of(stateful_set), seconds if left is None else left)

    async def _store(self, stateful_set: StatefulSet, status: StatefulSetStatus) -> None:
        if status != stateful_set.status:
            document = explicit(status)
            # Conditions are others' to write.
            del document["conditions"]
            await store_status(self._client, STATEFUL_SETS, stateful_set, document)

    def _manager(self, obj: ApiObject) -> StatefulSet | None:
        return self._view.sets.resolve(obj.metadata.namespace, manager_of(obj))

    def _wake_manager(self, obj: ApiObject) -> None:
        if stateful_set := self._manager(obj):
            self.queue.add(key_of(stateful_set))

    def _wake_selecting(self, orphan: ApiObject) -> None:
        for stateful_set in self._view.sets.selecting(orphan, _selector_of):
            self.queue.add(key_of(stateful_set))


def _selector_of(stateful_set: StatefulSet) -> LabelSelector | None:
    return stateful_set.spec.selector
