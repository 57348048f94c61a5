"""The replicas of a custom resource that can be scaled: numbers where its definition says they are.

Upstream: ValidateScaleSpec and ValidateScaleStatus in
staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresource/validator.go

What the server knows of one version of a custom resource, beyond what every resource has.

In: documents. Out: documents as this version has them. All versions of a resource share one collection, in which objects
stand in the storage version; without a conversion webhook versions differ in their name and their schema alone.

Upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/customresource_handler.go (unstructuredSchemaCoercer)
"""

from dataclasses import dataclass
from typing import Any

from pykubelet.api.errors import BadRequest
from pykubelet.api.field_errors import FieldError, invalid
from pykubelet.api.normal_form import normal_form
from pykubelet.api.schema import OBJECT_META
from pykubelet.api.serializer import Document
from pykubelet.apiserver.apiextensions.schema import pruning
from pykubelet.apiserver.apiextensions.schema.defaulting import with_defaults, without_stray_nulls
from pykubelet.apiserver.apiextensions.schema.objectmeta import (
    metadata_mistake,
    unknown_embedded_fields,
    with_plain_metadata,
)
from pykubelet.apiserver.apiextensions.schema.structural import Structural

_MAX_INT32 = 2**31 - 1
_GO_TYPES = {bool: "bool", int: "int64", str: "string", float: "float64", list: "[]interface {}"}
_GO_OBJECT = "map[string]interface {}"


class _WrongTypeError(ValueError):
    """What stands at a path is of another type; the message is Kubernetes' own."""


@dataclass(frozen=True, slots=True)
class ScaleRules:
    """Where replicas and their selector stand, as the definition writes it: with a dot before each name."""

    spec_replicas: str
    status_replicas: str
    selector: str = ""

    def spec_errors(self, document: Document) -> list[FieldError]:
        """What is wrong with the replicas that an object wants."""
        return _replicas_errors(document, self.spec_replicas)

    def status_errors(self, document: Document) -> list[FieldError]:
        """What is wrong with the replicas that an object has, and with their selector."""
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
    """What stands at a path, None if nothing does."""
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
    """The schema of a version of a custom resource, and what comes with it."""

    api_version: str
    stored_api_version: str
    schema: Structural
    scale: ScaleRules | None = None

    def unknown_fields(self, document: Document) -> list[str]:
        """The paths of the fields that would be dropped, but for the object's own metadata."""
        try:
            return [*pruning.unknown_fields(document, self.schema), *unknown_embedded_fields(document, self.schema)]
        except RecursionError:
            raise BadRequest(_TOO_DEEP) from None

    def defaulted(self, document: Document) -> Document:
        """The object with known fields only, defaults filled in; BadRequest if its metadata is none."""
        if mistake := metadata_mistake(document.get("metadata")):
            raise BadRequest(mistake)
        try:
            known = without_stray_nulls(pruning.prune(document, self.schema), self.schema)
            filled: Document = with_defaults(with_plain_metadata(known, self.schema), self.schema)
        except RecursionError:
            raise BadRequest(_TOO_DEEP) from None
        return {**filled, "metadata": normal_form(filled.get("metadata") or {}, OBJECT_META)}

    def from_store(self, document: Document) -> Document:
        """A stored object as this version shows it."""
        return self.defaulted({**document, "apiVersion": self.api_version})

    def to_store(self, document: Document) -> Document:
        """An object of this version as it is stored."""
        if document.get("apiVersion") == self.stored_api_version:
            return document
        return {**document, "apiVersion": self.stored_api_version}
