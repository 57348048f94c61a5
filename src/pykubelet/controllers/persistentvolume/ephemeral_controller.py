"""The ephemeral volume controller: creates the claims of generic ephemeral volumes.

A claim is owned by its pod, so the garbage collector deletes it with the pod.

Upstream: pkg/controller/volume/ephemeral/controller.go
"""

from pykubelet.api.errors import AlreadyExists
from pykubelet.api.generated.core import PersistentVolumeClaim, Pod, Volume
from pykubelet.api.generated.meta import ObjectMeta, OwnerReference
from pykubelet.api.pods import pod_label
from pykubelet.api.scheme import PERSISTENT_VOLUME_CLAIMS, PODS
from pykubelet.api.volumes import ephemeral_claim_name, foreign_claim_problem, is_claim_of_pod
from pykubelet.client.indexer import ObjectIndex, PodIndex
from pykubelet.client.informers import Informers
from pykubelet.client.interface import Client
from pykubelet.client.recorder import WARNING, EventRecorder, reference_to
from pykubelet.controllers.framework.pod_control import AggregateError, terminating_namespace_ignored
from pykubelet.controllers.framework.work_queue import KeyedController, WorkQueue


class ForeignClaim(Exception):
    """The claim of an ephemeral volume exists, but belongs to something else."""


class EphemeralVolumeController(KeyedController):
    """Syncs pods by `namespace/name`."""

    def __init__(
        self,
        *,
        client: Client,
        recorder: EventRecorder,
        pods: PodIndex,
        claims: ObjectIndex[PersistentVolumeClaim],
    ) -> None:
        self._client, self._recorder, self._pods, self._claims = client, recorder, pods, claims
        self.queue = WorkQueue()

    def listen(self, informers: Informers) -> None:
        informers.add_event_handler(PODS, added=self.pod_added)
        informers.add_event_handler(PERSISTENT_VOLUME_CLAIMS, deleted=self.claim_deleted)

    def pod_added(self, pod: Pod) -> None:
        if any(volume.ephemeral is not None for volume in pod.spec.volumes):
            self.queue.add(pod_label(pod))

    def claim_deleted(self, claim: PersistentVolumeClaim) -> None:
        """A pod that still exists needs its claim again."""
        for owner in claim.metadata.owner_references:
            if owner.controller and owner.kind == "Pod":
                self.queue.add(f"{claim.metadata.namespace}/{owner.name}")

    async def sync(self, key: str) -> None:
        pod = self._pods.get(key)
        if pod is None or pod.metadata.deletion_timestamp is not None:
            return
        errors: list[Exception] = []
        for volume in pod.spec.volumes:
            if volume.ephemeral is None:
                continue
            try:
                await self._provide(pod, volume)
            except ForeignClaim as error:
                self._recorder.event(reference_to(pod), WARNING, "EphemeralVolumeConflict", str(error))
                errors.append(error)
        if errors:
            raise AggregateError(errors)

    async def _provide(self, pod: Pod, volume: Volume) -> None:
        namespace, name = pod.metadata.namespace, ephemeral_claim_name(pod, volume)
        found = self._claims.get(f"{namespace}/{name}")
        if found is None:
            try:
                with terminating_namespace_ignored():
                    await self._client.create(PERSISTENT_VOLUME_CLAIMS, new_claim(pod, volume), namespace=namespace)
                return
            except AlreadyExists:
                # The watch may not have shown our own claim yet.
                found = await self._client.get(PERSISTENT_VOLUME_CLAIMS, name, namespace=namespace)
        if not is_claim_of_pod(found, pod):
            raise ForeignClaim(foreign_claim_problem(found, pod))


def new_claim(pod: Pod, volume: Volume) -> PersistentVolumeClaim:
    """The claim of an ephemeral volume, from its template."""
    assert volume.ephemeral is not None
    assert volume.ephemeral.volume_claim_template is not None
    template, meta = volume.ephemeral.volume_claim_template, pod.metadata
    owner = OwnerReference(
        api_version="v1", kind="Pod", name=meta.name, uid=meta.uid, controller=True, block_owner_deletion=True
    )
    return PersistentVolumeClaim(
        metadata=ObjectMeta(
            name=ephemeral_claim_name(pod, volume),
            namespace=meta.namespace,
            labels=template.metadata.labels,
            annotations=template.metadata.annotations,
            owner_references=(owner,),
        ),
        spec=template.spec,
    )
