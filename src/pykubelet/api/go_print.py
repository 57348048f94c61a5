"""JSON values as the Go code sees them: equality and text.

In: plain dicts, lists, strings, numbers, booleans and None. Python holds 1, 1.0 and True for equal; Go decodes them into
three types that are never equal, and a patch depends on the difference.

Upstream: package reflect and package fmt of Go, as used by apimachinery/pkg/util/strategicpatch/patch.go.
"""

from decimal import Decimal
from typing import Any, Final

ABSENT: Final = object()
"""Stands for "no such key" where None means null."""

_TYPE_NAMES: Final = {
    dict: "map[string]interface {}",
    list: "[]interface {}",
    str: "string",
    bool: "bool",
    int: "int64",
    float: "float64",
    type(None): "%!s(<nil>)",
}


def json_equal(left: Any, right: Any) -> bool:
    """Whether two values are equal in type and content, at any depth."""
    kind = type(left)
    if kind is not type(right):
        return False
    if kind is dict:
        return len(left) == len(right) and _same_fields(left, right)
    if kind is list:
        return len(left) == len(right) and all(map(json_equal, left, right))
    return bool(left == right)


def _same_fields(left: dict[str, Any], right: dict[str, Any]) -> bool:
    for key, value in left.items():
        other = right.get(key, ABSENT)
        # Most fields are strings, which equal nothing but strings: this saves a call for each.
        if value != other if type(value) is str else not json_equal(value, other):
            return False
    return True


def go_type_name(kind: type) -> str:
    """The name Go prints for the type that a JSON value is decoded into."""
    return _TYPE_NAMES.get(kind, kind.__name__)


def go_text(value: Any) -> str:
    """The text that Go's verb %v makes of a value; merge keys are compared by it, and messages show it."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{go_text(value[key])}' for key in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(go_text, value))}]"
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    return _float_text(value) if isinstance(value, float) else str(value)


def _float_text(number: float) -> str:
    """The shortest digits; with an exponent from a million on and below a ten-thousandth."""
    sign, digits, _ = Decimal(repr(number)).normalize().as_tuple()
    exponent = Decimal(repr(number)).adjusted() if number else 0
    if -4 <= exponent < 6:
        return f"{Decimal(repr(number)).normalize():f}"
    mantissa = "".join(map(str, digits))
    point = f"{mantissa[0]}.{mantissa[1:]}" if len(mantissa) > 1 else mantissa
    return f"{'-' if sign else ''}{point}e{exponent:+03d}"
