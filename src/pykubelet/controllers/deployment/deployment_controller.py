"""The Deployment controller: rolls out revisions of a workload as ReplicaSets.

Event handlers enqueue keys; `DeploymentController.sync` claims the ReplicaSets and hands over to `DeploymentSync`,
which decides the next step, takes it and writes the status. Each write carries the resource version it was decided on:
a decision on stale data is rejected, and the next sync decides again.

Upstream: pkg/controller/deployment/deployment_controller.go, pkg/controller/deployment/sync.go,
pkg/controller/deployment/recreate.go
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.api.errors import AlreadyExists, ApiError, NotFound
from pykubelet.api.generated.apps import Deployment, DeploymentStatus, ReplicaSet
from pykubelet.api.generated.core import Pod
from pykubelet.api.generated.meta import DeleteOptions, LabelSelector, Preconditions
from pykubelet.api.labels import SelectorError, selector_from_object
from pykubelet.api.pods import is_terminal
from pykubelet.api.scheme import DEPLOYMENTS, PODS, REPLICA_SETS
from pykubelet.api.serializer import Document
from pykubelet.client.indexer import ObjectIndex, PodIndex, controller_of, key_of
from pykubelet.client.informers import Informers
from pykubelet.client.interface import Client, PatchType
from pykubelet.client.recorder import NORMAL, WARNING, EventRecorder, reference_to
from pykubelet.controllers.deployment.progress import (
    PROGRESSING,
    SET_CREATE_ERROR,
    SET_CREATED,
    SET_FOUND,
    deadline_seconds,
    deployment_condition,
    is_complete,
    pod_counts,
    progressing_condition,
    rollout_status,
    seconds_to_deadline,
    with_condition,
    with_pause,
)
from pykubelet.controllers.deployment.replica_sets import (
    RECREATE,
    REVISION,
    ROLLING_UPDATE,
    find_new_replica_set,
    is_same_template,
    new_replica_set,
    next_revision,
    replica_sets_to_clean_up,
    size_annotations,
    version_annotations,
)
from pykubelet.controllers.deployment.rolling import (
    ReplicaSetScale,
    grown_size,
    is_scaling_event,
    recreate_plan,
    rolling_plan,
    scale_plan,
)
from pykubelet.controllers.framework.ownership import explicit, patch_status, ref_manager
from pykubelet.controllers.framework.pod_control import NAMESPACE_TERMINATING, terminating_namespace_ignored
from pykubelet.controllers.framework.work_queue import KeyedController, WorkQueue
from pykubelet.controllers.replicaset.replica_set import wanted_replicas

log = get_logger(__name__)
SCALING = "ScalingReplicaSet"


class DeploymentController(KeyedController):
    """Syncs Deployments by key. Event handlers only enqueue; `sync` acts."""

    def __init__(
        self,
        *,
        client: Client,
        recorder: EventRecorder,
        clock: Clock,
        deployments: ObjectIndex[Deployment],
        sets: ObjectIndex[ReplicaSet],
        pods: PodIndex,
    ) -> None:
        self._client, self._recorder, self._clock = client, recorder, clock
        self._deployments, self._sets, self._pods = deployments, sets, pods
        self.queue = WorkQueue()

    def listen(self, informers: Informers) -> None:
        informers.add_event_handler(DEPLOYMENTS, changed=self.deployment_changed, deleted=self.deployment_changed)
        informers.add_event_handler(
            REPLICA_SETS, added=self.set_added, updated=self.set_updated, deleted=self.set_deleted
        )
        informers.add_event_handler(PODS, deleted=self.pod_deleted)

    def deployment_changed(self, deployment: Deployment) -> None:
        self.queue.add(key_of(deployment))

    def set_added(self, replica_set: ReplicaSet) -> None:
        """Enqueues the set's owner or, for an orphan, every Deployment that selects it."""
        if replica_set.metadata.deletion_timestamp is not None:
            self.set_deleted(replica_set)
        elif controller_of(replica_set) is None:
            self._enqueue_selecting(replica_set)
        else:
            self._enqueue_owner(replica_set)

    def set_updated(self, old: ReplicaSet, new: ReplicaSet) -> None:
        """Enqueues the set's owner and its former one or, for an orphan, every Deployment that selects it."""
        if old.metadata.resource_version == new.metadata.resource_version:
            return
        manager_changed = controller_of(old) != controller_of(new)
        if manager_changed:
            self._enqueue_owner(old)
        if controller_of(new) is not None:
            self._enqueue_owner(new)
        elif manager_changed or old.metadata.labels != new.metadata.labels:
            self._enqueue_selecting(new)

    def set_deleted(self, replica_set: ReplicaSet) -> None:
        """Enqueues the owner of a set that is gone or being deleted."""
        self._enqueue_owner(replica_set)

    def pod_deleted(self, pod: Pod) -> None:
        """Enqueues a Recreate Deployment, which waits for its last old pod: no ReplicaSet reports that."""
        replica_set = self._sets.resolve(pod.metadata.namespace, controller_of(pod))
        deployment = self._manager(replica_set) if replica_set is not None else None
        if deployment is not None and deployment.spec.strategy.type == RECREATE:
            self.queue.add(key_of(deployment))

    async def sync(self, key: str) -> None:
        deployment = self._deployments.get(key)
        if deployment is None:
            return
        with terminating_namespace_ignored():
            seconds = await self._sync(deployment)
            if seconds is not None:
                self.queue.add_after(key, seconds)

    async def _sync(self, deployment: Deployment) -> float | None:
        if deployment.spec.selector == LabelSelector():
            await self._reject_empty_selector(deployment)
            return None
        try:
            sets = await self._claim(deployment)
        except SelectorError as error:
            log.warning("deployment has an invalid selector", deployment=key_of(deployment), cause=str(error))
            return None
        work = DeploymentSync(
            client=self._client,
            recorder=self._recorder,
            clock=self._clock,
            pods=self._pods,
            deployment=deployment,
            sets=sets,
        )
        return await work.run()

    async def _claim(self, deployment: Deployment) -> tuple[ReplicaSet, ...]:
        """Adopts the ReplicaSets the Deployment selects and releases those it no longer does; returns those it has."""
        selector, meta = selector_from_object(deployment.spec.selector), deployment.metadata
        manager = ref_manager(self._client, REPLICA_SETS, owner_kind=DEPLOYMENTS, owner=deployment, selector=selector)
        return await manager.claim_or_raise((*self._sets.managed_by(meta.uid), *self._sets.orphans(meta.namespace)))

    async def _reject_empty_selector(self, deployment: Deployment) -> None:
        text = "This deployment is selecting all pods. A non-empty selector is required."
        self._recorder.event(reference_to(deployment), WARNING, "SelectingAll", text)
        if deployment.status.observed_generation < deployment.metadata.generation:
            status = {"observedGeneration": deployment.metadata.generation}
            await patch_status(self._client, DEPLOYMENTS, deployment, status)

    def _manager(self, replica_set: ReplicaSet) -> Deployment | None:
        return self._deployments.resolve(replica_set.metadata.namespace, controller_of(replica_set))

    def _enqueue_owner(self, replica_set: ReplicaSet) -> None:
        if deployment := self._manager(replica_set):
            self.queue.add(key_of(deployment))

    def _enqueue_selecting(self, replica_set: ReplicaSet) -> None:
        for deployment in self._deployments.selecting(replica_set, lambda one: one.spec.selector):
            self.queue.add(key_of(deployment))


class DeploymentSync:
    """One sync of one Deployment and its ReplicaSets, updated as they are written. Create a new one for each sync."""

    def __init__(
        self,
        *,
        client: Client,
        recorder: EventRecorder,
        clock: Clock,
        pods: PodIndex,
        deployment: Deployment,
        sets: Iterable[ReplicaSet],
    ) -> None:
        self._client, self._recorder, self._clock, self._pods = client, recorder, clock, pods
        self._deployment = deployment
        self._sets = {one.metadata.name: one for one in sets}
        new = find_new_replica_set(deployment, self._sets.values())
        self._new_name = "" if new is None else new.metadata.name

    async def run(self) -> float | None:
        """Takes the next step; returns the seconds after which to sync again regardless of changes, if any.

        Raises ApiError if a write fails; the whole sync is then repeated.
        """
        if self._deployment.metadata.deletion_timestamp is not None:
            await self._update_status(pod_counts(self._deployment, self._new, self._old, self._clock.now()))
            return None
        await self._update_status(with_pause(self._deployment, self._clock.now()))
        await self._update_new_set()
        spec = self._deployment.spec
        if spec.paused or is_scaling_event(self._deployment, self._sets.values()):
            await self._scale()
            return None
        if spec.strategy.type == RECREATE:
            await self._recreate()
        elif spec.strategy.type == ROLLING_UPDATE:
            await self._rolling_update()
        else:
            raise ValueError(f"unexpected deployment strategy type: {spec.strategy.type}")
        if await self._update_status(rollout_status(self._deployment, self._new, self._old, self._clock.now())):
            # The informer reports this change, and the sync after that decides how long to wait.
            return None
        return seconds_to_deadline(self._deployment, self._clock.now())

    @property
    def _new(self) -> ReplicaSet | None:
        return self._sets.get(self._new_name)

    @property
    def _old(self) -> tuple[ReplicaSet, ...]:
        return tuple(one for name, one in self._sets.items() if name != self._new_name)

    async def _scale(self) -> None:
        """Follows a change of `spec.replicas` only; paused Deployments do this too."""
        await self._scale_sets(scale_plan(self._deployment, self._new, self._old))
        if self._deployment.spec.paused:
            await self._clean_up(replica_sets_to_clean_up(self._deployment, self._old))
        await self._update_status(pod_counts(self._deployment, self._new, self._old, self._clock.now()))

    async def _rolling_update(self) -> None:
        new = self._new or await self._create_new_set()
        await self._advance(rolling_plan(self._deployment, new, self._old))

    async def _recreate(self) -> None:
        steps = recreate_plan(self._old)
        if steps:
            await self._scale_sets(steps)
        elif not self._has_old_pods():
            new = self._new or await self._create_new_set()
            size = grown_size(self._deployment, wanted_replicas(new), ())
            await self._advance((ReplicaSetScale(new.metadata.name, size),) if size != wanted_replicas(new) else ())

    async def _advance(self, steps: Sequence[ReplicaSetScale]) -> None:
        """Scales the sets or, when there is nothing left to scale, cleans up old revisions."""
        await self._scale_sets(steps)
        if not steps and is_complete(self._deployment, self._deployment.status):
            await self._clean_up(replica_sets_to_clean_up(self._deployment, self._old))

    def _has_old_pods(self) -> bool:
        """Whether a pod of an old revision may still run, including one that is being deleted."""
        return any(
            one.status.replicas > 0 or any(not is_terminal(pod.status.phase) for pod in self._pods.of_owner(one))
            for one in self._old
        )

    async def _update_new_set(self) -> None:
        """Sets the revision on the ReplicaSet of the current template, and on the Deployment."""
        new = self._new
        if new is None:
            return
        present = new.metadata.annotations
        wanted = version_annotations(self._deployment, present, next_revision(self._old))
        changed = {key: value for key, value in wanted.items() if present.get(key) != value}
        min_ready = self._deployment.spec.min_ready_seconds
        if changed or min_ready != new.spec.min_ready_seconds:
            await self._patch_set(new, {"annotations": changed}, {"minReadySeconds": min_ready})
        status = self._deployment.status
        if deadline_seconds(self._deployment) is not None and deployment_condition(status, PROGRESSING) is None:
            message = f'Found new replica set "{new.metadata.name}"'
            found = progressing_condition("True", SET_FOUND, message, self._clock.now())
            status = with_condition(status, found)
        await self._update_status(status, revision=wanted.get(REVISION, ""))

    async def _create_new_set(self) -> ReplicaSet:
        deployment = self._deployment
        revision = next_revision(self._old)
        annotations = version_annotations(deployment, {}, revision) | size_annotations(deployment)
        body = new_replica_set(deployment, replicas=grown_size(deployment, 0, self._old), annotations=annotations)
        status = deployment.status
        try:
            made = await self._client.create(REPLICA_SETS, body, namespace=deployment.metadata.namespace)
        except AlreadyExists:
            made = await self._resolve_name_collision(body)
        except ApiError as error:
            await self._report_failure(body.metadata.name, error)
            raise
        else:
            if wanted_replicas(made) > 0:
                text = f"Scaled up replica set {made.metadata.name} from 0 to {wanted_replicas(made)}"
                self._record_event(NORMAL, SCALING, text)
            if deadline_seconds(deployment) is not None:
                message = f'Created new replica set "{made.metadata.name}"'
                created = progressing_condition("True", SET_CREATED, message, self._clock.now())
                status = with_condition(status, created)
        self._new_name = made.metadata.name
        self._sets[self._new_name] = made
        await self._update_status(status, revision=str(revision))
        return made

    async def _resolve_name_collision(self, body: ReplicaSet) -> ReplicaSet:
        """Returns the existing set of that name if it has our template.

        Otherwise increments the collision count, which changes the next name, and raises AlreadyExists.
        """
        deployment = self._deployment
        found = await self._client.get(REPLICA_SETS, body.metadata.name, namespace=body.metadata.namespace)
        manager = controller_of(found)
        is_ours = manager is not None and manager.uid == deployment.metadata.uid
        if is_ours and is_same_template(found.spec.template, deployment.spec.template):
            return found
        count = (deployment.status.collision_count or 0) + 1
        status = explicit(deployment.status) | {"collisionCount": count}
        self._deployment = await patch_status(self._client, DEPLOYMENTS, deployment, status)
        raise AlreadyExists(f'another replica set has the name "{body.metadata.name}"')

    async def _report_failure(self, name: str, error: ApiError) -> None:
        if error.has_cause(NAMESPACE_TERMINATING):
            return
        message = f'Failed to create new replica set "{name}": {error}'
        self._record_event(WARNING, SET_CREATE_ERROR, message)
        if deadline_seconds(self._deployment) is not None:
            failed = progressing_condition("False", SET_CREATE_ERROR, message, self._clock.now())
            # The caller raises the failure itself; this status is informative only.
            with suppress(ApiError):
                await self._update_status(with_condition(self._deployment.status, failed))

    async def _scale_sets(self, steps: Iterable[ReplicaSetScale]) -> None:
        """Writes the sizes, and the size annotations of the Deployment."""
        annotations = size_annotations(self._deployment)
        for name, replicas in steps:
            present = self._sets[name]
            before = wanted_replicas(present)
            if before == replicas and annotations.items() <= present.metadata.annotations.items():
                continue
            await self._patch_set(present, {"annotations": annotations}, {"replicas": replicas})
            if before != replicas:
                word = "up" if before < replicas else "down"
                self._record_event(NORMAL, SCALING, f"Scaled {word} replica set {name} from {before} to {replicas}")

    async def _clean_up(self, sets: Iterable[ReplicaSet]) -> None:
        for one in sets:
            meta = one.metadata
            options = DeleteOptions(preconditions=Preconditions(uid=meta.uid, resource_version=meta.resource_version))
            with suppress(NotFound):
                await self._client.delete(REPLICA_SETS, meta.name, namespace=meta.namespace, options=options)
            del self._sets[meta.name]

    async def _patch_set(self, replica_set: ReplicaSet, metadata: Document, spec: Document) -> None:
        meta = replica_set.metadata
        body: dict[str, Any] = {
            "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version, **metadata},
            "spec": spec,
        }
        patched = await self._client.patch(
            REPLICA_SETS, meta.name, body, namespace=meta.namespace, patch_type=PatchType.MERGE
        )
        self._sets[meta.name] = patched

    async def _update_status(self, status: DeploymentStatus, *, revision: str = "") -> bool:
        """Writes the status, and optionally the revision, if something has changed; returns whether it has."""
        present = self._deployment
        is_same_revision = not revision or present.metadata.annotations.get(REVISION) == revision
        if status == present.status and is_same_revision:
            return False
        annotations = {REVISION: revision} if revision else None
        self._deployment = await patch_status(
            self._client, DEPLOYMENTS, present, explicit(status), annotations=annotations
        )
        return True

    def _record_event(self, event_type: str, reason: str, message: str) -> None:
        self._recorder.event(reference_to(self._deployment), event_type, reason, message)
