"""`'%s: %d'.format([...])`: values put into a text.

Upstream: ext/formatting.go of github.com/google/cel-go
"""

import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from pykubelet.api.validation.field_errors import go_quote
from pykubelet.apiserver.custom.cel.faults import CelError
from pykubelet.apiserver.custom.cel.library.conversions import double_text
from pykubelet.apiserver.custom.cel.time_texts import duration_text, timestamp_text
from pykubelet.apiserver.custom.cel.types import Type
from pykubelet.apiserver.custom.cel.values import Duration, Timestamp, Uint, is_map, items, kind_of

_CLAUSE = re.compile(r"%(?:%|(?P<precision>\.\d*)?(?P<verb>.?))", re.ASCII | re.DOTALL)
_PRECISION = 6
# Beyond this only zeros would follow.
_MAX_PRECISION = 1100
_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_NO_END = "could not parse formatting clause: error while parsing precision: could not find end of precision specifier"
_RAISED = str.maketrans("-0123456789", "\u207b\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079")
WRONG_TYPES = {
    "s": "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, "
    "and timestamps, was given {}",
    "d": "decimal clause can only be used on integers, was given {}",
    "f": "fixed-point clause can only be used on doubles, was given {}",
    "e": "scientific clause can only be used on doubles, was given {}",
    "b": "only integers and bools can be formatted as binary, was given {}",
    "x": "only integers, byte buffers, and strings can be formatted as hex, was given {}",
    "X": "only integers, byte buffers, and strings can be formatted as hex, was given {}",
    "o": "octal clause can only be used on integers, was given {}",
}


def formatted(text: str, args: list[Any]) -> str:
    """The text with each clause replaced by the argument in its place."""
    used = 0

    def replaced(match: re.Match[str]) -> str:
        nonlocal used
        if match[0] == "%%":
            return "%"
        if used >= len(args):
            raise CelError(f"index {used} out of range")
        verb, precision = clause(match)
        value = args[used]
        used += 1
        try:
            return _VERBS[verb](value, precision)
        except TypeError:
            wrong = WRONG_TYPES[verb].format(kind_of(type(value)))
            raise CelError(f"error during formatting: {wrong}") from None

    return _CLAUSE.sub(replaced, text)


def clauses(text: str) -> list[str]:
    """The verbs of a text, in order; CelError if one is none."""
    return [clause(match)[0] for match in _CLAUSE.finditer(text) if match[0] != "%%"]


def clause(match: re.Match[str]) -> tuple[str, int]:
    """The verb and the precision of a clause."""
    verb, precision = match["verb"], match["precision"]
    if not verb:
        raise CelError(_NO_END if precision else "unexpected end of string")
    if verb not in _VERBS:
        raise CelError(f'could not parse formatting clause: unrecognized formatting clause "{verb}"')
    return verb, min(int(precision[1:] or "0"), _MAX_PRECISION) if precision else _PRECISION


def _text(value: Any, _precision: int) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_inner, value))}]"
    if is_map(value):
        return "{" + ", ".join(sorted(f"{_inner(key)}:{_inner(item)}" for key, item in items(value))) + "}"
    write = _TEXTS.get(type(value))
    if write is None:
        raise TypeError
    return write(value)


_TEXTS: dict[type, Callable[[Any], str]] = {
    type(None): lambda _value: "null",
    bool: lambda value: "true" if value else "false",
    str: str,
    int: str,
    Uint: str,
    float: double_text,
    bytes: lambda value: value.decode(errors="replace"),
    Timestamp: timestamp_text,
    Duration: duration_text,
    Type: lambda value: value.name,
}


def _inner(value: Any) -> str:
    """A value inside a list or a map: as an expression would write it."""
    match value:
        case str():
            return go_quote(value)
        case bytes():
            return f"b{go_quote(value.decode(errors='replace'))}"
        case float():
            return f"{value:.{_PRECISION}f}" if math.isfinite(value) else go_quote(double_text(value))
        case Timestamp():
            return f"timestamp({go_quote(timestamp_text(value))})"
        case Duration():
            return f"duration({go_quote(duration_text(value))})"
        case _:
            return _text(value, 0)


def _whole(value: Any) -> int:
    if type(value) is int or type(value) is Uint:
        return int(value)
    raise TypeError


def _double(value: Any) -> float:
    if type(value) is float:
        return value
    if isinstance(value, str) and value in _SPECIAL:
        return _SPECIAL[value]
    raise TypeError


def _fixed(value: Any, precision: int) -> str:
    number = _double(value)
    if not math.isfinite(number):
        return _infinite(number)
    # Digits are grouped as in English.
    return f"{Decimal(number):,.{precision}f}"


def _scientific(value: Any, _precision: int) -> str:
    number = _double(value)
    if not math.isfinite(number):
        return _infinite(number)
    # Upstream takes the precision for a width, so that there are six digits always.
    digits, _, exponent = f"{number:.{_PRECISION}e}".partition("e")
    return f"{digits}\u00d710{exponent.removeprefix('+').translate(_RAISED)}"


def _infinite(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    return "\u221e" if number > 0 else "-\u221e"


def _binary(value: Any, _precision: int) -> str:
    return str(int(value)) if isinstance(value, bool) else f"{_whole(value):b}"


def _hex(value: Any, _precision: int) -> str:
    if isinstance(value, str):
        return value.encode(errors="replace").hex()
    return value.hex() if isinstance(value, bytes) else f"{_whole(value):x}"


_VERBS: dict[str, Callable[[Any, int], str]] = {
    "s": _text,
    "d": lambda value, _: str(_whole(value)),
    "f": _fixed,
    "e": _scientific,
    "b": _binary,
    "x": _hex,
    "X": lambda value, precision: _hex(value, precision).upper(),
    "o": lambda value, _: f"{_whole(value):o}",
}
