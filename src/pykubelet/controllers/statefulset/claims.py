"""The claims of a StatefulSet's pods: what they are, and whose end is theirs too.

Pure. A claim is deleted with its set or with its pod by being owned by it.
Upstream: pkg/controller/statefulset/stateful_set_utils.go (getPersistentVolumeClaims, isClaimOwnerUpToDate and around).
"""

from msgspec.structs import replace

from pykubelet.api.generated.apps import StatefulSet
from pykubelet.api.generated.core import PersistentVolumeClaim, Pod
from pykubelet.api.generated.meta import OwnerReference
from pykubelet.api.typed import ApiObject
from pykubelet.controllers.ownership import new_controller_ref
from pykubelet.controllers.statefulset.identity import claim_name, ordinal_of, ordinals

_DELETE = "Delete"


def claims_of(stateful_set: StatefulSet, pod: Pod) -> tuple[PersistentVolumeClaim, ...]:
    """The claims that a pod of the set is to have."""
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
    """Whether claims are deleted with pods that a smaller set does not need."""
    policy = stateful_set.spec.persistent_volume_claim_retention_policy
    return policy is not None and policy.when_scaled == _DELETE


def goes_with_set(stateful_set: StatefulSet) -> bool:
    """Whether claims are deleted with the set."""
    policy = stateful_set.spec.persistent_volume_claim_retention_policy
    return policy is not None and policy.when_deleted == _DELETE


def is_left_over(stateful_set: StatefulSet, claim: PersistentVolumeClaim, pod: Pod) -> bool:
    """Whether the claim belongs to an earlier pod of this name, and is going to go with it."""
    return goes_with_pod(stateful_set) and _is_stale(claim, pod)


def has_other_manager(stateful_set: StatefulSet, claim: PersistentVolumeClaim, pod: Pod) -> bool:
    """Whether somebody else manages a claim that the set would delete."""
    if not goes_with_pod(stateful_set) and not goes_with_set(stateful_set):
        return False
    for reference in claim.metadata.owner_references:
        mine = next((owner for owner in (stateful_set, pod) if _names(reference, owner)), None)
        if reference.controller if mine is None else reference.uid != mine.metadata.uid:
            return True
    return False


def owners_to_set(
    stateful_set: StatefulSet, claim: PersistentVolumeClaim, pod: Pod
) -> tuple[OwnerReference, ...] | None:
    """The owners the claim should have; None if it has them, or if it is better left alone.

    A claim of an earlier set or pod of the same name is left to the garbage collector. Of one that somebody else
    manages the set only takes back its own references.
    """
    if _is_stale(claim, stateful_set) or _is_stale(claim, pod):
        return None
    present = claim.metadata.owner_references
    others = tuple(one for one in present if not _names(one, stateful_set) and not _names(one, pod))
    wanted = others
    if not has_other_manager(stateful_set, claim, pod):
        wanted += tuple(new_controller_ref(owner) for owner in _owners(stateful_set, pod))
    return None if _facts(wanted) == _facts(present) else wanted


def _owners(stateful_set: StatefulSet, pod: Pod) -> tuple[ApiObject, ...]:
    is_condemned = ordinal_of(pod.metadata.name) not in ordinals(stateful_set)
    if goes_with_pod(stateful_set) and is_condemned:
        return (pod,)
    return (stateful_set,) if goes_with_set(stateful_set) else ()


def _is_stale(claim: PersistentVolumeClaim, owner: ApiObject) -> bool:
    """Whether the claim is owned by something of the owner's name that is not the owner."""
    named = next((one for one in claim.metadata.owner_references if _names(one, owner)), None)
    return named is not None and named.uid != owner.metadata.uid


def _names(reference: OwnerReference, owner: ApiObject) -> bool:
    wanted = owner.api_version, owner.kind, owner.metadata.name
    return (reference.api_version, reference.kind, reference.name) == wanted


def _facts(references: tuple[OwnerReference, ...]) -> set[tuple[str, bool]]:
    return {(one.uid, bool(one.controller)) for one in references}
