"""Provisions claims of the class `standard` as folders of one machine, and deletes released ones.

A folder's name comes from the claim's UID, so nothing that a user chooses becomes part of a path. It is removed only if
its volume was provisioned here, is released, has the policy Delete, and its claim is gone from the API server. Capacity
is enforced where the file system has project quotas; elsewhere it is a number, and an event of the claim says so. The
behaviour is that of the provisioners made with sig-storage-lib-external-provisioner: their events, annotations and
finalizer.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pykubelet.aio.threads import in_thread
from pykubelet.api.errors import AlreadyExists, NotFound
from pykubelet.api.generated.core import Node, PersistentVolume, PersistentVolumeClaim, Pod
from pykubelet.api.generated.meta import DeleteOptions, Preconditions
from pykubelet.api.generated.storage import StorageClass
from pykubelet.api.scheme import (
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    STORAGE_CLASSES,
    as_documents,
)
from pykubelet.api.serializer import Document
from pykubelet.api.volumes import (
    PROVISIONED_BY,
    SELECTED_NODE,
    STORAGE,
    STORAGE_PROVISIONER,
    WAIT_FOR_FIRST_CONSUMER,
    claim_class,
    claim_reference,
    delays_binding,
    is_claim_bound,
    pod_claims,
    storage_of,
    volume_fits_node,
)
from pykubelet.client.indexer import ObjectIndex, key_of
from pykubelet.client.informers import Informers
from pykubelet.client.interface import Client, PatchType
from pykubelet.client.recorder import NORMAL, WARNING, EventRecorder, reference_to
from pykubelet.controllers.framework.work_queue import KeyedController, WorkQueue
from pykubelet.controllers.persistentvolume.volume_index import PodsByClaim

PROVISIONER = "pykubelet.io/local-path"
CLASS = "standard"
_CLASS_KEY = "storage class"
_HOSTNAME = "kubernetes.io/hostname"
NODE_ROLE_RULES = (
    {"apiGroups": [""], "resources": ["persistentvolumeclaims"], "verbs": ["get", "list", "watch"]},
    {
        "apiGroups": [""],
        "resources": ["persistentvolumes"],
        "verbs": ["create", "delete", "get", "list", "patch", "watch"],
    },
    {"apiGroups": ["storage.k8s.io"], "resources": ["storageclasses"], "verbs": ["get", "list", "watch"]},
)
"""What a node needs besides its own rights to provision its volumes; NodeRestriction confines writes to these volumes."""
FINALIZER = "external-provisioner.volume.kubernetes.io/finalizer"
"""Upstream's name: keeps a deleted volume until its folder is gone."""
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class ProvisioningFailed(Exception):
    """A claim cannot be provisioned as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalVolumes:
    """The folders that a machine provides to its node: where they are, and blocking calls by name.

    Capacities are in bytes. `make` returns whether the capacity is enforced.
    """

    node_name: str
    root: Path
    make: Callable[[str, int], bool]
    expand: Callable[[str, int], None]
    remove: Callable[[str], None]


class LocalProvisioner(KeyedController):
    """Syncs claims by `namespace/name`, volumes by `/name`, and the storage class."""

    def __init__(
        self,
        *,
        client: Client,
        recorder: EventRecorder,
        informers: Informers,
        pods: PodsByClaim | None,
        local_volumes: LocalVolumes,
    ) -> None:
        """Without `pods`, as on a node that may not read all, nodes are selected by the scheduler only."""
        self._client, self._recorder, self._pods, self._here = client, recorder, pods, local_volumes
        self._claims: ObjectIndex[PersistentVolumeClaim] = informers.objects(PERSISTENT_VOLUME_CLAIMS)
        self._volumes: ObjectIndex[PersistentVolume] = informers.objects(PERSISTENT_VOLUMES)
        self._classes: ObjectIndex[StorageClass] = informers.objects(STORAGE_CLASSES)
        self._nodes: ObjectIndex[Node] = informers.objects(NODES)
        self.queue = WorkQueue()

    def listen(self, informers: Informers) -> None:
        informers.add_event_handler(PERSISTENT_VOLUME_CLAIMS, changed=self.claim_changed)
        informers.add_event_handler(PERSISTENT_VOLUMES, changed=self.volume_changed)
        if self._pods is not None:
            informers.add_event_handler(PODS, changed=self.pod_changed)
            self.queue.add(_CLASS_KEY)

    def claim_changed(self, claim: PersistentVolumeClaim) -> None:
        is_ours = claim.metadata.annotations.get(STORAGE_PROVISIONER) == PROVISIONER
        if is_ours or self._has_pod_here(claim):
            self.queue.add(key_of(claim))

    def pod_changed(self, pod: Pod) -> None:
        """A pod may have come to this node past the scheduler, as a static pod does."""
        for _, name in pod_claims(pod):
            claim = self._claims.get(f"{pod.metadata.namespace}/{name}")
            if claim is not None and self._has_pod_here(claim):
                self.queue.add(key_of(claim))

    def volume_changed(self, volume: PersistentVolume) -> None:
        if volume.metadata.annotations.get(PROVISIONED_BY) == PROVISIONER:
            self.queue.add(key_of(volume))

    async def sync(self, key: str) -> None:
        if key == _CLASS_KEY:
            await self._create_class()
            return
        node = self._nodes.get(f"/{self._here.node_name}")
        if node is None:
            raise LookupError(f"node {self._here.node_name} is not registered yet")
        if key.startswith("/"):
            volume = self._volumes.get(key)
            if volume is not None and self._is_here(volume, node):
                await self._sync_volume(volume)
        elif (claim := self._claims.get(key)) is not None:
            if is_claim_bound(claim):
                await self._expand(claim, node)
            else:
                await self._provision(claim, node)

    async def _create_class(self) -> None:
        body = {
            "apiVersion": STORAGE_CLASSES.resource.api_version,
            "kind": STORAGE_CLASSES.resource.kind,
            "metadata": {"name": CLASS, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
            "provisioner": PROVISIONER,
            "reclaimPolicy": "Delete",
            "volumeBindingMode": WAIT_FOR_FIRST_CONSUMER,
            "allowVolumeExpansion": True,
        }
        with suppress(AlreadyExists):
            await self._client.create(as_documents(STORAGE_CLASSES.resource), body)

    async def _provision(self, claim: PersistentVolumeClaim, node: Node) -> None:
        """Creates folder and volume of a claim, if this node was selected for it."""
        storage_class = self._classes.get(f"/{claim_class(claim)}")
        if storage_class is None or storage_class.provisioner != PROVISIONER or claim.spec.volume_name:
            return
        selected = claim.metadata.annotations.get(SELECTED_NODE, "")
        if claim.metadata.deletion_timestamp is not None:
            return
        if delays_binding(storage_class) and not selected:
            if self._has_pod_here(claim):
                await self._select_node(claim)
            return
        # A claim without a selected node is for the node of `up`, so that no two nodes make it.
        if selected != node.metadata.name and (selected or self._pods is None):
            return
        try:
            body = new_volume(claim, storage_class, node, self._here.root)
        except ProvisioningFailed as error:
            text = f'failed to provision volume with StorageClass "{storage_class.metadata.name}": {error}'
            self._event(claim, WARNING, "ProvisioningFailed", text)
            return
        name = body["metadata"]["name"]
        if self._volumes.get(f"/{name}") is not None:
            return
        text = f'External provisioner is provisioning volume for claim "{key_of(claim)}"'
        self._event(claim, NORMAL, "Provisioning", text)
        try:
            capacity = storage_of(claim.spec.resources.requests).value()
            is_enforced = await in_thread(self._here.make, name, capacity)
        except OSError as error:
            text = f'failed to provision volume with StorageClass "{storage_class.metadata.name}": {error}'
            self._event(claim, WARNING, "ProvisioningFailed", text)
            raise
        with suppress(AlreadyExists):
            await self._client.create(as_documents(PERSISTENT_VOLUMES.resource), body)
        self._event(claim, NORMAL, "ProvisioningSucceeded", f"Successfully provisioned volume {name}")
        if not is_enforced:
            text = f"the volume may grow beyond its capacity: no project quotas on the file system of {self._here.root}"
            self._event(claim, NORMAL, "CapacityNotEnforced", text)

    async def _select_node(self, claim: PersistentVolumeClaim) -> None:
        """Selects this node for a claim in the scheduler's place."""
        meta = claim.metadata
        lock = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        change = {"metadata": {**lock, "annotations": {SELECTED_NODE: self._here.node_name}}}
        await self._client.patch(
            PERSISTENT_VOLUME_CLAIMS, meta.name, change, namespace=meta.namespace, patch_type=PatchType.MERGE
        )

    async def _expand(self, claim: PersistentVolumeClaim, node: Node) -> None:
        """Raises the capacity of a volume, then of its claim, to what the claim requests."""
        volume, wanted = self._volumes.get(f"/{claim.spec.volume_name}"), claim.spec.resources.requests.get(STORAGE, "")
        if volume is None or not wanted or not self._is_here(volume, node):
            return
        if storage_of(volume.spec.capacity) < storage_of(claim.spec.resources.requests):
            capacity = storage_of(claim.spec.resources.requests).value()
            try:
                await in_thread(self._here.expand, volume.metadata.name, capacity)
            except OSError as error:
                self._event(claim, WARNING, "VolumeResizeFailed", str(error))
                raise
            change: Document = {"metadata": {"uid": volume.metadata.uid}, "spec": {"capacity": {STORAGE: wanted}}}
            await self._client.patch(PERSISTENT_VOLUMES, volume.metadata.name, change, patch_type=PatchType.MERGE)
        if claim.status.phase == "Bound" and storage_of(claim.status.capacity) < storage_of(
            claim.spec.resources.requests
        ):
            meta = claim.metadata
            change = {"metadata": {"uid": meta.uid}, "status": {"capacity": {STORAGE: wanted}}}
            await self._client.patch(
                PERSISTENT_VOLUME_CLAIMS,
                meta.name,
                change,
                namespace=meta.namespace,
                patch_type=PatchType.MERGE,
                subresource="status",
            )
            self._event(claim, NORMAL, "VolumeResizeSuccessful", "Resize volume succeeded")

    async def _sync_volume(self, volume: PersistentVolume) -> None:
        """Applies the reclaim policy to a released or deleted volume."""
        meta, phase = volume.metadata, volume.status.phase
        is_deleted, is_kept = (
            meta.deletion_timestamp is not None,
            volume.spec.persistent_volume_reclaim_policy != "Delete",
        )
        if phase == "Bound" or not (is_deleted or phase in ("Released", "Failed")) or FINALIZER not in meta.finalizers:
            return
        if not is_kept:
            if await self._has_claim(volume):
                return
            try:
                await in_thread(self._here.remove, meta.name)
            except OSError as error:
                self._recorder.event(reference_to(volume), WARNING, "VolumeFailedDelete", str(error))
                raise
            if not is_deleted:
                options = DeleteOptions(preconditions=Preconditions(uid=meta.uid))
                with suppress(NotFound):
                    await self._client.delete(PERSISTENT_VOLUMES, meta.name, options=options)
        if is_deleted:
            finalizers = [one for one in meta.finalizers if one != FINALIZER]
            lock = {"uid": meta.uid, "resourceVersion": meta.resource_version}
            with suppress(NotFound):
                await self._client.patch(
                    PERSISTENT_VOLUMES,
                    meta.name,
                    {"metadata": {**lock, "finalizers": finalizers}},
                    patch_type=PatchType.MERGE,
                )

    async def _has_claim(self, volume: PersistentVolume) -> bool:
        """Whether the API server still has the claim that a volume refers to."""
        reference = volume.spec.claim_ref
        if reference is None:
            return False
        try:
            found = await self._client.get(PERSISTENT_VOLUME_CLAIMS, reference.name, namespace=reference.namespace)
        except NotFound:
            return False
        return found.metadata.uid == reference.uid and found.spec.volume_name in ("", volume.metadata.name)

    def _has_pod_here(self, claim: PersistentVolumeClaim) -> bool:
        """Whether a pod of this node waits for a claim to be bound."""
        users = () if self._pods is None or is_claim_bound(claim) else self._pods.using(key_of(claim))
        return any(pod.spec.node_name == self._here.node_name for pod in users)

    def _is_here(self, volume: PersistentVolume, node: Node) -> bool:
        """Whether a volume is one of our folders: its name, path and node are those that we gave it."""
        meta, source = volume.metadata, volume.spec.local
        if meta.annotations.get(PROVISIONED_BY) != PROVISIONER or not _UID.fullmatch(meta.name.removeprefix("pvc-")):
            return False
        is_our_path = source is not None and source.path == f"{self._here.root}/{meta.name}"
        return is_our_path and volume_fits_node(volume, node)

    def _event(self, claim: PersistentVolumeClaim, event_type: str, reason: str, text: str) -> None:
        self._recorder.event(reference_to(claim), event_type, reason, text)


def new_volume(claim: PersistentVolumeClaim, storage_class: StorageClass, node: Node, root: Path) -> Document:
    """The volume for a claim on a node; ProvisioningFailed if a folder cannot be what the claim asks for."""
    meta, hostname = claim.metadata, node.metadata.labels.get(_HOSTNAME, "")
    problems = {
        "block volumes are not supported": claim.spec.volume_mode == "Block",
        "claim Selector is not supported": claim.spec.selector is not None,
        "data sources are not supported": claim.spec.data_source is not None or claim.spec.data_source_ref is not None,
        "parameters of the class are not supported": bool(storage_class.parameters),
        "mount options are not supported": bool(storage_class.mount_options),
        f"node {node.metadata.name} has no label {_HOSTNAME}": not hostname,
        f"{meta.uid} is not a UID": not _UID.fullmatch(meta.uid),
    }
    if found := next((text for text, holds in problems.items() if holds), ""):
        raise ProvisioningFailed(found)
    name = f"pvc-{meta.uid}"
    terms = [{"matchExpressions": [{"key": _HOSTNAME, "operator": "In", "values": [hostname]}]}]
    return {
        "apiVersion": PERSISTENT_VOLUMES.resource.api_version,
        "kind": PERSISTENT_VOLUMES.resource.kind,
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: PROVISIONER}, "finalizers": [FINALIZER]},
        "spec": {
            "capacity": {STORAGE: claim.spec.resources.requests[STORAGE]},
            "accessModes": list(claim.spec.access_modes),
            "volumeMode": "Filesystem",
            "persistentVolumeReclaimPolicy": storage_class.reclaim_policy or "Delete",
            "storageClassName": storage_class.metadata.name,
            "claimRef": claim_reference(claim),
            "local": {"path": f"{root}/{name}"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
        },
    }
