"""metadata.managedFields of what is written, and server-side apply: what the verbs call.

`record` belongs between defaults and the strategy of a create, update or patch: what the server adds of its own accord
afterwards has no owner. `apply` makes the object of an apply patch from the live one; defaults, strategy and admission
follow. `keep_times` comes last.

Upstream: fieldmanager.go, structuredmerge.go, skipnonapplied.go, managedfieldsupdater.go and versioncheck.go in
apimachinery/pkg/util/managedfields/internal, equality.go in apiserver/pkg/endpoints/handlers/fieldmanager
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pykubelet.api.errors import BadRequest
from pykubelet.api.wire import Document
from pykubelet.apiserver.fields.apply import Applied, Outcome, outcome, without_fields
from pykubelet.apiserver.fields.compare import all_of, compare, equal
from pykubelet.apiserver.fields.conflicts import conflict
from pykubelet.apiserver.fields.elements import FieldsError
from pykubelet.apiserver.fields.field_sets import union
from pykubelet.apiserver.fields.last_applied import KUBECTL, not_its_own, with_last_applied
from pykubelet.apiserver.fields.owners import (
    APPLY,
    UPDATE,
    Owned,
    OwnerId,
    Owners,
    capped,
    owner_id,
    read_owners,
    stored_owners,
    written,
)
from pykubelet.apiserver.fields.reconcile import reconciled
from pykubelet.apiserver.fields.resets import NO_RESET, Reset
from pykubelet.apiserver.fields.schema_types import FieldSchema, schema_of
from pykubelet.apiserver.fields.typed_check import described, misfits

# Owns what an object had before anybody's fields were kept.
_BEFORE_FIRST_APPLY = "before-first-apply"


def record(
    new: Document,
    live: Document | None,
    *,
    definition: str | FieldSchema,
    manager: str,
    api_version: str,
    subresource: str = "",
    now: str,
) -> Document:
    """The new object with the owners of its fields: what differs from the live one is the manager's."""
    schema = schema_of(definition) if isinstance(definition, str) else definition
    owner = owner_id(manager, UPDATE, api_version, subresource)
    try:
        owners = _owners_before(new, live, subresource)
        if live is not None and not owners:
            # Nobody's fields are kept until somebody applies.
            return _with_owners(new, {})
        return _with_owners(new, _updated(owners, live, new, schema, Owned({}, api_version, now), owner))
    except (FieldsError, RecursionError):
        # As upstream: rather no owners than wrong ones; the write itself is validated elsewhere.
        return _with_owners(new, {})


def apply(
    live: Document | None,
    applied: Document,
    *,
    definition: str | FieldSchema,
    manager: str,
    api_version: str,
    subresource: str = "",
    now: str,
    force: bool = False,
) -> Document:
    """The live object with what is applied put into it; raises Conflict if others own some of it, or BadRequest."""
    schema = schema_of(definition) if isinstance(definition, str) else definition
    _check_type(applied, api_version, schema.kind)
    request = Applied(
        document=applied,
        owner=owner_id(manager, APPLY, api_version, subresource),
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


def _decide(live: Document | None, request: Applied, schema: FieldSchema, now: str) -> Outcome:
    entries = _managed_fields(live)
    owners = _current(stored_owners(entries), request.api_version, schema)
    if live is not None and not entries:
        before = owner_id(_BEFORE_FIRST_APPLY, UPDATE, request.api_version, request.owner.subresource)
        owners = _updated({}, None, live, schema, Owned({}, request.api_version, now), before)
    result = outcome(live or {}, request, owners)
    if not result.contested:
        return result
    contested = result.contested
    if live is not None and request.owner.manager == KUBECTL:
        contested = not_its_own(contested, live, schema, request.api_version)
    if contested:
        raise conflict(contested)
    return outcome(live or {}, replace(request, force=True), owners)


def keep_times(new: Document, live: Document) -> Document:
    """The live object if the new one differs only in the times of its owners: such a write is none."""
    mine, theirs = _managed_fields(new), _managed_fields(live)
    if len(mine) != len(theirs) or not mine or mine == theirs:
        return new
    if not all(map(equal, map(_without_time, mine), map(_without_time, theirs))):
        return new
    version = live["metadata"].get("resourceVersion")
    metadata = {**new["metadata"], "managedFields": theirs, "resourceVersion": version}
    return live if equal({**new, "metadata": metadata}, live) else new


def _without_time(entry: Document) -> Document:
    return {name: value for name, value in entry.items() if name != "time"}


def _managed_fields(document: Document | None) -> Sequence[Document]:
    found: Sequence[Document] = ((document or {}).get("metadata") or {}).get("managedFields") or ()
    return found


def _owners_before(new: Document, live: Document | None, subresource: str) -> Owners:
    """The owners to go on from: the live object's, unless the client hands in others, or none to forget them."""
    stored = _managed_fields(live)
    given = None if subresource else (new.get("metadata") or {}).get("managedFields")
    if given is None or (given == stored and stored):
        return stored_owners(stored)
    if _is_forgetting(given):
        return {}
    try:
        return read_owners(given) or stored_owners(stored)
    except FieldsError:
        # Clients that do not know managed fields must not break them.
        return stored_owners(stored)


def _is_forgetting(given: Any) -> bool:
    if not isinstance(given, list) or len(given) > 1:
        return False
    return not given or (isinstance(given[0], dict) and not any(given[0].values()))


def _current(owners: Owners, api_version: str, schema: FieldSchema) -> Owners:
    """The owners without those in an apiVersion nobody serves, with fields as the schema has them now."""
    known = {api_version, *schema.versions}
    if not all(owned.api_version in known for owned in owners.values()):
        owners = {owner: owned for owner, owned in owners.items() if owned.api_version in known}
    if not schema.may_change:
        return owners
    return {owner: owned._replace(fields=reconciled(owned.fields, schema.type)) for owner, owned in owners.items()}


def _updated(
    owners: Owners, live: Document | None, new: Document, schema: FieldSchema, mine: Owned, owner: OwnerId
) -> Owners:
    """The owners after a write; `mine` says the apiVersion and time of the one who writes."""
    before = schema.empty if live is None else live
    comparison = compare(before, new, schema.type, _reset(schema, owner.subresource), is_new=live is None)
    left = without_fields(_current(owners, mine.api_version, schema), all_of(comparison))
    if comparison.changed:
        known = left.get(owner)
        fields = union(comparison.changed, known.fields) if known else comparison.changed
        left[owner] = mine._replace(fields=fields)
    return capped(left)


def _reset(schema: FieldSchema, subresource: str) -> Reset:
    return schema.resets.get(subresource, NO_RESET)


def _with_owners(document: Document, owners: Owners) -> Document:
    metadata = document.get("metadata") or {}
    if not owners:
        if "managedFields" not in metadata:
            return document
        return {**document, "metadata": {name: value for name, value in metadata.items() if name != "managedFields"}}
    entries = written(owners)
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


def _check_fit(applied: Document, schema: FieldSchema) -> None:
    metadata = applied.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    if isinstance(metadata.get("managedFields"), list):
        raise BadRequest("metadata.managedFields must be nil")
    if found := list(misfits(applied, schema.type)):
        group, _, version = applied["apiVersion"].rpartition("/")
        name = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
        raise BadRequest(
            f"failed to create typed patch object ({name}; {group}/{version}, Kind={applied.get('kind', '')}): "
            + described(found)
        )
