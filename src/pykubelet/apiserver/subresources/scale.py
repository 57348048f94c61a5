"""The Scale of an object: how many replicas there shall be and are, in one form for all kinds.

In: an object and where it keeps its replicas, or a changed Scale. Out: its Scale, or the object with the Scale's wish in
it; complaints about a Scale.

Upstream: pkg/registry/apps/deployment/storage/storage.go (ScaleREST) and its likes, apis/autoscaling/validation
"""

from typing import Any

from pykubelet.api.selector import SelectorError, selector_from_document, selector_from_labels
from pykubelet.api.validation.field_errors import FieldError
from pykubelet.api.validation.metadata import metadata_errors, nonnegative_errors
from pykubelet.api.wire import Document
from pykubelet.apiserver.requests.bodies import Expected
from pykubelet.apiserver.served import ScalePaths

SCALE = Expected("autoscaling/v1", "Scale", "autoscaling.v1.Scale")
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
