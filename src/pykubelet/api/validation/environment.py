"""Complaints about a container's environment: variables and where they come from.

Upstream: ValidateEnv and ValidateEnvFrom in pkg/apis/core/validation/validation.go
"""

from collections.abc import Sequence

from pykubelet.api.names import dns1123_subdomain_errors, env_var_name_errors, relaxed_env_var_name_errors
from pykubelet.api.validation.field_errors import FieldError, each_invalid, invalid, required
from pykubelet.api.validation.metadata import NameRule
from pykubelet.api.validation.references import (
    ENV_FIELDS,
    field_ref_errors,
    file_key_ref_errors,
    key_ref_errors,
    resource_ref_errors,
)
from pykubelet.api.wire import Document

_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")


def env_errors(variables: Sequence[Document], path: str, *, relaxed_names: bool) -> list[FieldError]:
    """What is wrong with the variables."""
    name_rule = _name_rule(relaxed_names=relaxed_names)
    errors: list[FieldError] = []
    for index, variable in enumerate(variables):
        name = variable.get("name", "")
        if not name:
            errors.append(required(f"{path}[{index}].name"))
        elif details := name_rule(name):
            errors += each_invalid(f"{path}[{index}].name", name, details)
        if "valueFrom" in variable:
            errors += _value_from_errors(variable, f"{path}[{index}].valueFrom")
    return errors


def env_from_errors(sources: Sequence[Document], path: str, *, relaxed_names: bool) -> list[FieldError]:
    """What is wrong with the objects whose every key becomes a variable."""
    name_rule = _name_rule(relaxed_names=relaxed_names)
    errors: list[FieldError] = []
    for index, source in enumerate(sources):
        at = f"{path}[{index}]"
        if prefix := source.get("prefix", ""):
            errors += each_invalid(f"{at}.prefix", prefix, name_rule(prefix))
        kinds = [kind for kind in ("configMapRef", "secretRef") if kind in source]
        for kind in kinds:
            name = source[kind].get("name", "")
            where = f"{at}.{kind}.name"
            errors += each_invalid(where, name, _masked_name_errors(name)) if name else [required(where)]
        if not kinds:
            errors.append(invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(kinds) > 1:
            errors.append(invalid(path, "", "may not have more than one field specified at a time"))
    return errors


def _name_rule(*, relaxed_names: bool) -> NameRule:
    return relaxed_env_var_name_errors if relaxed_names else env_var_name_errors


def _masked_name_errors(name: str) -> list[str]:
    # Upstream checks these as if more characters could follow, so that a dash at the end goes through.
    masked = name[:-2] + "a" if len(name) > 1 and name.endswith("-") else name
    return dns1123_subdomain_errors(masked)


def _value_from_errors(variable: Document, path: str) -> list[FieldError]:
    source = variable["valueFrom"]
    errors: list[FieldError] = []
    kinds = [kind for kind in _SOURCES if kind in source]
    for kind in kinds:
        errors += _source_errors(kind, source[kind], f"{path}.{kind}")
    if not kinds:
        detail = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
        errors.append(invalid(path, "", detail))
    elif variable.get("value"):
        errors.append(invalid(path, "", "may not be specified when `value` is not empty"))
    elif len(kinds) > 1:
        errors.append(invalid(path, "", "may not have more than one field specified at a time"))
    return errors


def _source_errors(kind: str, reference: Document, path: str) -> list[FieldError]:
    match kind:
        case "fieldRef":
            return field_ref_errors(reference, ENV_FIELDS, path)
        case "resourceFieldRef":
            return resource_ref_errors(reference, path, in_volume=False)
        case "fileKeyRef":
            return file_key_ref_errors(reference, path)
        case _:
            return key_ref_errors(reference, path)
