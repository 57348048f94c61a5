"""One version of a custom resource: conversion to and from storage, and the scale subresource.

All versions of a resource share one collection, which stores objects in the storage version; without a conversion
webhook, versions differ only in name and schema.

Upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/customresource_handler.go,
staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresource/validator.go
"""

from dataclasses import dataclass
from typing import Any

from pykubelet.api.errors import BadRequest, TooLarge
from pykubelet.api.field_errors import FieldError, invalid
from pykubelet.api.normal_form import normal_form
from pykubelet.api.schema import OBJECT_META
from pykubelet.api.serializer import Document
from pykubelet.apiserver.apiextensions.schema import pruning
from pykubelet.apiserver.apiextensions.schema.defaulting import (
    MAX_DEFAULTS_BYTES,
    DefaultsBudget,
    with_defaults,
    without_stray_nulls,
)
from pykubelet.apiserver.apiextensions.schema.objectmeta import (
    metadata_type_error,
    unknown_embedded_fields,
    with_plain_metadata,
)
from pykubelet.apiserver.apiextensions.schema.structural import Structural

_MAX_INT32 = 2**31 - 1
_GO_TYPES = {bool: "bool", int: "int64", str: "string", float: "float64", list: "[]interface {}"}
_GO_OBJECT = "map[string]interface {}"


class _WrongTypeError(ValueError):
    """The value at a path has the wrong type; the message is Kubernetes' own."""


@dataclass(frozen=True, slots=True)
class ScaleRules:
    """The JSON paths of replicas and selector, as the definition writes them: a dot before each name."""

    spec_replicas: str
    status_replicas: str
    selector: str = ""

    def spec_errors(self, document: Document) -> list[FieldError]:
        """Validates the desired replicas of an object."""
        return _replicas_errors(document, self.spec_replicas)

    def status_errors(self, document: Document) -> list[FieldError]:
        """Validates the current replicas of an object, and their selector."""
        errors = _replicas_errors(document, self.status_replicas)
        if self.selector:
            try:
                _at(document, self.selector, str, "string")
            except _WrongTypeError as error:
                errors.append(invalid(self.selector, "", str(error)))
        return errors


def _replicas_errors(document: Document, path: str) -> list[FieldError]:
    try:
        replicas = _at(document, path, int, "int64") or 0
    except _WrongTypeError as error:
        return [invalid(path, 0, str(error))]
    if replicas < 0:
        return [invalid(path, replicas, "should be a non-negative integer")]
    if replicas > _MAX_INT32:
        return [invalid(path, replicas, f"should be less than or equal to {_MAX_INT32}")]
    return []


def _at(document: Document, path: str, type_: type, go_type: str) -> Any:
    """Returns the value at a path; None if there is none."""
    value: Any = document
    for name in path.removeprefix(".").split("."):
        if not isinstance(value, dict):
            raise _wrong(path, value, _GO_OBJECT)
        value = value.get(name)
        if value is None:
            return None
    if type(value) is not type_:
        raise _wrong(path, value, go_type)
    return value


def _wrong(path: str, value: Any, wanted: str) -> _WrongTypeError:
    found = _GO_TYPES.get(type(value), _GO_OBJECT)
    return _WrongTypeError(
        f".{path.removeprefix('.')} accessor error: {value} is of the type {found}, expected {wanted}"
    )


_TOO_DEEP = "the object is nested too deeply"


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomKind:
    """Schema, columns and scale of one version of a custom resource."""

    api_version: str
    stored_api_version: str
    schema: Structural
    scale: ScaleRules | None = None

    def unknown_fields(self, document: Document) -> list[str]:
        """Returns the paths of fields that pruning would drop, other than metadata."""
        try:
            return [*pruning.unknown_fields(document, self.schema), *unknown_embedded_fields(document, self.schema)]
        except RecursionError:
            raise BadRequest(_TOO_DEEP) from None

    def defaulted(self, document: Document) -> Document:
        """Prunes and defaults an object; raises BadRequest if its metadata is malformed, TooLarge if it grows too much."""
        budget = DefaultsBudget()
        filled = self._defaulted(document, budget)
        if budget.is_exceeded:
            raise TooLarge(
                f"Request entity too large: the defaults of the schema add more than {MAX_DEFAULTS_BYTES} bytes"
            )
        return filled

    def _defaulted(self, document: Document, budget: DefaultsBudget) -> Document:
        if mistake := metadata_type_error(document.get("metadata")):
            raise BadRequest(mistake)
        try:
            known = without_stray_nulls(pruning.prune(document, self.schema), self.schema)
            filled: Document = with_defaults(with_plain_metadata(known, self.schema), self.schema, budget)
        except RecursionError:
            raise BadRequest(_TOO_DEEP) from None
        return {**filled, "metadata": normal_form(filled.get("metadata") or {}, OBJECT_META)}

    def from_store(self, document: Document) -> Document:
        """Converts a stored object to this version. It stays readable when its definition gets larger defaults later."""
        return self._defaulted({**document, "apiVersion": self.api_version}, DefaultsBudget())

    def to_store(self, document: Document) -> Document:
        """Converts an object of this version to the storage version."""
        if document.get("apiVersion") == self.stored_api_version:
            return document
        return {**document, "apiVersion": self.stored_api_version}
