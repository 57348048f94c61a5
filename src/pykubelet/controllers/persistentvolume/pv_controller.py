"""The persistent volume controller: binds claims to volumes and reclaims released volumes.

Before a volume is released, or a claim counts as lost, the other object is read from the API server: data must not
depend on how late a watch is. Volumes are provisioned and deleted by external provisioners only; annotations tell them
what to do.

Upstream: pkg/controller/volume/persistentvolume/pv_controller.go,
pkg/controller/volume/persistentvolume/pv_controller_base.go, pkg/controller/volume/events/event.go
"""

from collections.abc import Iterable

from pykubelet.api.generated.core import PersistentVolume, PersistentVolumeClaim
from pykubelet.api.generated.storage import StorageClass
from pykubelet.api.scheme import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES
from pykubelet.api.volumes import (
    BETA_STORAGE_PROVISIONER,
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    PROVISIONED_BY,
    SELECTED_NODE,
    STORAGE_PROVISIONER,
    claim_class,
    delays_binding,
    find_matching_volume,
    has_class_field,
    is_bound_to,
    is_claim_bound,
    volume_mismatch,
)
from pykubelet.client.indexer import ObjectIndex, age_key, key_of
from pykubelet.client.informers import Informers
from pykubelet.client.interface import Client
from pykubelet.client.recorder import NORMAL, WARNING, EventRecorder, reference_to
from pykubelet.controllers.framework.work_queue import KeyedController, WorkQueue
from pykubelet.controllers.persistentvolume.binding_writer import BindingWriter
from pykubelet.controllers.persistentvolume.volume_index import PodsByClaim, VolumeIndex
from pykubelet.kinds.storage_class import is_default_class

SOURCE = "persistentvolume-controller"
_BUILT_IN = "kubernetes.io/"


def default_class_name(classes: Iterable[StorageClass]) -> str:
    """The default class: the newest of those that are marked, of equally old ones the first by name; or empty.

    Admission gives new claims the same one.
    """
    marked = [one for one in classes if is_default_class(one.metadata.annotations)]
    newest = min(marked, key=lambda one: (-age_key(one)[0], one.metadata.name), default=None)
    return newest.metadata.name if newest is not None else ""


class BindingConflict(Exception):
    """A claim says that it is bound to a volume that belongs to another claim."""


class PersistentVolumeController(KeyedController):
    """Syncs claims by `namespace/name` and volumes by `/name`."""

    def __init__(
        self,
        *,
        client: Client,
        recorder: EventRecorder,
        claims: ObjectIndex[PersistentVolumeClaim],
        volumes: ObjectIndex[PersistentVolume],
        classes: ObjectIndex[StorageClass],
        pods: PodsByClaim,
    ) -> None:
        self._writer, self._recorder = BindingWriter(client), recorder
        self._claims, self._volumes, self._classes, self._pods = claims, volumes, classes, pods
        self._index = VolumeIndex()
        self.queue = WorkQueue()

    def listen(self, informers: Informers) -> None:
        informers.add_event_handler(PERSISTENT_VOLUME_CLAIMS, changed=self.claim_changed, deleted=self.claim_deleted)
        informers.add_event_handler(PERSISTENT_VOLUMES, changed=self.volume_changed, deleted=self.volume_deleted)
        informers.add_event_handler(STORAGE_CLASSES, changed=self.class_changed)

    def claim_changed(self, claim: PersistentVolumeClaim) -> None:
        self._index.put_claim(claim)
        self.queue.add(key_of(claim))
        self._add_volumes_of(claim)

    def claim_deleted(self, claim: PersistentVolumeClaim) -> None:
        self._index.drop_claim(claim)
        self._add_volumes_of(claim)

    def volume_changed(self, volume: PersistentVolume) -> None:
        self._index.put_volume(volume)
        self.queue.add(key_of(volume))
        if volume.status.phase in ("Available", "Pending"):
            for key in self._index.claims_for(volume):
                self.queue.add(key)

    def volume_deleted(self, volume: PersistentVolume) -> None:
        self._index.drop_volume(volume)
        if (reference := volume.spec.claim_ref) is not None:
            self.queue.add(f"{reference.namespace}/{reference.name}")

    def class_changed(self, storage_class: StorageClass) -> None:
        """Claims may wait for the class, or for a default class."""
        for key in self._index.claims_of_class(storage_class.metadata.name):
            self.queue.add(key)
        if is_default_class(storage_class.metadata.annotations):
            for key in self._index.claims_of_class(""):
                self.queue.add(key)

    async def sync(self, key: str) -> None:
        if key.startswith("/"):
            volume = self._volumes.get(key)
            if volume is not None:
                await self._sync_volume(volume)
            return
        claim = self._claims.get(key)
        if claim is None:
            return
        if BIND_COMPLETED in claim.metadata.annotations:
            await self._sync_bound_claim(claim)
        elif claim.metadata.deletion_timestamp is None:
            await self._sync_unbound_claim(claim)

    def _add_volumes_of(self, claim: PersistentVolumeClaim) -> None:
        for name in {*self._index.volumes_of(claim), claim.spec.volume_name} - {""}:
            self.queue.add(f"/{name}")

    async def _sync_unbound_claim(self, claim: PersistentVolumeClaim) -> None:
        if claim.spec.volume_name:
            await self._bind_named_volume(claim)
            return
        storage_class = self._classes.get(f"/{claim_class(claim)}")
        delays = delays_binding(storage_class)
        volume = find_matching_volume(claim, self._index.candidates(claim), node=None, delays=delays)
        if volume is not None:
            await self._writer.bind(volume, claim)
            return
        if await self._set_default_class(claim):
            return
        if delays and SELECTED_NODE not in claim.metadata.annotations:
            self._event(claim, NORMAL, *self._waiting_for_consumer(claim))
        elif claim_class(claim):
            await self._ask_provisioner(claim, storage_class)
        else:
            text = "no persistent volumes available for this claim and no storage class is set"
            self._event(claim, NORMAL, "FailedBinding", text)
        await self._writer.set_claim_status(claim, "Pending", None)

    async def _bind_named_volume(self, claim: PersistentVolumeClaim) -> None:
        """Binds a claim to the volume that its spec names."""
        volume = self._volumes.get(f"/{claim.spec.volume_name}")
        if volume is not None and is_bound_to(volume, claim):
            await self._writer.bind(volume, claim)
            return
        if volume is not None and volume.spec.claim_ref is None:
            problem = volume_mismatch(volume, claim)
            if not problem:
                await self._writer.bind(volume, claim)
                return
            text = f'Cannot bind to requested volume "{volume.metadata.name}": {problem}'
            self._event(claim, WARNING, "VolumeMismatch", text)
        elif volume is not None:
            name = volume.metadata.name
            if BOUND_BY_CONTROLLER in claim.metadata.annotations:
                text = f'invalid binding of claim "{key_of(claim)}" to volume "{name}": volume already claimed'
                raise BindingConflict(text)
            self._event(claim, WARNING, "FailedBinding", f'volume "{name}" already bound to a different claim.')
        await self._writer.set_claim_status(claim, "Pending", None)

    async def _set_default_class(self, claim: PersistentVolumeClaim) -> bool:
        """Sets the default class of a claim that was created while there was none."""
        if has_class_field(claim):
            return False
        name = default_class_name(self._classes.all())
        if not name:
            return False
        await self._writer.patch_claim(claim, {"spec": {"storageClassName": name}})
        return True

    def _waiting_for_consumer(self, claim: PersistentVolumeClaim) -> tuple[str, str]:
        """Reason and message of the event about a claim whose class delays binding."""
        names = sorted(pod.metadata.name for pod in self._pods.using(key_of(claim)) if not pod.spec.node_name)
        if not names:
            return "WaitForFirstConsumer", "waiting for first consumer to be created before binding"
        noun = "pod" if len(names) == 1 else "pods"
        return "WaitForPodScheduled", f"waiting for {noun} {','.join(names)} to be scheduled"

    async def _ask_provisioner(self, claim: PersistentVolumeClaim, storage_class: StorageClass | None) -> None:
        """Annotates a claim for the provisioner of its class."""
        if storage_class is None:
            text = f'storageclass.storage.k8s.io "{claim_class(claim)}" not found'
            self._event(claim, WARNING, "ProvisioningFailed", text)
            return
        name = storage_class.provisioner
        if name.startswith(_BUILT_IN):
            self._event(claim, WARNING, "ProvisioningFailed", f"no volume plugin matched name: {name}")
            return
        wanted = {STORAGE_PROVISIONER: name, BETA_STORAGE_PROVISIONER: name}
        if wanted.items() <= claim.metadata.annotations.items():
            return
        await self._writer.patch_claim(claim, {"metadata": {"annotations": wanted}})
        text = (
            "Waiting for a volume to be created either by the external provisioner "
            f"'{name}' or manually by the system administrator. If volume creation is delayed, please verify that the "
            "provisioner is running and correctly registered."
        )
        self._event(claim, NORMAL, "ExternalProvisioning", text)

    async def _sync_bound_claim(self, claim: PersistentVolumeClaim) -> None:
        if not is_claim_bound(claim):
            text = "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!"
            await self._lose(claim, "ClaimLost", text)
            return
        name = claim.spec.volume_name
        volume = self._volumes.get(f"/{name}") or await self._writer.read_volume(name)
        if volume is None:
            await self._lose(
                claim, "ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
            )
        elif volume.spec.claim_ref is None or volume.spec.claim_ref.uid == claim.metadata.uid:
            await self._writer.bind(volume, claim)
        else:
            text = "Two claims are bound to the same volume, this one is bound incorrectly"
            await self._lose(claim, "ClaimMisbound", text)

    async def _lose(self, claim: PersistentVolumeClaim, reason: str, text: str) -> None:
        if claim.status.phase != "Lost":
            await self._writer.set_claim_status(claim, "Lost", None)
            self._event(claim, WARNING, reason, text)

    async def _sync_volume(self, volume: PersistentVolume) -> None:
        reference = volume.spec.claim_ref
        if reference is None or not reference.uid:
            await self._writer.set_phase(volume, "Available")
            return
        key = f"{reference.namespace}/{reference.name}"
        claim = self._claims.get(key)
        if claim is None or claim.metadata.uid != reference.uid:
            claim = await self._writer.read_claim(volume)
        if claim is None:
            await self._release(volume)
        elif not claim.spec.volume_name:
            self.queue.add(key)
        elif claim.spec.volume_name == volume.metadata.name:
            await self._writer.set_phase(volume, "Bound")
        elif _is_provisioned(volume) and volume.spec.persistent_volume_reclaim_policy == "Delete":
            # The claim got another volume meanwhile.
            await self._release(volume)
        else:
            await self._writer.unbind(volume)

    async def _release(self, volume: PersistentVolume) -> None:
        """Marks a volume as released and applies its policy; a failed one stays failed."""
        if volume.status.phase not in ("Released", "Failed"):
            volume = await self._writer.set_phase(volume, "Released")
        policy = volume.spec.persistent_volume_reclaim_policy
        if policy == "Retain" or (policy == "Delete" and _is_provisioned(volume)):
            # Its provisioner deletes a released volume.
            return
        if policy == "Delete":
            name = volume.metadata.name
            text = f'error getting deleter volume plugin for volume "{name}": no deletable volume plugin matched'
            await self._fail(volume, "VolumeFailedDelete", text)
        elif policy == "Recycle":
            await self._fail(volume, "VolumeFailedRecycle", "No recycler plugin found for the volume!")

    async def _fail(self, volume: PersistentVolume, reason: str, text: str) -> None:
        if volume.status.phase != "Failed":
            await self._writer.set_phase(volume, "Failed", text)
            self._recorder.event(reference_to(volume), WARNING, reason, text)

    def _event(self, claim: PersistentVolumeClaim, event_type: str, reason: str, text: str) -> None:
        self._recorder.event(reference_to(claim), event_type, reason, text)


def _is_provisioned(volume: PersistentVolume) -> bool:
    """Whether a volume was provisioned by a program that deletes it too."""
    name = volume.metadata.annotations.get(PROVISIONED_BY, "")
    return bool(name) and not name.startswith(_BUILT_IN)
