"""Deletes one object, or all that are selected.

An object with finalizers is marked with a deletionTimestamp and waits for them. A kind with a grace period is marked
and waits for its node. A namespace is marked and emptied first, by the finalizers in `spec.finalizers`. Everything
else is removed at once.

Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/delete.go,
staging/src/k8s.io/apiserver/pkg/registry/rest/delete.go,
staging/src/k8s.io/apiserver/pkg/registry/generic/registry/store.go, pkg/registry/core/namespace/storage/storage.go
"""

from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Literal

from pykubelet.api.errors import BadRequest, NotFound
from pykubelet.api.field_errors import FieldError, TypedString, invalid, not_supported
from pykubelet.api.schema import definitions
from pykubelet.api.serializer import Document
from pykubelet.api.strict import check_object
from pykubelet.api.times import MAX_DURATION_SECONDS, format_time, parse_time, seconds_after
from pykubelet.apiserver import errors
from pykubelet.apiserver.admission.plugin.webhook.reviews import reviewed
from pykubelet.apiserver.handlers.get import list_page, list_response
from pykubelet.apiserver.handlers.options import (
    Query,
    WriteOptions,
    dry_run_errors,
    integer,
    is_true,
    list_options,
    object_selector,
)
from pykubelet.apiserver.handlers.write import RequestScope, WriteRequest, with_metadata
from pykubelet.apiserver.request import ApiRequest, ApiResponse
from pykubelet.apiserver.serializer.decode_errors import fatal_error
from pykubelet.apiserver.serializer.decoder import JSON, PARSERS, PROTOBUF, YAML, decode_in_thread
from pykubelet.apiserver.storage.codec import key_of, served_document, served_entry, stored_form
from pykubelet.apiserver.storage.interfaces import StoreEntry
from pykubelet.kinds.kind import Kind
from pykubelet.kinds.metadata import FOREGROUND_FINALIZER, ORPHAN_FINALIZER

_DEFINITION = "meta.v1.DeleteOptions"
_POLICIES = ("Foreground", "Background", "Orphan")
_GRACEFUL = frozenset({"pods"})
_ORPHANING = frozenset({"jobs.batch", "replicationcontrollers"})
_UNCOLLECTED = frozenset({"events", "events.events.k8s.io"})
RETURNS_OBJECT = frozenset(
    {
        "namespaces",
        "persistentvolumeclaims",
        "persistentvolumes",
        "pods",
        "podtemplates",
        "resourcequotas",
        "serviceaccounts",
        "services",
        "storageclasses.storage.k8s.io",
    }
)
"""A deletion of these kinds returns the deleted object, not a Status."""
JOB_WARNING = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set "
    "propagationPolicy=Orphan to suppress this warning"
)
_MARKING = ("mark", "mark and remove")


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """Options of a deletion: grace period, propagation policy, preconditions, dry run."""

    grace_seconds: int | None = None
    uid: str | None = None
    resource_version: str | None = None
    orphan_dependents: bool | None = None
    policy: str | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class DeletionDecision:
    """The action: `keep` an object that is already marked, `mark` it, `mark and remove` it, or `remove` it."""

    action: Literal["keep", "mark", "mark and remove", "remove"]
    document: Document
    """The object after the action, or its last state if it is removed."""


async def delete(scope: RequestScope, request: ApiRequest) -> ApiResponse:
    """Deletes the object. The response is the object if it is only marked or its kind returns it, else a Status."""
    options = await decode_in_thread(request, delete_options, request.body, request.content_type, request.query)
    _warn(request, options)
    done, entry = await delete_object(scope, request, options)
    served = request.served
    # Clients that set the deprecated orphanDependents=false get 202 while the deletion is pending.
    code = 202 if done.action in ("keep", "mark") and options.orphan_dependents is False else 200
    if entry is not None:
        return ApiResponse(body=served_entry(served, entry), code=code)
    if done.action in _MARKING or served.resource.group_resource in RETURNS_OBJECT:
        return ApiResponse(body=done.document, code=code)
    return ApiResponse(body=_success(request, done.document), code=code)


async def delete_object(
    scope: RequestScope, request: ApiRequest, options: DeleteOptions, *, admit: bool = True
) -> tuple[DeletionDecision, StoreEntry | None]:
    """Deletes an object as the options say; returns the stored entry if the object was marked. NotFound if it does not exist."""
    decide = _DeleteDecision(scope, request, options, admit=admit)
    key = key_of(request.served, request.namespace, request.name)

    async def decided() -> StoreEntry | None:
        if options.dry_run:
            decide(scope.store.newest(key))
            return None
        return await scope.store.write(key, decide)

    entry = await reviewed(decided)
    done = decide.decision
    assert done is not None
    if options.dry_run or done.action not in _MARKING:
        return done, None
    assert entry is not None
    marked_at = entry.revision
    if done.action == "mark and remove":
        # Watchers see the marked object before they see it removed. A change in between keeps it.
        await scope.store.write(key, lambda now: None if now is None or now.revision == marked_at else now.document)
    return done, entry


async def delete_collection(scope: RequestScope, request: ApiRequest) -> ApiResponse:
    """Deletes every selected object; the response lists them as they were."""
    served = request.served
    listing = list_options(request.query)
    chosen = object_selector(listing.labels, listing.fields, served)
    options = await decode_in_thread(request, delete_options, request.body, request.content_type, request.query)
    _warn(request, options)
    page = list_page(scope.store, served, request.namespace, listing, chosen)
    for entry in page.entries:
        one = replace(request, verb="delete", namespace=entry.key.namespace, name=entry.key.name)
        try:
            await delete_object(scope, one, options)
        except NotFound:
            continue
    return list_response(served, page)


class _DeleteDecision:
    """Decides one deletion on the newest state of the object and keeps the result."""

    def __init__(self, scope: RequestScope, request: ApiRequest, options: DeleteOptions, *, admit: bool) -> None:
        self._scope, self._request, self._options, self._admit = scope, request, options, admit
        self.decision: DeletionDecision | None = None

    def __call__(self, existing: StoreEntry | None) -> Document | None:
        served, request = self._request.served, self._request
        if existing is None:
            raise errors.not_found(served.resource, request.name)
        old = served_document(served, existing)
        now = self._scope.clock.now()
        if served.resource.group_resource == "namespaces":
            decided = decide_namespace_deletion(self._options, old, served, now)
        else:
            check_preconditions(self._options, old, served)
            decided = decide_deletion(self._options, old, served, now)
        if self._admit:
            options = self._options
            write = WriteRequest(
                self._scope, request, WriteOptions(dry_run=options.dry_run), partial(_options_stated, options)
            )
            write.admit("delete", request.name, None, old)
            write.validate("delete", request.name, None, old)
        self.decision = decided
        if decided.action == "remove":
            return None
        return existing.document if decided.action == "keep" else stored_form(served, decided.document)


def decide_deletion(options: DeleteOptions, document: Document, served: Kind, now: datetime) -> DeletionDecision:
    """Decides what a deletion does to an object of any kind but Namespace."""
    if options.grace_seconds is not None and options.grace_seconds < 0:
        # Upstream treats a negative grace period as one second.
        options = replace(options, grace_seconds=1)
    if (ending := _mark_by_kind(document, served, now)) is not None:
        return DeletionDecision("mark", ending)
    graceful = _mark_with_grace(options, document, served, now)
    if graceful is document:
        return DeletionDecision("keep", document)
    marked = document if graceful is None else graceful
    finalizers = _finalizers(options, marked, served)
    if finalizers != marked["metadata"].get("finalizers", []):
        marked = with_metadata(marked, finalizers=finalizers or None)
    if finalizers:
        return DeletionDecision("mark", _mark_without_grace(marked, now) if graceful is None else marked)
    if graceful is None:
        return DeletionDecision("remove", document)
    waits = marked["metadata"]["deletionGracePeriodSeconds"] > 0
    return DeletionDecision("mark" if waits else "mark and remove", marked)


def decide_namespace_deletion(
    options: DeleteOptions, namespace: Document, served: Kind, now: datetime
) -> DeletionDecision:
    metadata = namespace["metadata"]
    for name, expected, current in (
        ("UID", options.uid, metadata["uid"]),
        ("ResourceVersion", options.resource_version, metadata["resourceVersion"]),
    ):
        if expected is not None and expected != current:
            why = f"Precondition failed: {name} in precondition: {expected}, {name} in object meta: {current}"
            raise errors.conflict(served.resource, metadata["name"], why)
    if metadata.get("deletionTimestamp") is None:
        return DeletionDecision("mark", _mark_namespace(options, namespace, now))
    if namespace.get("spec", {}).get("finalizers"):
        return DeletionDecision("keep", namespace)
    check_preconditions(options, namespace, served)
    return decide_deletion(options, namespace, served, now)


def check_preconditions(options: DeleteOptions, document: Document, served: Kind) -> None:
    """Raises Conflict if the object does not match the preconditions (UID, resourceVersion)."""
    metadata = document["metadata"]
    name, uid, version = metadata["name"], metadata["uid"], metadata["resourceVersion"]
    if options.uid is not None and options.uid != uid:
        why = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record ({uid}). "
            "The object might have been deleted and then recreated"
        )
        raise errors.kind_conflict(served.resource, name, why)
    if options.resource_version is not None and options.resource_version != version:
        why = (
            f"the ResourceVersion in the precondition ({options.resource_version}) does not match the ResourceVersion "
            f"in record ({version}). The object might have been modified"
        )
        raise errors.kind_conflict(served.resource, name, why)


def delete_options(body: bytes, content_type: str, query: Query) -> DeleteOptions:
    """Decodes DeleteOptions from the body, or from the query if the body is empty."""
    document = _options_document(body, content_type) if body else _options_of(query)
    preconditions = document.get("preconditions") or {}
    dry_run = document.get("dryRun") or []
    options = DeleteOptions(
        grace_seconds=document.get("gracePeriodSeconds"),
        uid=preconditions.get("uid"),
        resource_version=preconditions.get("resourceVersion"),
        orphan_dependents=document.get("orphanDependents"),
        policy=document.get("propagationPolicy"),
        dry_run=bool(dry_run),
    )
    if found := _errors(options) + dry_run_errors(dry_run):
        raise errors.invalid_options("DeleteOptions", found)
    return options


def _mark_by_kind(document: Document, served: Kind, now: datetime) -> Document | None:
    """Marks the object as its kind requires on the first deletion; None for kinds without such a rule."""
    if document["metadata"].get("deletionTimestamp") is not None:
        return None
    marked = with_metadata(document, deletionTimestamp=format_time(now))
    prepared = served.strategy.prepare_delete(marked)
    return prepared if prepared is not marked and prepared["metadata"].get("finalizers") else None


def _mark_with_grace(options: DeleteOptions, document: Document, served: Kind, now: datetime) -> Document | None:
    """Marks the object with its grace period; returns it unchanged if it is marked, None if the kind has no grace period."""
    if served.resource.group_resource not in _GRACEFUL:
        return None
    metadata = document["metadata"]
    if metadata.get("deletionTimestamp") is None:
        seconds = min(served.strategy.grace_seconds(document, options.grace_seconds), MAX_DURATION_SECONDS)
        generation = metadata.get("generation", 0)
        return with_metadata(
            document,
            deletionTimestamp=format_time(seconds_after(now, seconds)),
            deletionGracePeriodSeconds=seconds,
            generation=generation + 1 if generation else None,
        )
    current = metadata.get("deletionGracePeriodSeconds", 0)
    if not current:
        return None
    if options.grace_seconds is None or options.grace_seconds >= current:
        return document
    return _shorten_grace(document, options.grace_seconds, now)


def _shorten_grace(document: Document, seconds: int, now: datetime) -> Document:
    """Shortens the grace period, counted from the same start. The deletionTimestamp never moves into the past."""
    metadata = document["metadata"]
    at = seconds_after(parse_time(metadata["deletionTimestamp"]), seconds - metadata["deletionGracePeriodSeconds"])
    if at < now.replace(microsecond=0):
        at, seconds = now, min(seconds, 1)
    return with_metadata(document, deletionTimestamp=format_time(at), deletionGracePeriodSeconds=seconds)


def _mark_without_grace(document: Document, now: datetime) -> Document:
    """Marks the object as deleted now, so that it waits for its finalizers only."""
    metadata = document["metadata"]
    at, generation = metadata.get("deletionTimestamp"), metadata.get("generation", 0)
    return with_metadata(
        document,
        generation=(generation + 1 if at is None else generation) if generation else None,
        deletionTimestamp=format_time(now) if at is None or parse_time(at) > now else at,
        deletionGracePeriodSeconds=0,
    )


def _finalizers(options: DeleteOptions, document: Document, served: Kind) -> list[str]:
    """The object's finalizers, with those that give the garbage collector the propagation policy."""
    current: list[str] = document["metadata"].get("finalizers", [])
    if served.resource.group_resource in _UNCOLLECTED:
        wanted: list[str] = []
    else:
        orphan, foreground = _dependents(options, current, served)
        wanted = [ORPHAN_FINALIZER] * orphan + [FOREGROUND_FINALIZER] * foreground
    finalizers = [name for name in current if name not in (ORPHAN_FINALIZER, FOREGROUND_FINALIZER)] + wanted
    return current if set(finalizers) == set(current) else finalizers


def _dependents(options: DeleteOptions, finalizers: list[str], served: Kind) -> tuple[bool, bool]:
    """Whether to orphan the dependents, and whether to delete them in the foreground."""
    if options.orphan_dependents is not None:
        return options.orphan_dependents, False
    if options.policy is not None:
        return options.policy == "Orphan", options.policy == "Foreground"
    for name in finalizers:
        if name in (ORPHAN_FINALIZER, FOREGROUND_FINALIZER):
            return name == ORPHAN_FINALIZER, name == FOREGROUND_FINALIZER
    return served.resource.group_resource in _ORPHANING, False


def _options_of(query: Query) -> Document:
    document: Document = {}
    if query.get("gracePeriodSeconds"):
        document["gracePeriodSeconds"] = integer(query, "gracePeriodSeconds")
    if "orphanDependents" in query:
        document["orphanDependents"] = is_true(query, "orphanDependents")
    if query.get("propagationPolicy"):
        document["propagationPolicy"] = query["propagationPolicy"]
    if "dryRun" in query:
        document["dryRun"] = [query["dryRun"]]
    return document


def _options_document(body: bytes, content_type: str) -> Document:
    parse = PARSERS.get(content_type.partition(";")[0].strip().lower())
    if parse is None:
        raise errors.unknown_format(JSON, YAML, PROTOBUF)
    try:
        value: Any = parse(body).value
    except ValueError as error:
        raise BadRequest(f"couldn't get version/kind; json parse error: {error}") from error
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadRequest("couldn't get version/kind; json parse error: json: cannot unmarshal it into an object")
    if value.get("kind", "DeleteOptions") not in ("", "DeleteOptions"):
        raise BadRequest("decoded object cannot be converted to DeleteOptions")
    known = {key: item for key, item in value.items() if key in definitions()[_DEFINITION].fields and item is not None}
    if fatal := fatal_error(known, _DEFINITION, check_object(known, _DEFINITION)):
        raise BadRequest(fatal)
    return known


def _options_stated(options: DeleteOptions) -> Document:
    """The options as webhooks see them."""
    preconditions = {"uid": options.uid, "resourceVersion": options.resource_version}
    stated: Document = {
        "gracePeriodSeconds": options.grace_seconds,
        "preconditions": {name: value for name, value in preconditions.items() if value is not None} or None,
        "orphanDependents": options.orphan_dependents,
        "propagationPolicy": options.policy,
        "dryRun": ["All"] if options.dry_run else None,
    }
    kind = {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}
    return kind | {name: value for name, value in stated.items() if value is not None}


def _errors(options: DeleteOptions) -> list[FieldError]:
    errors: list[FieldError] = []
    policy = options.policy
    if options.orphan_dependents is not None and policy is not None:
        detail = "orphanDependents and deletionPropagation cannot be both set"
        errors.append(invalid("propagationPolicy", TypedString(policy), detail))
    if policy is not None and policy not in _POLICIES:
        errors.append(not_supported("propagationPolicy", policy, (*_POLICIES, "nil")))
    return errors


def _mark_namespace(options: DeleteOptions, namespace: Document, now: datetime) -> Document:
    finalizers: list[str] = namespace["metadata"].get("finalizers", [])
    wanted = {
        ORPHAN_FINALIZER: _has_finalizer(options, finalizers, ORPHAN_FINALIZER, "Orphan", when=True),
        FOREGROUND_FINALIZER: _has_finalizer(options, finalizers, FOREGROUND_FINALIZER, "Foreground", when=False),
    }
    kept = [name for name in finalizers if wanted.get(name, True)]
    kept += [name for name, is_wanted in wanted.items() if is_wanted and name not in kept]
    ending = with_metadata(namespace, deletionTimestamp=format_time(now), finalizers=kept or None)
    return {**ending, "status": {**namespace.get("status", {}), "phase": "Terminating"}}


def _has_finalizer(options: DeleteOptions, finalizers: list[str], name: str, policy: str, *, when: bool) -> bool:
    if options.orphan_dependents is not None:
        return options.orphan_dependents is when
    return options.policy == policy if options.policy is not None else name in finalizers


def _success(request: ApiRequest, document: Document) -> Document:
    resource, metadata = request.served.resource, document["metadata"]
    details = {"name": metadata["name"], "group": resource.group, "kind": resource.plural, "uid": metadata["uid"]}
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {key: value for key, value in details.items() if value},
    }


def _warn(request: ApiRequest, options: DeleteOptions) -> None:
    has_policy = options.orphan_dependents is not None or options.policy is not None
    if request.served.resource.group_resource == "jobs.batch" and not has_policy:
        request.warnings.append(JOB_WARNING)
