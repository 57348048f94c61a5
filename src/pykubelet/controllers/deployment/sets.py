"""The replica sets of a Deployment: which is the new one, and what it looks like when it is made.

Pure. Upstream: pkg/controller/deployment/{sync.go,util/deployment_util.go}.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from pykubelet.api.generated.apps import Deployment, ReplicaSet, ReplicaSetSpec
from pykubelet.api.generated.core import PodTemplateSpec
from pykubelet.api.generated.meta import LabelSelector, ObjectMeta
from pykubelet.api.names import DNS1123_SUBDOMAIN_MAX_LENGTH
from pykubelet.api.times import nanoseconds
from pykubelet.controllers.ownership import new_controller_ref
from pykubelet.controllers.replica_plan import wanted_replicas
from pykubelet.controllers.template_hash import template_hash

TEMPLATE_HASH = "pod-template-hash"


def by_age(sets: Iterable[ReplicaSet]) -> list[ReplicaSet]:
    """The oldest first; of the same age by name."""
    return sorted(sets, key=age_key)


def age_key(replica_set: ReplicaSet) -> tuple[int, str]:
    """Sorts the oldest first; of the same age by name."""
    created = replica_set.metadata.creation_timestamp
    return nanoseconds(created) if created else 0, replica_set.metadata.name


def is_same_template(one: PodTemplateSpec, other: PodTemplateSpec) -> bool:
    """Whether two templates make the same pods; the hash in their labels does not count."""
    return _without_hash(one) == _without_hash(other)


def find_new(deployment: Deployment, sets: Iterable[ReplicaSet]) -> ReplicaSet | None:
    """The set that has the Deployment's template. Should there be several, the oldest: always the same one."""
    same = (one for one in sets if is_same_template(one.spec.template, deployment.spec.template))
    return min(same, key=age_key, default=None)


def active(sets: Iterable[ReplicaSet]) -> list[ReplicaSet]:
    """The sets that are to have pods."""
    return [one for one in sets if wanted_replicas(one) > 0]


def active_or_latest(new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> ReplicaSet | None:
    """The set to scale if there is only one to choose: the one with pods or, if none has any, the newest."""
    found = active([*old, *([new] if new is not None else [])])
    if len(found) > 1:
        return None
    return found[0] if found else new or max(old, key=age_key, default=None)


def set_name(deployment_name: str, template_hash: str) -> str:
    """What the set of a template is called; always the same, so that it cannot be made twice."""
    return f"{deployment_name[: DNS1123_SUBDOMAIN_MAX_LENGTH - 1 - len(template_hash)]}-{template_hash}"


def new_set(deployment: Deployment, *, replicas: int, annotations: Mapping[str, str]) -> ReplicaSet:
    """The set for the Deployment's template, which is to have so many pods for now."""
    spec = deployment.spec
    hashed = template_hash(spec.template, deployment.status.collision_count)
    labels = {**spec.template.metadata.labels, TEMPLATE_HASH: hashed}
    selector = spec.selector or LabelSelector()
    return ReplicaSet(
        metadata=ObjectMeta(
            name=set_name(deployment.metadata.name, hashed),
            namespace=deployment.metadata.namespace,
            labels=labels,
            annotations=annotations,
            owner_references=(new_controller_ref(deployment),),
        ),
        spec=ReplicaSetSpec(
            replicas=replicas,
            min_ready_seconds=spec.min_ready_seconds,
            selector=replace(selector, match_labels={**selector.match_labels, TEMPLATE_HASH: hashed}),
            template=replace(spec.template, metadata=replace(spec.template.metadata, labels=labels)),
        ),
    )


def _without_hash(template: PodTemplateSpec) -> PodTemplateSpec:
    labels = template.metadata.labels
    if TEMPLATE_HASH not in labels:
        return template
    rest = {key: value for key, value in labels.items() if key != TEMPLATE_HASH}
    return replace(template, metadata=replace(template.metadata, labels=rest))
