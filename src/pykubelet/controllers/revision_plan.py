"""The versions of a workload: what one holds, what it is called, and how many are kept.

Pure. A ControllerRevision holds a patch that makes the workload's template what it was.
Upstream: pkg/controller/history/controller_history.go; getPatch, newRevision and truncateHistory of the controllers.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pykubelet.api import wire
from pykubelet.api.defaults.pod_defaults import default_pod_template_spec
from pykubelet.api.generated.apps import ControllerRevision
from pykubelet.api.generated.core import PodTemplateSpec
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.patch import PatchError, apply_strategic
from pykubelet.api.times import nanoseconds
from pykubelet.api.typed import ApiObject
from pykubelet.api.wire import Document
from pykubelet.controllers.ownership import new_controller_ref
from pykubelet.controllers.template_hash import spelled

REVISION_LABEL = "controller-revision-hash"
"""On a pod: the revision it was made of. On a revision of a DaemonSet: what its pods have there."""
DEFAULT_HISTORY_LIMIT = 10
# A name of 253 characters at most, with a hash of up to ten digits and some room.
_MAX_PREFIX = 223
_FNV_OFFSET, _FNV_PRIME = 0x811C9DC5, 0x01000193
# What Go escapes in JSON and Python does not.
_GO_ESCAPES = str.maketrans({char: f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"})


@dataclass(frozen=True, slots=True)
class Naming:
    """How a kind of workload names a revision: the label that has the hash, and the hash."""

    label: str
    hash: Callable[[PodTemplateSpec, int | None], str]


def revision_data(template: PodTemplateSpec) -> Document:
    """The patch that makes a workload's template this one; its fields are in the order in which Go writes a map."""
    document = {**wire.to_document(template), "$patch": "replace"}
    ordered: Document = json.loads(json.dumps({"spec": {"template": document}}, sort_keys=True))
    return ordered


def data_hash(template: PodTemplateSpec, collision_count: int | None = None) -> str:
    """The hash of a revision's data, the same as upstream's; another `collision_count` gives another hash."""
    text = json.dumps(revision_data(template), ensure_ascii=False, separators=(",", ":")).translate(_GO_ESCAPES)
    text += "" if collision_count is None else str(collision_count)
    value = _FNV_OFFSET
    for byte in text.encode():
        value = (value * _FNV_PRIME & 0xFFFFFFFF) ^ byte
    return spelled(value)


def new_revision(
    owner: ApiObject, template: PodTemplateSpec, *, number: int, naming: Naming, collision_count: int | None
) -> ControllerRevision:
    """The revision of an owner's present template."""
    short_hash = naming.hash(template, collision_count)
    metadata = ObjectMeta(
        name=f"{owner.metadata.name[:_MAX_PREFIX]}-{short_hash}",
        labels={**template.metadata.labels, naming.label: short_hash},
        # Among them what `kubectl rollout history` shows as the cause of the change.
        annotations=owner.metadata.annotations,
        owner_references=(new_controller_ref(owner),),
    )
    return ControllerRevision(metadata=metadata, data=revision_data(template), revision=number)


def in_order(revisions: Iterable[ControllerRevision]) -> tuple[ControllerRevision, ...]:
    """The oldest first: by number, then age, then name."""

    def rank(revision: ControllerRevision) -> tuple[int, int, str]:
        created = revision.metadata.creation_timestamp
        return revision.revision, nanoseconds(created) if created else 0, revision.metadata.name

    return tuple(sorted(revisions, key=rank))


def next_number(revisions: Iterable[ControllerRevision]) -> int:
    """The number of a version that comes after all of these."""
    return max((revision.revision for revision in revisions), default=0) + 1


def holds(revision: ControllerRevision, data: Document) -> bool:
    """Whether a revision holds this data; fields that are null count as absent."""
    return bool(wire.without_nulls(revision.data) == wire.without_nulls(data))


def restores(revision: ControllerRevision, template: PodTemplateSpec) -> bool:
    """Whether going back to the revision would give this template once the API has filled in what is not said.

    A server of another version may have written the same template in another way.
    """
    restored = restored_template(revision, template)
    if restored is None:
        return False
    filled = [default_pod_template_spec(wire.to_document(one)) for one in (restored, template)]
    return bool(filled[0] == filled[1])


def restored_template(revision: ControllerRevision, template: PodTemplateSpec) -> PodTemplateSpec | None:
    """The present template changed back to that of a revision; None if the revision holds no patch that fits."""
    if not isinstance(revision.data, dict):
        return None
    present: Document = {"spec": {"template": wire.to_document(template)}}
    try:
        patched = apply_strategic(present, revision.data, "apps.v1.StatefulSet")
        return wire.from_document(patched["spec"]["template"], PodTemplateSpec)
    except (PatchError, wire.DecodeError, KeyError, TypeError):
        return None


def surplus_revisions(
    old: Sequence[ControllerRevision], limit: int, is_live: Callable[[ControllerRevision], bool], *, count_live: bool
) -> tuple[ControllerRevision, ...]:
    """The oldest ones above the limit, of those that no pod needs any more.

    `old` is in order. `count_live`: those that pods need take up room too.
    """
    dead = [revision for revision in old if not is_live(revision)]
    excess = (len(old) if count_live else len(dead)) - limit
    return tuple(dead[: max(0, excess)]) if limit >= 0 else ()
