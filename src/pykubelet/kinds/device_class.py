"""DeviceClass: devices that claims can ask for by a name; the rules of selectors and configurations.

Expressions are stored as they are written: nothing here allocates devices, so nothing evaluates them.

Upstream: pkg/registry/resource/deviceclass/strategy.go, pkg/apis/resource/validation/validation.go
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from pykubelet.api.field_errors import (
    FieldError,
    duplicate,
    each_invalid,
    invalid,
    items_errors,
    required,
    too_long,
    too_many,
)
from pykubelet.api.names import byte_length, dns1123_subdomain_errors
from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document, encode
from pykubelet.api.times import Age
from pykubelet.kinds.columns import created, name_of
from pykubelet.kinds.kind import Kind, Strategy, first_generation, next_generation, normalized, without_fields
from pykubelet.kinds.metadata import metadata_errors, metadata_update_errors
from pykubelet.kinds.rules import repeated_indexes

_MAX_SELECTORS = _MAX_CONFIGURATIONS = 32
_MAX_EXPRESSION_BYTES = _MAX_PARAMETERS_BYTES = 10 * 1024
_MAX_DRIVER_BYTES = 63


def limited_errors(
    items: Sequence[Any], limit: int, rule: Callable[[Any, str], list[FieldError]], path: str
) -> list[FieldError]:
    """Validates the items of a list and their number."""
    errors = items_errors(items, rule, path)
    return [*errors, too_many(path, len(items), limit)] if len(items) > limit else errors


def unique_errors(keys: Sequence[Hashable], path: str, field: str = "") -> list[FieldError]:
    """Validates that no key of a list is repeated; `field` is the one that has the key."""
    place = f".{field}" if field else ""
    return [duplicate(f"{path}[{index}]{place}", keys[index]) for index in sorted(repeated_indexes(keys))]


def driver_errors(driver: str, path: str) -> list[FieldError]:
    """Validates the name of a driver."""
    if not driver:
        return [required(path)]
    errors = [too_long(path, _MAX_DRIVER_BYTES)] if byte_length(driver) > _MAX_DRIVER_BYTES else []
    return errors + each_invalid(path, driver.lower(), dns1123_subdomain_errors(driver.lower()))


def selectors_errors(selectors: Sequence[Document], path: str) -> list[FieldError]:
    """Validates the number and the size of selectors."""
    return limited_errors(selectors, _MAX_SELECTORS, _selector_errors, path)


def _selector_errors(selector: Document, path: str) -> list[FieldError]:
    if "cel" not in selector:
        return [required(f"{path}.cel")]
    is_long = byte_length(selector["cel"]["expression"]) > _MAX_EXPRESSION_BYTES
    return [too_long(f"{path}.cel.expression", _MAX_EXPRESSION_BYTES)] if is_long else []


def configurations_errors(
    configurations: Sequence[Document], path: str, more: Callable[[Document, str], list[FieldError]] | None = None
) -> list[FieldError]:
    """Validates the configurations of a class or a claim; `more` has the rules of their other fields."""

    def rule(configuration: Document, place: str) -> list[FieldError]:
        return (more(configuration, place) if more else []) + _opaque_errors(configuration, f"{place}.opaque")

    return limited_errors(configurations, _MAX_CONFIGURATIONS, rule, path)


def _opaque_errors(configuration: Document, path: str) -> list[FieldError]:
    if "opaque" not in configuration:
        return [required(path)]
    parameters, place = configuration["opaque"].get("parameters"), f"{path}.parameters"
    errors = driver_errors(configuration["opaque"]["driver"], f"{path}.driver")
    if parameters is None:
        errors.append(required(place))
    elif len(encode(parameters)) > _MAX_PARAMETERS_BYTES:
        errors.append(too_long(place, _MAX_PARAMETERS_BYTES))
    elif not isinstance(parameters, dict):
        errors.append(invalid(place, "<value omitted>", "must be a valid JSON object"))
    return errors


def _prepare(document: Document) -> Document:
    """Drops the field of a gate that is off in 1.34: DRAExtendedResource."""
    return {**document, "spec": without_fields(document["spec"], "extendedResourceName")}


def _prepare_update(new: Document, old: Document) -> Document:
    kept = new if "extendedResourceName" in old["spec"] else _prepare(new)
    return next_generation(kept, old, changed=kept["spec"] != old["spec"])


def _spec_errors(spec: Document) -> list[FieldError]:
    errors = selectors_errors(spec.get("selectors", ()), "spec.selectors")
    return errors + configurations_errors(spec.get("config", ()), "spec.config")


def _validate_create(document: Document) -> list[FieldError]:
    return metadata_errors(document["metadata"], namespaced=False) + _spec_errors(document["spec"])


def _validate_update(new: Document, old: Document) -> list[FieldError]:
    # As upstream, the rules of a new object and of an update both apply.
    update_errors = metadata_update_errors(new["metadata"], old["metadata"]) + _spec_errors(new["spec"])
    return _validate_create(new) + update_errors


def _cells(document: Document, age: Age) -> list[Any]:
    """The cells are name and age."""
    return [name_of(document), created(document, age)]


KIND = Kind(
    resource=Resource("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", namespaced=False),
    definition="resource.v1.DeviceClass",
    strategy=Strategy(
        default=normalized("resource.v1.DeviceClass"),
        prepare_create=lambda document: first_generation(_prepare(document)),
        validate_create=_validate_create,
        prepare_update=_prepare_update,
        validate_update=_validate_update,
    ),
    cells=_cells,
)
