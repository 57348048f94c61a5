"""The replicas of a custom resource that can be scaled: numbers where its definition says they are.

Upstream: ValidateScaleSpec and ValidateScaleStatus in
staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresource/validator.go
"""

from dataclasses import dataclass
from typing import Any

from pykubelet.api.validation.field_errors import FieldError, invalid
from pykubelet.api.wire import Document

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
