"""The Deployment controller: rolls out versions of a workload as replica sets.

In: changes of Deployments, replica sets and pods, told after the indexes have been brought up to date. Out: what a
DeploymentSync writes.
Upstream: pkg/controller/deployment/deployment_controller.go.
"""

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.api.errors import ApiError
from pykubelet.api.generated.apps import Deployment, ReplicaSet
from pykubelet.api.generated.core import Pod
from pykubelet.api.generated.meta import LabelSelector
from pykubelet.api.selector import SelectorError, selector_from_object
from pykubelet.api.typed import DEPLOYMENTS, PODS, REPLICA_SETS
from pykubelet.api.wire import Document
from pykubelet.controllers.deployment.limits import RECREATE
from pykubelet.controllers.deployment.sync import DeploymentSync, SetClient
from pykubelet.controllers.informers import Informers
from pykubelet.controllers.object_index import ObjectIndex, key_of, manager_of
from pykubelet.controllers.owner_access import may_adopt, patch_status
from pykubelet.controllers.ownership import Ownership
from pykubelet.controllers.pod_control import NAMESPACE_TERMINATING
from pykubelet.controllers.pod_index import PodIndex
from pykubelet.controllers.work_queue import WorkQueue
from pykubelet.kube.recorder import WARNING, EventRecorder, reference_to

log = get_logger(__name__)


class DeploymentController:
    """Syncs Deployments by key. Events only put keys into `queue`; `sync` acts."""

    def __init__(
        self,
        *,
        client: SetClient,
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
        elif manager_of(replica_set) is None:
            self._wake_selecting(replica_set)
        else:
            self._wake_manager(replica_set)

    def set_updated(self, old: ReplicaSet, new: ReplicaSet) -> None:
        """A set has changed."""
        if old.metadata.resource_version == new.metadata.resource_version:
            return
        manager_changed = manager_of(old) != manager_of(new)
        if manager_changed:
            self._wake_manager(old)
        if manager_of(new) is not None:
            self._wake_manager(new)
        elif manager_changed or old.metadata.labels != new.metadata.labels:
            self._wake_selecting(new)

    def set_deleted(self, replica_set: ReplicaSet) -> None:
        """A set is gone or being deleted; nobody waits for the end of an orphan."""
        self._wake_manager(replica_set)

    def pod_deleted(self, pod: Pod) -> None:
        """A pod is gone. Recreating waits for the last one, for which no set has anything to tell any more."""
        replica_set = self._sets.resolve(pod.metadata.namespace, manager_of(pod))
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

        ownership = Ownership[ReplicaSet](
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
        return self._deployments.resolve(replica_set.metadata.namespace, manager_of(replica_set))

    def _wake_manager(self, replica_set: ReplicaSet) -> None:
        if deployment := self._manager(replica_set):
            self.queue.add(key_of(deployment))

    def _wake_selecting(self, replica_set: ReplicaSet) -> None:
        """An orphan may be adopted by any Deployment that selects it."""
        for deployment in self._deployments.selecting(replica_set, lambda one: one.spec.selector):
            self.queue.add(key_of(deployment))
