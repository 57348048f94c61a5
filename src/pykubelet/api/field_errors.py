"""Validation errors of fields: type, path, bad value, detail, and Kubernetes' message texts.

Upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/field/errors.go
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeVar

T = TypeVar("T")


class ErrorType(StrEnum):
    """The type of a validation error; the value is the reason of a cause in a Status."""

    NOT_FOUND = "FieldValueNotFound"
    REQUIRED = "FieldValueRequired"
    DUPLICATE = "FieldValueDuplicate"
    INVALID = "FieldValueInvalid"
    NOT_SUPPORTED = "FieldValueNotSupported"
    FORBIDDEN = "FieldValueForbidden"
    TOO_LONG = "FieldValueTooLong"
    TOO_MANY = "FieldValueTooMany"
    TYPE_INVALID = "FieldValueTypeInvalid"
    INTERNAL = "InternalError"


_TITLES = {
    ErrorType.NOT_FOUND: "Not found",
    ErrorType.REQUIRED: "Required value",
    ErrorType.DUPLICATE: "Duplicate value",
    ErrorType.INVALID: "Invalid value",
    ErrorType.NOT_SUPPORTED: "Unsupported value",
    ErrorType.FORBIDDEN: "Forbidden",
    ErrorType.TOO_LONG: "Too long",
    ErrorType.TOO_MANY: "Too many",
    ErrorType.TYPE_INVALID: "Invalid value",
    ErrorType.INTERNAL: "Internal error",
}
_WITHOUT_VALUE = frozenset({ErrorType.REQUIRED, ErrorType.FORBIDDEN, ErrorType.TOO_LONG, ErrorType.INTERNAL})
SHORT_ESCAPES = {
    "\a": r"\a",
    "\b": r"\b",
    "\f": r"\f",
    "\n": r"\n",
    "\r": r"\r",
    "\t": r"\t",
    "\v": r"\v",
    "\\": r"\\",
    '"': r"\"",
}
GO_SPACE = "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
"""White space that Go trims: Python's, without the four ASCII separators."""
_JSON_ESCAPES = str.maketrans(
    {"<": r"\u003c", ">": r"\u003e", "&": r"\u0026", "\u2028": r"\u2028", "\u2029": r"\u2029"}
)


OMITTED: Final = object()
"""The bad value of an error whose message does not repeat it."""


class TypedString(str):
    """A string that Go keeps in a named type or behind a pointer: messages show it as JSON."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class FieldError:
    """One validation error of one field."""

    type: ErrorType
    field: str
    bad_value: Any
    detail: str = ""

    @property
    def body(self) -> str:
        """The message without the path, as a cause in a Status has it."""
        text = _TITLES[self.type]
        if self.type not in _WITHOUT_VALUE and self.bad_value is not OMITTED:
            text += f": {_shown(self.bad_value)}"
        return f"{text}: {self.detail}" if self.detail else text

    def __str__(self) -> str:
        return f"{self.field}: {self.body}"


def invalid(path: str, value: Any, detail: str) -> FieldError:
    """The value breaks the rule stated in the detail."""
    return FieldError(ErrorType.INVALID, path, value, detail)


def each_invalid(path: str, value: Any, details: Iterable[str]) -> list[FieldError]:
    """Returns one `invalid` error for each detail."""
    return [invalid(path, value, detail) for detail in details]


def optional_errors(path: str, value: str | None, rule: Callable[[str], list[str]]) -> list[FieldError]:
    """Validates a text that may be empty."""
    return each_invalid(path, value, rule(value)) if value else []


def items_errors(items: Iterable[T], rule: Callable[[T, str], list[FieldError]], path: str) -> list[FieldError]:
    """Validates each item of a list with a rule that takes the item and its path."""
    return [error for index, item in enumerate(items) for error in rule(item, f"{path}[{index}]")]


def required(path: str, detail: str = "") -> FieldError:
    """The field must not be empty."""
    return FieldError(ErrorType.REQUIRED, path, "", detail)


def forbidden(path: str, detail: str) -> FieldError:
    """The field must not be set here."""
    return FieldError(ErrorType.FORBIDDEN, path, "", detail)


def duplicate(path: str, value: Any) -> FieldError:
    """The value occurs twice in a list of unique values."""
    return FieldError(ErrorType.DUPLICATE, path, value)


def not_found(path: str, value: Any, detail: str = "") -> FieldError:
    """The value refers to something that does not exist."""
    return FieldError(ErrorType.NOT_FOUND, path, value, detail)


def not_supported(path: str, value: Any, supported: Sequence[str]) -> FieldError:
    """The value is not one of the supported ones, which are listed in the given order."""
    detail = "supported values: " + ", ".join(go_quote(choice) for choice in supported)
    return FieldError(ErrorType.NOT_SUPPORTED, path, value, detail)


def too_long(path: str, limit: int) -> FieldError:
    """The value has more bytes than the limit."""
    return FieldError(
        ErrorType.TOO_LONG, path, "<value omitted>", f"may not be more than {limit} byte{'' if limit == 1 else 's'}"
    )


def too_many(path: str, count: int, limit: int) -> FieldError:
    """The list has more items than the limit."""
    return FieldError(ErrorType.TOO_MANY, path, count, f"must have at most {limit} item{'' if limit == 1 else 's'}")


def internal_error(path: str, detail: str) -> FieldError:
    """The server failed to validate the field."""
    return FieldError(ErrorType.INTERNAL, path, "", detail)


def list_text(errors: Sequence[FieldError]) -> str:
    """Formats all errors as Go prints a list, for the kubelet's messages about a manifest."""
    return f"[{' '.join(map(str, errors))}]"


def aggregate_text(errors: Iterable[FieldError | str]) -> str:
    """Formats all errors, without duplicates, for the message of a Status."""
    return aggregate_messages(map(str, errors))


def aggregate_messages(messages: Iterable[str]) -> str:
    """Joins distinct messages as upstream's Aggregate prints them."""
    distinct = tuple(dict.fromkeys(messages))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"


def go_quote(text: str) -> str:
    """Quotes a text like Go's `%q`."""
    return '"' + "".join(map(_escaped, text)) + '"'


def go_json(value: Any) -> str:
    """Encodes a value like Go's `encoding/json`, which also escapes `<`, `>` and `&`."""
    return go_escaped(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def go_escaped(text: str) -> str:
    """Adds Go's HTML escapes to a JSON text."""
    return text.translate(_JSON_ESCAPES)


def _shown(value: Any) -> str:
    if isinstance(value, str) and not isinstance(value, TypedString):
        return go_quote(value)
    return go_json(value)


def _escaped(char: str) -> str:
    if short := SHORT_ESCAPES.get(char):
        return short
    if char.isprintable():
        return char
    code = ord(char)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
