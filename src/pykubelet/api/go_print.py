"""Equality and text of JSON values as Go sees them.

Python treats 1, 1.0 and True as equal; Go decodes them into three types that are never equal, and patches depend on the
difference. Ports `reflect.DeepEqual` and the `%v` verb of package fmt, as strategic merge patch uses them.

Upstream: staging/src/k8s.io/apimachinery/pkg/util/strategicpatch/patch.go
"""

from decimal import Decimal
from typing import Any, Final

ABSENT: Final = object()
"""Marks a missing key where None means null."""

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
    """Whether two values are deeply equal in type and content."""
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
        # Fast path: most fields are strings, and a string equals only a string.
        if value != other if type(value) is str else not json_equal(value, other):
            return False
    return True


def go_type_name(kind: type) -> str:
    """Returns Go's name for the type a JSON value is decoded into."""
    return _TYPE_NAMES.get(kind, kind.__name__)


def go_text(value: Any) -> str:
    """Formats a value like Go's `%v`: merge keys are compared by this text, and messages contain it."""
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
    return float_text(value) if isinstance(value, float) else str(value)


def float_text(number: float) -> str:
    """Formats a float with the fewest digits; with an exponent below 1e-04 and from 1e+06."""
    if number == 0 or 1e-4 <= abs(number) < 1e6:
        return repr(number).removesuffix(".0")
    digits, _, exponent = f"{Decimal(repr(number)).normalize():e}".partition("e")
    return f"{digits}e{int(exponent):+03d}"
