"""Writes bindings of claims and volumes, and the phases of both.

A binding is written in upstream's order: the volume's claimRef, the volume's phase, the claim's volumeName, the claim's
status. Each write names the version it was decided on, so it fails if the object has changed since.

Upstream: pkg/controller/volume/persistentvolume/pv_controller.go
"""

from typing import Any

from pykubelet.api.errors import NotFound
from pykubelet.api.generated.core import PersistentVolume, PersistentVolumeClaim
from pykubelet.api.scheme import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from pykubelet.api.serializer import Document
from pykubelet.api.volumes import BIND_COMPLETED, BOUND_BY_CONTROLLER, claim_reference, is_bound_to, storage_of
from pykubelet.client.interface import Client, PatchType


class BindingWriter:
    """Reads and writes claims and volumes at the API server."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def bind(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> None:
        """Binds a volume and a claim to each other; continues where an earlier attempt ended."""
        volume = await self._bind_volume(volume, claim)
        volume = await self.set_phase(volume, "Bound")
        annotations = claim.metadata.annotations
        wanted = {BIND_COMPLETED: "yes"} if BIND_COMPLETED not in annotations else {}
        change: Document = {"metadata": {"annotations": wanted}} if wanted else {}
        if claim.spec.volume_name != volume.metadata.name:
            wanted |= {BOUND_BY_CONTROLLER: "yes"} if BOUND_BY_CONTROLLER not in annotations else {}
            change = {"metadata": {"annotations": wanted}, "spec": {"volumeName": volume.metadata.name}}
        if change:
            claim = await self.patch_claim(claim, change)
        await self.set_claim_status(claim, "Bound", volume)

    async def _bind_volume(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
        reference = volume.spec.claim_ref
        if reference is not None and is_bound_to(volume, claim) and reference.uid:
            return volume
        change: Document = {"spec": {"claimRef": claim_reference(claim)}}
        if reference is None and BOUND_BY_CONTROLLER not in volume.metadata.annotations:
            change["metadata"] = {"annotations": {BOUND_BY_CONTROLLER: "yes"}}
        return await self._patch_volume(volume, change)

    async def unbind(self, volume: PersistentVolume) -> None:
        """Frees a volume whose claim is bound elsewhere; a reservation by the user stays."""
        is_ours = BOUND_BY_CONTROLLER in volume.metadata.annotations
        change: Document = {"spec": {"claimRef": None if is_ours else {"uid": None}}}
        if is_ours:
            change["metadata"] = {"annotations": {BOUND_BY_CONTROLLER: None}}
        await self.set_phase(await self._patch_volume(volume, change), "Available")

    async def set_phase(self, volume: PersistentVolume, phase: str, message: str = "") -> PersistentVolume:
        if volume.status.phase == phase:
            return volume
        return await self._patch_volume(volume, {"status": {"phase": phase, "message": message}}, "status")

    async def set_claim_status(self, claim: PersistentVolumeClaim, phase: str, volume: PersistentVolume | None) -> None:
        status: dict[str, Any] = {}
        if claim.status.phase != phase:
            status["phase"] = phase
        modes = volume.spec.access_modes if volume is not None else ()
        if claim.status.access_modes != modes:
            status["accessModes"] = list(modes) or None
        if volume is None:
            status |= {"capacity": None} if claim.status.capacity else {}
        elif claim.status.phase != phase and storage_of(claim.status.capacity) != storage_of(volume.spec.capacity):
            # Only when it becomes bound: while a volume is expanded, the two may differ.
            status["capacity"] = dict(volume.spec.capacity)
        if status:
            await self.patch_claim(claim, {"status": status}, "status")

    async def read_volume(self, name: str) -> PersistentVolume | None:
        try:
            return await self._client.get(PERSISTENT_VOLUMES, name)
        except NotFound:
            return None

    async def read_claim(self, volume: PersistentVolume) -> PersistentVolumeClaim | None:
        """The claim that a volume refers to, from the API server; None if it is gone."""
        reference = volume.spec.claim_ref
        if reference is None:
            return None
        try:
            found = await self._client.get(PERSISTENT_VOLUME_CLAIMS, reference.name, namespace=reference.namespace)
        except NotFound:
            return None
        return found if found.metadata.uid == reference.uid else None

    async def patch_claim(
        self, claim: PersistentVolumeClaim, change: Document, subresource: str = ""
    ) -> PersistentVolumeClaim:
        meta = claim.metadata
        return await self._client.patch(
            PERSISTENT_VOLUME_CLAIMS,
            meta.name,
            _locked(change, meta.uid, meta.resource_version),
            namespace=meta.namespace,
            patch_type=PatchType.MERGE,
            subresource=subresource,
        )

    async def _patch_volume(
        self, volume: PersistentVolume, change: Document, subresource: str = ""
    ) -> PersistentVolume:
        meta = volume.metadata
        body = _locked(change, meta.uid, meta.resource_version)
        return await self._client.patch(
            PERSISTENT_VOLUMES, meta.name, body, patch_type=PatchType.MERGE, subresource=subresource
        )


def _locked(change: Document, uid: str, resource_version: str) -> Document:
    """A patch that fails if the object has changed since it was read."""
    metadata = {**change.get("metadata", {}), "uid": uid, "resourceVersion": resource_version}
    return {**change, "metadata": metadata}
