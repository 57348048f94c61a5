"""Who a pod of a StatefulSet is: its number, its name, its labels, and its volumes.

Pure. Upstream: pkg/controller/statefulset/stateful_set_utils.go.
"""

import re

from msgspec.structs import replace

from pykubelet.api import wire
from pykubelet.api.generated.apps import StatefulSet
from pykubelet.api.generated.core import (
    PersistentVolumeClaim,
    PersistentVolumeClaimVolumeSource,
    Pod,
    PodTemplateSpec,
    Volume,
)
from pykubelet.api.wire import Document
from pykubelet.controllers.ownership import new_controller_ref
from pykubelet.controllers.pod_control import pod_from_template
from pykubelet.controllers.revision_plan import REVISION_LABEL

POD_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
POD_INDEX_LABEL = "apps.kubernetes.io/pod-index"
_MAX_ORDINAL = 2**31 - 1
_MEMBER = re.compile(r"(.*)-(0|[1-9][0-9]*)")


def ordinal_of(pod_name: str) -> int | None:
    """The number at the end of a pod's name."""
    found = _MEMBER.fullmatch(pod_name)
    return int(found[2]) if found is not None and int(found[2]) <= _MAX_ORDINAL else None


def is_member(stateful_set: StatefulSet, pod: Pod) -> bool:
    """Whether the pod has a name that the set could have given it."""
    ordinal = ordinal_of(pod.metadata.name)
    return ordinal is not None and pod.metadata.name == pod_name(stateful_set, ordinal)


def wanted_replicas(stateful_set: StatefulSet) -> int:
    """How many pods there are to be; 1 is the API's default."""
    return 1 if stateful_set.spec.replicas is None else stateful_set.spec.replicas


def ordinals(stateful_set: StatefulSet) -> range:
    """The numbers of the pods there are to be."""
    start = stateful_set.spec.ordinals.start if stateful_set.spec.ordinals is not None else 0
    return range(start, start + wanted_replicas(stateful_set))


def pod_name(stateful_set: StatefulSet, ordinal: int) -> str:
    """The name of the pod with this number."""
    return f"{stateful_set.metadata.name}-{ordinal}"


def claim_name(stateful_set: StatefulSet, template: PersistentVolumeClaim, ordinal: int) -> str:
    """The name of the claim that the pod with this number has of a template."""
    return f"{template.metadata.name}-{stateful_set.metadata.name}-{ordinal}"


def new_pod(stateful_set: StatefulSet, template: PodTemplateSpec, ordinal: int, revision: str) -> Pod:
    """The pod with this number, made of a version of the set's template."""
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
    """The labels by which a pod is found."""
    return {POD_NAME_LABEL: name, POD_INDEX_LABEL: str(ordinal)}


def volumes_with_claims(stateful_set: StatefulSet, volumes: tuple[Volume, ...], ordinal: int) -> tuple[Volume, ...]:
    """The volumes with the claims of this number; a claim takes the place of a volume of its name."""
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
    """The merge patch that gives a pod of the set what it lacks of its identity; None if it lacks nothing.

    The server refuses to change volumes. That a pod has others than the set wants is told that way.
    """
    name, ordinal = pod.metadata.name, ordinal_of(pod.metadata.name)
    if ordinal is None:
        return None
    patch: Document = {}
    if pod.metadata.labels.get(POD_NAME_LABEL) != name:
        patch["metadata"] = {"labels": identity_labels(name, ordinal)}
    if not has_storage(stateful_set, pod):
        volumes = volumes_with_claims(stateful_set, pod.spec.volumes, ordinal)
        patch["spec"] = {"volumes": [wire.to_document(volume) for volume in volumes]}
    return patch or None


def has_storage(stateful_set: StatefulSet, pod: Pod) -> bool:
    """Whether the pod uses the claims that are its own."""
    ordinal = ordinal_of(pod.metadata.name)
    sources = {volume.name: volume.persistent_volume_claim for volume in pod.spec.volumes}
    for template in stateful_set.spec.volume_claim_templates:
        source = sources.get(template.metadata.name)
        if ordinal is None or source is None or source.claim_name != claim_name(stateful_set, template, ordinal):
            return False
    return True
