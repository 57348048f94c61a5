"""One sync of one Deployment: decide the next step, take it, report.

In: a Deployment, its replica sets and their pods as the controller knows them. Out: sets created, sized and deleted, and
the Deployment's status. Every write carries the version it was decided on, so that a decision on what is no longer true
is refused, and the next sync decides anew.
Upstream: pkg/controller/deployment/{sync,rolling,recreate,progress}.go.

The Deployment controller: rolls out versions of a workload as replica sets.

In: changes of Deployments, replica sets and pods, told after the indexes have been brought up to date. Out: what a
DeploymentSync writes.
Upstream: pkg/controller/deployment/deployment_controller.go.
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
from pykubelet.controllers.deployment import progress as conditions
from pykubelet.controllers.deployment.progress import (
    deadline_seconds,
    deployment_condition,
    is_complete,
    pod_counts,
    progressing_condition,
    rollout_status,
    seconds_to_deadline,
    with_condition,
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
from pykubelet.controllers.framework.ownership import (
    ControllerRefManager,
    explicit,
    may_adopt,
    patch_status,
)
from pykubelet.controllers.framework.pod_control import NAMESPACE_TERMINATING
from pykubelet.controllers.framework.work_queue import WorkQueue
from pykubelet.controllers.replicaset.replica_set import wanted_replicas

SCALING = "ScalingReplicaSet"


class DeploymentSync:
    """A Deployment with its sets, which follow what is written. For one sync; make a new one for the next."""

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
        """Take the next step; after how many seconds to look again, whatever happens, if that is needed.

        Raises ApiError if something could not be written; all of it is to be done again then.
        """
        if self._deployment.metadata.deletion_timestamp is not None:
            await self._write(pod_counts(self._deployment, self._new, self._old, self._clock.now()))
            return None
        await self._write(conditions.with_pause(self._deployment, self._clock.now()))
        await self._update_new_set()
        spec = self._deployment.spec
        if spec.paused or is_scaling_event(self._deployment, self._sets.values()):
            await self._scale()
            return None
        if spec.strategy.type == RECREATE:
            await self._recreate()
        elif spec.strategy.type == ROLLING_UPDATE:
            await self._roll()
        else:
            raise ValueError(f"unexpected deployment strategy type: {spec.strategy.type}")
        if await self._write(rollout_status(self._deployment, self._new, self._old, self._clock.now())):
            # The change is heard of, and then it is asked again how long to wait.
            return None
        return seconds_to_deadline(self._deployment, self._clock.now())

    @property
    def _new(self) -> ReplicaSet | None:
        return self._sets.get(self._new_name)

    @property
    def _old(self) -> tuple[ReplicaSet, ...]:
        return tuple(one for name, one in self._sets.items() if name != self._new_name)

    async def _scale(self) -> None:
        """Follow a change of size, and no other; a paused Deployment does this too."""
        await self._resize(scale_plan(self._deployment, self._new, self._old))
        if self._deployment.spec.paused:
            await self._forget(replica_sets_to_clean_up(self._deployment, self._old))
        await self._write(pod_counts(self._deployment, self._new, self._old, self._clock.now()))

    async def _roll(self) -> None:
        new = self._new or await self._create_new_set()
        await self._advance(rolling_plan(self._deployment, new, self._old))

    async def _recreate(self) -> None:
        steps = recreate_plan(self._old)
        if steps:
            await self._resize(steps)
        elif not self._has_old_pods():
            new = self._new or await self._create_new_set()
            size = grown_size(self._deployment, wanted_replicas(new), ())
            await self._advance((ReplicaSetScale(new.metadata.name, size),) if size != wanted_replicas(new) else ())

    async def _advance(self, steps: Sequence[ReplicaSetScale]) -> None:
        """Take the steps or, once there are none left, forget versions nobody will go back to."""
        await self._resize(steps)
        if not steps and is_complete(self._deployment, self._deployment.status):
            await self._forget(replica_sets_to_clean_up(self._deployment, self._old))

    def _has_old_pods(self) -> bool:
        """Whether some pod of an old version may still run, also one that is being deleted."""
        return any(
            one.status.replicas > 0 or any(not is_terminal(pod.status.phase) for pod in self._pods.of_owner(one))
            for one in self._old
        )

    async def _update_new_set(self) -> None:
        """Have the set of the present template know its revision, and the Deployment too."""
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
        if (
            deadline_seconds(self._deployment) is not None
            and deployment_condition(status, conditions.PROGRESSING) is None
        ):
            message = f'Found new replica set "{new.metadata.name}"'
            found = progressing_condition("True", conditions.SET_FOUND, message, self._clock.now())
            status = with_condition(status, found)
        await self._write(status, revision=wanted.get(REVISION, ""))

    async def _create_new_set(self) -> ReplicaSet:
        """Make the set of the present template."""
        deployment = self._deployment
        revision = next_revision(self._old)
        annotations = version_annotations(deployment, {}, revision) | size_annotations(deployment)
        body = new_replica_set(deployment, replicas=grown_size(deployment, 0, self._old), annotations=annotations)
        status = deployment.status
        try:
            made = await self._client.create(REPLICA_SETS, body, namespace=deployment.metadata.namespace)
        except AlreadyExists:
            made = await self._take_namesake(body)
        except ApiError as error:
            await self._report_failure(body.metadata.name, error)
            raise
        else:
            if wanted_replicas(made) > 0:
                text = f"Scaled up replica set {made.metadata.name} from 0 to {wanted_replicas(made)}"
                self._tell(NORMAL, SCALING, text)
            if deadline_seconds(deployment) is not None:
                message = f'Created new replica set "{made.metadata.name}"'
                created = progressing_condition("True", conditions.SET_CREATED, message, self._clock.now())
                status = with_condition(status, created)
        self._new_name = made.metadata.name
        self._sets[self._new_name] = made
        await self._write(status, revision=str(revision))
        return made

    async def _take_namesake(self, body: ReplicaSet) -> ReplicaSet:
        """The set that has the name already, if it is what was to be made; otherwise the next one is called otherwise."""
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
        self._tell(WARNING, conditions.SET_CREATE_ERROR, message)
        if deadline_seconds(self._deployment) is not None:
            failed = progressing_condition("False", conditions.SET_CREATE_ERROR, message, self._clock.now())
            # What matters is the failure itself, which is raised.
            with suppress(ApiError):
                await self._write(with_condition(self._deployment.status, failed))

    async def _resize(self, steps: Iterable[ReplicaSetScale]) -> None:
        """Write sizes, and with them what the sets are to know of the Deployment's."""
        annotations = size_annotations(self._deployment)
        for name, replicas in steps:
            present = self._sets[name]
            before = wanted_replicas(present)
            if before == replicas and annotations.items() <= present.metadata.annotations.items():
                continue
            await self._patch_set(present, {"annotations": annotations}, {"replicas": replicas})
            if before != replicas:
                word = "up" if before < replicas else "down"
                self._tell(NORMAL, SCALING, f"Scaled {word} replica set {name} from {before} to {replicas}")

    async def _forget(self, sets: Iterable[ReplicaSet]) -> None:
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

    async def _write(self, status: DeploymentStatus, *, revision: str = "") -> bool:
        """Write the status, and perhaps the revision, if that says something new; whether it did."""
        present = self._deployment
        is_same_revision = not revision or present.metadata.annotations.get(REVISION) == revision
        if status == present.status and is_same_revision:
            return False
        annotations = {REVISION: revision} if revision else None
        self._deployment = await patch_status(
            self._client, DEPLOYMENTS, present, explicit(status), annotations=annotations
        )
        return True

    def _tell(self, event_type: str, reason: str, message: str) -> None:
        self._recorder.event(reference_to(self._deployment), event_type, reason, message)


log = get_logger(__name__)


class DeploymentController:
    """Syncs Deployments by key. Events only put keys into `queue`; `sync` acts."""

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
        """Hear of every change of Deployments and sets, and of the end of pods."""
        informers.tell(
            DEPLOYMENTS,
            added=self.deployment_added,
            updated=self.deployment_updated,
            deleted=self.deployment_deleted,
        )
        informers.tell(REPLICA_SETS, added=self.set_added, updated=self.set_updated, deleted=self.set_deleted)
        informers.tell(PODS, added=lambda _: None, updated=lambda _old, _new: None, deleted=self.pod_deleted)

    def deployment_added(self, deployment: Deployment) -> None:
        """A Deployment is new."""
        self.queue.add(key_of(deployment))

    def deployment_updated(self, _old: Deployment, new: Deployment) -> None:
        """A Deployment has changed, or another one has taken its name."""
        self.queue.add(key_of(new))

    def deployment_deleted(self, deployment: Deployment) -> None:
        """A Deployment is gone."""
        self.queue.add(key_of(deployment))

    def set_added(self, replica_set: ReplicaSet) -> None:
        """A set is new to us."""
        if replica_set.metadata.deletion_timestamp is not None:
            self.set_deleted(replica_set)
        elif controller_of(replica_set) is None:
            self._wake_selecting(replica_set)
        else:
            self._wake_manager(replica_set)

    def set_updated(self, old: ReplicaSet, new: ReplicaSet) -> None:
        """A set has changed."""
        if old.metadata.resource_version == new.metadata.resource_version:
            return
        manager_changed = controller_of(old) != controller_of(new)
        if manager_changed:
            self._wake_manager(old)
        if controller_of(new) is not None:
            self._wake_manager(new)
        elif manager_changed or old.metadata.labels != new.metadata.labels:
            self._wake_selecting(new)

    def set_deleted(self, replica_set: ReplicaSet) -> None:
        """A set is gone or being deleted; nobody waits for the end of an orphan."""
        self._wake_manager(replica_set)

    def pod_deleted(self, pod: Pod) -> None:
        """A pod is gone. Recreating waits for the last one, for which no set has anything to tell any more."""
        replica_set = self._sets.resolve(pod.metadata.namespace, controller_of(pod))
        deployment = self._manager(replica_set) if replica_set is not None else None
        if deployment is not None and deployment.spec.strategy.type == RECREATE:
            self.queue.add(key_of(deployment))

    async def process_next(self) -> None:
        """Sync the next key of the queue; a failure puts it back, later."""
        await self.queue.process_next(self.sync)

    async def sync(self, key: str) -> None:
        """Take the next step with one Deployment.

        Raises what went wrong; the key is to be synced again then. Never twice at once for one key.
        """
        deployment = self._deployments.get(key)
        if deployment is None:
            return
        try:
            seconds = await self._sync(deployment)
        except ApiError as error:
            # Nothing can be made in a namespace that goes away, and nothing needs to be.
            if not error.has_cause(NAMESPACE_TERMINATING):
                raise
        else:
            if seconds is not None:
                self.queue.add_after(key, seconds)

    async def _sync(self, deployment: Deployment) -> float | None:
        if deployment.spec.selector == LabelSelector():
            await self._refuse_all(deployment)
            return None
        try:
            sets = await self._claim(deployment)
        except SelectorError as error:
            log.warning("deployment has no valid selector", deployment=key_of(deployment), cause=str(error))
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
        """Adopt sets that the Deployment selects, release those it no longer does; the ones it has then."""
        namespace = deployment.metadata.namespace

        async def patch(namespace: str, name: str, body: Document) -> None:
            await self._client.patch(REPLICA_SETS, name, body, namespace=namespace)

        ownership = ControllerRefManager[ReplicaSet](
            patch=patch,
            owner=deployment,
            selector=selector_from_object(deployment.spec.selector),
            can_adopt=may_adopt(self._client, DEPLOYMENTS, deployment),
        )
        known = (*self._sets.managed_by(deployment.metadata.uid), *self._sets.orphans(namespace))
        claimed, error = await ownership.claim(known)
        if error is not None:
            raise error
        return claimed

    async def _refuse_all(self, deployment: Deployment) -> None:
        text = "This deployment is selecting all pods. A non-empty selector is required."
        self._recorder.event(reference_to(deployment), WARNING, "SelectingAll", text)
        if deployment.status.observed_generation < deployment.metadata.generation:
            status = {"observedGeneration": deployment.metadata.generation}
            await patch_status(self._client, DEPLOYMENTS, deployment, status)

    def _manager(self, replica_set: ReplicaSet) -> Deployment | None:
        return self._deployments.resolve(replica_set.metadata.namespace, controller_of(replica_set))

    def _wake_manager(self, replica_set: ReplicaSet) -> None:
        if deployment := self._manager(replica_set):
            self.queue.add(key_of(deployment))

    def _wake_selecting(self, replica_set: ReplicaSet) -> None:
        """An orphan may be adopted by any Deployment that selects it."""
        for deployment in self._deployments.selecting(replica_set, lambda one: one.spec.selector):
            self.queue.add(key_of(deployment))
