"""The identity of a StatefulSet's pod: ordinal, name, labels, volumes and claims.

A claim is deleted with its set or its pod by being owned by it (persistentVolumeClaimRetentionPolicy).

Upstream: pkg/controller/statefulset/stateful_set_utils.go
"""

import re

from msgspec.structs import replace

from pykubelet.api import serializer
from pykubelet.api.generated.apps import StatefulSet
from pykubelet.api.generated.core import (
    PersistentVolumeClaim,
    PersistentVolumeClaimVolumeSource,
    Pod,
    PodTemplateSpec,
    Volume,
)
from pykubelet.api.generated.meta import OwnerReference
from pykubelet.api.scheme import ApiObject
from pykubelet.api.serializer import Document
from pykubelet.controllers.framework.controller_history import REVISION_LABEL
from pykubelet.controllers.framework.ownership import new_controller_ref
from pykubelet.controllers.framework.pod_control import pod_from_template

POD_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
POD_INDEX_LABEL = "apps.kubernetes.io/pod-index"
_MAX_ORDINAL = 2**31 - 1
_MEMBER = re.compile(r"(.*)-(0|[1-9][0-9]*)")
_DELETE = "Delete"


def ordinal_of(pod_name: str) -> int | None:
    """The ordinal at the end of a pod's name."""
    found = _MEMBER.fullmatch(pod_name)
    return int(found[2]) if found is not None and int(found[2]) <= _MAX_ORDINAL else None


def is_member(stateful_set: StatefulSet, pod: Pod) -> bool:
    """Whether the pod has a name that the set gives."""
    ordinal = ordinal_of(pod.metadata.name)
    return ordinal is not None and pod.metadata.name == pod_name(stateful_set, ordinal)


def wanted_replicas(stateful_set: StatefulSet) -> int:
    """The `spec.replicas` of a StatefulSet; 1 is the API's default."""
    return 1 if stateful_set.spec.replicas is None else stateful_set.spec.replicas


def ordinals(stateful_set: StatefulSet) -> range:
    start = stateful_set.spec.ordinals.start if stateful_set.spec.ordinals is not None else 0
    return range(start, start + wanted_replicas(stateful_set))


def pod_name(stateful_set: StatefulSet, ordinal: int) -> str:
    return f"{stateful_set.metadata.name}-{ordinal}"


def claim_name(stateful_set: StatefulSet, template: PersistentVolumeClaim, ordinal: int) -> str:
    """The name of the claim of a template for the pod with this ordinal."""
    return f"{template.metadata.name}-{stateful_set.metadata.name}-{ordinal}"


def new_pod(stateful_set: StatefulSet, template: PodTemplateSpec, ordinal: int, revision: str) -> Pod:
    """The pod with this ordinal, from a revision of the set's template."""
    pod = pod_from_template(template, stateful_set.metadata.name, new_controller_ref(stateful_set))
    name = pod_name(stateful_set, ordinal)
    labels = {**pod.metadata.labels, **identity_labels(name, ordinal), REVISION_LABEL: revision}
    spec = replace(
        pod.spec,
        hostname=name,
        subdomain=stateful_set.spec.service_name,
        volumes=volumes_with_claims(stateful_set, pod.spec.volumes, ordinal),
    )
    namespace = stateful_set.metadata.namespace
    return replace(pod, metadata=replace(pod.metadata, name=name, namespace=namespace, labels=labels), spec=spec)


def identity_labels(name: str, ordinal: int) -> dict[str, str]:
    return {POD_NAME_LABEL: name, POD_INDEX_LABEL: str(ordinal)}


def volumes_with_claims(stateful_set: StatefulSet, volumes: tuple[Volume, ...], ordinal: int) -> tuple[Volume, ...]:
    """The volumes with the claims of this ordinal; a claim replaces a volume of the same name."""
    templates = stateful_set.spec.volume_claim_templates
    claimed = {
        template.metadata.name: PersistentVolumeClaimVolumeSource(
            claim_name=claim_name(stateful_set, template, ordinal)
        )
        for template in templates
    }
    mine = (Volume(name=name, persistent_volume_claim=source) for name, source in claimed.items())
    return (*mine, *(volume for volume in volumes if volume.name not in claimed))


def correction(stateful_set: StatefulSet, pod: Pod) -> Document | None:
    """The merge patch that repairs a pod's identity and storage; None if they are correct.

    The server rejects changed volumes; the resulting event tells the user about the mismatch.
    """
    name, ordinal = pod.metadata.name, ordinal_of(pod.metadata.name)
    if ordinal is None:
        return None
    patch: Document = {}
    if pod.metadata.labels.get(POD_NAME_LABEL) != name:
        patch["metadata"] = {"labels": identity_labels(name, ordinal)}
    if not has_storage(stateful_set, pod):
        volumes = volumes_with_claims(stateful_set, pod.spec.volumes, ordinal)
        patch["spec"] = {"volumes": [serializer.to_document(volume) for volume in volumes]}
    return patch or None


def has_storage(stateful_set: StatefulSet, pod: Pod) -> bool:
    ordinal = ordinal_of(pod.metadata.name)
    sources = {volume.name: volume.persistent_volume_claim for volume in pod.spec.volumes}
    for template in stateful_set.spec.volume_claim_templates:
        source = sources.get(template.metadata.name)
        if ordinal is None or source is None or source.claim_name != claim_name(stateful_set, template, ordinal):
            return False
    return True


def claims_of(stateful_set: StatefulSet, pod: Pod) -> tuple[PersistentVolumeClaim, ...]:
    ordinal = ordinal_of(pod.metadata.name)
    if ordinal is None:
        return ()
    selector = stateful_set.spec.selector
    added = selector.match_labels if selector is not None else {}
    return tuple(
        replace(
            template,
            metadata=replace(
                template.metadata,
                name=claim_name(stateful_set, template, ordinal),
                namespace=stateful_set.metadata.namespace,
                labels={**template.metadata.labels, **added},
            ),
        )
        for template in stateful_set.spec.volume_claim_templates
    )


def goes_with_pod(stateful_set: StatefulSet) -> bool:
    """Whether claims are deleted with pods that are scaled down."""
    policy = stateful_set.spec.persistent_volume_claim_retention_policy
    return policy is not None and policy.when_scaled == _DELETE


def goes_with_set(stateful_set: StatefulSet) -> bool:
    """Whether claims are deleted with the set."""
    policy = stateful_set.spec.persistent_volume_claim_retention_policy
    return policy is not None and policy.when_deleted == _DELETE


def is_left_over(stateful_set: StatefulSet, claim: PersistentVolumeClaim, pod: Pod) -> bool:
    """Whether the claim belongs to an earlier pod of this name and will be deleted with it."""
    return goes_with_pod(stateful_set) and _is_stale(claim, pod)


def has_other_manager(stateful_set: StatefulSet, claim: PersistentVolumeClaim, pod: Pod) -> bool:
    """Whether another controller owns a claim that the set would delete."""
    if not goes_with_pod(stateful_set) and not goes_with_set(stateful_set):
        return False
    for reference in claim.metadata.owner_references:
        mine = next((owner for owner in (stateful_set, pod) if _is_reference_to(reference, owner)), None)
        if reference.controller if mine is None else reference.uid != mine.metadata.uid:
            return True
    return False


def owners_to_set(
    stateful_set: StatefulSet, claim: PersistentVolumeClaim, pod: Pod
) -> tuple[OwnerReference, ...] | None:
    """The owners the claim should have; None if it has them, or must be left alone.

    A claim of an earlier set or pod of the same name is left to the garbage collector. If another controller owns the
    claim, the set only removes its own references.
    """
    if _is_stale(claim, stateful_set) or _is_stale(claim, pod):
        return None
    present = claim.metadata.owner_references
    others = tuple(one for one in present if not _is_reference_to(one, stateful_set) and not _is_reference_to(one, pod))
    wanted = others
    if not has_other_manager(stateful_set, claim, pod):
        wanted += tuple(new_controller_ref(owner) for owner in _owners(stateful_set, pod))
    return None if _owner_keys(wanted) == _owner_keys(present) else wanted


def _owners(stateful_set: StatefulSet, pod: Pod) -> tuple[ApiObject, ...]:
    is_condemned = ordinal_of(pod.metadata.name) not in ordinals(stateful_set)
    if goes_with_pod(stateful_set) and is_condemned:
        return (pod,)
    return (stateful_set,) if goes_with_set(stateful_set) else ()


def _is_stale(claim: PersistentVolumeClaim, owner: ApiObject) -> bool:
    """Whether the claim is owned by an earlier object of the owner's name."""
    named = next((one for one in claim.metadata.owner_references if _is_reference_to(one, owner)), None)
    return named is not None and named.uid != owner.metadata.uid


def _is_reference_to(reference: OwnerReference, owner: ApiObject) -> bool:
    wanted = owner.api_version, owner.kind, owner.metadata.name
    return (reference.api_version, reference.kind, reference.name) == wanted


def _owner_keys(references: tuple[OwnerReference, ...]) -> set[tuple[str, bool]]:
    return {(one.uid, bool(one.controller)) for one in references}
