"""Query parameters: the options of reads and writes, label and field selectors, resource versions.

Values are parsed as Go parses them. Unknown parameters are ignored.

Upstream: staging/src/k8s.io/apimachinery/pkg/runtime/converter.go,
staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/validation/validation.go,
staging/src/k8s.io/apimachinery/pkg/apis/meta/internalversion/validation/validation.go,
staging/src/k8s.io/apiserver/pkg/storage/selection_predicate.go,
staging/src/k8s.io/apiserver/pkg/storage/api_object_versioner.go
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from pykubelet.api import field_errors
from pykubelet.api.errors import BadRequest
from pykubelet.api.field_errors import ErrorType, FieldError, go_quote
from pykubelet.api.fields import FieldRequirement, FieldSelector, parse_field_selector
from pykubelet.api.labels import EVERYTHING, Selector, SelectorError, parse_selector
from pykubelet.api.names import byte_length
from pykubelet.api.serializer import Document
from pykubelet.apiserver.errors import invalid_options
from pykubelet.apiserver.request import ApiRequest
from pykubelet.kinds.kind import Kind
from pykubelet.kinds.metadata import MAX_FIELD_MANAGER_BYTES

Query = Mapping[str, str]

WARN, STRICT, IGNORE = "Warn", "Strict", "Ignore"
APPLY_PATCH = "application/apply-patch+yaml"
NOT_OLDER_THAN, EXACT = "NotOlderThan", "Exact"
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_INT64 = range(-(2**63), 2**63)
NO_FIELDS = FieldSelector()
# Upstream converts the field labels of these kinds with their own functions, which have their own messages.
_OWN_MESSAGES = frozenset(
    {
        "pods",
        "nodes",
        "replicationcontrollers",
        "events",
        "events.events.k8s.io",
        "namespaces",
        "secrets",
        "services",
        "certificatesigningrequests.certificates.k8s.io",
    }
)
_OLD_LABELS = {("pods", "spec.host"): "spec.nodeName"}
_EMPTY: Document = {"metadata": {}, "spec": {}, "status": {}}
_labels = lru_cache(maxsize=512)(parse_selector)
_fields = lru_cache(maxsize=512)(parse_field_selector)


@dataclass(frozen=True, slots=True)
class WriteOptions:
    dry_run: bool = False
    field_manager: str = ""
    field_validation: str = WARN
    force: bool = False


@dataclass(frozen=True, slots=True)
class ListOptions:
    labels: str = ""
    fields: str = ""
    limit: int = 0
    continue_token: str = ""
    resource_version: str = ""
    resource_version_match: str = ""
    watch: bool = False
    allow_bookmarks: bool = False
    timeout_seconds: int = 0
    send_initial_events: bool | None = None


_WRITE = WriteOptions()
_OPTIONS_KINDS = {"update": "UpdateOptions", "patch": "PatchOptions"}
_LIST = ListOptions()


def is_true(query: Query, name: str) -> bool:
    """Whether a boolean parameter is true: present and neither "false" nor "0"."""
    value = query.get(name)
    return value is not None and value.lower() not in {"false", "0"}


def integer(query: Query, name: str) -> int:
    """An integer parameter, 0 if absent or empty; BadRequest if it is not a number."""
    value = query.get(name)
    if not value:
        return 0
    if not _INTEGER.fullmatch(value):
        raise BadRequest(f"strconv.ParseInt: parsing {go_quote(value)}: invalid syntax")
    number = int(value) if len(value) < 30 else 2**64
    if number not in _INT64:
        raise BadRequest(f"strconv.ParseInt: parsing {go_quote(value)}: value out of range")
    return number


def write_options(query: Query, kind: str, *, patch_type: str = "") -> WriteOptions:
    """Parses the options of a write; `kind` (such as `CreateOptions`) appears in error messages."""
    if not query and patch_type != APPLY_PATCH:
        return _WRITE
    manager, dry_run = query.get("fieldManager", ""), query.get("dryRun")
    errors: list[FieldError] = []
    if patch_type == APPLY_PATCH:
        if not manager:
            errors.append(field_errors.required("fieldManager", "is required for apply patch"))
    elif patch_type and "force" in query:
        errors.append(field_errors.forbidden("force", "may not be specified for non-apply patch"))
    errors += _manager_errors(manager) + dry_run_errors([] if dry_run is None else [dry_run])
    validation = query.get("fieldValidation", "")
    if validation not in {"", WARN, STRICT, IGNORE}:
        errors.append(field_errors.not_supported("fieldValidation", validation, ("", IGNORE, STRICT, WARN)))
    if errors:
        raise invalid_options(kind, errors)
    return WriteOptions(dry_run is not None, manager, validation or WARN, is_true(query, "force"))


def stated_options(request: ApiRequest) -> Document:
    """The options of a write as a document, for webhooks and expressions."""
    query = request.query
    stated: Document = {"kind": _OPTIONS_KINDS.get(request.verb, "CreateOptions"), "apiVersion": "meta.k8s.io/v1"}
    if "dryRun" in query:
        stated["dryRun"] = [query["dryRun"]]
    for name in ("fieldManager", "fieldValidation"):
        if query.get(name):
            stated[name] = query[name]
    if "force" in query:
        stated["force"] = is_true(query, "force")
    return stated


def list_options(query: Query) -> ListOptions:
    """Parses the options of a list or watch. A watch without a revision sends the existing objects first."""
    if not query:
        return _LIST
    options = ListOptions(
        labels=query.get("labelSelector", ""),
        fields=query.get("fieldSelector", ""),
        limit=integer(query, "limit"),
        continue_token=query.get("continue", ""),
        resource_version=query.get("resourceVersion", ""),
        resource_version_match=query.get("resourceVersionMatch", ""),
        watch=is_true(query, "watch"),
        allow_bookmarks=is_true(query, "allowWatchBookmarks"),
        timeout_seconds=integer(query, "timeoutSeconds"),
        send_initial_events=is_true(query, "sendInitialEvents") if "sendInitialEvents" in query else None,
    )
    if errors := _watch_errors(options) if options.watch else _list_errors(options):
        raise invalid_options("ListOptions", errors)
    return options


def dry_run_errors(values: list[str]) -> list[FieldError]:
    """Validates dryRun: "All" is the only value."""
    if all(value == "All" for value in values):
        return []
    return [FieldError(ErrorType.NOT_SUPPORTED, "dryRun", values, 'supported values: "All"')]


def _manager_errors(manager: str) -> list[FieldError]:
    errors = (
        [field_errors.too_long("fieldManager", MAX_FIELD_MANAGER_BYTES)]
        if byte_length(manager) > MAX_FIELD_MANAGER_BYTES
        else []
    )
    for position, char in enumerate(manager):
        if not char.isprintable():
            where = byte_length(manager[:position])
            errors.append(
                field_errors.invalid(
                    "fieldManager", manager, f"invalid character U+{ord(char):04X} (at position {where})"
                )
            )
    return errors


def _list_errors(options: ListOptions) -> list[FieldError]:
    errors: list[FieldError] = []
    at = "resourceVersionMatch"
    if match := options.resource_version_match:
        if not options.resource_version:
            errors.append(field_errors.forbidden(at, f"{at} is forbidden unless resourceVersion is provided"))
        if options.continue_token:
            errors.append(field_errors.forbidden(at, f"{at} is forbidden when continue is provided"))
        if match not in {EXACT, NOT_OLDER_THAN}:
            errors.append(field_errors.not_supported(at, match, (EXACT, NOT_OLDER_THAN, "")))
        if match == EXACT and options.resource_version == "0":
            errors.append(field_errors.forbidden(at, f'{at} "exact" is forbidden for resourceVersion "0"'))
    if options.send_initial_events is not None:
        errors.append(field_errors.forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    return errors


def _watch_errors(options: ListOptions) -> list[FieldError]:
    errors: list[FieldError] = []
    at, match = "resourceVersionMatch", options.resource_version_match
    if options.send_initial_events is not None and match != NOT_OLDER_THAN:
        errors.append(
            field_errors.forbidden(at, f"sendInitialEvents requires setting resourceVersionMatch to {NOT_OLDER_THAN}")
        )
    if match:
        if options.send_initial_events is None:
            errors.append(
                field_errors.forbidden(at, f"{at} is forbidden for watch unless sendInitialEvents is provided")
            )
        if match != NOT_OLDER_THAN:
            errors.append(field_errors.not_supported(at, match, (NOT_OLDER_THAN,)))
        if options.continue_token:
            errors.append(field_errors.forbidden(at, f"{at} is forbidden when continue is provided"))
    return errors


def parse_revision(text: str) -> int | None:
    """Parses a resourceVersion: 0 if empty, None if it is not an unsigned 64-bit number."""
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()) or len(text.lstrip("0")) > 20:
        return None
    return number if (number := int(text)) < 2**64 else None


def revision_error(text: str) -> str:
    """Go's message for a text that is not a resourceVersion."""
    problem = "value out of range" if text.isascii() and text.isdigit() else "invalid syntax"
    quoted = go_quote(text)
    return f"resourceVersion: Invalid value: {quoted}: strconv.ParseUint: parsing {quoted}: {problem}"


@dataclass(frozen=True, slots=True)
class ObjectSelector:
    """The label and field selectors of a request; an object must match both."""

    labels: Selector = EVERYTHING
    fields: FieldSelector = NO_FIELDS

    @property
    def is_everything(self) -> bool:
        """Whether every object matches, so that none has to be decoded."""
        return not self.labels.requirements and not self.labels.nothing and not self.fields.requirements

    @property
    def name(self) -> str | None:
        """The name that the field selector requires, if it requires one."""
        return self.fields.required_value("metadata.name")

    def matches(self, document: Document, served: Kind) -> bool:
        """Whether an object, in the version that the resource serves, matches."""
        if not self.labels.matches(document["metadata"].get("labels", {})):
            return False
        return not self.fields.requirements or self.fields.matches(served.strategy.fields(document))


ALL = ObjectSelector()


def object_selector(labels: str, fields: str, served: Kind) -> ObjectSelector:
    """Parses both selectors; BadRequest for a syntax error or an unsupported field."""
    if not labels and not fields:
        return ALL
    try:
        return ObjectSelector(_labels(labels), _known(_fields(fields), served))
    except SelectorError as error:
        raise BadRequest(str(error)) from error


def _known(fields: FieldSelector, served: Kind) -> FieldSelector:
    if not fields.requirements:
        return fields
    resource = served.resource.group_resource
    known = served.strategy.fields(_EMPTY)
    requirements = []
    for one in fields.requirements:
        field = _OLD_LABELS.get((resource, one.field), one.field)
        if field not in known:
            raise BadRequest(_unknown_label(one.field, served))
        requirements.append(FieldRequirement(field, one.value, equal=one.equal))
    return FieldSelector(tuple(requirements))


def _unknown_label(label: str, served: Kind) -> str:
    resource = served.resource.group_resource
    if resource in _OWN_MESSAGES or not served.definition:
        return f"field label not supported: {label}"
    if resource == "jobs.batch":
        return f"field label {go_quote(label)} not supported for Job"
    return f'{go_quote(label)} is not a known field selector: only "metadata.name", "metadata.namespace"'
