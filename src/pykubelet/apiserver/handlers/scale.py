"""The scale subresource: reads and changes an object's replicas as a Scale.

Upstream: pkg/registry/apps/deployment/storage/storage.go,
staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresource/etcd.go,
pkg/apis/autoscaling/validation/validation.go
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pykubelet.api.errors import BadRequest
from pykubelet.api.field_errors import FieldError
from pykubelet.api.labels import SelectorError, selector_from_document, selector_from_labels
from pykubelet.api.serializer import Document, encode
from pykubelet.apiserver import errors
from pykubelet.apiserver.fieldmanager.managedfields import parent_owners, replicas_path, scale_owners
from pykubelet.apiserver.handlers.get import stored_entry
from pykubelet.apiserver.handlers.options import APPLY_PATCH, write_options
from pykubelet.apiserver.handlers.patch import Patch, patch_type_of, read_configuration, read_patch
from pykubelet.apiserver.handlers.staged_decision import NewVersion
from pykubelet.apiserver.handlers.update import ObjectUpdate, update_strategy
from pykubelet.apiserver.handlers.write import RequestScope, WriteRequest, in_namespace, with_metadata
from pykubelet.apiserver.request import ApiRequest, ApiResponse
from pykubelet.apiserver.serializer.decoder import ExpectedKind, decode_in_thread, read_object, warnings_of
from pykubelet.apiserver.storage.codec import served_document
from pykubelet.apiserver.storage.interfaces import StoreEntry
from pykubelet.kinds.kind import ScalePaths
from pykubelet.kinds.metadata import metadata_errors, nonnegative_errors

SCALE = ExpectedKind("autoscaling/v1", "Scale", "autoscaling.v1.Scale")
_METADATA = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


async def scale(scope: RequestScope, request: ApiRequest) -> ApiResponse:
    """Serves get, update and patch of the scale subresource."""
    if request.verb == "get":
        live = served_document(request.served, stored_entry(scope, request))
        return ApiResponse(body=encode(scale_of(live, request.served.scale)))
    if request.verb == "update":
        write = WriteRequest(scope, request, write_options(request.query, "UpdateOptions"))
        document = await decode_in_thread(request, _read_scale, write)
        return await _update_scale(write, lambda old: write.record_owners(document, old, SCALE))
    patch_type = patch_type_of(request)
    write = WriteRequest(scope, request, write_options(request.query, "PatchOptions", patch_type=patch_type))
    if patch_type == APPLY_PATCH:
        configuration = await decode_in_thread(request, read_configuration, write)
        return await _update_scale(write, lambda old: write.apply(old, configuration, SCALE))
    patch = await decode_in_thread(request, read_patch, patch_type, request.body, SCALE)
    return await _update_scale(write, lambda old: _patched(write, patch, old))


async def _update_scale(write: WriteRequest, change: Callable[[Document], Document]) -> ApiResponse:
    """Makes a Scale of the live object, changes it, and writes its replicas back into the object."""
    served = write.served
    path = replicas_path(served.scale.replicas)
    # A Scale changes the object itself, so the object's own update rules hold.
    update = ObjectUpdate(write, update_strategy(served, ""), admits=False)

    def make(existing: StoreEntry | None) -> NewVersion:
        live = update.live(existing)
        entries = live["metadata"].get("managedFields") or ()
        old = with_metadata(scale_of(live, served.scale), managedFields=scale_owners(entries, path))
        # Admission sees the Scale, not the object.
        changed = change(old)
        new = write.admit("update", write.request.name, changed, old) or changed
        _check(new, live, write)
        write.validate("update", write.request.name, new, old)
        owners = parent_owners(
            entries, new["metadata"].get("managedFields") or (), api_version=served.resource.api_version, path=path
        )
        return NewVersion(with_metadata(set_replicas(live, new, served.scale), managedFields=owners or None), live)

    response = await update.commit(make)
    return replace(response, body=scale_of(response.document, served.scale))


def _read_scale(write: WriteRequest) -> Document:
    request = write.request
    document, problems = read_object(request.body, request.content_type, SCALE)
    write.warn(*warnings_of(problems, write.options.field_validation, SCALE))
    return in_namespace(document, write.namespace)


def _patched(write: WriteRequest, patch: Patch, old: Document) -> Document:
    new, problems = patch.applied_to(old)
    write.warn(*patch.warnings(problems, new, write.options.field_validation))
    return write.record_owners(new, old, SCALE)


def _check(scale: Document, live: Document, write: WriteRequest) -> None:
    resource, name = write.served.resource, write.request.name
    in_body = scale["metadata"].get("name", "")
    if in_body != name:
        raise BadRequest(f"the name of the object ({in_body}) does not match the name on the URL ({name})")
    if found := scale_errors(scale):
        raise errors.invalid("Scale", "autoscaling", name, found)
    uid, current = scale["metadata"].get("uid"), live["metadata"]["uid"]
    if uid and uid != current:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {current}"
        raise errors.conflict(resource, name, why, subresource="scale")


def scale_of(document: Document, paths: ScalePaths) -> Document:
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
    replicas = (scale.get("spec") or {}).get("replicas") or 0
    return metadata_errors(scale["metadata"]) + nonnegative_errors(replicas, "spec.replicas")


def set_replicas(document: Document, scale: Document, paths: ScalePaths) -> Document:
    """Sets the object's replicas to the Scale's; the Scale's resourceVersion is a precondition."""
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
    """The selector as text. Custom resources store it as text, other kinds as a LabelSelector or plain labels."""
    if isinstance(selector, str):
        return selector
    if not isinstance(selector, dict):
        return ""
    try:
        is_object = not selector or "matchLabels" in selector or "matchExpressions" in selector
        return str(selector_from_document(selector) if is_object else selector_from_labels(selector))
    except SelectorError:
        return ""
