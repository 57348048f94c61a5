"""The Scale of an object: how many replicas there shall be and are, in one form for all kinds.

In: an object and where it keeps its replicas, or a changed Scale. Out: its Scale, or the object with the Scale's wish in
it; complaints about a Scale.

Upstream: pkg/registry/apps/deployment/storage/storage.go (ScaleREST) and its likes, apis/autoscaling/validation

Read and change the Scale of an object.

Upstream: pkg/registry/apps/deployment/storage/storage.go (ScaleREST), apiextensions-apiserver's etcd.go (ScaleREST)
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pykubelet.api.errors import BadRequest
from pykubelet.api.field_errors import FieldError
from pykubelet.api.labels import SelectorError, selector_from_document, selector_from_labels
from pykubelet.api.serializer import Document, encode
from pykubelet.apiserver import errors as failures
from pykubelet.apiserver.fieldmanager.fieldmanager import apply, record
from pykubelet.apiserver.fieldmanager.managedfields import parent_owners, replicas_path, scale_owners
from pykubelet.apiserver.handlers.get import stored
from pykubelet.apiserver.handlers.options import APPLY_PATCH, write_options
from pykubelet.apiserver.handlers.patch import applied_configuration, patch_type, read_patch
from pykubelet.apiserver.handlers.update import update_object, update_strategy
from pykubelet.apiserver.handlers.write import RequestScope, WriteRequest, in_namespace, now_text, with_metadata
from pykubelet.apiserver.request import ApiRequest, ApiResponse
from pykubelet.apiserver.serializer.decoder import ExpectedKind, decode_in_thread, read_object, warnings_of
from pykubelet.apiserver.storage.codec import served_document
from pykubelet.kinds.kind import ScalePaths
from pykubelet.kinds.metadata import metadata_errors, nonnegative_errors

SCALE = ExpectedKind("autoscaling/v1", "Scale", "autoscaling.v1.Scale")
_METADATA = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(document: Document, paths: ScalePaths) -> Document:
    """The Scale of an object."""
    metadata = document["metadata"]
    replicas = _at(document, paths.replicas)
    status: Document = {"replicas": _at(document, paths.status_replicas) or 0}
    if selector := _selector_text(_at(document, paths.selector)):
        status["selector"] = selector
    return {
        "kind": SCALE.kind,
        "apiVersion": SCALE.api_version,
        "metadata": {name: metadata[name] for name in _METADATA if name in metadata},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def scale_errors(scale: Document) -> list[FieldError]:
    """What is wrong with a Scale that somebody sent."""
    replicas = (scale.get("spec") or {}).get("replicas") or 0
    return metadata_errors(scale["metadata"]) + nonnegative_errors(replicas, "spec.replicas")


def scaled(document: Document, scale: Document, paths: ScalePaths) -> Document:
    """The object with as many replicas as the Scale wishes, on the Scale's condition of a resourceVersion."""
    replicas = (scale.get("spec") or {}).get("replicas") or 0
    changed = _with(document, paths.replicas.split("."), replicas)
    version = scale["metadata"].get("resourceVersion", "")
    return {**changed, "metadata": {**changed["metadata"], "resourceVersion": version}}


def _at(document: Document, path: str) -> Any:
    value: Any = document
    for name in path.split(".") if path else ():
        value = value.get(name) if isinstance(value, dict) else None
    return None if value is document else value


def _with(document: Document, names: list[str], value: Any) -> Document:
    first, *rest = names
    inner = document.get(first)
    return {**document, first: _with(inner if isinstance(inner, dict) else {}, rest, value) if rest else value}


def _selector_text(selector: Any) -> str:
    """The selector in its string form: custom resources keep it so, others as an object or as plain labels."""
    if isinstance(selector, str):
        return selector
    if not isinstance(selector, dict):
        return ""
    try:
        is_object = not selector or "matchLabels" in selector or "matchExpressions" in selector
        return str(selector_from_document(selector) if is_object else selector_from_labels(selector))
    except SelectorError:
        return ""


_Rescale = Callable[[Document], Document]
"""The wanted Scale, given the present one."""


async def scale(means: RequestScope, call: ApiRequest) -> ApiResponse:
    """Serve whatever is asked of the subresource."""
    if call.verb == "get":
        return ApiResponse(body=encode(scale_of(served_document(call.served, stored(means, call)), call.served.scale)))
    if call.verb == "update":
        writing = WriteRequest(call, write_options(call.query, "UpdateOptions"))
        return await _rescaled(means, writing, await decode_in_thread(call, _replaced, means, writing))
    kind = patch_type(call)
    writing = WriteRequest(call, write_options(call.query, "PatchOptions", patch_type=kind))
    if kind == APPLY_PATCH:
        return await _rescaled(means, writing, await decode_in_thread(call, _applied, means, writing))
    return await _rescaled(means, writing, await decode_in_thread(call, _patched, means, writing, kind))


async def _rescaled(means: RequestScope, writing: WriteRequest, rescale: _Rescale) -> ApiResponse:
    served = writing.served

    path = replicas_path(served.scale.replicas)

    def wanted(live: Document | None) -> Document:
        assert live is not None
        entries = live["metadata"].get("managedFields") or ()
        present = with_metadata(scale_of(live, served.scale), managedFields=scale_owners(entries, path))
        new = rescale(present)
        _check(new, live, writing)
        of_scale = new["metadata"].get("managedFields") or ()
        owners = parent_owners(entries, of_scale, api_version=served.resource.api_version, path=path)
        return with_metadata(scaled(live, new, served.scale), managedFields=owners or None)

    # A Scale changes the object itself, by the rules of the object itself.
    answer = await update_object(means, writing, wanted, part=update_strategy(served, ""))
    return replace(answer, body=scale_of(answer.document, served.scale))


def _check(scale: Document, live: Document, writing: WriteRequest) -> None:
    resource, name = writing.served.resource, writing.call.name
    in_body = scale["metadata"].get("name", "")
    if in_body != name:
        raise BadRequest(f"the name of the object ({in_body}) does not match the name on the URL ({name})")
    if errors := scale_errors(scale):
        raise failures.invalid("Scale", "autoscaling", name, errors)
    uid, current = scale["metadata"].get("uid"), live["metadata"]["uid"]
    if uid and uid != current:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {current}"
        raise failures.conflict(resource, name, why, subresource="scale")


def _replaced(means: RequestScope, writing: WriteRequest) -> _Rescale:
    call = writing.call
    document, problems = read_object(call.body, call.content_type, SCALE)
    writing.warn(*warnings_of(problems, writing.options.field_validation, SCALE))
    wanted = in_namespace(document, writing.namespace)
    return lambda present: _recorded(means, writing, wanted, present)


def _patched(means: RequestScope, writing: WriteRequest, kind: str) -> _Rescale:
    patch = read_patch(kind, writing.call.body, SCALE)

    def wanted(present: Document) -> Document:
        document, problems = patch.applied_to(present)
        writing.warn(*patch.warnings(problems, document, writing.options.field_validation))
        return _recorded(means, writing, document, present)

    return wanted


def _recorded(means: RequestScope, writing: WriteRequest, new: Document, present: Document) -> Document:
    return record(
        new,
        present,
        definition=SCALE.definition,
        manager=writing.manager,
        api_version=SCALE.api_version,
        subresource=writing.call.subresource,
        now=now_text(means.clock.now()),
    )


def _applied(means: RequestScope, writing: WriteRequest) -> _Rescale:
    configuration = applied_configuration(writing)
    return lambda present: apply(
        present,
        configuration,
        definition=SCALE.definition,
        manager=writing.options.field_manager,
        api_version=SCALE.api_version,
        subresource=writing.call.subresource,
        now=now_text(means.clock.now()),
        force=writing.options.force,
    )
