"""ControllerRevisions: the stored history of DaemonSets and StatefulSets.

A revision holds a patch that restores the workload's pod template. `ControllerRevisions` finds, creates, renumbers and
deletes them; each of its calls may be repeated.

Upstream: pkg/controller/history/controller_history.go, pkg/controller/daemon/update.go,
pkg/controller/statefulset/stateful_set_utils.go
"""

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

from pykubelet.api import serializer
from pykubelet.api.errors import AlreadyExists, NotFound
from pykubelet.api.generated.apps import ControllerRevision
from pykubelet.api.generated.core import PodTemplateSpec
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.labels import Selector
from pykubelet.api.patch.errors import PatchError
from pykubelet.api.patch.strategic_apply import apply_strategic
from pykubelet.api.scheme import CONTROLLER_REVISIONS, ApiObject, TypedKind
from pykubelet.api.serializer import Document
from pykubelet.client.indexer import ObjectIndex, age_key, controller_of
from pykubelet.client.interface import Client, PatchType
from pykubelet.controllers.framework.ownership import new_controller_ref, ref_manager
from pykubelet.controllers.framework.pod_control import safe_encode
from pykubelet.kinds.pod.defaults import default_pod_template_spec

REVISION_LABEL = "controller-revision-hash"
"""On a pod: the revision it was created from. On a revision of a DaemonSet: the hash its pods carry."""
DEFAULT_HISTORY_LIMIT = 10
# A name has at most 253 characters: this prefix, a dash, a hash of up to ten characters, and some room.
_MAX_PREFIX = 223
_FNV_OFFSET, _FNV_PRIME = 0x811C9DC5, 0x01000193
# Characters that Go escapes in JSON and Python does not.
_GO_ESCAPES = str.maketrans({char: f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"})
T = TypeVar("T", bound=ApiObject)


@dataclass(frozen=True, slots=True)
class RevisionNaming:
    """How a kind names its revisions: the label that carries the hash, and the hash function."""

    label: str
    hash: Callable[[PodTemplateSpec, int | None], str]


class ControllerRevisions(Generic[T]):
    """The revisions of all workloads of one kind."""

    def __init__(self, *, client: Client, kind: TypedKind[T], revisions: ObjectIndex[ControllerRevision]) -> None:
        self._client, self._kind, self._revisions = client, kind, revisions
        # Revisions written and not yet seen by the informer, as name and number by owner UID. A new number is the
        # highest known plus one, so an unseen revision would share its number with the next.
        self._unobserved: dict[str, dict[str, int]] = {}

    async def claim(self, owner: T, selector: Selector) -> tuple[ControllerRevision, ...]:
        """The owner's revisions, sorted, after adopting and releasing; ClaimError if some of that failed."""
        manager = ref_manager(self._client, CONTROLLER_REVISIONS, owner_kind=self._kind, owner=owner, selector=selector)
        return sorted_revisions(await manager.claim_or_raise(await self._known(owner)))

    async def create(
        self, owner: T, make: Callable[[int | None], ControllerRevision], collision_count: int | None
    ) -> tuple[ControllerRevision, int | None]:
        """Creates a revision under a free name; returns it and the collision count used.

        An existing revision with the same data, from an earlier attempt whose answer was lost, is reused.
        """
        namespace = owner.metadata.namespace
        while True:
            wanted = make(collision_count)
            try:
                made = await self._client.create(CONTROLLER_REVISIONS, wanted, namespace=namespace)
                return self._written(made), collision_count
            except AlreadyExists:
                found = await self._client.get(CONTROLLER_REVISIONS, wanted.metadata.name, namespace=namespace)
            manager = controller_of(found)
            # A revision of another owner, such as a deleted workload of the same name, is deleted with that owner.
            if is_same_data(found, wanted.data) and (manager is None or manager.uid == owner.metadata.uid):
                return self._written(found), collision_count
            collision_count = (collision_count or 0) + 1

    async def renumber(self, revision: ControllerRevision, number: int) -> ControllerRevision:
        """Gives a revision a new number, which makes it the newest."""
        return self._written(await self._change(revision, {"revision": number}))

    async def label(self, revision: ControllerRevision, label: str, value: str) -> ControllerRevision:
        return await self._change(revision, {"metadata": {"labels": {label: value}}})

    async def delete(self, revision: ControllerRevision) -> None:
        """Deletes a revision, which may be gone already."""
        meta = revision.metadata
        with suppress(NotFound):
            await self._client.delete(CONTROLLER_REVISIONS, meta.name, namespace=meta.namespace)

    async def _known(self, owner: T) -> tuple[ControllerRevision, ...]:
        """The owner's revisions and orphans, including those only the server has seen yet."""
        seen = self._revisions.managed_by(owner.metadata.uid) + self._revisions.orphans(owner.metadata.namespace)
        known = {revision.metadata.name: revision for revision in seen}
        for name, number in self._unobserved.pop(owner.metadata.uid, {}).items():
            if name in known and known[name].revision >= number:
                continue
            with suppress(NotFound):
                fresh = await self._client.get(CONTROLLER_REVISIONS, name, namespace=owner.metadata.namespace)
                known[name] = self._written(fresh)
        return tuple(known.values())

    def _written(self, revision: ControllerRevision) -> ControllerRevision:
        if manager := controller_of(revision):
            self._unobserved.setdefault(manager.uid, {})[revision.metadata.name] = revision.revision
        return revision

    async def _change(self, revision: ControllerRevision, change: Document) -> ControllerRevision:
        meta = revision.metadata
        body = {**change, "metadata": {**change.get("metadata", {}), "uid": meta.uid}}
        return await self._client.patch(
            CONTROLLER_REVISIONS, meta.name, body, namespace=meta.namespace, patch_type=PatchType.MERGE
        )


def revision_data(template: PodTemplateSpec) -> Document:
    """The patch that restores this template, with keys sorted as Go writes a map."""
    document = {**serializer.to_document(template), "$patch": "replace"}
    ordered: Document = json.loads(json.dumps({"spec": {"template": document}}, sort_keys=True))
    return ordered


def data_hash(template: PodTemplateSpec, collision_count: int | None = None) -> str:
    """The hash of a revision's data, equal to upstream's; `collision_count` changes it."""
    text = json.dumps(revision_data(template), ensure_ascii=False, separators=(",", ":")).translate(_GO_ESCAPES)
    text += "" if collision_count is None else str(collision_count)
    value = _FNV_OFFSET
    for byte in text.encode():
        value = (value * _FNV_PRIME & 0xFFFFFFFF) ^ byte
    return safe_encode(value)


def new_revision(
    owner: ApiObject, template: PodTemplateSpec, *, number: int, naming: RevisionNaming, collision_count: int | None
) -> ControllerRevision:
    short_hash = naming.hash(template, collision_count)
    metadata = ObjectMeta(
        name=f"{owner.metadata.name[:_MAX_PREFIX]}-{short_hash}",
        labels={**template.metadata.labels, naming.label: short_hash},
        # Includes the change cause that `kubectl rollout history` shows.
        annotations=owner.metadata.annotations,
        owner_references=(new_controller_ref(owner),),
    )
    return ControllerRevision(metadata=metadata, data=revision_data(template), revision=number)


def sorted_revisions(revisions: Iterable[ControllerRevision]) -> tuple[ControllerRevision, ...]:
    return tuple(sorted(revisions, key=lambda revision: (revision.revision, *age_key(revision))))


def next_number(revisions: Iterable[ControllerRevision]) -> int:
    return max((revision.revision for revision in revisions), default=0) + 1


def is_same_data(revision: ControllerRevision, data: Document) -> bool:
    """Whether a revision holds this data; null fields count as absent."""
    return bool(serializer.without_nulls(revision.data) == serializer.without_nulls(data))


def restores(revision: ControllerRevision, template: PodTemplateSpec) -> bool:
    """Whether rolling back to the revision gives this template once defaults are applied.

    A server of another version may have stored the same template differently.
    """
    restored = restored_template(revision, template)
    if restored is None:
        return False
    filled = [default_pod_template_spec(serializer.to_document(one)) for one in (restored, template)]
    return bool(filled[0] == filled[1])


def restored_template(revision: ControllerRevision, template: PodTemplateSpec) -> PodTemplateSpec | None:
    """The template of a revision, applied to the current one; None if the revision holds no applicable patch."""
    if not isinstance(revision.data, dict):
        return None
    present: Document = {"spec": {"template": serializer.to_document(template)}}
    try:
        patched = apply_strategic(present, revision.data, "apps.v1.StatefulSet")
        return serializer.from_document(patched["spec"]["template"], PodTemplateSpec)
    except (PatchError, serializer.DecodeError, KeyError, TypeError):
        return None


def surplus_revisions(
    old: Sequence[ControllerRevision], limit: int, is_live: Callable[[ControllerRevision], bool], *, count_live: bool
) -> tuple[ControllerRevision, ...]:
    """The oldest unused revisions above the limit; with `count_live`, used ones count towards it. `old` is sorted."""
    dead = [revision for revision in old if not is_live(revision)]
    excess = (len(old) if count_live else len(dead)) - limit
    return tuple(dead[: max(0, excess)]) if limit >= 0 else ()
