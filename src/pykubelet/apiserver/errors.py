"""The API's errors, with kube-apiserver's messages and details.

Upstream: staging/src/k8s.io/apimachinery/pkg/api/errors/errors.go, staging/src/k8s.io/apiserver/pkg/storage/errors.go
"""

from collections.abc import Sequence

from pykubelet.api.errors import (
    AlreadyExists,
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    MethodNotAllowed,
    NotFound,
    Timeout,
    TooManyRequests,
    UnsupportedMediaType,
)
from pykubelet.api.field_errors import FieldError, aggregate_messages, go_quote
from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document

META_GROUP = "meta.k8s.io"
# Messages use the internal kind, which the events of both groups share.
_INNER_GROUPS = {"events.k8s.io": ""}
# The errors in a Status stop here: thousands of them. Some repeat the whole list that their value is in.
_MAX_ERROR_CHARACTERS = 256 * 1024
MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def not_found(resource: Resource, name: str) -> NotFound:
    return NotFound(f"{resource.group_resource} {go_quote(name)} not found", details=_details(resource, name))


def already_exists(resource: Resource, name: str, *, terminating: bool = False) -> AlreadyExists:
    """The name is taken, perhaps by an object that is being deleted."""
    text = f"{resource.group_resource} {go_quote(name)} already exists"
    if terminating:
        text = f"object is being deleted: {text}"
    return AlreadyExists(text, details=_details(resource, name))


def no_unique_name(resource: Resource, name: str) -> AlreadyExists:
    """Every name generated from `generateName` was taken."""
    text = f"{resource.group_resource} {go_quote(name)} already exists, the server was not able to generate a unique name for the object"
    details = _details(resource, name) | {"retryAfterSeconds": 1}
    return AlreadyExists(text, details=details, retry_after_seconds=1)


def conflict(resource: Resource, name: str, why: str = MODIFIED, *, subresource: str = "") -> Conflict:
    """The object was modified, or a precondition failed."""
    plural = f"{resource.plural}/{subresource}" if subresource else resource.plural
    shown = f"{plural}.{resource.group}" if resource.group else plural
    details = {"name": name, "group": resource.group, "kind": plural}
    return Conflict(f"Operation cannot be fulfilled on {shown} {go_quote(name)}: {why}", details=_filled(details))


def kind_conflict(resource: Resource, name: str, why: str) -> Conflict:
    """Like `conflict`, for deletions, whose messages name the kind."""
    group = _INNER_GROUPS.get(resource.group, resource.group)
    kind = f"{resource.kind}.{group}" if group else resource.kind
    details = _filled({"name": name, "group": group, "kind": resource.kind})
    return Conflict(f"Operation cannot be fulfilled on {kind} {go_quote(name)}: {why}", details=details)


def forbidden(resource: Resource, name: str, why: str, *, causes: Sequence[Document] = ()) -> Forbidden:
    subject = f"{resource.group_resource} {go_quote(name)}" if name else resource.group_resource
    details = _details(resource, name)
    if causes:
        details["causes"] = list(causes)
    return Forbidden(f"{subject} is forbidden: {why}", details=details)


def invalid(kind: str, group: str, name: str, errors: Sequence[FieldError]) -> Invalid:
    """The object is invalid; each field error is a cause, up to a total length."""
    shown = f"{kind}.{group}" if group else kind
    causes: list[Document] = []
    messages: list[str] = []
    written = 0
    for error in errors:
        body = error.body
        causes.append(_filled({"reason": error.type.value, "message": body, "field": error.field}))
        messages.append(f"{error.field}: {body}")
        written += len(messages[-1])
        if written > _MAX_ERROR_CHARACTERS:
            messages.append(f"and {len(errors) - len(causes)} more errors")
            break
    details = _filled({"name": name, "group": group, "kind": kind, "causes": causes})
    return Invalid(f"{shown} {go_quote(name)} is invalid: {aggregate_messages(messages)}", details=details)


def invalid_object(resource: Resource, name: str, errors: Sequence[FieldError]) -> Invalid:
    return invalid(resource.kind, _INNER_GROUPS.get(resource.group, resource.group), name, errors)


def invalid_options(kind: str, errors: Sequence[FieldError]) -> Invalid:
    return invalid(kind, META_GROUP, "", errors)


def unprocessable() -> Invalid:
    """The patch is well-formed but cannot be applied."""
    return Invalid("the server rejected our request due to an error in our request", details={})


def too_large_version(requested: int, current: int) -> Timeout:
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    details = {"causes": [cause], "retryAfterSeconds": 1}
    text = f"Timeout: Too large resource version: {requested}, current: {current}"
    return Timeout(text, details=details, retry_after_seconds=1)


def no_such_method() -> MethodNotAllowed:
    """The path exists, but not for this method."""
    return MethodNotAllowed("the server does not allow this method on the requested resource", details={})


def no_such_path() -> NotFound:
    return NotFound("the server could not find the requested resource", details={})


def unknown_format(*accepted: str) -> UnsupportedMediaType:
    return UnsupportedMediaType(
        f"the body of the request was in an unknown format - accepted media types include: {', '.join(accepted)}"
    )


def unknown_patch_type() -> UnsupportedMediaType:
    """The patch type is not supported by a built-in kind; upstream checks these earlier, with another message."""
    return UnsupportedMediaType("415: Unsupported Media Type", details={})


def budget_exhausted(cause: str, *, retry_after_seconds: int = 0) -> TooManyRequests:
    """A PodDisruptionBudget allows no disruption now."""
    details: Document = {"causes": [{"reason": "DisruptionBudget", "message": cause}]}
    if retry_after_seconds:
        details["retryAfterSeconds"] = retry_after_seconds
    return TooManyRequests(
        "Cannot evict pod as it would violate the pod's disruption budget.",
        details=details,
        retry_after_seconds=retry_after_seconds or None,
    )


def namespace_mismatch() -> BadRequest:
    return BadRequest("the namespace of the provided object does not match the namespace sent on the request")


def _details(resource: Resource, name: str) -> Document:
    return _filled({"name": name, "group": resource.group, "kind": resource.plural})


def _filled(details: Document) -> Document:
    return {key: value for key, value in details.items() if value}
