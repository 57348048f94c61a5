"""What a deletion does to an object: remove it, mark it, or nothing because it is marked already.

In: the options of the request and the object. Out: a `Verdict`. An object with finalizers is marked and waits for them;
a kind with a grace period is marked and waits for whoever ends it; everything else goes at once.

Upstream: k8s.io/apiserver/pkg/registry/rest/delete.go (BeforeDelete), registry/generic/registry/store.go (Delete)
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from pykubelet.api.errors import BadRequest
from pykubelet.api.schema import definitions
from pykubelet.api.strict import check_object
from pykubelet.api.times import format_time, parse_time
from pykubelet.api.validation.field_errors import FieldError, Named, invalid, not_supported
from pykubelet.api.validation.metadata import FOREGROUND_FINALIZER, ORPHAN_FINALIZER
from pykubelet.api.wire import Document
from pykubelet.apiserver import failures
from pykubelet.apiserver.objects.object_metadata import with_metadata
from pykubelet.apiserver.requests.bodies import JSON, PARSERS, PROTOBUF, YAML
from pykubelet.apiserver.requests.decode_words import fatal_error
from pykubelet.apiserver.requests.query import Query, dry_run_errors, integer, is_true
from pykubelet.apiserver.served import Served

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
"""Of these a deletion is answered with the object that was deleted."""
JOB_WARNING = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set "
    "propagationPolicy=Orphan to suppress this warning"
)


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """How an object is to be deleted, and on which conditions."""

    grace_seconds: int | None = None
    uid: str | None = None
    resource_version: str | None = None
    orphan_dependents: bool | None = None
    policy: str | None = None
    dry_run: bool = False

    @property
    def leaves_dependents_open(self) -> bool:
        """Whether nothing is said about what becomes of dependents."""
        return self.orphan_dependents is None and self.policy is None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to be done: `keep` an object that is marked already, `mark` it, mark and then `remove` it, or remove it."""

    action: Literal["keep", "mark", "mark and remove", "remove"]
    document: Document
    """The object afterwards, or as it was last."""


def delete_options(body: bytes, content_type: str, query: Query) -> DeleteOptions:
    """The options in the body, or else in the query."""
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
    if errors := _errors(options) + dry_run_errors(dry_run):
        raise failures.invalid_options("DeleteOptions", errors)
    return options


def check_preconditions(options: DeleteOptions, document: Document, served: Served) -> None:
    """Conflict if the object is not the one that was meant."""
    metadata = document["metadata"]
    name, uid, version = metadata["name"], metadata["uid"], metadata["resourceVersion"]
    if options.uid is not None and options.uid != uid:
        why = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record ({uid}). "
            "The object might have been deleted and then recreated"
        )
        raise failures.kind_conflict(served.resource, name, why)
    if options.resource_version is not None and options.resource_version != version:
        why = (
            f"the ResourceVersion in the precondition ({options.resource_version}) does not match the ResourceVersion "
            f"in record ({version}). The object might have been modified"
        )
        raise failures.kind_conflict(served.resource, name, why)


def verdict(options: DeleteOptions, document: Document, served: Served, now: datetime) -> Verdict:
    """What becomes of the object."""
    if options.grace_seconds is not None and options.grace_seconds < 0:
        # Negative periods count as the shortest.
        options = replace(options, grace_seconds=1)
    if (ending := _in_its_own_way(document, served, now)) is not None:
        return Verdict("mark", ending)
    graceful = _gracefully(options, document, served, now)
    if graceful is document:
        return Verdict("keep", document)
    marked = document if graceful is None else graceful
    finalizers = _finalizers(options, marked, served)
    if finalizers != marked["metadata"].get("finalizers", []):
        marked = with_metadata(marked, finalizers=finalizers or None)
    if finalizers:
        return Verdict("mark", _without_grace(marked, now) if graceful is None else marked)
    if graceful is None:
        return Verdict("remove", document)
    waits = marked["metadata"]["deletionGracePeriodSeconds"] > 0
    return Verdict("mark" if waits else "mark and remove", marked)


def _in_its_own_way(document: Document, served: Served, now: datetime) -> Document | None:
    """The object marked as its kind does it when it is first deleted; None for kinds that do nothing of the sort."""
    if document["metadata"].get("deletionTimestamp") is not None:
        return None
    marked = with_metadata(document, deletionTimestamp=format_time(now))
    prepared = served.strategy.prepare_delete(marked)
    return prepared if prepared is not marked and prepared["metadata"].get("finalizers") else None


def _gracefully(options: DeleteOptions, document: Document, served: Served, now: datetime) -> Document | None:
    """The object with its time to end; itself if that is set already, None for a kind that takes no time."""
    if served.resource.group_resource not in _GRACEFUL:
        return None
    metadata = document["metadata"]
    if metadata.get("deletionTimestamp") is None:
        seconds = served.strategy.grace_seconds(document, options.grace_seconds)
        generation = metadata.get("generation", 0)
        return with_metadata(
            document,
            deletionTimestamp=format_time(now + timedelta(seconds=seconds)),
            deletionGracePeriodSeconds=seconds,
            generation=generation + 1 if generation else None,
        )
    current = metadata.get("deletionGracePeriodSeconds", 0)
    if not current:
        return None
    if options.grace_seconds is None or options.grace_seconds >= current:
        return document
    return _sooner(document, options.grace_seconds, now)


def _sooner(document: Document, seconds: int, now: datetime) -> Document:
    """The object with less time to end, counted from the same moment; that moment never moves into the past."""
    metadata = document["metadata"]
    at = parse_time(metadata["deletionTimestamp"]) - timedelta(seconds=metadata["deletionGracePeriodSeconds"] - seconds)
    if at < now.replace(microsecond=0):
        at, seconds = now, min(seconds, 1)
    return with_metadata(document, deletionTimestamp=format_time(at), deletionGracePeriodSeconds=seconds)


def _without_grace(document: Document, now: datetime) -> Document:
    """The object marked as deleted right now: it waits for its finalizers alone."""
    metadata = document["metadata"]
    at, generation = metadata.get("deletionTimestamp"), metadata.get("generation", 0)
    return with_metadata(
        document,
        generation=(generation + 1 if at is None else generation) if generation else None,
        deletionTimestamp=format_time(now) if at is None or parse_time(at) > now else at,
        deletionGracePeriodSeconds=0,
    )


def _finalizers(options: DeleteOptions, document: Document, served: Served) -> list[str]:
    """The finalizers that the object waits for, with those that tell the garbage collector what to do."""
    current: list[str] = document["metadata"].get("finalizers", [])
    if served.resource.group_resource in _UNCOLLECTED:
        wanted: list[str] = []
    else:
        orphan, foreground = _dependents(options, current, served)
        wanted = [ORPHAN_FINALIZER] * orphan + [FOREGROUND_FINALIZER] * foreground
    finalizers = [name for name in current if name not in (ORPHAN_FINALIZER, FOREGROUND_FINALIZER)] + wanted
    return current if set(finalizers) == set(current) else finalizers


def _dependents(options: DeleteOptions, finalizers: list[str], served: Served) -> tuple[bool, bool]:
    """Whether dependents are left alone, and whether they go first."""
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
        raise failures.unknown_format(JSON, YAML, PROTOBUF)
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


def _errors(options: DeleteOptions) -> list[FieldError]:
    errors: list[FieldError] = []
    policy = options.policy
    if options.orphan_dependents is not None and policy is not None:
        detail = "orphanDependents and deletionPropagation cannot be both set"
        errors.append(invalid("propagationPolicy", Named(policy), detail))
    if policy is not None and policy not in _POLICIES:
        errors.append(not_supported("propagationPolicy", policy, (*_POLICIES, "nil")))
    return errors
