"""Which version of a Deployment a replica set is: revisions, their history, and what is kept of it.

Pure. All of it lives in annotations, where `kubectl rollout history` and `rollout undo` read it.
Upstream: pkg/controller/deployment/{sync.go,util/deployment_util.go}.
"""

from collections.abc import Iterable, Mapping, Sequence

from pykubelet.api.generated.apps import Deployment, ReplicaSet
from pykubelet.api.int64 import parse_int64
from pykubelet.api.names import MAX_ID
from pykubelet.controllers.deployment.limits import desired_replicas, max_replicas
from pykubelet.controllers.deployment.sets import age_key
from pykubelet.controllers.replica_plan import wanted_replicas

REVISION = "deployment.kubernetes.io/revision"
REVISION_HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED_REPLICAS = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS = "deployment.kubernetes.io/max-replicas"
HISTORY_LENGTH = 2000
"""Characters of an annotation that name former revisions; some 100 to 500 of them."""
_NO_LIMIT = MAX_ID
# What belongs to the Deployment alone, or has another value in each set.
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


def revision_of(replica_set: ReplicaSet) -> int:
    """The revision of a set; 0 if it has none, or one that is no number."""
    return parse_int64(replica_set.metadata.annotations.get(REVISION, "")) or 0


def next_revision(old: Iterable[ReplicaSet]) -> int:
    """The revision that comes after those of the old sets."""
    return max((0, *(revision_of(one) for one in old))) + 1


def version_annotations(deployment: Deployment, present: Mapping[str, str], revision: int) -> dict[str, str]:
    """The annotations of the new set, which has some already: those of the Deployment, and its revision.

    A revision never goes down, though old sets may be gone meanwhile. If it goes up the Deployment is back at a former
    version, and the history says which ones the set has been.
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
    """What a set keeps of the Deployment's size, to tell later whether that has changed."""
    return {DESIRED_REPLICAS: str(desired_replicas(deployment)), MAX_REPLICAS: str(max_replicas(deployment))}


def size_annotation(replica_set: ReplicaSet, name: str) -> int | None:
    """A number of `size_annotations`; None if it is not there or no such number."""
    text = replica_set.metadata.annotations.get(name, "")
    number = parse_int64(text) if text.isdigit() else None
    return number if number is not None and number <= MAX_ID else None


def sets_to_forget(deployment: Deployment, old: Sequence[ReplicaSet]) -> tuple[ReplicaSet, ...]:
    """The old sets that nobody will go back to: empty ones above the history limit, lowest revisions first."""
    limit = deployment.spec.revision_history_limit
    if limit is None or limit == _NO_LIMIT:
        return ()
    alive = [one for one in old if one.metadata.deletion_timestamp is None]
    alive.sort(key=lambda one: (revision_of(one), *age_key(one)))
    return tuple(one for one in alive[: max(len(alive) - limit, 0)] if _is_empty(one))


def _is_empty(replica_set: ReplicaSet) -> bool:
    """Whether it has no pods, wants none, and its status is about that."""
    is_current = replica_set.metadata.generation <= replica_set.status.observed_generation
    return is_current and replica_set.status.replicas == 0 and wanted_replicas(replica_set) == 0


def _history(history: str, former: str) -> str:
    """The history with one more revision, without so many of the first ones that it stays short enough."""
    revisions = [*(history.split(",") if history else []), former]
    while len(",".join(revisions)) > HISTORY_LENGTH and len(revisions) > 1:
        del revisions[0]
    return ",".join(revisions)
