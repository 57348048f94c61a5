"""Field ownership: records metadata.managedFields on every write and performs server-side apply.

`record` runs after defaulting and before the kind's strategy, so fields that the strategy sets have no owner.

Upstream: staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/fieldmanager.go,
staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/structuredmerge.go,
staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/lastappliedmanager.go,
staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/lastappliedupdater.go
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from pykubelet.api.errors import BadRequest
from pykubelet.api.serializer import DecodeError, Document, decode_document
from pykubelet.apiserver.fieldmanager import fieldpath, managedfields, typed
from pykubelet.apiserver.fieldmanager.apply import (
    AppliedConfiguration,
    ApplyResult,
    Conflicts,
    apply_configuration,
    conflict,
    mismatch_message,
    type_mismatches,
)
from pykubelet.apiserver.fieldmanager.fieldpath import NOTHING, FieldsError, FieldTree
from pykubelet.apiserver.fieldmanager.managedfields import APPLY, UPDATE, ManagerFields, ManagerIdentifier, Owners
from pykubelet.apiserver.fieldmanager.typeconverter import NO_RESET, MergeSchema, ResetFields, schema_of

KUBECTL: Final = "kubectl"
"""The manager name of `kubectl apply --server-side`. Managers of other names ignore the annotation."""
_ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
# The limit for keys and values of all annotations, in bytes.
_LONGEST_ANNOTATIONS = 256 * 1024
# The manager of the fields that an object had before its first apply.
_BEFORE_FIRST_APPLY = "before-first-apply"


def record(
    new: Document,
    live: Document | None,
    *,
    definition: str | MergeSchema,
    manager: str,
    api_version: str,
    subresource: str = "",
    now: str,
) -> Document:
    """Records that `manager` owns the fields in which the new object differs from the live one."""
    schema = schema_of(definition) if isinstance(definition, str) else definition
    owner = managedfields.owner_id(manager, UPDATE, api_version, subresource)
    try:
        owners = _owners_before(new, live, subresource)
        if live is not None and not owners:
            # Upstream tracks an existing object without managedFields only from its first apply on.
            return _with_owners(new, {})
        return _with_owners(new, _updated(owners, live, new, schema, ManagerFields({}, api_version, now), owner))
    except (FieldsError, RecursionError):
        # As upstream: no owners rather than wrong ones. The write itself is validated elsewhere.
        return _with_owners(new, {})


def apply(
    live: Document | None,
    applied: Document,
    *,
    definition: str | MergeSchema,
    manager: str,
    api_version: str,
    subresource: str = "",
    now: str,
    force: bool = False,
) -> Document:
    """Applies a configuration to the live object; raises Conflict if other managers own changed fields, or BadRequest."""
    schema = schema_of(definition) if isinstance(definition, str) else definition
    _check_type(applied, api_version, schema.kind)
    request = AppliedConfiguration(
        document=applied,
        owner=managedfields.owner_id(manager, APPLY, api_version, subresource),
        api_version=api_version,
        type=schema.type,
        reset=_reset(schema, subresource),
        force=force,
    )
    try:
        _check_fit(applied, schema)
        result = _decide(live, request, schema, now)
    except FieldsError as error:
        raise BadRequest(f"failed to merge config: {error}") from error
    except RecursionError as error:
        raise BadRequest("the object is nested too deep") from error
    owners = result.owners
    if result.document is not None and request.owner in owners:
        owners = {**owners, request.owner: owners[request.owner]._replace(time=now)}
    document = _with_owners(live or {} if result.document is None else result.document, owners)
    return with_last_applied(document, applied) if manager == KUBECTL else document


def keep_times(new: Document, live: Document) -> Document:
    """Returns the live object if the new one differs only in the times of managedFields, so that nothing is written."""
    mine, theirs = _managed_fields(new), _managed_fields(live)
    if len(mine) != len(theirs) or not mine or mine == theirs:
        return new
    if not all(map(typed.equal, map(_without_time, mine), map(_without_time, theirs))):
        return new
    version = live["metadata"].get("resourceVersion")
    metadata = {**new["metadata"], "managedFields": theirs, "resourceVersion": version}
    return live if typed.equal({**new, "metadata": metadata}, live) else new


def without_own_conflicts(conflicts: Conflicts, live: Document, schema: MergeSchema, api_version: str) -> Conflicts:
    """Removes the conflicts about fields that kubectl itself applied client-side before."""
    own = _applied_before(live, schema, api_version)
    left = {owner: fieldpath.difference(fields, own) for owner, fields in conflicts.items()}
    return {owner: fields for owner, fields in left.items() if fields}


def _applied_before(live: Document, schema: MergeSchema, api_version: str) -> FieldTree:
    try:
        before = decode_document(_annotations(live).get(_ANNOTATION, ""))
    except DecodeError:
        return NOTHING
    if not isinstance(before, dict) or before.get("apiVersion") != api_version:
        return NOTHING
    if any(type_mismatches(before, schema.type)) or any(type_mismatches(live, schema.type)):
        return NOTHING
    # Fields that differ now were changed by other managers since.
    return fieldpath.difference(
        typed.applied_fields(before, schema.type) or NOTHING, typed.all_below(typed.compare(before, live, schema.type))
    )


def with_last_applied(document: Document, applied: Document) -> Document:
    """Updates the last-applied annotation, if the object has one."""
    annotations = _annotations(document)
    if not annotations.get(_ANNOTATION):
        return document
    updated = {**annotations, _ANNOTATION: _last_applied_text(applied)}
    size = sum(len(key.encode()) + len(value.encode()) for key, value in updated.items())
    if size > _LONGEST_ANNOTATIONS:
        del updated[_ANNOTATION]
    return {**document, "metadata": {**document["metadata"], "annotations": updated}}


def _last_applied_text(applied: Document) -> str:
    metadata = applied.get("metadata")
    if isinstance(metadata, dict) and isinstance(metadata.get("annotations"), dict):
        kept = {name: value for name, value in metadata["annotations"].items() if name != _ANNOTATION}
        applied = {**applied, "metadata": {**metadata, "annotations": kept}}
    # Go's encoder sorts fields and ends with a newline.
    return fieldpath.json_text(applied) + "\n"


def _annotations(document: Document) -> dict[str, Any]:
    annotations: dict[str, Any] = (document.get("metadata") or {}).get("annotations") or {}
    return annotations


def _decide(live: Document | None, request: AppliedConfiguration, schema: MergeSchema, now: str) -> ApplyResult:
    entries = _managed_fields(live)
    owners = _current(managedfields.stored_owners(entries), request.api_version, schema)
    if live is not None and not entries:
        before = managedfields.owner_id(_BEFORE_FIRST_APPLY, UPDATE, request.api_version, request.owner.subresource)
        owners = _updated({}, None, live, schema, ManagerFields({}, request.api_version, now), before)
    result = apply_configuration(live or {}, request, owners)
    if not result.conflicts:
        return result
    conflicts = result.conflicts
    if live is not None and request.owner.manager == KUBECTL:
        conflicts = without_own_conflicts(conflicts, live, schema, request.api_version)
    if conflicts:
        raise conflict(conflicts)
    return apply_configuration(live or {}, replace(request, force=True), owners)


def _without_time(entry: Document) -> Document:
    return {name: value for name, value in entry.items() if name != "time"}


def _managed_fields(document: Document | None) -> Sequence[Document]:
    found: Sequence[Document] = ((document or {}).get("metadata") or {}).get("managedFields") or ()
    return found


def _owners_before(new: Document, live: Document | None, subresource: str) -> Owners:
    """The owners before a write: the live object's, unless the client sends others, or an empty list to reset them."""
    stored = _managed_fields(live)
    given = None if subresource else (new.get("metadata") or {}).get("managedFields")
    if given is None or (given == stored and stored):
        return managedfields.stored_owners(stored)
    if _resets_owners(given):
        return {}
    try:
        return managedfields.read_owners(given) or managedfields.stored_owners(stored)
    except FieldsError:
        # A client that does not know managedFields must not break them.
        return managedfields.stored_owners(stored)


def _resets_owners(given: Any) -> bool:
    if not isinstance(given, list) or len(given) > 1:
        return False
    return not given or (isinstance(given[0], dict) and not any(given[0].values()))


def _current(owners: Owners, api_version: str, schema: MergeSchema) -> Owners:
    """Drops owners in versions that are no longer served, and converts fields to the current schema."""
    known = {api_version, *schema.versions}
    if not all(owned.api_version in known for owned in owners.values()):
        owners = {owner: owned for owner, owned in owners.items() if owned.api_version in known}
    if not schema.may_change:
        return owners
    return {
        owner: owned._replace(fields=typed.reconciled_fields(owned.fields, schema.type))
        for owner, owned in owners.items()
    }


def _updated(
    owners: Owners,
    live: Document | None,
    new: Document,
    schema: MergeSchema,
    mine: ManagerFields,
    owner: ManagerIdentifier,
) -> Owners:
    """The owners after an update by `owner`; `mine` has its apiVersion and the time."""
    before = schema.empty if live is None else live
    comparison = typed.compare(before, new, schema.type, _reset(schema, owner.subresource), is_new=live is None)
    left = managedfields.without_fields(_current(owners, mine.api_version, schema), typed.all_below(comparison))
    if comparison.changed:
        known = left.get(owner)
        fields = fieldpath.union(comparison.changed, known.fields) if known else comparison.changed
        left[owner] = mine._replace(fields=fields)
    return managedfields.cap_updaters(left)


def _reset(schema: MergeSchema, subresource: str) -> ResetFields:
    return schema.resets.get(subresource, NO_RESET)


def _with_owners(document: Document, owners: Owners) -> Document:
    metadata = document.get("metadata") or {}
    if not owners:
        if "managedFields" not in metadata:
            return document
        return {**document, "metadata": {name: value for name, value in metadata.items() if name != "managedFields"}}
    entries = managedfields.managed_fields(owners)
    if metadata.get("managedFields") == entries:
        return document
    return {**document, "metadata": {**metadata, "managedFields": entries}}


def _check_type(applied: Document, api_version: str, kind: str) -> None:
    found = applied.get("apiVersion"), applied.get("kind")
    version, named = (value if isinstance(value, str) else "" for value in found)
    if version != api_version or (kind and named != kind):
        group, _, number = version.rpartition("/")
        if "/" in group:
            group = number = named = ""
        raise BadRequest(f"invalid object type: {group}/{number}, Kind={named}")


def _check_fit(applied: Document, schema: MergeSchema) -> None:
    metadata = applied.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    if isinstance(metadata.get("managedFields"), list):
        raise BadRequest("metadata.managedFields must be nil")
    if found := list(type_mismatches(applied, schema.type)):
        group, _, version = applied["apiVersion"].rpartition("/")
        name = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
        raise BadRequest(
            f"failed to create typed patch object ({name}; {group}/{version}, Kind={applied.get('kind', '')}): "
            + mismatch_message(found)
        )
