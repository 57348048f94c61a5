"""Keeps claims that pods use, and volumes that are bound, until they are free.

Both have a protection finalizer. It is removed from a deleted claim once no pod on a node uses it, and from a deleted
volume once it is not bound. Before a claim goes, the pods are read from the API server.

Upstream: pkg/controller/volume/pvcprotection/pvc_protection_controller.go,
pkg/controller/volume/pvprotection/pv_protection_controller.go, pkg/controller/volume/protectionutil/utils.go
"""

from pykubelet.api.errors import NotFound
from pykubelet.api.generated.core import PersistentVolume, PersistentVolumeClaim, Pod
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.scheme import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from pykubelet.api.serializer import Document
from pykubelet.api.volumes import pod_claims
from pykubelet.client.indexer import ObjectIndex, key_of
from pykubelet.client.informers import Informers
from pykubelet.client.interface import Client, PatchType
from pykubelet.controllers.framework.work_queue import KeyedController, WorkQueue
from pykubelet.controllers.persistentvolume.volume_index import PodsByClaim
from pykubelet.kinds.persistent_volume import VOLUME_PROTECTION
from pykubelet.kinds.persistent_volume_claim import CLAIM_PROTECTION


class ClaimProtectionController(KeyedController):
    """Syncs claims by `namespace/name`."""

    def __init__(self, *, client: Client, claims: ObjectIndex[PersistentVolumeClaim], pods: PodsByClaim) -> None:
        self._client, self._claims, self._pods = client, claims, pods
        self.queue = WorkQueue()

    def listen(self, informers: Informers) -> None:
        informers.add_event_handler(PERSISTENT_VOLUME_CLAIMS, changed=self.claim_changed)
        informers.add_event_handler(PODS, deleted=self.pod_deleted)

    def claim_changed(self, claim: PersistentVolumeClaim) -> None:
        if finalizer_patch(claim.metadata, CLAIM_PROTECTION) is not None:
            self.queue.add(key_of(claim))

    def pod_deleted(self, pod: Pod) -> None:
        for _, name in pod_claims(pod):
            self.queue.add(f"{pod.metadata.namespace}/{name}")

    async def sync(self, key: str) -> None:
        claim = self._claims.get(key)
        patch = None if claim is None else finalizer_patch(claim.metadata, CLAIM_PROTECTION)
        if claim is None or patch is None:
            return
        meta = claim.metadata
        if meta.deletion_timestamp is not None and await self._is_used(claim):
            return
        try:
            await self._client.patch(
                PERSISTENT_VOLUME_CLAIMS, meta.name, patch, namespace=meta.namespace, patch_type=PatchType.MERGE
            )
        except NotFound:
            return

    async def _is_used(self, claim: PersistentVolumeClaim) -> bool:
        if any(pod.spec.node_name for pod in self._pods.using(key_of(claim))):
            return True
        pods = (await self._client.list(PODS, namespace=claim.metadata.namespace)).items
        return any(uses_claim(pod, claim) for pod in pods)


class VolumeProtectionController(KeyedController):
    """Syncs volumes by `/name`."""

    def __init__(self, *, client: Client, volumes: ObjectIndex[PersistentVolume]) -> None:
        self._client, self._volumes = client, volumes
        self.queue = WorkQueue()

    def listen(self, informers: Informers) -> None:
        informers.add_event_handler(PERSISTENT_VOLUMES, changed=self.volume_changed)

    def volume_changed(self, volume: PersistentVolume) -> None:
        if finalizer_patch(volume.metadata, VOLUME_PROTECTION) is not None:
            self.queue.add(key_of(volume))

    async def sync(self, key: str) -> None:
        volume = self._volumes.get(key)
        patch = None if volume is None else finalizer_patch(volume.metadata, VOLUME_PROTECTION)
        if volume is None or patch is None:
            return
        if volume.metadata.deletion_timestamp is not None and volume.status.phase == "Bound":
            return
        try:
            await self._client.patch(PERSISTENT_VOLUMES, volume.metadata.name, patch, patch_type=PatchType.MERGE)
        except NotFound:
            return


def uses_claim(pod: Pod, claim: PersistentVolumeClaim) -> bool:
    """Whether a pod on a node uses a claim; one without a node will not be started with a deleted claim."""
    return bool(pod.spec.node_name) and claim.metadata.name in {name for _, name in pod_claims(pod)}


def finalizer_patch(meta: ObjectMeta, name: str) -> Document | None:
    """The patch that adds a missing finalizer, or removes that of a deleted object; None if nothing is to be done."""
    is_deleted, finalizers = meta.deletion_timestamp is not None, list(meta.finalizers)
    if is_deleted != (name in finalizers):
        return None
    wanted = [one for one in finalizers if one != name] if is_deleted else [*finalizers, name]
    # The whole list is written, so the resource version must not have changed.
    lock = {"uid": meta.uid, "resourceVersion": meta.resource_version}
    return {"metadata": {**lock, "finalizers": wanted}}
