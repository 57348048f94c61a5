"""Chooses volumes together with nodes.

Bound volumes restrict the nodes; unbound claims are bound for the chosen node. A claim whose class delays binding gets an existing volume of the node, or the annotation that asks the provisioner for
one there; its pod is bound to the node only when all its claims are. A choice is remembered before it is written, so
that concurrent workers never give one volume to two claims.

Upstream: pkg/scheduler/framework/plugins/volumebinding/volume_binding.go,
pkg/scheduler/framework/plugins/volumebinding/binder.go,
pkg/scheduler/framework/plugins/volumebinding/assume_cache.go
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from pykubelet.api.generated.core import Node, PersistentVolume, PersistentVolumeClaim, Pod
from pykubelet.api.generated.storage import StorageClass
from pykubelet.api.scheme import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from pykubelet.api.serializer import Document
from pykubelet.api.volumes import (
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    claim_class,
    claim_reference,
    class_allows_node,
    delays_binding,
    find_matching_volume,
    foreign_claim_problem,
    is_claim_bound,
    is_claim_of_pod,
    pod_claims,
    volume_class,
    volume_fits_node,
)
from pykubelet.client.interface import PatchType, Writer

UNBOUND_IMMEDIATE = "pod has unbound immediate PersistentVolumeClaims"
NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
BIND_CONFLICT = "node(s) didn't find available persistent volumes to bind"
VOLUME_MISSING = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
READ_WRITE_ONCE_POD = "ReadWriteOncePod"
_NO_PROVISIONER = "kubernetes.io/no-provisioner"


class ClaimKey(NamedTuple):
    """A claim whose changes retry the pods that wait for it."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class PodVolumeClaims:
    """The claims of a pod: the volumes of bound ones, None for a missing volume, and those to be bound with the node."""

    keys: frozenset[ClaimKey] = frozenset()
    volumes: tuple[PersistentVolume | None, ...] = ()
    delayed: tuple[PersistentVolumeClaim, ...] = ()
    exclusive: frozenset[ClaimKey] = frozenset()
    """The claims with the access mode ReadWriteOncePod."""


NO_CLAIMS = PodVolumeClaims()


@dataclass(frozen=True, slots=True)
class BindingPlan:
    """What a node means for the claims of a pod: why it cannot have them, or how its claims are bound there."""

    reasons: tuple[str, ...] = ()
    bindings: tuple[tuple[PersistentVolumeClaim, PersistentVolume], ...] = ()
    provisions: tuple[PersistentVolumeClaim, ...] = ()


class VolumeBinder:
    """The claims, volumes and classes as the scheduler sees them, with its own choices. Every change costs O(1)."""

    def __init__(self, client: Writer) -> None:
        self._client = client
        self._claims: dict[ClaimKey, PersistentVolumeClaim] = {}
        self._volumes: dict[str, PersistentVolume] = {}
        self._by_class: dict[str, dict[str, PersistentVolume]] = {}
        self._classes: dict[str, StorageClass] = {}
        self._chosen: dict[str, str] = {}
        """The UID of the claim that a volume was chosen for, until the choice is written."""

    def put_claim(self, claim: PersistentVolumeClaim) -> None:
        self._claims[_key(claim)] = claim

    def drop_claim(self, claim: PersistentVolumeClaim) -> None:
        self._claims.pop(_key(claim), None)

    def put_volume(self, volume: PersistentVolume) -> None:
        self.drop_volume(volume)
        self._volumes[volume.metadata.name] = volume
        if volume.status.phase == "Available":
            self._by_class.setdefault(volume_class(volume), {})[volume.metadata.name] = volume

    def drop_volume(self, volume: PersistentVolume) -> None:
        old = self._volumes.pop(volume.metadata.name, None)
        if old is not None:
            self._by_class.get(volume_class(old), {}).pop(volume.metadata.name, None)

    def put_class(self, storage_class: StorageClass) -> None:
        self._classes[storage_class.metadata.name] = storage_class

    def drop_class(self, storage_class: StorageClass) -> None:
        self._classes.pop(storage_class.metadata.name, None)

    def find_claims(self, pod: Pod) -> PodVolumeClaims | str:
        """The claims of a pod, or why no node can have it now."""
        keys, exclusive, is_waiting = set[ClaimKey](), set[ClaimKey](), False
        volumes, delayed = list[PersistentVolume | None](), {}
        for volume, name in pod_claims(pod):
            key = ClaimKey(pod.metadata.namespace, name)
            claim = self._claims.get(key)
            if claim is None:
                waits = "waiting for ephemeral volume controller to create the persistentvolumeclaim"
                return f'{waits} "{name}"' if volume.ephemeral else f'persistentvolumeclaim "{name}" not found'
            if claim.status.phase == "Lost":
                missing = claim.spec.volume_name
                return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{missing}"'
            if claim.metadata.deletion_timestamp is not None:
                return f'persistentvolumeclaim "{name}" is being deleted'
            if volume.ephemeral is not None and not is_claim_of_pod(claim, pod):
                return foreign_claim_problem(claim, pod)
            keys.add(key)
            if READ_WRITE_ONCE_POD in claim.spec.access_modes:
                exclusive.add(key)
            if is_claim_bound(claim):
                volumes.append(self._volumes.get(claim.spec.volume_name))
            elif not claim.spec.volume_name and delays_binding(self._classes.get(claim_class(claim))):
                delayed[key] = claim
            else:
                is_waiting = True
        if is_waiting:
            return UNBOUND_IMMEDIATE
        return PodVolumeClaims(frozenset(keys), tuple(volumes), tuple(delayed.values()), frozenset(exclusive))

    def plan(self, claims: PodVolumeClaims, node: Node, existing_nodes: Iterable[str] = ()) -> BindingPlan:
        """How the claims of a pod are bound on a node. A selected node that is gone no longer counts."""
        reasons = []
        found = [volume for volume in claims.volumes if volume is not None]
        if not all(volume_fits_node(volume, node) for volume in found):
            reasons.append(NODE_CONFLICT)
        if len(found) < len(claims.volumes):
            reasons.append(VOLUME_MISSING)
        bindings: dict[str, tuple[PersistentVolumeClaim, PersistentVolume]] = {}
        provisions: list[PersistentVolumeClaim] = []
        for claim in claims.delayed:
            selected = claim.metadata.annotations.get(SELECTED_NODE, "")
            if selected and selected != node.metadata.name and selected in existing_nodes:
                return BindingPlan((*reasons, BIND_CONFLICT))
            volume = None if selected == node.metadata.name else self._find_volume(claim, node, bindings)
            if volume is not None:
                bindings[volume.metadata.name] = claim, volume
            elif self._can_provision(claim, node):
                provisions.append(claim)
            else:
                return BindingPlan((*reasons, BIND_CONFLICT))
        return BindingPlan(tuple(reasons), tuple(bindings.values()), tuple(provisions))

    async def bind(self, plan: BindingPlan, node_name: str) -> None:
        """Writes the choices of a plan; ApiError if one cannot be written."""
        names = [volume.metadata.name for _, volume in plan.bindings]
        self._chosen.update((volume.metadata.name, claim.metadata.uid) for claim, volume in plan.bindings)
        try:
            for claim, volume in plan.bindings:
                await self._reserve(volume, claim)
            for claim in plan.provisions:
                await self._select_node(claim, node_name)
        finally:
            for name in names:
                self._chosen.pop(name, None)

    async def _reserve(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> None:
        meta, reference = volume.metadata, volume.spec.claim_ref
        if reference is not None and reference.uid:
            return
        metadata: Document = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        if reference is None:
            metadata["annotations"] = {BOUND_BY_CONTROLLER: "yes"}
        body = {"metadata": metadata, "spec": {"claimRef": claim_reference(claim)}}
        written = await self._client.patch(PERSISTENT_VOLUMES, meta.name, body, patch_type=PatchType.MERGE)
        self.put_volume(written)

    async def _select_node(self, claim: PersistentVolumeClaim, node_name: str) -> None:
        meta = claim.metadata
        if meta.annotations.get(SELECTED_NODE) == node_name:
            return
        lock = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        body = {"metadata": {**lock, "annotations": {SELECTED_NODE: node_name}}}
        await self._client.patch(
            PERSISTENT_VOLUME_CLAIMS, meta.name, body, namespace=meta.namespace, patch_type=PatchType.MERGE
        )

    def _find_volume(self, claim: PersistentVolumeClaim, node: Node, taken: Iterable[str]) -> PersistentVolume | None:
        uid = claim.metadata.uid
        free = [
            volume
            for name, volume in self._by_class.get(claim_class(claim), {}).items()
            if name not in taken and self._chosen.get(name, uid) == uid
        ]
        return find_matching_volume(claim, free, node=node, delays=True)

    def _can_provision(self, claim: PersistentVolumeClaim, node: Node) -> bool:
        found = self._classes.get(claim_class(claim))
        is_possible = found is not None and found.provisioner not in ("", _NO_PROVISIONER)
        return is_possible and found is not None and class_allows_node(found, node)


def _key(claim: PersistentVolumeClaim) -> ClaimKey:
    return ClaimKey(claim.metadata.namespace, claim.metadata.name)
