"""The rules of namespaces, and of the subresource that ends them.

Upstream: pkg/registry/core/namespace/strategy.go, ValidateNamespace and its like in
pkg/apis/core/validation/validation.go
"""

from collections.abc import Mapping

from pykubelet.api.names import dns1123_label_errors
from pykubelet.api.normal_form import normal_form
from pykubelet.api.validation.field_errors import FieldError, Named, invalid
from pykubelet.api.validation.metadata import finalizer_name_errors, metadata_errors
from pykubelet.api.validation.metadata_update import metadata_update_errors
from pykubelet.api.wire import Document
from pykubelet.apiserver.served import Strategy

_NAME_LABEL = "kubernetes.io/metadata.name"
_FINALIZER = "kubernetes"


def _default(document: Document) -> Document:
    namespace = normal_form(document, "core.v1.Namespace")
    metadata = namespace["metadata"]
    if name := metadata.get("name"):
        metadata = {**metadata, "labels": {**metadata.get("labels", {}), _NAME_LABEL: name}}
    return {**namespace, "metadata": metadata, "status": {"phase": "Active", **namespace["status"]}}


def _prepare_create(namespace: Document) -> Document:
    metadata, finalizers = namespace["metadata"], namespace["spec"].get("finalizers", [])
    labels = {**metadata.get("labels", {}), _NAME_LABEL: metadata.get("name", "")}
    kept = finalizers if _FINALIZER in finalizers else [*finalizers, _FINALIZER]
    return {
        **namespace,
        "metadata": {**metadata, "labels": labels},
        "spec": {**namespace["spec"], "finalizers": kept},
        "status": {"phase": "Active"},
    }


def _prepare_update(new: Document, old: Document) -> Document:
    spec = {key: value for key, value in new["spec"].items() if key != "finalizers"}
    if "finalizers" in old["spec"]:
        spec["finalizers"] = old["spec"]["finalizers"]
    return {**new, "spec": spec, "status": old["status"]}


def _prepare_status(new: Document, old: Document) -> Document:
    return {**new, "spec": old["spec"]}


def _prepare_finalize(new: Document, old: Document) -> Document:
    return {**new, "status": old["status"]}


def _validate(namespace: Document) -> list[FieldError]:
    errors = metadata_errors(namespace["metadata"], name_rule=dns1123_label_errors, namespaced=False)
    for name in namespace["spec"].get("finalizers", ()):
        errors += finalizer_name_errors(name, "spec.finalizers")
    return errors


def _validate_update(new: Document, old: Document) -> list[FieldError]:
    return _validate(new) + metadata_update_errors(new["metadata"], old["metadata"])


def _validate_status(new: Document, old: Document) -> list[FieldError]:
    errors = metadata_update_errors(new["metadata"], old["metadata"])
    ending = "deletionTimestamp" in new["metadata"]
    phase, expected = new["status"].get("phase", ""), "Terminating" if ending else "Active"
    if phase == expected:
        return errors
    detail = f"may only be '{expected}' if `deletionTimestamp` is {'not ' if ending else ''}empty"
    return [*errors, invalid("status.Phase", Named(phase), detail)]


def _validate_finalize(new: Document, old: Document) -> list[FieldError]:
    errors = metadata_update_errors(new["metadata"], old["metadata"])
    for index, name in enumerate(new["spec"].get("finalizers", ())):
        errors += finalizer_name_errors(name, f"spec.finalizers[{index}]")
    return errors


def _fields(namespace: Document) -> Mapping[str, str]:
    return {
        "metadata.name": namespace["metadata"].get("name", ""),
        "status.phase": namespace["status"].get("phase", ""),
    }


NAMESPACES = Strategy(
    default=_default,
    prepare_create=_prepare_create,
    validate_create=_validate,
    prepare_update=_prepare_update,
    validate_update=_validate_update,
    prepare_status=_prepare_status,
    validate_status=_validate_status,
    fields=_fields,
)
FINALIZE = Strategy(default=_default, prepare_update=_prepare_finalize, validate_update=_validate_finalize)
"""The rules of namespaces/finalize."""
