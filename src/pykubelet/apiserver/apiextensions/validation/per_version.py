"""Validates the per-version fields of a CRD: schema, subresources, columns, selectable fields.

If all versions agree, upstream stores a field once at the top level (as v1beta1 had it) and error paths say so:
`spec.validation` for a definition with one version, `spec.versions[1].schema` where versions differ.

Upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go,
staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1/conversion.go
"""

from collections.abc import Iterator, Sequence
from typing import Any

from pykubelet.api.field_errors import FieldError, TypedString, duplicate, forbidden, invalid, required, too_many
from pykubelet.api.names import byte_length
from pykubelet.api.serializer import Document
from pykubelet.apiserver.apiextensions.schema.defaulting import default_errors
from pykubelet.apiserver.apiextensions.schema.structural import PRESERVE, VALIDATIONS, Structural, compile_schema
from pykubelet.apiserver.apiextensions.validation.structural import schema_errors, structural_errors

_PER_VERSION = ("schema", "subresources", "additionalPrinterColumns", "selectableFields")
# The fields of a version that error messages show, and how they show empty ones.
_SHOWN = {"name": "", "served": False, "storage": False, "deprecated": False, "deprecationWarning": None}


def is_shared(spec: Document, field: str) -> bool:
    """Whether all versions have the same value in a field."""
    versions = spec.get("versions") or []
    return all(version.get(field) == versions[0].get(field) for version in versions)


def per_version(spec: Document, field: str, index: int) -> tuple[Any, str] | None:
    """Returns the value and path of a field that differs between versions; None if it is shared."""
    version = spec["versions"][index]
    if version.get(field) is None or is_shared(spec, field):
        return None
    return version[field], f"spec.versions[{index}].{field}"


def shared_values(spec: Document, field: str) -> Iterator[tuple[Any, str]]:
    """Yields the value and path of a field that all versions share."""
    versions = spec.get("versions") or []
    if versions and versions[0].get(field) is not None and is_shared(spec, field):
        yield versions[0][field], "spec.validation" if field == "schema" else f"spec.{field}"


def display_versions(spec: Document) -> list[Document] | None:
    """Returns the versions as error messages show them: with Go's names, without shared fields."""
    versions = spec.get("versions")
    if versions is None:
        return None
    fields = {**_SHOWN, **dict.fromkeys(_PER_VERSION)}
    shared = {field for field in _PER_VERSION if is_shared(spec, field)}
    return [
        {key[0].upper() + key[1:]: None if key in shared else version.get(key, empty) for key, empty in fields.items()}
        for version in versions
    ]


_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_SELECTABLE_TYPES = frozenset({"string", "boolean", "integer"})
_MAX_SELECTABLE = 8
_MAX_WARNING = 256
# Fields allowed at the root of a schema with a status subresource, by their names in Go.
_ROOT_NAMES = (
    "Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern "
    "MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields "
    "XValidations"
)
_ROOT_FIELDS = frozenset({name[0].lower() + name[1:] for name in _ROOT_NAMES.split()} | {PRESERVE, VALIDATIONS})


def warning_errors(version: Document, path: str) -> Iterator[FieldError]:
    warning = version.get("deprecationWarning")
    if warning is None:
        return
    at, shown = f"{path}.deprecationWarning", TypedString(warning)
    if not version.get("deprecated"):
        yield invalid(at, shown, "can only be set for deprecated versions")
        return
    if byte_length(warning) > _MAX_WARNING:
        yield invalid(at, shown, "must be <= 256 characters long")
    if not warning:
        yield invalid(at, shown, "must not be an empty string")
    for index, char in enumerate(warning):
        if not char.isprintable():
            where = byte_length(warning[:index])
            detail = f"must only contain printable UTF-8 characters; non-printable character found at index {where}"
            yield invalid(at, shown, detail)
            break


def validation_errors(schema: Document, path: str, *, has_status: bool) -> list[FieldError]:
    """Validates a schema; `path` is the path of the schema itself."""
    errors = list(_root_errors(schema, path)) if has_status else []
    if schema.get("nullable"):
        errors.append(forbidden(f"{path}.nullable", "nullable cannot be true at the root"))
    structural = structural_errors(schema, path)
    own = schema_errors(schema, path)
    if structural or own:
        return [*errors, *structural, *own]
    # Defaults and rules are checked only in a schema that is valid itself.
    compiled = compile_schema(schema)
    return [*errors, *(default_errors(compiled, path) or _rule_errors(compiled, path))]


def _rule_errors(schema: Structural, path: str) -> list[FieldError]:
    if not schema.has_rules:
        return []
    # Few definitions have rules, and the compiler is large.
    from pykubelet.apiserver.apiextensions.cel.compilation import rule_definition_errors

    return rule_definition_errors(schema, path)


def _root_errors(schema: Document, path: str) -> Iterator[FieldError]:
    for key, value in schema.items():
        if value in (None, "", False, [], {}):
            continue
        if key == "type" and value != "object":
            detail = (
                'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
            )
            yield invalid(f"{path}.type", value, detail)
            return
        if key not in _ROOT_FIELDS:
            rule = "fields are allowed at the root of the schema if the status subresource is enabled"
            yield invalid(path, schema, f"only [{_ROOT_NAMES}] {rule}")
            return


def subresources_errors(subresources: Document, path: str) -> Iterator[FieldError]:
    """Validates the paths of the scale subresource."""
    scale = subresources.get("scale")
    if scale is None:
        return
    for key, root in (("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")):
        at, found = f"{path}.scale.{key}", scale.get(key, "")
        if not found:
            yield required(at)
        elif errors := list(_simple_path_errors(found, at)):
            yield from errors
        elif not found.startswith(f"{root}."):
            yield invalid(at, found, f"should be a json path under {root}")
    if selector := scale.get("labelSelectorPath"):
        at = f"{path}.scale.labelSelectorPath"
        if errors := list(_simple_path_errors(selector, at)):
            yield from errors
        elif not selector.startswith((".spec.", ".status.")):
            yield invalid(at, TypedString(selector), "should be a json path under either .spec or .status")


def columns_errors(columns: Sequence[Document], path: str) -> Iterator[FieldError]:
    for index, column in enumerate(columns):
        at = f"{path}[{index}]"
        if not column.get("name"):
            yield required(f"{at}.name")
        detail = f"must be one of {','.join(_COLUMN_TYPES)}"
        if not column.get("type"):
            yield required(f"{at}.type", detail)
        elif column["type"] not in _COLUMN_TYPES:
            yield invalid(f"{at}.type", column["type"], detail)
        if column.get("format") and column["format"] not in _COLUMN_FORMATS:
            yield invalid(f"{at}.format", column["format"], f"must be one of {','.join(_COLUMN_FORMATS)}")
        if not column.get("jsonPath"):
            yield required(f"{at}.JSONPath")
        else:
            yield from _simple_path_errors(column["jsonPath"], f"{at}.JSONPath")


def selectable_errors(fields: Sequence[Document], schema: Document, path: str) -> Iterator[FieldError]:
    """Validates selectableFields against the schema."""
    seen: set[str] = set()
    for index, field in enumerate(fields):
        at, found = f"{path}[{index}].jsonPath", field.get("jsonPath", "")
        if not found:
            yield required(at)
            continue
        known, problem = _schema_at(found, schema)
        if known is None:
            yield invalid(at, found, f"is an invalid path: {problem}")
            continue
        if found.startswith(".metadata"):
            yield invalid(at, found, "must not point to fields in metadata")
        if known.get("type") not in _SELECTABLE_TYPES:
            detail = (
                "must point to a field of type string, boolean or integer. "
                "Enum string fields and strings with formats are allowed."
            )
            yield invalid(at, found, detail)
        if found in seen:
            yield duplicate(at, found)
        seen.add(found)
    if len(seen) > _MAX_SELECTABLE:
        yield too_many(path, len(seen), _MAX_SELECTABLE)


def _schema_at(path: str, schema: Document) -> tuple[Document | None, str]:
    """Returns the schema at a path, or an error message."""
    if "[" in path:
        return None, "array notation is not allowed"
    if not path.startswith("."):
        return None, f"expected [ or . but got: {path.partition('.')[0]}"
    for name in path[1:].split("."):
        known = schema.get("properties", {}).get(name)
        if known is None:
            return None, "does not refer to a valid field"
        schema = known
    return schema, ""


def _simple_path_errors(path: str, at: str) -> Iterator[FieldError]:
    if not path.startswith("."):
        yield invalid(at, path, "must be a simple json path starting with .")
