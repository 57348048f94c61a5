"""Simple rules of fields as data: enums, lower bounds and immutable fields.

A kind defines such a rule as a constant and applies it where upstream reports the error.

Upstream: pkg/apis/core/validation/validation.go, staging/src/k8s.io/apimachinery/pkg/api/validation/generic.go
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass

from pykubelet.api.field_errors import FieldError, TypedString, invalid, not_supported, required
from pykubelet.api.serializer import Document
from pykubelet.kinds.metadata import IMMUTABLE, NOT_NEGATIVE


@dataclass(frozen=True, slots=True)
class OneOf:
    """An enum: the value is one of a fixed set. None, for an absent optional field, is valid."""

    values: tuple[str, ...]
    required: bool = False
    """Whether an empty value is reported as missing instead of as unsupported."""

    def errors(self, value: str | None, path: str) -> list[FieldError]:
        if value is None or value in self.values:
            return []
        if self.required and not value:
            return [required(path)]
        return [not_supported(path, TypedString(value), self.values)]


@dataclass(frozen=True, slots=True)
class AtLeast:
    """A lower bound of a number. None, for an absent optional field, is valid."""

    minimum: int
    detail: str = NOT_NEGATIVE

    def errors(self, value: int | None, path: str) -> list[FieldError]:
        return [] if value is None or value >= self.minimum else [invalid(path, value, self.detail)]


POSITIVE = AtLeast(1, "must be greater than 0")
PROTOCOL = OneOf(("SCTP", "TCP", "UDP"))
"""The protocol of a port."""


def fields_errors(document: Document, rules: Mapping[str, OneOf | AtLeast], path: str = "") -> list[FieldError]:
    """Applies the rule of each field, in the order of the rules."""
    prefix = f"{path}." if path else ""
    return [error for name, rule in rules.items() for error in rule.errors(document.get(name), f"{prefix}{name}")]


def repeated_indexes(values: Iterable[Hashable]) -> set[int]:
    """The indexes of the values that appear earlier in the list too."""
    seen: set[Hashable] = set()
    found: set[int] = set()
    for index, value in enumerate(values):
        if value in seen:
            found.add(index)
        seen.add(value)
    return found


def immutable_fields_errors(new: Document, old: Document, names: Iterable[str], path: str = "") -> list[FieldError]:
    """Validates that none of these fields changes; they are enums, which messages show as JSON."""
    prefix = f"{path}." if path else ""
    changed = (name for name in names if new.get(name) != old.get(name))
    return [invalid(f"{prefix}{name}", TypedString(new.get(name, "")), IMMUTABLE) for name in changed]
