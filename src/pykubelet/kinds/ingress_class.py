"""IngressClass: which controller serves an Ingress.

Upstream: pkg/registry/networking/ingressclass/strategy.go, pkg/apis/networking/v1/defaults.go,
pkg/apis/networking/validation/validation.go
"""

from typing import Any

from pykubelet.api.field_errors import FieldError, each_invalid, forbidden, required, too_long
from pykubelet.api.names import byte_length, dns1123_label_errors, dns1123_subdomain_errors, path_segment_errors
from pykubelet.api.normal_form import normal_form
from pykubelet.api.schema import INGRESS_CLASSES
from pykubelet.api.serializer import Document
from pykubelet.api.times import Age
from pykubelet.kinds.columns import NONE, at, created, name_of
from pykubelet.kinds.job.validation import domain_prefixed_path_errors
from pykubelet.kinds.kind import Kind, Strategy, first_generation, next_generation
from pykubelet.kinds.metadata import immutable_errors, metadata_errors, metadata_update_errors
from pykubelet.kinds.rules import OneOf

DEFAULT_CLASS_ANNOTATION = "ingressclass.kubernetes.io/is-default-class"
_MAX_CONTROLLER_BYTES = 250
_CLUSTER, _NAMESPACE = "Cluster", "Namespace"
_SCOPES = OneOf((_CLUSTER, _NAMESPACE))


def _default(document: Document) -> Document:
    normal = normal_form(document, "networking.v1.IngressClass")
    parameters = normal["spec"].get("parameters")
    if parameters is None or "scope" in parameters:
        return normal
    return {**normal, "spec": {**normal["spec"], "parameters": {**parameters, "scope": _CLUSTER}}}


def _validate_create(document: Document) -> list[FieldError]:
    spec, path = document["spec"], "spec.controller"
    controller = spec.get("controller", "")
    errors = metadata_errors(document["metadata"], namespaced=False)
    if byte_length(controller) > _MAX_CONTROLLER_BYTES:
        errors.append(too_long(path, _MAX_CONTROLLER_BYTES))
    errors += domain_prefixed_path_errors(controller, path)
    return errors + (_parameters_errors(spec["parameters"], "spec.parameters") if "parameters" in spec else [])


def _parameters_errors(parameters: Document, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if (group := parameters.get("apiGroup")) is not None:
        errors += each_invalid(f"{path}.apiGroup", group, dns1123_subdomain_errors(group))
    for name in ("kind", "name"):
        value, place = parameters[name], f"{path}.{name}"
        named = each_invalid(place, value, path_segment_errors(value))
        errors += named if value else [required(place, f"{name} is required")]
    scope, namespace = parameters.get("scope"), parameters.get("namespace")
    if scope is None:
        return [*errors, required(f"{path}.scope")]
    errors += _SCOPES.errors(scope, f"{path}.scope")
    place = f"{path}.namespace"
    if namespace is None and scope == _NAMESPACE:
        errors.append(required(place, "`parameters.scope` is set to 'Namespace'"))
    elif namespace is not None and scope == _NAMESPACE:
        errors += each_invalid(place, namespace, dns1123_label_errors(namespace))
    elif namespace is not None and scope == _CLUSTER:
        errors.append(forbidden(place, "`parameters.scope` is set to 'Cluster'"))
    return errors


def _validate_update(new: Document, old: Document) -> list[FieldError]:
    changed = new["spec"].get("controller", ""), old["spec"].get("controller", "")
    errors = metadata_update_errors(new["metadata"], old["metadata"])
    return errors + immutable_errors(*changed, "spec.controller") + _validate_create(new)


def _prepare_update(new: Document, old: Document) -> Document:
    return next_generation(new, old, changed=new["spec"] != old["spec"])


def is_default_class(document: Document) -> bool:
    """Whether the annotation makes it the class of Ingresses that name none."""
    return bool((document["metadata"].get("annotations") or {}).get(DEFAULT_CLASS_ANNOTATION) == "true")


def _cells(document: Document, age: Age) -> list[Any]:
    """Cells: name, controller, parameters, age."""
    spec = at(document, "spec")
    return [name_of(document), spec.get("controller", ""), _shown(spec.get("parameters")), created(document, age)]


def _shown(parameters: Document | None) -> str:
    if parameters is None:
        return NONE
    group = parameters.get("apiGroup")
    kind = parameters.get("kind", "") if group is None else f"{parameters.get('kind', '')}.{group}"
    return f"{kind}/{parameters.get('name', '')}"


KIND = Kind(
    resource=INGRESS_CLASSES,
    definition="networking.v1.IngressClass",
    strategy=Strategy(
        default=_default,
        prepare_create=first_generation,
        validate_create=_validate_create,
        prepare_update=_prepare_update,
        validate_update=_validate_update,
    ),
    cells=_cells,
)
