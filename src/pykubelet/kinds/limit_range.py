"""LimitRange: default, minimum and maximum resources of pods in a namespace.

Upstream: pkg/registry/core/limitrange/strategy.go, pkg/apis/core/v1/defaults.go, pkg/apis/core/validation/validation.go
"""

from collections.abc import Mapping

from pykubelet.api.field_errors import FieldError, TypedString, duplicate, each_invalid, forbidden, invalid, required
from pykubelet.api.names import qualified_name_errors
from pykubelet.api.normal_form import normal_form
from pykubelet.api.pod_resources import is_overcommit_allowed
from pykubelet.api.quantity import Quantity, parse_quantity
from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document
from pykubelet.kinds.kind import Kind, Strategy
from pykubelet.kinds.metadata import metadata_errors
from pykubelet.kinds.resources import container_resource_name_errors, resource_name_errors

_LIMIT_TYPES = frozenset({"Pod", "Container", "PersistentVolumeClaim"})
# Pairs that must be in ascending order, their names in messages, the reported field, and the reported value.
_ORDER = (
    ("min", "max", "min value", "max value", "min", "min"),
    ("min", "defaultRequest", "min value", "default request value", "defaultRequest", "defaultRequest"),
    ("defaultRequest", "max", "default request value", "max value", "defaultRequest", "defaultRequest"),
    ("defaultRequest", "default", "default request value", "default limit value", "defaultRequest", "defaultRequest"),
    ("min", "default", "min value", "default value", "default", "min"),
    ("default", "max", "default value", "max value", "default", "max"),
)


def _default(document: Document) -> Document:
    limit_range = normal_form(document, "core.v1.LimitRange")
    limits = [_default_limit(limit) for limit in limit_range["spec"].get("limits", ())]
    # The list is always written, as null if it is absent.
    return {**limit_range, "spec": {"limits": limits or limit_range["spec"].get("limits")}}


def _default_limit(limit: Document) -> Document:
    if limit["type"] != "Container":
        return limit
    default = {**limit.get("max", {}), **limit.get("default", {})}
    request = {**limit.get("min", {}), **default, **limit.get("defaultRequest", {})}
    filled = {"default": default, "defaultRequest": request}
    return {**limit, **{name: values for name, values in filled.items() if values}}


def _validate(limit_range: Document) -> list[FieldError]:
    errors = metadata_errors(limit_range["metadata"])
    seen: set[str] = set()
    for index, limit in enumerate(limit_range["spec"].get("limits") or ()):
        at, kind = f"spec.limits[{index}]", limit["type"]
        errors += _limit_type_errors(kind, f"{at}.type")
        if kind in seen:
            errors.append(duplicate(f"{at}.type", TypedString(kind)))
        seen.add(kind)
        errors += _limit_errors(limit, at)
    return errors


def _limit_type_errors(kind: str, path: str) -> list[FieldError]:
    if details := qualified_name_errors(kind):
        return each_invalid(path, TypedString(kind), details)
    if "/" in kind or kind in _LIMIT_TYPES:
        return []
    return [invalid(path, TypedString(kind), "must be a standard limit type or fully qualified")]


def _limit_errors(limit: Document, path: str) -> list[FieldError]:
    kind = limit["type"]
    rule = container_resource_name_errors if kind in {"Pod", "Container"} else resource_name_errors
    fields = ["max", "min"] if kind == "Pod" else ["max", "min", "default", "defaultRequest"]
    errors = [
        error for field in fields for name in limit.get(field, ()) for error in rule(name, f"{path}.{field}[{name}]")
    ]
    if kind == "Pod":
        detail = "may not be specified when `type` is 'Pod'"
        errors += [forbidden(f"{path}.{field}", detail) for field in ("default", "defaultRequest") if limit.get(field)]
    if kind == "PersistentVolumeClaim" and not any("storage" in limit.get(field, ()) for field in ("min", "max")):
        detail = "either minimum or maximum storage value is required, but neither was provided"
        errors.append(required(f"{path}.limits", detail))
    for name in limit.get("maxLimitRequestRatio", ()):
        errors += rule(name, f"{path}.maxLimitRequestRatio[{name}]")
    fields.append("maxLimitRequestRatio")
    for name in dict.fromkeys(name for field in fields for name in limit.get(field, ())):
        values = {field: parse_quantity(limit[field][name]) for field in fields if name in limit.get(field, ())}
        errors += _order_errors(name, values, path)
    return errors


def _order_errors(name: str, values: Mapping[str, Quantity], path: str) -> list[FieldError]:
    """Validates that the bounds and defaults of one resource do not contradict each other."""
    errors = [
        invalid(
            f"{path}.{field}[{name}]",
            TypedString(values[shown]),
            f"{low_title} {values[low]} is greater than {high_title} {values[high]}",
        )
        for low, high, low_title, high_title, field, shown in _ORDER
        if low in values and high in values and values[low] > values[high]
    ]
    if "maxLimitRequestRatio" in values:
        errors += _ratio_errors(values, f"{path}.maxLimitRequestRatio[{name}]")
    request, default = values.get("defaultRequest"), values.get("default")
    if not is_overcommit_allowed(name) and request is not None and default is not None and request != default:
        detail = f"default value {default} must equal to defaultRequest value {request} in {name}"
        errors.append(invalid(f"{path}.defaultRequest[{name}]", TypedString(request), detail))
    return errors


def _ratio_errors(values: Mapping[str, Quantity], path: str) -> list[FieldError]:
    ratio = values["maxLimitRequestRatio"]
    errors: list[FieldError] = []
    if ratio.milli_value() < 1000:
        errors.append(invalid(path, TypedString(ratio), f"ratio {ratio} is less than 1"))
    if "min" in values and "max" in values and values["min"].sign() > 0:
        limit = values["max"].milli_value() / values["min"].milli_value()
        if ratio.milli_value() / 1000 > limit:
            errors.append(invalid(path, TypedString(ratio), f"ratio {ratio} is greater than max/min = {limit:f}"))
    return errors


KIND = Kind(
    resource=Resource("", "v1", "limitranges", "LimitRange"),
    definition="core.v1.LimitRange",
    short_names=("limits",),
    strategy=Strategy(
        default=_default,
        validate_create=_validate,
        validate_update=lambda new, _old: _validate(new),
        allows_create_on_update=True,
    ),
)
