"""The StatefulSet controller: pods with stable identities, created and replaced in order.

`StatefulSetController.sync` claims pods and revisions, plans the next steps, carries them out and writes the status.

Upstream: pkg/controller/statefulset/stateful_set.go, pkg/controller/statefulset/stateful_set_control.go,
pkg/controller/statefulset/stateful_set_status_updater.go
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from msgspec.structs import replace

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.api.generated.apps import ControllerRevision, StatefulSet, StatefulSetStatus
from pykubelet.api.generated.core import PersistentVolumeClaim, Pod
from pykubelet.api.labels import Selector, SelectorError, selector_from_object
from pykubelet.api.scheme import CONTROLLER_REVISIONS, PERSISTENT_VOLUME_CLAIMS, PODS, STATEFUL_SETS, ApiObject
from pykubelet.client.indexer import ObjectIndex, PodIndex, controller_of, key_of
from pykubelet.client.informers import Informers
from pykubelet.client.interface import Client
from pykubelet.client.recorder import EventRecorder
from pykubelet.controllers.framework.active_pods import earliest_availability_seconds, is_pod_available, ready_condition
from pykubelet.controllers.framework.controller_history import (
    DEFAULT_HISTORY_LIMIT,
    REVISION_LABEL,
    ControllerRevisions,
    RevisionNaming,
    data_hash,
    is_same_data,
    new_revision,
    next_number,
    restored_template,
    restores,
    revision_data,
    surplus_revisions,
)
from pykubelet.controllers.framework.ownership import explicit, ref_manager, store_status
from pykubelet.controllers.framework.pod_control import slow_start_batch
from pykubelet.controllers.framework.work_queue import KeyedController, WorkQueue
from pykubelet.controllers.statefulset.identity import is_member, new_pod, ordinal_of, wanted_replicas
from pykubelet.controllers.statefulset.stateful_pod_control import StatefulPodControl
from pykubelet.controllers.statefulset.stateful_set_control import (
    ROLLING_UPDATE,
    PodStep,
    StatefulSetPlan,
    StatefulSetState,
    is_of_current_revision,
    is_parallel,
    is_running_and_ready,
    plan_update,
)

log = get_logger(__name__)
NAMING = RevisionNaming("controller.kubernetes.io/hash", data_hash)


@dataclass(frozen=True, slots=True)
class StatefulSetRevisions:
    """The current and the update revision of one set; the same unless an update is under way."""

    current: ControllerRevision
    update: ControllerRevision
    collision_count: int

    def new_pod(self, stateful_set: StatefulSet, ordinal: int) -> Pod:
        """The pod with this ordinal, of the revision it should have."""
        template = stateful_set.spec.template
        if not is_of_current_revision(stateful_set, ordinal):
            return new_pod(stateful_set, template, ordinal, self.update.metadata.name)
        former = restored_template(self.current, template) or template
        return new_pod(stateful_set, former, ordinal, self.current.metadata.name)


@dataclass(frozen=True, slots=True)
class StatefulSetInformers:
    """The informers' indexes that the controller reads."""

    sets: ObjectIndex[StatefulSet]
    pods: PodIndex
    claims: ObjectIndex[PersistentVolumeClaim]
    revisions: ObjectIndex[ControllerRevision]


class StatefulSetController(KeyedController):
    """Syncs StatefulSets by key. Event handlers only enqueue; `sync` acts."""

    def __init__(self, *, client: Client, recorder: EventRecorder, view: StatefulSetInformers, clock: Clock) -> None:
        self._client, self._informers, self._clock = client, view, clock
        self._pods = StatefulPodControl(client=client, recorder=recorder, claims=view.claims)
        self._history = StatefulSetHistory(client=client, kind=STATEFUL_SETS, revisions=view.revisions)
        self.queue = WorkQueue()

    def listen(self, informers: Informers) -> None:
        informers.add_event_handler(STATEFUL_SETS, changed=self.set_changed, deleted=self.set_changed)
        informers.add_event_handler(PODS, added=self.pod_added, updated=self.pod_updated, deleted=self.pod_deleted)
        informers.add_event_handler(PERSISTENT_VOLUME_CLAIMS, deleted=self.claim_deleted)
        # Only read, without event handlers.
        informers.objects(CONTROLLER_REVISIONS)

    def set_changed(self, stateful_set: StatefulSet) -> None:
        self.queue.add(key_of(stateful_set))

    def pod_added(self, pod: Pod) -> None:
        """Enqueues the pod's set or, for an orphan, the sets that select it."""
        if controller_of(pod) is not None:
            self._enqueue_owner(pod)
        elif pod.metadata.deletion_timestamp is None:
            self._enqueue_selecting(pod)

    def pod_updated(self, old: Pod, new: Pod) -> None:
        """Enqueues the sets concerned, and again when a ready pod becomes available."""
        if old.metadata.resource_version == new.metadata.resource_version:
            return
        manager_changed = controller_of(old) != controller_of(new)
        if manager_changed:
            self._enqueue_owner(old)
        if controller_of(new) is not None:
            self._enqueue_owner(new)
        elif manager_changed or old.metadata.labels != new.metadata.labels:
            self._enqueue_selecting(new)
        stateful_set = self._owner(new)
        if stateful_set is None or stateful_set.spec.min_ready_seconds <= 0:
            return
        if ready_condition(old) is None and ready_condition(new) is not None:
            self.queue.add_after(key_of(stateful_set), stateful_set.spec.min_ready_seconds)

    def pod_deleted(self, pod: Pod) -> None:
        """Enqueues the pod's set and the set whose ordinal name is free again."""
        self._enqueue_owner(pod)
        name, _, number = pod.metadata.name.rpartition("-")
        if ordinal_of(f"-{number}") is not None and (
            found := self._informers.sets.get(f"{pod.metadata.namespace}/{name}")
        ):
            self.queue.add(key_of(found))

    def claim_deleted(self, claim: PersistentVolumeClaim) -> None:
        """Enqueues the sets that may recreate the claim."""
        self._enqueue_selecting(claim)

    async def sync(self, key: str) -> None:
        """Takes the next steps of one set and writes its status."""
        stateful_set = self._informers.sets.get(key)
        if stateful_set is None:
            return
        try:
            selector = selector_from_object(stateful_set.spec.selector)
        except SelectorError as error:
            log.warning("stateful set has an invalid selector", set=key, cause=str(error))
            return
        if stateful_set.metadata.deletion_timestamp is not None:
            # The garbage collector deletes its pods and revisions; the status still counts them.
            await self._update_deleted_status(stateful_set, selector)
            return
        revisions = await self._history.claim(stateful_set, selector)
        pods = await self._claim(stateful_set, selector)
        set_revisions = await self._history.set_revisions(stateful_set, revisions)
        planned = self._plan(stateful_set, pods, set_revisions)
        failure = await self._run_stages(stateful_set, planned)
        try:
            await self._update_status(
                stateful_set, pods, set_revisions, is_update=planned.is_update and failure is None
            )
        except Exception as error:
            if failure is None:
                raise
            log.warning("stateful set status not updated", set=key, cause=str(error))
        await self._history.truncate(stateful_set, revisions, set_revisions, pods)
        if failure is not None:
            raise failure

    async def _claim(self, stateful_set: StatefulSet, selector: Selector) -> tuple[Pod, ...]:
        """The set's pods after adopting and releasing; only pods with one of its ordinal names qualify."""
        manager = ref_manager(self._client, PODS, owner_kind=STATEFUL_SETS, owner=stateful_set, selector=selector)
        known = self._informers.pods.of_owner(stateful_set, with_orphans=True)
        return await manager.claim_or_raise(known, lambda pod: is_member(stateful_set, pod))

    def _plan(
        self, stateful_set: StatefulSet, pods: Sequence[Pod], set_revisions: StatefulSetRevisions
    ) -> StatefulSetPlan:
        state = StatefulSetState(
            stateful_set=stateful_set,
            pods=pods,
            claim=self._informers.claims.get,
            new_pod=lambda ordinal: set_revisions.new_pod(stateful_set, ordinal),
            update_revision=set_revisions.update.metadata.name,
            now=self._clock.now(),
        )
        return plan_update(state)

    async def _run_stages(self, stateful_set: StatefulSet, planned: StatefulSetPlan) -> Exception | None:
        """Carries out stage after stage until one fails; returns that error."""
        for stage in planned.stages:
            if (failure := await self._run_stage(stateful_set, stage)) is not None:
                return failure
        return None

    async def _run_stage(self, stateful_set: StatefulSet, steps: Sequence[PodStep]) -> Exception | None:
        if is_parallel(stateful_set):
            left = iter(steps)
            _, failure = await slow_start_batch(len(steps), lambda: self._pods.take(stateful_set, next(left)))
            return failure
        for step in steps:
            try:
                await self._pods.take(stateful_set, step)
            except Exception as error:  # noqa: BLE001  raised after the status is written
                return error
        return None

    async def _update_deleted_status(self, stateful_set: StatefulSet, selector: Selector) -> None:
        pods, status = await self._claim(stateful_set, selector), stateful_set.status
        now = self._clock.now()
        counted = compute_status(stateful_set, pods, status.current_revision, status.update_revision, now)
        await self._store(stateful_set, counted)

    async def _update_status(
        self, stateful_set: StatefulSet, pods: Sequence[Pod], set_revisions: StatefulSetRevisions, *, is_update: bool
    ) -> None:
        """Writes the status if it has changed, and enqueues the set for when the next pod becomes available."""
        now = self._clock.now()
        names = set_revisions.current.metadata.name, set_revisions.update.metadata.name
        status = compute_status(stateful_set, pods, *names, now, is_update=is_update)
        await self._store(stateful_set, replace(status, collision_count=set_revisions.collision_count))
        seconds = stateful_set.spec.min_ready_seconds
        if seconds > 0 and status.available_replicas != wanted_replicas(stateful_set):
            left = earliest_availability_seconds(pods, seconds, now, self._clock.now())
            self.queue.add_after(key_of(stateful_set), seconds if left is None else left)

    async def _store(self, stateful_set: StatefulSet, status: StatefulSetStatus) -> None:
        if status != stateful_set.status:
            document = explicit(status)
            # Conditions belong to other writers.
            del document["conditions"]
            await store_status(self._client, STATEFUL_SETS, stateful_set, document)

    def _owner(self, obj: ApiObject) -> StatefulSet | None:
        return self._informers.sets.resolve(obj.metadata.namespace, controller_of(obj))

    def _enqueue_owner(self, obj: ApiObject) -> None:
        if stateful_set := self._owner(obj):
            self.queue.add(key_of(stateful_set))

    def _enqueue_selecting(self, orphan: ApiObject) -> None:
        for stateful_set in self._informers.sets.selecting(orphan, lambda one: one.spec.selector):
            self.queue.add(key_of(stateful_set))


class StatefulSetHistory(ControllerRevisions[StatefulSet]):
    """Maintains the ControllerRevisions of all sets."""

    async def set_revisions(
        self, stateful_set: StatefulSet, revisions: Sequence[ControllerRevision]
    ) -> StatefulSetRevisions:
        """The set's revisions; creates the update revision if it is new and renumbers it if it was rolled back to."""
        template, count = stateful_set.spec.template, stateful_set.status.collision_count or 0
        data, number = revision_data(template), next_number(revisions)
        newest = revisions[-1] if revisions else None
        same = [revision for revision in revisions if is_same_data(revision, data)]
        if newest is not None and (newest in same or (not same and restores(newest, template))):
            update = newest
        elif same:
            update = await self.renumber(same[-1], number)
        else:
            update, made_with = await self.create(
                stateful_set,
                lambda count: new_revision(stateful_set, template, number=number, naming=NAMING, collision_count=count),
                count,
            )
            count = made_with or 0
        name = stateful_set.status.current_revision
        current = next((revision for revision in revisions if revision.metadata.name == name), update)
        return StatefulSetRevisions(current, update, count)

    async def truncate(
        self,
        stateful_set: StatefulSet,
        revisions: Sequence[ControllerRevision],
        set_revisions: StatefulSetRevisions,
        pods: Iterable[Pod],
    ) -> None:
        """Deletes the oldest revisions above the limit that no pod uses."""
        limit = stateful_set.spec.revision_history_limit
        live = {pod.metadata.labels.get(REVISION_LABEL) for pod in pods}
        live |= {set_revisions.current.metadata.name, set_revisions.update.metadata.name}
        for revision in surplus_revisions(
            revisions,
            DEFAULT_HISTORY_LIMIT if limit is None else limit,
            lambda one: one.metadata.name in live,
            count_live=False,
        ):
            await self.delete(revision)


def compute_status(
    stateful_set: StatefulSet, pods: Sequence[Pod], current: str, update: str, now: datetime, *, is_update: bool = False
) -> StatefulSetStatus:
    """The status with these pods and revisions; `is_update`: one more pod is about to be replaced."""
    ready = [pod for pod in pods if is_running_and_ready(pod)]
    staying = [pod for pod in pods if pod.metadata.deletion_timestamp is None]
    revisions = [pod.metadata.labels.get(REVISION_LABEL, "") for pod in staying]
    status = replace(
        stateful_set.status,
        observed_generation=stateful_set.metadata.generation,
        replicas=len(pods),
        ready_replicas=len(ready),
        available_replicas=sum(is_pod_available(pod, stateful_set.spec.min_ready_seconds, now) for pod in ready),
        current_replicas=max(0, revisions.count(current) - int(is_update)),
        updated_replicas=revisions.count(update),
        current_revision=current,
        update_revision=update,
    )
    return _completed(stateful_set, status)


def _completed(stateful_set: StatefulSet, status: StatefulSetStatus) -> StatefulSetStatus:
    """Completes an update when all desired pods are of the new revision and ready."""
    counts = {status.replicas, status.ready_replicas, status.updated_replicas}
    if stateful_set.spec.update_strategy.type != ROLLING_UPDATE or counts != {wanted_replicas(stateful_set)}:
        return status
    return replace(status, current_revision=status.update_revision, current_replicas=status.updated_replicas)


def stateful_set_informers(informers: Informers) -> StatefulSetInformers:
    return StatefulSetInformers(
        sets=informers.objects(STATEFUL_SETS),
        pods=informers.pods,
        claims=informers.objects(PERSISTENT_VOLUME_CLAIMS),
        revisions=informers.objects(CONTROLLER_REVISIONS),
    )
