"""The ReplicaSets of a Deployment: size limits, the new set, revisions and their history.

Revisions are stored in annotations, where `kubectl rollout history` and `rollout undo` read them.

Upstream: pkg/controller/deployment/util/deployment_util.go, pkg/controller/deployment/sync.go
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from pykubelet.api.generated.apps import Deployment, ReplicaSet, ReplicaSetSpec, RollingUpdateDeployment
from pykubelet.api.generated.core import PodTemplateSpec
from pykubelet.api.generated.meta import LabelSelector, ObjectMeta
from pykubelet.api.names import DNS1123_SUBDOMAIN_MAX_LENGTH, MAX_ID
from pykubelet.api.quantity import parse_int64, scaled_int_or_percent
from pykubelet.client.indexer import age_key
from pykubelet.controllers.framework.ownership import new_controller_ref
from pykubelet.controllers.framework.pod_control import template_hash
from pykubelet.controllers.replicaset.replica_set import wanted_replicas

RECREATE = "Recreate"
ROLLING_UPDATE = "RollingUpdate"
TEMPLATE_HASH = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
REVISION_HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED_REPLICAS = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS = "deployment.kubernetes.io/max-replicas"
HISTORY_LENGTH = 2000
"""The longest revision-history annotation in characters; 100 to 500 revisions."""
_NO_LIMIT = MAX_ID
# Annotations of the Deployment that are not copied to its sets.
_NOT_COPIED = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        REVISION,
        REVISION_HISTORY,
        DESIRED_REPLICAS,
        MAX_REPLICAS,
        "deprecated.deployment.rollback.to",
    }
)


def desired_replicas(deployment: Deployment) -> int:
    """The `spec.replicas` of a Deployment; 1 is the API's default."""
    return 1 if deployment.spec.replicas is None else deployment.spec.replicas


def max_surge(deployment: Deployment) -> int:
    """How many pods above the desired number a rollout may create."""
    return _bounds(deployment)[0]


def max_unavailable(deployment: Deployment) -> int:
    """How many of the desired pods may be unavailable during a rollout."""
    return min(_bounds(deployment)[1], desired_replicas(deployment))


def min_available(deployment: Deployment) -> int:
    """How many pods must be available at any time."""
    return desired_replicas(deployment) - max_unavailable(deployment)


def max_replicas(deployment: Deployment) -> int:
    """How many pods there may be at any time."""
    return desired_replicas(deployment) + max_surge(deployment)


def _bounds(deployment: Deployment) -> tuple[int, int]:
    """Max surge and max unavailable (ResolveFenceposts), one of them above zero so that a rollout proceeds."""
    if deployment.spec.strategy.type != ROLLING_UPDATE:
        return 0, 0
    rolling, desired = (
        deployment.spec.strategy.rolling_update or RollingUpdateDeployment(),
        desired_replicas(deployment),
    )
    surge = scaled_int_or_percent(rolling.max_surge or 0, desired, round_up=True)
    unavailable = scaled_int_or_percent(rolling.max_unavailable or 0, desired, round_up=False)
    # Both rounded to zero. Unavailable pods always work, while a quota may forbid additional ones.
    return (0, 1) if surge == unavailable == 0 else (surge, unavailable)


def is_same_template(one: PodTemplateSpec, other: PodTemplateSpec) -> bool:
    """Whether two templates are equal apart from the pod-template-hash label."""
    return _without_hash(one) == _without_hash(other)


def find_new_replica_set(deployment: Deployment, sets: Iterable[ReplicaSet]) -> ReplicaSet | None:
    """The set that has the Deployment's template; the oldest if there are several, so that it is always the same."""
    same = (one for one in sets if is_same_template(one.spec.template, deployment.spec.template))
    return min(same, key=age_key, default=None)


def active_replica_sets(sets: Iterable[ReplicaSet]) -> list[ReplicaSet]:
    return [one for one in sets if wanted_replicas(one) > 0]


def active_or_latest(new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> ReplicaSet | None:
    """The one set to scale: the only one with pods or, if none has any, the newest. None if several have pods."""
    found = active_replica_sets([*old, *([new] if new is not None else [])])
    if len(found) > 1:
        return None
    return found[0] if found else new or max(old, key=age_key, default=None)


def set_name(deployment_name: str, template_hash: str) -> str:
    """The name of the set of a template; deterministic, so that it cannot be created twice."""
    return f"{deployment_name[: DNS1123_SUBDOMAIN_MAX_LENGTH - 1 - len(template_hash)]}-{template_hash}"


def new_replica_set(deployment: Deployment, *, replicas: int, annotations: Mapping[str, str]) -> ReplicaSet:
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


def revision_of(replica_set: ReplicaSet) -> int:
    """The revision of a set; 0 if missing or malformed."""
    return parse_int64(replica_set.metadata.annotations.get(REVISION, "")) or 0


def next_revision(old: Iterable[ReplicaSet]) -> int:
    return max((0, *(revision_of(one) for one in old))) + 1


def version_annotations(deployment: Deployment, present: Mapping[str, str], revision: int) -> dict[str, str]:
    """The annotations of the new set: its present ones, those of the Deployment, and its revision.

    A revision never decreases, even when old sets are gone. If it increases, the Deployment has been rolled back, and
    the history records the former revisions of the set.
    """
    wanted = dict(present)
    former = present.get(REVISION, "")
    former_number = parse_int64(former or "0")
    if former_number is None:
        return wanted
    wanted |= {key: value for key, value in deployment.metadata.annotations.items() if key not in _NOT_COPIED}
    if former_number < revision:
        wanted[REVISION] = str(revision)
        if REVISION in present:
            wanted[REVISION_HISTORY] = _history(present.get(REVISION_HISTORY, ""), former)
    return wanted


def size_annotations(deployment: Deployment) -> dict[str, str]:
    """The annotations in which a set keeps the Deployment's size, to detect a change of it later."""
    return {DESIRED_REPLICAS: str(desired_replicas(deployment)), MAX_REPLICAS: str(max_replicas(deployment))}


def size_annotation(replica_set: ReplicaSet, name: str) -> int | None:
    """One of the `size_annotations` as a number; None if missing or malformed."""
    text = replica_set.metadata.annotations.get(name, "")
    number = parse_int64(text) if text.isdigit() else None
    return number if number is not None and number <= MAX_ID else None


def replica_sets_to_clean_up(deployment: Deployment, old: Sequence[ReplicaSet]) -> tuple[ReplicaSet, ...]:
    """The empty old sets above the history limit, lowest revisions first."""
    limit = deployment.spec.revision_history_limit
    if limit is None or limit == _NO_LIMIT:
        return ()
    alive = [one for one in old if one.metadata.deletion_timestamp is None]
    alive.sort(key=lambda one: (revision_of(one), *age_key(one)))
    return tuple(one for one in alive[: max(len(alive) - limit, 0)] if _is_empty(one))


def _is_empty(replica_set: ReplicaSet) -> bool:
    """Whether the set has and wants no pods, according to a current status."""
    is_current = replica_set.metadata.generation <= replica_set.status.observed_generation
    return is_current and replica_set.status.replicas == 0 and wanted_replicas(replica_set) == 0


def _history(history: str, former: str) -> str:
    """Appends a revision to the history and drops the oldest ones beyond HISTORY_LENGTH."""
    revisions = [*(history.split(",") if history else []), former]
    while len(",".join(revisions)) > HISTORY_LENGTH and len(revisions) > 1:
        del revisions[0]
    return ",".join(revisions)
