"""RuntimeClass: a handler of the container runtime, with its overhead and nodes.

Upstream: pkg/registry/node/runtimeclass/strategy.go, pkg/apis/node/validation/validation.go
"""

from typing import Any

from pykubelet.api.field_errors import FieldError, duplicate, each_invalid
from pykubelet.api.names import dns1123_label_errors
from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document
from pykubelet.api.times import Age
from pykubelet.kinds.columns import created, name_of
from pykubelet.kinds.go_values import internal_form
from pykubelet.kinds.kind import Kind, Strategy, Warnings, normalized
from pykubelet.kinds.metadata import immutable_errors, labels_errors, metadata_errors, metadata_update_errors
from pykubelet.kinds.node import DEPRECATED_LABELS
from pykubelet.kinds.pod.scheduling import tolerations_errors
from pykubelet.kinds.resources import container_resources_errors


def _validate_create(document: Document) -> list[FieldError]:
    errors = metadata_errors(document["metadata"], namespaced=False)
    errors += each_invalid("handler", document["handler"], dns1123_label_errors(document["handler"]))
    if "overhead" in document:
        fixed = document["overhead"].get("podFixed", {})
        errors += container_resources_errors({"limits": fixed}, frozenset(), "overhead")
    if "scheduling" in document:
        errors += _scheduling_errors(document["scheduling"], "scheduling")
    return errors


def _scheduling_errors(scheduling: Document, path: str) -> list[FieldError]:
    tolerations, at = scheduling.get("tolerations", ()), f"{path}.tolerations"
    errors = labels_errors(scheduling.get("nodeSelector", {}), f"{path}.nodeSelector")
    # Upstream repeats the field in these paths.
    errors += tolerations_errors(tolerations, f"{at}.tolerations")
    seen: set[tuple[str, ...]] = set()
    for index, toleration in enumerate(tolerations):
        key = tuple(toleration.get(name, "") for name in ("key", "operator", "value", "effect"))
        if key in seen:
            errors.append(duplicate(f"{at}[{index}]", internal_form(toleration, "core.Toleration")))
        seen.add(key)
    return errors


def _validate_update(new: Document, old: Document) -> list[FieldError]:
    return [
        *_validate_create(new),
        *metadata_update_errors(new["metadata"], old["metadata"]),
        *immutable_errors(new["handler"], old["handler"], "handler"),
    ]


def runtime_class_warnings(document: Document) -> list[str]:
    """Warns about deprecated labels in the node selector; as upstream, without naming the label."""
    selector = document.get("scheduling", {}).get("nodeSelector", {})
    return [
        f"scheduling.nodeSelector: {DEPRECATED_LABELS[key]}" for key in sorted(selector) if key in DEPRECATED_LABELS
    ]


def _cells(document: Document, age: Age) -> list[Any]:
    """Cells: name, handler, age."""
    return [name_of(document), document.get("handler", ""), created(document, age)]


KIND = Kind(
    resource=Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False),
    definition="node.v1.RuntimeClass",
    strategy=Strategy(
        default=normalized("node.v1.RuntimeClass"),
        validate_create=_validate_create,
        validate_update=_validate_update,
        warnings=Warnings.always(runtime_class_warnings),
        allows_create_on_update=True,
        allows_unconditional_update=False,
    ),
    cells=_cells,
)
