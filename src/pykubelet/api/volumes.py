"""Persistent volumes and claims: which volume a claim may have, and which claims a pod uses.

Upstream: staging/src/k8s.io/component-helpers/storage/volume/pv_helpers.go,
staging/src/k8s.io/component-helpers/storage/volume/helpers.go,
staging/src/k8s.io/component-helpers/storage/ephemeral/ephemeral.go
"""

from collections.abc import Iterable, Iterator, Mapping

from pykubelet.api.generated.core import Node, PersistentVolume, PersistentVolumeClaim, Pod, Volume
from pykubelet.api.generated.storage import StorageClass
from pykubelet.api.labels import SelectorError, selector_from_object
from pykubelet.api.quantity import Quantity, parse_quantity
from pykubelet.api.scheduling import term_matches
from pykubelet.api.serializer import Document

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
STORAGE_PROVISIONER = "volume.kubernetes.io/storage-provisioner"
BETA_STORAGE_PROVISIONER = "volume.beta.kubernetes.io/storage-provisioner"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
BETA_STORAGE_CLASS = "volume.beta.kubernetes.io/storage-class"
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
STORAGE = "storage"
_OTHER_CLASS = "storageClassName does not match"


def claim_class(claim: PersistentVolumeClaim) -> str:
    """The name of a claim's class; empty if it has none."""
    return claim.metadata.annotations.get(BETA_STORAGE_CLASS, claim.spec.storage_class_name or "")


def volume_class(volume: PersistentVolume) -> str:
    """The name of a volume's class; empty if it has none."""
    return volume.metadata.annotations.get(BETA_STORAGE_CLASS, volume.spec.storage_class_name)


def has_class_field(claim: PersistentVolumeClaim) -> bool:
    """Whether a claim names a class, or says with an empty name that it wants none."""
    return BETA_STORAGE_CLASS in claim.metadata.annotations or claim.spec.storage_class_name is not None


def delays_binding(storage_class: StorageClass | None) -> bool:
    """Whether claims of a class are bound only when a pod that uses them is scheduled."""
    return storage_class is not None and storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER


def is_claim_bound(claim: PersistentVolumeClaim) -> bool:
    """Whether the binding of a claim is complete."""
    return bool(claim.spec.volume_name) and BIND_COMPLETED in claim.metadata.annotations


def claim_reference(claim: PersistentVolumeClaim) -> Document:
    """The reference to a claim in a volume."""
    meta = claim.metadata
    return {
        "apiVersion": claim.api_version,
        "kind": claim.kind,
        "namespace": meta.namespace,
        "name": meta.name,
        "uid": meta.uid,
        "resourceVersion": meta.resource_version,
    }


def is_bound_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume is bound to a claim, or reserved for it."""
    reference, meta = volume.spec.claim_ref, claim.metadata
    if reference is None or (reference.namespace, reference.name) != (meta.namespace, meta.name):
        return False
    return reference.uid in ("", meta.uid)


def storage_of(quantities: Mapping[str, str]) -> Quantity:
    """The amount of storage among quantities; zero if there is none."""
    return parse_quantity(quantities.get(STORAGE, "0"))


def volume_fits_node(volume: PersistentVolume, node: Node) -> bool:
    """Whether a volume can be used on a node."""
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return True
    return any(term_matches(term, node) for term in affinity.required.node_selector_terms)


def class_allows_node(storage_class: StorageClass, node: Node) -> bool:
    """Whether volumes of a class may be provisioned for a node."""
    labels = node.metadata.labels
    return not storage_class.allowed_topologies or any(
        bool(term.match_label_expressions)
        and all(labels.get(one.key) in one.values for one in term.match_label_expressions)
        for term in storage_class.allowed_topologies
    )


def volume_mismatch(volume: PersistentVolume, claim: PersistentVolumeClaim) -> str:
    """Why a claim cannot have the volume that it names; empty if it can."""
    if volume.metadata.deletion_timestamp is not None:
        return f'the volume is marked for deletion "{volume.metadata.name}"'
    if storage_of(volume.spec.capacity) < storage_of(claim.spec.resources.requests):
        return "requested PV is too small"
    if volume_class(volume) != claim_class(claim):
        return _OTHER_CLASS
    if (volume.spec.volume_attributes_class_name or "") != (claim.spec.volume_attributes_class_name or ""):
        return "volumeAttributesClassName does not match"
    if (volume.spec.volume_mode or "Filesystem") != (claim.spec.volume_mode or "Filesystem"):
        return "incompatible volumeMode"
    if not set(claim.spec.access_modes) <= set(volume.spec.access_modes):
        return "incompatible accessMode"
    return ""


def find_matching_volume(
    claim: PersistentVolumeClaim, volumes: Iterable[PersistentVolume], *, node: Node | None, delays: bool
) -> PersistentVolume | None:
    """The volume for a claim: one reserved for it whatever its class, otherwise the smallest that fits, by name.

    With `node`, only volumes usable there count. A class that delays binding leaves the choice among unreserved volumes
    to the scheduler, so without a node only a reserved one is found.
    """
    try:
        selector = selector_from_object(claim.spec.selector)
    except SelectorError:
        return None
    fitting = []
    for volume in volumes:
        if not (node is None or volume_fits_node(volume, node)):
            continue
        if volume.spec.claim_ref is not None:
            if is_bound_to(volume, claim) and volume_mismatch(volume, claim) in ("", _OTHER_CLASS):
                return volume
            continue
        if (delays and node is None) or volume.status.phase != "Available" or volume_mismatch(volume, claim):
            continue
        # A claim without a selector may have any volume.
        if claim.spec.selector is None or selector.matches(volume.metadata.labels):
            fitting.append(volume)
    return min(fitting, key=lambda one: (storage_of(one.spec.capacity), one.metadata.name), default=None)


def pod_claims(pod: Pod) -> Iterator[tuple[Volume, str]]:
    """The volumes of a pod that have a claim, each with the claim's name."""
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield volume, volume.persistent_volume_claim.claim_name
        elif volume.ephemeral is not None:
            yield volume, ephemeral_claim_name(pod, volume)


def ephemeral_claim_name(pod: Pod, volume: Volume) -> str:
    """The name of the claim that is created for a generic ephemeral volume."""
    return f"{pod.metadata.name}-{volume.name}"


def is_claim_of_pod(claim: PersistentVolumeClaim, pod: Pod) -> bool:
    """Whether a claim was created for an ephemeral volume of a pod."""
    return any(owner.controller and owner.uid == pod.metadata.uid for owner in claim.metadata.owner_references)


def foreign_claim_problem(claim: PersistentVolumeClaim, pod: Pod) -> str:
    """The error about a claim that has the name of an ephemeral volume's claim but belongs to something else."""
    place = f"{claim.metadata.namespace}/{claim.metadata.name}"
    return f"PVC {place} was not created for pod {pod.metadata.namespace}/{pod.metadata.name} (pod is not owner)"


def source_kind(volume: PersistentVolume) -> str:
    """The type of a volume's source as it is named in a manifest."""
    names = volume.spec.__struct_encode_fields__
    fields = dict(zip(volume.spec.__struct_fields__, names, strict=True))
    others = {"claim_ref", "node_affinity", "volume_mode", "volume_attributes_class_name"}
    found = (
        wire
        for field, wire in fields.items()
        if field not in others and not isinstance(getattr(volume.spec, field), (str, tuple, Mapping, type(None)))
    )
    return next(found, "unknown")
