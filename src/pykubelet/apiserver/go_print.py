"""Values of a document as Go prints them: in the cells of tables, in field selectors and in messages.

Upstream: fmt.Print and encoding/json of Go's standard library
"""

from decimal import Decimal
from typing import Any

from pykubelet.api.validation.field_errors import go_json

# From here on JSON has an exponent.
_LONGEST_WHOLE = 1e21


def printed(value: Any) -> str:
    """Any value as text: scalars as they are, the rest as JSON."""
    match value:
        case None:
            return "<no value>"
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case float():
            return go_float(value)
        case dict() | list():
            return go_json(_ordered(value))
        case _:
            return str(value)


def go_float(value: float) -> str:
    """The shortest digits of a number, as Go prints them: with an exponent below 1e-4 and from 1e6 on."""
    digits, _, exponent = f"{Decimal(repr(value)).normalize():e}".partition("e")
    if -5 < int(exponent) < 6:
        return repr(value).removesuffix(".0")
    return f"{digits}e{exponent[0]}{exponent[1:]:0>2}"


def _ordered(value: Any) -> Any:
    """The same with the keys of objects in order and whole numbers without a fraction, as Go writes them."""
    match value:
        case dict():
            return {key: _ordered(value[key]) for key in sorted(value)}
        case list():
            return [_ordered(item) for item in value]
        case float() if value.is_integer() and abs(value) < _LONGEST_WHOLE:
            return int(value)
        case _:
            return value
